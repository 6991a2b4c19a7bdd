# SPDX-License-Identifier: Apache-2.0
"""Makes what constructors of canned estimators need: a model_fn, or a head of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from estimator_spec.canned import column_state, graph_variables, optimizers
from estimator_spec.heads import Head

ModelFn = Callable[..., Any]


def with_head(make_head: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of an estimator with any head, from those of one with its own head.

    Args:
        make_head: function, or class, that makes the head.
        arguments: the constructor's `locals()`: those that `make_head` takes, and others that both
            estimators take.
    """
    names = inspect.signature(make_head).parameters
    of_head = {name: value for name, value in arguments.items() if name in names}
    not_others = {"self", "__class__", *of_head}
    others = {name: value for name, value in arguments.items() if name not in not_others}
    return {"head": make_head(**of_head), **others}


def make_model_fn(
    head: Head,
    logit_fn: Callable[[Any, str], Any],
    optimizer: Any,
    learning_rate: float | None = None,
) -> ModelFn:
    """Returns the model_fn of an estimator of the second generation with one optimizer.

    Args:
        head: any head.
        logit_fn: function of (features, mode) that returns logits.
        optimizer: as for `optimizers.keras_optimizer`.
        learning_rate: as for `optimizers.keras_optimizer`.
    """

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        column_state.check_features(features)
        trainer = optimizers.keras_training_optimizer(optimizer, mode, learning_rate)
        with graph_variables.collecting() as added:
            logits = logit_fn(features, mode)
        return head.create_estimator_spec(
            features=features,
            mode=mode,
            labels=labels,
            optimizer=trainer,
            logits=logits,
            trainable_variables=added.variables,
            update_ops=added.update_ops,
        )

    return model_fn


def make_model_fn_v1(
    head: Any,
    logit_fn: Callable[[Any, str, Any], Any],
    optimizer: Any,
    learning_rate: float,
    scope: Callable[[Any], AbstractContextManager[Any]],
) -> ModelFn:
    """Returns the model_fn of an estimator of the first generation with one optimizer.

    Args:
        head: a head of either generation.
        logit_fn: function of (features, mode, config) that returns logits.
        optimizer: as for `optimizers.tf1_optimizer`.
        learning_rate: as for `optimizers.tf1_optimizer`.
        scope: function of the config that returns the model's variable scope.
    """

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        column_state.check_features(features)
        trainer = optimizers.tf1_optimizer(optimizer, learning_rate)
        # The optimizer, too, is called within the scope: names of slot variables depend on it.
        with scope(config):
            logits = logit_fn(features, mode, config)
            return head.create_estimator_spec(
                features=features, mode=mode, labels=labels, optimizer=trainer, logits=logits
            )

    return model_fn
