# SPDX-License-Identifier: Apache-2.0
"""Calls a function that returns logits, for models composed of such functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core.common.checks import check_callable
from estimator_spec.core.common.signatures import argument_names


def call_logit_fn(
    logit_fn: Callable[..., Any], features: Any, mode: str, params: Any, config: Any
) -> Any:
    """Calls a function with those of the arguments that it accepts.

    Args:
        logit_fn: function of `features`, and any of `mode`, `params` and `config`.
        features: as a `model_fn` gets them.
        mode: one of `ModeKeys`.
        params: hyperparameters.
        config: a `RunConfig`.

    Returns:
        The logits: a tensor, or tensors by name.

    Raises:
        ValueError: the function returned something else.
        TypeError: `logit_fn` isn't callable.
    """
    check_callable("logit_fn", logit_fn)
    offered = {"mode": mode, "params": params, "config": config}
    names = argument_names(logit_fn)
    logits = logit_fn(features=features, **{k: v for k, v in offered.items() if k in names})
    tensors = logits if isinstance(logits, dict) else {"logits": logits}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not isinstance(tensor, tf.Tensor):
            raise ValueError(
                "logit_fn should return a Tensor or a dictionary mapping strings to Tensors. "
                f"logit_fn returned: {logits}"
            )
    return logits
