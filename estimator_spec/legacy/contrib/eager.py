# SPDX-License-Identifier: Apache-2.0
"""Reimplements what `tensorflow.contrib.eager` had and TensorFlow has under no other name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


def Iterator(dataset: tf.data.Dataset) -> Any:
    """Returns the iterator of a dataset, whose `next` returns an element.

    Args:
        dataset: the dataset.

    Raises:
        RuntimeError: execution isn't eager.
    """
    _need_eager_execution("Iterator", "tf.compat.v1.data.make_one_shot_iterator")
    return iter(dataset)


def get_optimizer_variables(optimizer: Any) -> list[Any]:
    """Returns the variables that an optimizer of `tf.compat.v1.train` has made."""
    return optimizer.variables()


def run(main: Callable[[list[str]], Any] | None = None, argv: list[str] | None = None) -> None:
    """Runs a program by `tf.compat.v1.app.run`, with eager execution."""
    tf1.enable_eager_execution()
    tf1.app.run(main, argv)


class Saver:
    """Saves variables by their names, without a session.

    Args:
        var_list: the variables, or a dictionary of the names in the checkpoint to variables.

    Raises:
        RuntimeError: execution isn't eager.
    """

    def __init__(self, var_list: Sequence[tf.Variable] | Mapping[str, tf.Variable]) -> None:
        _need_eager_execution("Saver", "tf.compat.v1.train.Saver")
        self._saver = tf1.train.Saver(var_list)

    def save(self, file_prefix: str, global_step: Any = None) -> str:
        """Writes a checkpoint, with `-<global_step>` after its name; returns its prefix."""
        return self._saver.save(None, file_prefix, global_step, write_meta_graph=False)

    def restore(self, file_prefix: str) -> None:
        """Reads a checkpoint's values."""
        self._saver.restore(None, file_prefix)


def _need_eager_execution(name: str, instead: str) -> None:
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"tfe.{name} needs eager execution. Call tf.compat.v1.enable_eager_execution() when "
            f"the program starts, or use {instead} in graphs."
        )


class Mean:
    """Mean of values, counted in eager execution.

    Args:
        name: name of the metric. None: that of its class.
        dtype: dtype of the sums.
    """

    def __init__(self, name: str | None = None, dtype: tf.DType = tf.float64) -> None:
        self.name = name or type(self).__name__
        self.dtype = dtype
        _need_eager_execution(f"metrics.{type(self).__name__}", "tf.compat.v1.metrics")
        self.variables = [tf.Variable(tf.zeros([], dtype), trainable=False) for _ in range(2)]
        self.numer, self.denom = self.variables

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Counts a batch by `call`."""
        return self.call(*args, **kwargs)

    def call(self, values: Any, weights: Any = None) -> Any:
        """Counts values, each with its weight (1 if None); returns the arguments."""
        values = tf.cast(values, self.dtype)
        factors = tf.ones_like(values) if weights is None else tf.cast(weights, self.dtype)
        self.denom.assign_add(tf.reduce_sum(factors))
        self.numer.assign_add(tf.reduce_sum(values * factors))
        return values if weights is None else (values, weights)

    def result(self) -> Any:
        """Returns the mean of what was counted."""
        return self.numer / self.denom

    def init_variables(self) -> None:
        """Forgets what was counted."""
        for variable in self.variables:
            variable.assign(tf.zeros_like(variable))


class Accuracy(Mean):
    """Share of predictions that are equal to their labels; arguments as of `Mean`."""

    def call(  # type: ignore[override]
        self, labels: Any, predictions: Any, weights: Any = None
    ) -> tuple[Any, ...]:
        """Counts labels and predictions; returns the arguments.

        Raises:
            ValueError: the shapes don't fit together.
        """
        expected, found = self._classes(
            tf.convert_to_tensor(labels), tf.convert_to_tensor(predictions)
        )
        if expected.shape != found.shape:
            shapes = f"{expected.shape} and {found.shape}"
            raise ValueError(f"{self.name}: labels and predictions differ in shape, {shapes}.")
        super().call(tf.equal(expected, found), weights)
        return (labels, predictions) if weights is None else (labels, predictions, weights)

    def _classes(self, labels: Any, predictions: Any) -> tuple[Any, Any]:
        """Returns what must be equal."""
        return labels, predictions


class BinaryAccuracy(Accuracy):
    """Share of predictions that are on their label's side of a threshold.

    Args:
        threshold: 0.5 for probabilities, 0 for logits.
        name: as for `Mean`.
        dtype: as for `Mean`.
    """

    def __init__(
        self, threshold: float, name: str | None = None, dtype: tf.DType = tf.float64
    ) -> None:
        super().__init__(name, dtype)
        self.threshold = threshold

    def _classes(self, labels: Any, predictions: Any) -> tuple[Any, Any]:
        return tf.cast(labels, tf.bool), predictions > self.threshold


class CategoricalAccuracy(Accuracy):
    """Share of predictions whose largest value is where the labels have it."""

    def _classes(self, labels: Any, predictions: Any) -> tuple[Any, Any]:
        return tf.argmax(labels, -1), tf.argmax(predictions, -1)


class SparseAccuracy(Accuracy):
    """Share of predictions whose largest value is at the label's position."""

    def _classes(self, labels: Any, predictions: Any) -> tuple[Any, Any]:
        return tf.cast(labels, tf.int64), tf.argmax(predictions, -1)
