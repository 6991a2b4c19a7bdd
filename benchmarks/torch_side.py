# SPDX-License-Identifier: Apache-2.0
"""Measures a program of `to-torch` in a process without TensorFlow: torch_side.py WHAT FOLDER.

`without_tensorflow.py` runs it and has the arrays in FOLDER. It prints its figures as JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

WARM_UP, ROUNDS = 5, 5


def read_arrays(folder: Path) -> tuple[dict[str, Any], Any]:
    """Returns the features, of which texts are objects, and the labels."""
    with np.load(folder / "features.npz") as file:
        arrays = dict(file)
    labels = arrays.pop("label")
    texts = {key: value.astype(object) for key, value in arrays.items() if value.dtype.kind == "S"}
    return arrays | texts, labels


def batches(features: dict[str, Any], labels: Any, size: int) -> Iterator[tuple[Any, Any]]:
    """Yields whole batches."""
    for start in range(0, len(labels) - size + 1, size):
        chosen = slice(start, start + size)
        yield {key: value[chosen] for key, value in features.items()}, labels[chosen]


def rows_a_second(read: Callable[[Any], Any], given: list[Any], size: int) -> float:
    """Returns how many examples are read in a second of one core: the median of some rounds."""
    found = []
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        for features in given:
            read(features)
        found.append(len(given) * size / (time.process_time() - start))
    return statistics.median(found[1:])


def milliseconds(call: Callable[[Any], Any], given: list[Any]) -> float:
    """Returns the median time of a call after the first ones."""
    found = []
    for each in given:
        start = time.perf_counter()
        call(each)
        found.append(time.perf_counter() - start)
    return 1e3 * statistics.median(found[WARM_UP:])


def measure(what: str, folder: Path) -> dict[str, float]:
    """Returns figures by name: of the reading, the model, or nothing after one prediction."""
    sys.path.insert(0, str(folder / "torch"))
    features, labels = read_arrays(folder)
    if what == "reading":
        import reading

        found = {}
        for size in (512, 4096):
            given = [each for each, _ in batches(features, labels, size)]
            found[str(size)] = rows_a_second(reading.preprocess, given, size)
        return found
    import model
    import reading
    import steps

    trained = model.load_model()
    if what == "start":
        steps.predict(trained, {key: value[:1] for key, value in features.items()})
        return {}
    size, number = int(sys.argv[3]), int(sys.argv[4])
    given = [*batches(features, labels, size)]
    given = (given * (number // len(given) + 1))[:number]
    found = {"predict": milliseconds(lambda each: steps.predict(trained, each[0]), given)}
    rules = model.load_optimizers(trained)
    trained.train()

    def train(batch: Any) -> None:
        steps.train_step(trained, rules, steps.as_tensors(reading.training_batch(*batch)))

    return found | {"train": milliseconds(train, given)}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
    assert "tensorflow" not in sys.modules
