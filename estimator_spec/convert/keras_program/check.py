# SPDX-License-Identifier: Apache-2.0
"""Compares this directory's model with recorded outputs of the estimator.

Exit status: 0 if they agree, 1 if they differ. KERAS_BACKEND is 'torch' if it isn't set, or 'jax'
where torch isn't installed. Nothing here needs TensorFlow, or the program that wrote this.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCES = {"predictions": (1e-6, 1e-6), "metrics": (1e-4, 1e-5), "losses": (1e-4, 1e-6)}


class Sparse(NamedTuple):
    """A sparse feature as `preprocess` takes it."""

    indices: np.ndarray
    values: np.ndarray
    dense_shape: np.ndarray


class CheckValues:
    """Recorded inputs of the model, and the estimator's outputs for them.

    Args:
        path: the file.
    """

    def __init__(self, path: pathlib.Path) -> None:
        with np.load(path) as file:
            self._arrays = dict(file)
        self.contents: dict[str, Any] = json.loads(str(self._arrays.pop("contents")))
        self.batches = [
            (self.read(each["features"]), self.read(each["labels"]))
            for each in self.contents["batches"]
        ]

    def read(self, form: Any) -> Any:
        """Returns a value: an array, a `Sparse`, a list of lists, or a dict of them."""
        if form is None or isinstance(form, str):
            return form if form is None else self._arrays[form]
        ((kind, parts),) = form.items()
        if kind == "dict":
            return {key: self.read(part) for key, part in parts.items()}
        first, *rest = (self.read(part) for part in parts)
        if kind == "sparse":
            return Sparse(first, *rest)
        if kind == "text":
            ends = np.cumsum(rest[0]).tolist()
            starts = [0, *ends]
            texts = [first[a:b].tobytes() for a, b in zip(starts, ends, strict=False)]
            return np.array(texts, object).reshape(rest[1])
        rows = first.tolist()
        for splits in reversed(rest):
            rows = [rows[a:b] for a, b in itertools.pairwise(splits)]
        return rows


def difference(stage: str, expected: Any, found: Any) -> str:
    """Returns in which way values differ; '' if they agree."""
    if found is None:
        return "missing"
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.shape != found.shape:
        return f"shapes {expected.shape} and {found.shape}"
    if expected.dtype.kind != "f":
        wrong = np.count_nonzero(expected != found)
        return f"{wrong} of {expected.size} values aren't equal" if wrong else ""
    relative, absolute = TOLERANCES[stage]
    largest = np.abs(expected).max(initial=0, where=np.isfinite(expected))
    if np.allclose(found, expected, relative, max(absolute, relative * largest), equal_nan=True):
        return ""
    return f"differ by {np.nanmax(np.abs(found - expected)):.2g}, of {largest:.3g}"


def predictions(recorded: CheckValues, model: Any, trained: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields names, expected and found values of the predictions."""
    import keras

    for each in recorded.contents["outputs"]:
        features, _ = recorded.batches[each["batch"]]
        expected = recorded.read(each["values"])
        outputs = trained(model.preprocess(features))
        if not isinstance(outputs, Mapping):
            outputs = dict.fromkeys(expected, outputs)
        found = {key: keras.ops.convert_to_numpy(value) for key, value in outputs.items()}
        if hasattr(model, "with_classes"):
            found = model.with_classes(found)
        for key, value in expected.items():
            yield f"{each['name']}: {key}", value, found.get(key)


def metrics(recorded: CheckValues, model: Any, trained: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields names, expected and found values of the loss and the metrics."""
    contents = recorded.contents["metrics"]
    if contents is None:
        return
    if not trained.compiled:
        model.compile_model(trained, None)
    batches = (model.training_batch(*recorded.batches[number]) for number in contents["batches"])
    results = trained.evaluate(batches, steps=len(contents["batches"]), return_dict=True, verbose=0)
    found = {contents["names"].get(key, key): value for key, value in results.items()}
    for key, value in recorded.read(contents["values"]).items():
        yield key, value, found.get(key)


def losses(recorded: CheckValues, model: Any, trained: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields the estimator's losses of further steps, and those of this model."""
    import keras

    contents = recorded.contents["training"]
    if contents is None:
        return
    for layer in trained.layers:
        if isinstance(layer, keras.layers.Dropout):  # random choices can't be equal: all are kept
            layer.call = scaled(layer.rate)
    trained.run_eagerly, trained.jit_compile = True, False
    found = []
    for number in contents["batches"]:
        trained.reset_metrics()
        given = model.training_batch(*recorded.batches[number])
        found.append(trained.train_on_batch(*given, return_dict=True)["loss"])
    yield f"{len(found)} further steps", recorded.read(contents["losses"]), np.array(found, "f4")


def scaled(rate: float) -> Callable[..., Any]:
    """Returns what dropout does that keeps all elements."""
    return lambda inputs, training=False: inputs / (1.0 - rate) if training else inputs


def main() -> int:
    """Compares, prints a line for each value, and returns the exit status."""
    os.environ.setdefault("KERAS_BACKEND", "torch" if importlib.util.find_spec("torch") else "jax")
    sys.path.insert(0, str(HERE))
    import keras

    import model

    recorded = CheckValues(HERE / "check.npz")
    trained = keras.models.load_model(model.WEIGHTS)
    differ = compared = 0
    for stage in (predictions, metrics, losses):
        for name, expected, found in stage(recorded, model, trained):
            stated = recorded.contents["stated"].get(name)
            text = difference(stage.__name__, expected, found)
            compared, differ = compared + 1, differ + bool(text and not stated)
            outcome = f"{'stated' if stated else 'DIFFERS'}: {text}" if text else "equal"
            print(f"{stage.__name__}: {name}: {outcome}{f' ({stated})' if stated else ''}")  # noqa: T201
    for note in recorded.contents["notes"]:
        print(f"note: {note}")  # noqa: T201
    loaded = ", with TensorFlow loaded" if "tensorflow" in sys.modules else ""
    end = f"{compared} compared on {keras.backend.backend()}{loaded}, {differ} differ"
    print(end)  # noqa: T201
    return 1 if differ or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
