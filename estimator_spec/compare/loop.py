# SPDX-License-Identifier: Apache-2.0
"""Records the steps of a program's own training loop for `compare`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# The process of a comparison runs the collector under this name; it needn't be this package's.
_COLLECTOR = "estimator_collector.loops"


class Steps:
    """Steps of a training loop; without a comparison they go nowhere."""

    def __init__(self, recording: Any = None) -> None:
        self._recording = recording

    def add(self, loss: Any) -> bool:
        """Adds a step.

        Args:
            loss: the step's loss, a scalar tensor or number.

        Returns:
            Whether the loop shall end: the comparison has the steps that it was asked for.
        """
        return self._recording is not None and bool(self._recording.add_step(loss))


@contextlib.contextmanager
def record_loop(read: Callable[[], Mapping[str, Any]]) -> Iterator[Steps]:
    """Records a training loop for `compare`, which pairs it with an estimator's `train`.

    Outside of `python -m estimator_spec compare` it does nothing, and never calls `read`.

    >>> weights = {"dense/kernel": 4.0}
    >>> with record_loop(lambda: weights) as steps:
    ...     for loss in (0.7, 0.6, 0.5):
    ...         if steps.add(loss):
    ...             break

    Args:
        read: returns the values of all variables by the names that the other program's estimator
            gives them; those of embeddings are `mid_level.estimator_values(…)`.

    Yields:
        The steps: `add(loss)` after each.
    """
    loops = getattr(sys.modules.get(_COLLECTOR), "active", None)
    if loops is None:
        yield Steps()
        return
    recording = loops.begin(read)
    yield Steps(recording)
    recording.end()
