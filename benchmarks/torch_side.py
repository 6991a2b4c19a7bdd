# SPDX-License-Identifier: Apache-2.0
"""Measures a program of `to-torch` in a process without TensorFlow: torch_side.py WHAT FOLDER.

`without_tensorflow.py` runs it and has the arrays in FOLDER. It prints its figures as JSON.
"""

from __future__ import annotations

import itertools
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

WARM_UP, ROUNDS, INTERVAL = 5, 5, 20


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


def times(name: str, call: Callable[[Any], Any], given: list[Any]) -> dict[str, float]:
    """Returns the median milliseconds of a call after the first ones, and of the processor's time.

    Args:
        name: of the figure.
        call: what is measured.
        given: arguments of the calls.
    """
    found = []
    for each in given:
        start, cpu = time.perf_counter(), time.process_time()
        call(each)
        found.append((time.perf_counter() - start, time.process_time() - cpu))
    return medians(name, found)


def medians(name: str, found: list[tuple[float, float]]) -> dict[str, float]:
    """Returns the median milliseconds of pairs of seconds, without the first ones."""
    wall, cpu = (1e3 * statistics.median(each) for each in zip(*found[WARM_UP:], strict=True))
    return {name: wall, f"{name} cpu": cpu}


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
    import torch

    import model
    import reading
    import steps

    torch.set_num_threads(1)
    if what == "start":
        trained = model.load_model()
        steps.predict(trained, {key: value[:1] for key, value in features.items()})
        return {}
    steps.keep_memory()
    size, number, threads = map(int, sys.argv[3:])
    loader = open_loader(features, labels, size)
    trained = model.load_model()
    given = [*batches(features, labels, size)]
    given = (given * (number // len(given) + 1))[:number]
    found = times("predict", lambda each: steps.predict(trained, each[0]), given)
    torch.set_num_threads(threads)
    return found | train(trained, model.load_optimizers(trained), loader, number)


def open_loader(features: dict[str, Any], labels: Any, size: int) -> Any:
    """Returns what `train.py` reads batches with, of arrays in memory, again and again."""
    import train

    class InMemory(train.Batches):  # type: ignore[misc]  # it is imported from a folder
        def of_arrays(self, paths: Any) -> Iterator[dict[str, Any]]:
            for _ in itertools.count():
                for part, own in batches(features, labels, self.size):
                    yield {**part, "label": own}

    return train.open_batches(InMemory([".npz"], {"": "label"}, size, 1), workers=1)


def train(trained: Any, rules: Any, loader: Any, number: int) -> dict[str, float]:
    """Returns milliseconds of a step of `train.py`, and of the processor's time, also to read."""
    import steps

    trained.train()
    ends, cpu = [], time.process_time()
    read = iter(loader)
    for batch in itertools.islice(read, number):
        steps.train_step(trained, rules, steps.as_tensors(batch))
        ends.append(time.perf_counter())
    cpu = time.process_time() - cpu
    read._shutdown_workers()  # before their time is known
    cpu += sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    of_steps = zip(ends[WARM_UP:], ends[WARM_UP + INTERVAL :], strict=False)
    wall = statistics.median((end - start) / INTERVAL for start, end in of_steps)
    return {"train": 1e3 * wall, "train cpu": 1e3 * cpu / number}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
    assert "tensorflow" not in sys.modules
