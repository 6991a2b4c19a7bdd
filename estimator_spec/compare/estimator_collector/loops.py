# SPDX-License-Identifier: Apache-2.0
"""Records trainings that are loops of the program's own, which no estimator runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .recorder import Recorder

Read = Callable[[], Mapping[str, Any]]


class Loops:
    """Recording of the loops of a program.

    The program's process has one, `active`, which `estimator_spec.compare.record_loop` finds.

    Args:
        recorder: the recorder.
        steps: steps after which a loop ends; None doesn't limit them.
    """

    def __init__(self, recorder: Recorder, steps: int | None) -> None:
        self._recorder = recorder
        self._steps = steps

    def begin(self, read: Read) -> Loop:
        """Returns the recording of a loop, which has read the values before it.

        Args:
            read: returns the values of the variables by name.
        """
        call = self._recorder.begin("train", estimator="a loop")
        return Loop(self._recorder, call, read, self._steps)


class Loop:
    """Recording of one loop.

    Args:
        recorder: the recorder.
        call: the entry to fill.
        read: returns the values of the variables by name.
        steps: steps after which the loop ends; None doesn't limit them.
    """

    def __init__(
        self, recorder: Recorder, call: dict[str, Any], read: Read, steps: int | None
    ) -> None:
        self._recorder = recorder
        self._call = call
        self._read = read
        self._steps = steps
        self._losses: list[np.ndarray] = []
        call["initial"] = self._values()
        call["variables"] = [
            {"name": name, "dtype": value["dtype"], "shape": value["shape"], "trainable": None}
            for name, value in call["initial"].items()
        ]

    def add_step(self, loss: Any) -> bool:
        """Records the loss of a step, after the first one the values too.

        Returns:
            Whether the loop has had its steps.
        """
        self._losses.append(np.asarray(loss))
        if len(self._losses) == 1:
            self._call["first_update"] = self._values()
        return self._steps is not None and len(self._losses) >= self._steps

    def end(self) -> None:
        """Records the losses, and the values after the last step."""
        if self._losses:
            self._call["losses"] = self._recorder.array(np.array(self._losses))
            self._call["trained"] = self._values()
        self._recorder.write()

    def _values(self) -> dict[str, Any]:
        return {name: self._recorder.array(value) for name, value in self._read().items()}


active: Loops | None = None
