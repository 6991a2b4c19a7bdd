# SPDX-License-Identifier: Apache-2.0
"""Builds the graph of a prediction, and runs it in a monitored session."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core import updates
from estimator_spec.core.cluster import roles
from estimator_spec.core.driver import checkpoint_state, sessions
from estimator_spec.core.driver.graph_builder import RunSetup, warm_start
from estimator_spec.core.driver.hookless_steps import BatchRunner
from estimator_spec.core.user_functions.model_spec import ModeKeys
from tpu_columns.optimizations import Optimization


def predict(
    setup: RunSetup,
    input_fn: Callable[..., Any],
    hooks: list[tf.compat.v1.train.SessionRunHook],
    checkpoint_path: str | None,
    *,
    select: Callable[[Any], Any],
    yield_single_examples: bool,
) -> Iterator[Any]:
    """Builds the graph of a prediction, and yields the predictions.

    Args:
        setup: the estimator's.
        input_fn: the user's function.
        hooks: the user's hooks.
        checkpoint_path: prefix of the checkpoint. None: the latest.
        select: returns those of the model's predictions to yield.
        yield_single_examples: False yields whole batches.
    """
    checkpoint = setup.find_checkpoint("predict", checkpoint_path)
    with tf.Graph().as_default() as graph:
        checkpoint_state.record_for_graph(checkpoint)
        built = setup.build(graph, input_fn, ModeKeys.PREDICT)
        warm_start(setup.warm_start, checkpoint)
        predictions = select(built.spec.predictions)
        updates.optimize_inference_graph(graph, setup.optimizations)
    config = built.config
    if roles.is_distributed(config):
        config = config.in_this_process()
    all_hooks = [*built.hooks, *hooks, *built.spec.prediction_hooks]
    # The graph is the default graph only while a batch is computed, not between two.
    with (
        built.running(),
        sessions.open_non_training_session(
            graph, built.spec.scaffold, checkpoint, config.master, config.session_config, all_hooks
        ) as session,
    ):
        skip_hooks = Optimization.SKIPPED_HOOKS in setup.optimizations
        batches = BatchRunner(all_hooks, predictions, skip_hooks)
        while not session.should_stop():
            with graph.as_default():
                values = batches.run_batch(session)
            if yield_single_examples:
                yield from split_batch(values)
            else:
                yield values


def select_predictions(predictions: Any, predict_keys: Collection[str] | str | None) -> Any:
    """Returns the predictions with the given names.

    Args:
        predictions: a tensor, or a dict of tensors.
        predict_keys: the names to keep; None or empty keeps all.

    Raises:
        ValueError: the predictions have no names, or none of these.
    """
    if not predict_keys:
        return predictions
    if not isinstance(predictions, Mapping):
        raise ValueError(
            "predict_keys argument is not valid in case of non-dict predictions: the model_fn "
            "returns a single tensor."
        )
    wanted = {predict_keys} if isinstance(predict_keys, str) else set(predict_keys)
    kept = {name: tensor for name, tensor in predictions.items() if name in wanted}
    if not kept:
        raise ValueError(
            f"Expected to run at least one output from {sorted(predictions)}, provided "
            f"{sorted(wanted)}."
        )
    return kept


def split_batch(values: Any) -> Iterator[Any]:
    """Splits a batch into examples.

    Args:
        values: an array [B, ...], or a dict of such arrays.

    Yields:
        Each example, as an array or a dict of arrays.

    Raises:
        ValueError: the arrays don't have the same length, or one has no batch dimension.
    """
    if not isinstance(values, Mapping):
        _check_batch("The prediction", values)
        yield from values
        return
    length = None
    for name, value in values.items():
        _check_batch(f"The prediction {name!r}", value)
        if length is None:
            length = value.shape[0]
        if value.shape[0] != length:
            raise ValueError(
                f"Batch length of predictions should be same. {name} has different batch length "
                f"than others: {value.shape[0]}, not {length}. Use yield_single_examples=False "
                "to get each batch as it is."
            )
    # With C iterators: a Python loop over the examples would be slower than the prediction.
    if len(values) == 1:
        ((name, value),) = values.items()
        yield from [{name: part} for part in value]
    else:
        pairs = map(zip, itertools.repeat(list(values)), zip(*values.values(), strict=True))
        yield from map(dict, pairs)


def _check_batch(what: str, value: Any) -> None:
    """Checks that an array can be split into examples."""
    if getattr(value, "shape", None) == ():
        raise ValueError(
            f"{what} has no batch dimension: it is {value!r}, one for all examples of a batch. Use "
            "yield_single_examples=False to get each batch as it is, or give it a value for each "
            "example."
        )
