# SPDX-License-Identifier: Apache-2.0
"""Compares this directory's model with recorded outputs of the estimator.

Exit status: 0 if they agree, 1 if they differ. KERAS_BACKEND is 'torch' if it isn't set, or 'jax'
where torch isn't installed. Nothing here needs TensorFlow, or the program that wrote this.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import recorded

os.environ.setdefault("KERAS_BACKEND", "torch" if importlib.util.find_spec("torch") else "jax")
import model as columns  # which imports Keras


def predictions(
    values: recorded.CheckValues, trained: Any, entries: Any
) -> Iterator[tuple[str, Any, Any]]:
    """Yields names, expected and found values of the predictions."""
    import keras

    for each in entries:
        features, _ = values.batches[each["batch"]]
        expected = values.read(each["values"])
        outputs = trained(columns.preprocess(features))
        if not isinstance(outputs, Mapping):
            outputs = dict.fromkeys(expected, outputs)
        found = {key: keras.ops.convert_to_numpy(value) for key, value in outputs.items()}
        if hasattr(columns, "with_classes"):
            found = columns.with_classes(found)
        for key, value in expected.items():
            yield f"{each['name']}: {key}", value, found.get(key)


def metrics(values: recorded.CheckValues, trained: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields names, expected and found values of the loss and the metrics."""
    contents = values.contents["metrics"]
    if contents is None:
        return
    if not trained.compiled:
        columns.compile_model(trained, None)
    batches = (columns.training_batch(*values.batches[number]) for number in contents["batches"])
    results = trained.evaluate(batches, steps=len(contents["batches"]), return_dict=True, verbose=0)
    found = {contents["names"].get(key, key): value for key, value in results.items()}
    for key, value in values.read(contents["values"]).items():
        yield key, value, found.get(key)


def losses(values: recorded.CheckValues, trained: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields the estimator's losses of further steps, and those of this model, which it trains."""
    import keras

    contents = values.contents["training"]
    if contents is None:
        return
    for layer in trained.layers:
        if isinstance(layer, keras.layers.Dropout):  # random choices can't be equal: all are kept
            layer.call = scaled(layer.rate)
    trained.run_eagerly, trained.jit_compile = True, False
    found = []
    for number in contents["batches"]:
        trained.reset_metrics()
        given = columns.training_batch(*values.batches[number])
        found.append(trained.train_on_batch(*given, return_dict=True)["loss"])
    yield f"{len(found)} further steps", values.read(contents["losses"]), np.array(found, "f4")


def scaled(rate: float) -> Callable[..., Any]:
    """Returns what dropout does that keeps all elements."""
    return lambda inputs, training=False: inputs / (1.0 - rate) if training else inputs


def main() -> int:
    """Compares, prints a line for each value, and returns the exit status."""
    import keras

    values = recorded.CheckValues(recorded.HERE / "check.npz")
    trained = keras.models.load_model(columns.WEIGHTS)
    stages = (
        ("predictions", predictions(values, trained, values.contents["outputs"])),
        ("metrics", metrics(values, trained)),
        ("losses", losses(values, trained)),
        ("trained", predictions(values, trained, values.contents["trained"])),
    )
    return recorded.report(values, stages, keras.backend.backend())


if __name__ == "__main__":
    sys.exit(main())
