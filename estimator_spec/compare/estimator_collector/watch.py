# SPDX-License-Identifier: Apache-2.0
"""Reads variables and losses from the session of a training, evaluation or prediction.

No op is added to a graph: a variable is fetched by its own read, and assigned by its initializer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from .recorder import Recorder

tf1 = tf.compat.v1

_PART = re.compile(r"/part_\d+$")

Values = dict[str, np.ndarray]


class Watch(tf1.train.SessionRunHook):
    """Hook that records variables, and the loss of every step of a training.

    Args:
        recorder: the recorder.
        call: the entry to fill.
        steps: session calls after which a training stops; None doesn't limit them.
        start: returns the values to start with, by variable name; None leaves them as they are.
        from_checkpoint: whether `start` is a checkpoint, whose values are the initial ones; those
            of another recording replace what is recorded as the initial ones.
        with_values: whether values are read, or only names, shapes and dtypes.
    """

    def __init__(
        self,
        recorder: Recorder,
        call: dict[str, Any],
        *,
        steps: int | None = None,
        start: Callable[[], Values] | None = None,
        from_checkpoint: bool = False,
        with_values: bool = True,
    ) -> None:
        self._recorder = recorder
        self._call = call
        self._steps = steps
        self._start = start
        self._from_checkpoint = from_checkpoint
        self._with_values = with_values
        self._losses: list[Any] = []
        self._num_runs = 0

    def begin(self) -> None:
        """Finds the variables and the loss."""
        self._variables = tf1.global_variables()
        trainable = {variable.name for variable in tf1.trainable_variables()}
        self._call["variables"] = [
            {
                "name": variable.op.name,
                "dtype": variable.dtype.base_dtype.name,
                "shape": [int(size) for size in variable.shape],
                "trainable": variable.name in trainable,
            }
            for variable in self._variables
        ]
        losses = tf1.get_collection(tf1.GraphKeys.LOSSES)
        # An estimator adds the loss of the specification after those of the model.
        self._loss = losses[-1] if losses and self._call["kind"] == "train" else None

    def before_run(self, run_context: Any) -> Any:
        """Records the values before the first step, and requests the loss."""
        # Not in after_create_session: hooks that come later may load values there.
        if not self._num_runs:
            if self._with_values and not self._from_checkpoint:
                self._call["initial"] = self._values(run_context.session)
            if self._start is not None:
                assigned = assign(run_context.session, self._variables, self._start())
                self._call["assigned"] = assigned
            if self._with_values and self._from_checkpoint:
                self._call["initial"] = self._values(run_context.session)
        return None if self._loss is None else tf1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Records the loss; after the first step the values, too."""
        self._num_runs += 1
        if self._loss is None:
            return
        self._losses.append(run_values.results)
        if self._num_runs == 1:
            self._call["first_update"] = self._values(run_context.session)
        if self._steps is not None and self._num_runs >= self._steps:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        """Records the losses, and the values after the last step."""
        if self._loss is not None:
            self._call["losses"] = self._recorder.array(np.array(self._losses))
            self._call["trained"] = self._values(session)

    def _values(self, session: Any) -> dict[str, Any]:
        return {  # one at a time: tables may be large
            variable.op.name: self._recorder.array(session.run(variable))
            for variable in self._variables
        }


def assign(session: Any, variables: Sequence[Any], values: Values) -> list[str]:
    """Assigns values to variables by name.

    Args:
        session: the session of the variables.
        variables: global variables, the parts of a partitioned one in their order.
        values: arrays by variable name; a partitioned variable's by its parts' names or its own.

    Returns:
        Names of the assigned variables. Others have no value, a value of another shape, or an
        initializer that takes none.
    """
    assigned: list[str] = []
    rows_done: dict[str, int] = {}
    for variable in variables:
        name = variable.op.name
        value = values.get(name)
        if value is None:
            whole_name = _PART.sub("", name)
            if whole_name not in values or not variable.shape.rank:
                continue
            first = rows_done.get(whole_name, 0)
            rows_done[whole_name] = first + int(variable.shape[0])
            value = values[whole_name][first : rows_done[whole_name]]
        inputs: Sequence[Any] = getattr(variable.initializer, "inputs", ())
        if tuple(value.shape) != tuple(variable.shape) or len(inputs) < 2:
            continue
        value = value.astype(variable.dtype.base_dtype.as_numpy_dtype)
        session.run(variable.initializer, {inputs[1]: value})
        assigned.append(name)
    return assigned
