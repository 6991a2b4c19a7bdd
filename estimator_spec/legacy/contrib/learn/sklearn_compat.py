# SPDX-License-Identifier: Apache-2.0
"""Defines `SKCompat`, an estimator of `tf.contrib.learn` with scikit-learn's methods."""

from __future__ import annotations

from typing import Any


class SKCompat:
    """An estimator with scikit-learn's methods, of arrays.

    Args:
        estimator: an `Estimator`.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator = estimator

    def fit(
        self,
        x: Any,
        y: Any,
        batch_size: int = 128,
        steps: int | None = None,
        max_steps: int | None = None,
        monitors: Any = None,
    ) -> SKCompat:
        """Trains; see `Estimator.fit`."""
        self._estimator.fit(x, y, None, steps, batch_size, monitors, max_steps)
        return self

    def score(
        self,
        x: Any,
        y: Any,
        batch_size: int = 128,
        steps: int | None = None,
        metrics: Any = None,
        name: str | None = None,
    ) -> Any:
        """Returns metrics; see `Estimator.evaluate`."""
        found = self._estimator.evaluate(
            x, y, batch_size=batch_size, steps=steps, metrics=metrics, name=name
        )
        del found["global_step"]
        return found

    def predict(self, x: Any, batch_size: int = 128, outputs: Any = None) -> Any:
        """Returns arrays of predictions; see `Estimator.predict`."""
        return self._estimator.predict(x, batch_size=batch_size, outputs=outputs, as_iterable=False)
