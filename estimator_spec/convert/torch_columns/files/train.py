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
from torch.utils.data import DataLoader, IterableDataset

import model as columns
import optimizers
import reading
import steps
import tensors


class Examples(IterableDataset):
    """Examples of TFRecord files, serialized, in a random order.

    Args:
        paths: the files.
        buffer: of how many the next one is chosen; 1: none is shuffled.
    """

    def __init__(self, paths: Sequence[str], buffer: int) -> None:
        self.paths, self.buffer = paths, buffer

    def __iter__(self) -> Iterator[bytes]:
        import records  # which needs protobuf

        kept: list[bytes] = []
        for record in itertools.chain.from_iterable(map(records.read_records, self.paths)):
            kept.append(record)
            if len(kept) == self.buffer:
                yield kept.pop(random.randrange(self.buffer))
        random.shuffle(kept)
        yield from kept


def read_examples(serialized: Sequence[bytes], labels: Mapping[str, str]) -> steps.Batch:
    """Returns the batch of serialized tf.Examples; `labels` are their keys by name of the head."""
    import records
    import tf_examples

    of_labels = {labels[name]: kind for name, kind in tf_examples.LABELS.items()}
    found = records.parse_examples(serialized, {**tf_examples.FEATURES, **of_labels})
    return steps.as_tensors(reading.training_batch(found, chosen(found, labels)))


def chosen(features: Mapping[str, Any], labels: Mapping[str, str]) -> Any:
    """Returns the labels among features: those of several heads by their names."""
    if [*labels] == [""]:
        return features[labels[""]]
    return {name: features[key] for name, key in labels.items()}


def read_arrays(
    paths: Sequence[str], size: int, labels: Mapping[str, str]
) -> Iterator[steps.Batch]:
    """Yields batches of the arrays of .npz files, in a random order."""
    for path in paths:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
        order = np.random.permutation(len(next(iter(arrays.values()))))
        for first in range(0, len(order), size):
            part = {key: value[order[first : first + size]] for key, value in arrays.items()}
            yield steps.as_tensors(reading.training_batch(part, chosen(part, labels)))


def batches(options: argparse.Namespace, labels: Mapping[str, str]) -> Iterable[steps.Batch]:
    """Returns the batches of the files."""
    arrays = [path for path in options.files if path.endswith(".npz")]
    if arrays:
        return read_arrays(arrays, options.batch_size, labels)
    return DataLoader(
        Examples(options.files, options.shuffle),
        options.batch_size,
        collate_fn=lambda serialized: read_examples(serialized, labels),
    )


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
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    labels = label_keys(options.label)
    model = columns.load_model()
    rules = columns.load_optimizers(model)
    number = 0
    for _ in range(options.epochs):
        model.train()
        for batch in batches(options, labels):
            number += 1
            show(number, steps.train_step(model, rules, batch).item())
        found = steps.evaluate(model, batches(options, labels))
        sys.stderr.write("\n")
        print(", ".join(f"{key} {value:.5g}" for key, value in found.items()))  # noqa: T201
    folder = pathlib.Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    state = {key: value.cpu().numpy() for key, value in model.state_dict().items()}
    tensors.write(folder / columns.WEIGHTS.name, state)
    optimizers.save(folder / columns.SLOTS.name, model, rules)


if __name__ == "__main__":
    main()
