# SPDX-License-Identifier: Apache-2.0
"""Prediction: from a built graph to a stream of examples."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Generator, Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.driver import checkpoint_state, errors, huge_pages, stored_tables
from estimator_spec.driver.hookless_steps import Batches

tf1 = tf.compat.v1


def choose(predictions: Any, predict_keys: Collection[str] | str | None) -> Any:
    """The predictions that the user asked for.

    Args:
        predictions: a tensor, or a dict of them.
        predict_keys: the names to keep; None or empty keeps all.

    Raises:
        ValueError: there are no names, or none of these.
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


def batches(
    graph: Any,
    predictions: Any,
    *,
    scaffold: Any,
    config: Any,
    checkpoint: str | None,
    hooks: list[Any],
) -> Generator[Any, None, None]:
    """Runs `predictions` until the input ends, a hook stops, or nobody asks for more.

    The graph is the default one only while something runs in it, never between two batches: what
    else happens meanwhile is none of this generator's business. The session is closed with the
    generator.

    Args:
        graph: the graph.
        predictions: a tensor, or a dict of them.
        scaffold: from the `EstimatorSpec`.
        config: the `RunConfig`.
        checkpoint: what to restore; None starts from fresh variables.
        hooks: all hooks, in order.

    Yields:
        The values of each batch.

    Raises:
        CheckpointError: the checkpoint can't be restored.
        tf.errors.InvalidArgumentError: an id outside its table, among others.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(errors.explained(graph))
        with (
            graph.as_default(),
            checkpoint_state.restoring(checkpoint),
            huge_pages.asked_for(graph),
        ):
            stored_tables.fit_session(scaffold, checkpoint)
            session = tf1.train.MonitoredSession(
                session_creator=tf1.train.ChiefSessionCreator(
                    checkpoint_filename_with_path=checkpoint,
                    master=config.master,
                    scaffold=scaffold,
                    config=config.session_config,
                ),
                hooks=hooks,
            )

        def close(*exc_info: Any) -> bool:
            with graph.as_default():
                return bool(session.__exit__(*exc_info))

        stack.push(close)
        each = Batches(hooks, predictions)
        while not session.should_stop():
            with graph.as_default():
                values = each.run_one(session)
            yield values


def examples(values: Any) -> Iterator[Any]:
    """Takes a batch apart.

    Args:
        values: an array, or a dict of arrays, batch first.

    Yields:
        One example after the other, in the same form.

    Raises:
        ValueError: the arrays don't have the same length.
    """
    if not isinstance(values, Mapping):
        yield from values
        return
    length = None
    for name, value in values.items():
        if length is None:
            length = value.shape[0]
        if value.shape[0] != length:
            raise ValueError(
                f"Batch length of predictions should be same. {name} has different batch length "
                f"than others: {value.shape[0]}, not {length}. Use yield_single_examples=False "
                "to get each batch as it is."
            )
    # In C's loops: there may be more examples in a millisecond than Python's own go round.
    if len(values) == 1:
        ((name, value),) = values.items()
        yield from [{name: part} for part in value]
    else:
        pairs = map(zip, itertools.repeat(list(values)), zip(*values.values(), strict=True))
        yield from map(dict, pairs)
