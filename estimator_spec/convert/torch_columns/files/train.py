# SPDX-License-Identifier: Apache-2.0
"""Trains the model on from where the estimator ended.

    python train.py FILES --label KEY --epochs 2 --output DIR

FILES are TFRecords of tf.Examples, or .npz files of arrays by the features' names. The trained
weights and the optimizers' slots are written into DIR, which may be this directory.
"""

from __future__ import annotations

import argparse
import itertools
import pathlib
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import model as columns
import optimizers
import reading
import steps
import tensors


class Batches(IterableDataset):
    """Batches of files, as `reading.training_batch` returns them, in a random order.

    Args:
        paths: the files. Of several processes that read, each has a part of them.
        labels: keys of the labels by name of the head.
        size: examples of a batch.
        buffer: of how many examples of TFRecords the next one is chosen; 1: none is shuffled.
    """

    def __init__(
        self, paths: Sequence[str], labels: Mapping[str, str], size: int, buffer: int
    ) -> None:
        self.paths, self.labels, self.size, self.buffer = paths, labels, size, buffer

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        own = get_worker_info()
        paths = self.paths if own is None else self.paths[own.id :: own.num_workers]
        arrays = [path for path in paths if path.endswith(".npz")]
        others = [path for path in paths if path not in arrays]
        for features in itertools.chain(self.of_arrays(arrays), self.of_records(others)):
            if missing := self.labels.values() - features.keys():
                raise ValueError(f"There is no {missing.pop()!r}, but {', '.join(features)}.")
            labels = {name: features[key] for name, key in self.labels.items()}
            yield reading.training_batch(features, labels[""] if [*labels] == [""] else labels)

    def of_arrays(self, paths: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yields the features of batches of .npz files."""
        for path in paths:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: reading.as_array(file[key]) for key in file.files}
            sizes = {key: len(value) for key, value in arrays.items()}
            if len(set(sizes.values())) != 1:
                raise ValueError(f"{path} must have arrays of one length, not of {sizes}.")
            order = np.random.permutation(next(iter(sizes.values())))
            for first in range(0, len(order), self.size):
                chosen = order[first : first + self.size]
                yield {key: value[chosen] for key, value in arrays.items()}

    def of_records(self, paths: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yields the features of batches of TFRecord files."""
        if not paths:
            return
        import records  # which needs protobuf
        import tf_examples

        kinds = {self.labels[name]: kind for name, kind in tf_examples.LABELS.items()}
        examples = shuffled(
            itertools.chain.from_iterable(map(records.read_records, paths)), self.buffer
        )
        while batch := [*itertools.islice(examples, self.size)]:
            yield records.parse_examples(batch, {**tf_examples.FEATURES, **kinds})


def shuffled(values: Iterable[Any], buffer: int) -> Iterator[Any]:
    """Yields values in a random order: the next one is chosen of a number of them."""
    kept: list[Any] = []
    for value in values:
        kept.append(value)
        if len(kept) == buffer:
            yield kept.pop(random.randrange(buffer))
    random.shuffle(kept)
    yield from kept


def unchanged(batch: Any) -> Any:
    """Returns a batch: arrays take less time than tensors from one process to another."""
    return batch


def open_batches(dataset: Batches, workers: int) -> DataLoader:
    """Returns the loader of a dataset's batches, which some processes read ahead; 0: none does.

    They are started now: it should be before there is a model, whose pages a process that shares
    them would have to copy when they change.
    """
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        collate_fn=unchanged,
        persistent_workers=workers > 0,
    )
    iter(loader)
    return loader


def show(number: int, loss: float) -> None:
    """Shows the progress."""
    if sys.stderr.isatty() or number % 100 == 0:
        end = "" if sys.stderr.isatty() else "\n"
        sys.stderr.write(f"\rstep {number}: loss {loss:.5g}{end}")
        sys.stderr.flush()


def label_keys(given: Sequence[str]) -> dict[str, str]:
    """Returns the keys of labels by name of the head, of arguments KEY or HEAD=KEY."""
    found = {}
    for each in given:
        head, _, key = each.rpartition("=")
        found[head] = key
    wanted = [head.name for head in columns.HEADS]
    if sorted(found) != sorted(wanted):
        names = " ".join(f"--label {name}{'=' if name else ''}KEY" for name in wanted)
        raise SystemExit(f"Give the key of each label: {names}")
    return found


def main() -> None:
    """Trains, and writes the weights and slots."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("files", nargs="+", metavar="FILES")
    add("--label", action="append", default=[], metavar="KEY", help="HEAD=KEY of several heads")
    add("--output", required=True, metavar="DIR")
    add("--epochs", type=int, default=1)
    add("--batch-size", type=int, default=64)
    add("--shuffle", type=int, default=10_000, help="examples that the next one is chosen of")
    add("--threads", type=int, default=1, help="of torch; more pay for wide hidden layers only")
    add("--workers", type=int, default=1, help="processes that read the files; 0: this one does")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    steps.keep_memory()
    labels = label_keys(options.label)
    dataset = Batches(options.files, labels, options.batch_size, options.shuffle)
    loader = open_batches(dataset, options.workers)
    model = columns.load_model()
    rules = columns.load_optimizers(model)
    number = 0
    for _ in range(options.epochs):
        model.train()
        for batch in map(steps.as_tensors, loader):
            number += 1
            show(number, steps.train_step(model, rules, batch).item())
        found = steps.evaluate(model, map(steps.as_tensors, loader))
        sys.stderr.write("\n")
        print(", ".join(f"{key} {value:.5g}" for key, value in found.items()))  # noqa: T201
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    state = {key: value.cpu().numpy() for key, value in model.state_dict().items()}
    tensors.write(folder / columns.WEIGHTS.name, state)
    optimizers.save(folder / columns.SLOTS.name, model, rules)


if __name__ == "__main__":
    main()
