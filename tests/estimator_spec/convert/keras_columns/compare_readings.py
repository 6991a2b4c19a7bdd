# SPDX-License-Identifier: Apache-2.0
"""Compares programs with and without TensorFlow on random values: compare_readings.py [N [SEED]].

Both written programs read the same random features by columns of every kind. N ids are compared,
10^7 if it isn't given, with their weights, and all numbers. Exit status 1: some differ.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

import numpy as np
import tensorflow as tf

import tpu_columns
from estimator_spec.convert.keras_columns import assembly, source
from estimator_spec.convert.keras_columns.categorical import CATEGORICAL
from estimator_spec.convert.keras_columns.dense import DENSE
from estimator_spec.convert.keras_columns.kind import class_name
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_columns.readings import NUMPY, TENSORFLOW

tf1 = tf.compat.v1
fc = tf.feature_column

BATCHES = (0, 1, 7, 512, 2048)
WORDS = (b"ant", b"bee", "été".encode(), b"\xff\x00x", b"a" * 99, b"-1", b"3", b" ", b"x\0")
NUMBERS = (7, -1, 0, 3, 2**63 - 1, -(2**63), 255)
BOUNDARIES = (-1e38, -1.5, -1e-39, 0.0, 1e-45, 1.17e-38, 1.2e-38, 0.1, 2.5, 2.5000002, 3e38)
WEIGHTS = (0.5, 2.0, 0.0, -0.0, -1.5, 1e-40, -1e-40, 1.2e-38, np.inf, np.nan)
SPECIAL = (*BOUNDARIES, np.nan, np.inf, -np.inf, -0.0, 1e-38, -1e-45, 65504.0, 1e300, 1e-300)
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


class Given(NamedTuple):
    """A feature as each of the programs takes it."""

    tensor: Any
    array: Any


class Values:
    """Draws values and features.

    Args:
        seed: of the random numbers.
        batch: number of examples.
    """

    def __init__(self, seed: int, batch: int) -> None:
        self.random = np.random.default_rng(seed)
        self.batch = batch
        self._texts = np.array([*WORDS, b"", *self._some_texts(2 * batch)], object)

    def _some_texts(self, count: int) -> Iterator[bytes]:
        lengths = self.random.integers(0, 20, count) * self.random.choice([0, 1, 1, 15], count)
        for number, length in enumerate(lengths.tolist()):
            drawn = self.random.bytes(length)
            if number % 4 == 0:
                yield drawn
            elif number % 4 == 1:
                yield drawn.decode("latin-1").encode()
            elif number % 4 == 2:
                yield str(int.from_bytes(drawn[:7], "big", signed=True)).encode()
            else:
                yield WORDS[length % len(WORDS)] + drawn[:2]

    def texts(self, count: int) -> np.ndarray:
        """Returns texts: any bytes, UTF-8, decimal numbers, words of vocabularies and none."""
        return self.random.choice(self._texts, count)

    def words(self, count: int) -> np.ndarray:
        """Returns texts, of which half are words of the vocabularies."""
        known = self.random.choice(np.array(WORDS, object), count)
        return np.where(self.random.random(count) < 0.5, known, self.texts(count))

    def integers(self, count: int) -> np.ndarray:
        """Returns integers of a type, of all magnitudes."""
        drawn = self.random.integers(-(2**63), 2**63 - 1, count) >> self.random.integers(
            0, 64, count
        )
        some = self.random.choice(np.array(NUMBERS, np.int64), count)
        drawn = np.where(self.random.random(count) < 0.3, some, drawn)
        return drawn.astype(self.random.choice(INTEGERS))

    def signed(self, count: int) -> np.ndarray:
        """Returns integers of 64 bits."""
        return self.integers(count).astype(np.int64)

    def ids(self, count: int) -> np.ndarray:
        """Returns ids of a vocabulary of 5, and some beyond it."""
        return self.random.integers(-3, 9, count)

    def known_ids(self, count: int) -> np.ndarray:
        """Returns ids of a vocabulary of 5, and -1."""
        return self.random.integers(-1, 5, count)

    def numbers(self, count: int) -> np.ndarray:
        """Returns numbers of a type."""
        drawn = self.random.normal(size=count) * 10.0 ** self.random.integers(-40, 39, count)
        some = self.random.choice(np.array(SPECIAL), count)
        drawn = np.where(self.random.random(count) < 0.3, some, drawn)
        with np.errstate(all="ignore"):
            return drawn.astype(self.random.choice(["f2", "f4", "f4", "f4", "f8", "i4", "?"]))

    def floats(self, count: int) -> np.ndarray:
        """Returns numbers of 32 bits."""
        with np.errstate(all="ignore"):
            return self.numbers(count).astype(np.float32)

    def raw(self, count: int) -> np.ndarray:
        """Returns what crosses take of a feature without a column: texts or numbers."""
        numbers = np.trunc(self.random.normal(size=count) * 9).astype(
            self.random.choice(["f4", "?"])
        )
        return (self.texts, self.integers, lambda _: numbers)[self.random.integers(3)](count)

    def dense(self, draw: Callable[[int], np.ndarray], width: int | None = None) -> Given:
        """Draws a dense feature; the program without TensorFlow also takes it as a list."""
        width = width or int(self.random.integers(1, 4))
        array = draw(self.batch * width).reshape(self.batch, width)
        if width == 1 and self.random.random() < 0.5:
            array = array[:, 0]
        tensor = (
            tf.constant(array.tolist(), tf.string, array.shape) if array.dtype == object else array
        )
        as_list = array.ndim == 1 and array.dtype in (object, np.int64) and self.batch
        return Given(tf.constant(tensor), array.tolist() if as_list else array)

    def rows(
        self,
        draw: Callable[[int], np.ndarray],
        counts: np.ndarray | None = None,
        is_ragged: bool | None = None,
    ) -> Given:
        """Draws a sparse or ragged feature, with these numbers of values of the examples."""
        if counts is None:
            counts = self.counts()
        if is_ragged is None:  # an empty list is no list of lists
            is_ragged = self.batch > 0 and self.random.random() < 0.5
        values = draw(int(counts.sum()))
        given = tf.constant(values.tolist(), tf.string) if values.dtype == object else values
        ragged = tf.RaggedTensor.from_row_lengths(tf.constant(given), counts)
        if is_ragged:
            ends = np.cumsum(counts).tolist()
            items = values.tolist() if values.dtype in (object, np.int64) else list(values)
            rows = [items[a:b] for a, b in zip([0, *ends], ends, strict=False)]
            return Given(ragged, rows)
        sparse = ragged.to_sparse()
        gap = 2 * int(self.random.integers(2))  # places that no example has a value at
        places = sparse.indices.numpy() + [0, gap]
        shape = sparse.dense_shape.numpy() + [0, gap + 2]
        tensor = tf.SparseTensor(places, tf.constant(given), shape)
        return Given(tensor, tf1.SparseTensorValue(places, values, shape))

    def counts(self) -> np.ndarray:
        """Returns numbers of values of the examples."""
        return self.random.integers(0, 4, self.batch)

    def any_form(self, draw: Callable[[int], np.ndarray]) -> Given:
        """Draws a dense, sparse or ragged feature."""
        return self.dense(draw) if self.random.random() < 0.4 else self.rows(draw)

    def steps(self, draw: Callable[[int], np.ndarray]) -> Given:
        """Draws sequences of values, or of lists of values."""
        if not self.batch or self.random.random() < 0.5:
            return self.rows(draw)
        outer, lengths = self.rows(draw, self.counts(), True), self.counts()
        ends = np.cumsum(lengths).tolist()
        # The lists of `outer` are the steps, of which an example has a few.
        number = min(ends[-1] if ends else 0, self.batch)
        splits = np.minimum([0, *ends], number)
        tensor = tf.RaggedTensor.from_row_splits(outer.tensor[:number], splits)
        return Given(tensor, [outer.array[a:b] for a, b in itertools.pairwise(splits)])


def features(values: Values) -> dict[str, Given]:
    """Draws a batch."""
    counts = values.counts()
    dense_words = values.dense(values.words, 2)
    return {
        "text": values.any_form(values.texts),
        "other": values.any_form(values.texts),
        "word": values.any_form(values.words),
        "integer": values.any_form(values.integers),
        "number": values.any_form(values.signed),
        "id": values.any_form(values.ids),
        "known": values.any_form(values.known_ids),
        "raw": values.any_form(values.raw),
        "weighed": values.rows(values.texts, counts),
        "weight": values.rows(lambda n: values.random.choice(np.float32(WEIGHTS), n), counts),
        "dense_weighed": dense_words,
        "dense_weight": values.dense(lambda n: values.random.choice(np.float32(WEIGHTS), n), 2),
        "one": values.dense(values.numbers, 1),
        "three": values.dense(values.floats, 3),
        "step_text": values.steps(values.words),
        "step_id": values.steps(values.ids),
        "step_known": values.steps(values.known_ids),
        "step_number": values.rows(values.floats, 2 * values.counts()),
    }


def normalized(x: Any) -> Any:
    """Returns numbers after arithmetic that is the same on all machines."""
    return (tf.cast(x, tf.float32) - 1.0) / 4.0


def columns(folder: Path) -> tuple[list[Any], list[Any]]:
    """Returns columns of every kind, and those of sequences."""
    words, numbers = folder / "words.txt", folder / "numbers.txt"
    words.write_bytes(b"\r\n".join(WORDS) + b"\n")
    numbers.write_text("".join(f" {number}\n" for number in NUMBERS))
    hashed, listed = (
        fc.categorical_column_with_hash_bucket,
        fc.categorical_column_with_vocabulary_list,
    )
    filed, identity = (
        fc.categorical_column_with_vocabulary_file,
        fc.categorical_column_with_identity,
    )
    one, three = fc.numeric_column("one"), fc.numeric_column("three", 3, normalizer_fn=normalized)
    buckets = [fc.bucketized_column(each, BOUNDARIES) for each in (one, three)]
    others: tuple[dict[str, int], ...] = ({}, {"num_oov_buckets": 1}, {"num_oov_buckets": 5})
    others = (*others, {"default_value": 2})
    categorical = [
        *(hashed(key, size) for key, size in (("text", 1), ("other", 997), ("text", 2**40))),
        *(hashed("integer", size, tf.int64) for size in (7, 10**6)),
        *(listed("word", WORDS, **more) for more in others),
        *(listed("number", NUMBERS, tf.int64, **more) for more in others),
        *(filed("word", str(words), len(WORDS), **more) for more in others),
        *(filed("number", str(numbers), 4, dtype=tf.int64, **more) for more in others),
        *(identity(key, 5, default) for key, default in (("id", 0), ("id", 4), ("known", None))),
        *buckets,
        fc.crossed_column(["text", "other"], 10**9),
        fc.crossed_column(["raw", "word"], 11, hash_key=7),
        fc.crossed_column([listed("word", WORDS), "raw", identity("id", 5, 3)], 2**33),
        fc.crossed_column([fc.crossed_column(["number", "raw"], 9), buckets[0]], 1013, 2**60 + 3),
        fc.crossed_column([buckets[1], listed("number", NUMBERS, tf.int64)], 101),
    ]
    weighted = [
        fc.weighted_categorical_column(column, weight)
        for weight, key in (("weight", "weighed"), ("dense_weight", "dense_weighed"))
        for column in (hashed(key, 31), listed(key, WORDS))
    ]
    dense = [one, three, *buckets, *map(fc.indicator_column, [*categorical, *weighted])]
    for safe in (True, False):
        dense += [
            fc.embedding_column(column, 2, combiner, use_safe_embedding_lookup=safe)
            for combiner in ("mean", "sum")
            for column in (*weighted, categorical[0], categorical[-1])
        ]
    for policy in (None, "drop", "clip", "mod", 1):
        ids = identity("known" if policy is None else "id", 5)
        dense.append(tpu_columns.embedding_column(ids, 2, invalid_ids=policy))
        own = fc.weighted_categorical_column(listed("weighed", WORDS), "weight")
        dense.append(tpu_columns.embedding_column(own, 2, invalid_ids=policy))
    pair = [listed("word", WORDS, num_oov_buckets=2), listed("text", WORDS, num_oov_buckets=2)]
    dense += tpu_columns.shared_embedding_columns(pair, 2)
    with tf.Graph().as_default():  # refused where execution is eager
        dense += fc.shared_embeddings(pair, 3)
        dense += tf1.feature_column.shared_embedding_columns(pair, 4)
    sequences = [
        fc.embedding_column(fc.sequence_categorical_column_with_hash_bucket("step_text", 31), 2),
        fc.embedding_column(
            fc.sequence_categorical_column_with_vocabulary_list("step_text", WORDS), 2, "sum"
        ),
        fc.indicator_column(fc.sequence_categorical_column_with_identity("step_id", 5, 3)),
        tpu_columns.embedding_column(
            fc.sequence_categorical_column_with_identity("step_known", 5), 2, max_sequence_length=2
        ),
        fc.sequence_numeric_column("step_number", 2, default_value=9.0),
    ]
    return dense, sequences


def kinds(column: Any) -> Iterator[str]:
    """Yields the kinds of a column, and of those that it reads by."""
    yield class_name(column)
    inner = [getattr(column, name, None) for name in ("categorical_column", "source_column")]
    for each in (*inner, *getattr(column, "keys", ())):
        if each is not None and not isinstance(each, str):
            yield from kinds(each)


def programs(folder: Path) -> list[tuple[Any, Any]]:
    """Returns the modules of two programs, each with and without TensorFlow.

    Raises:
        AssertionError: a kind of column is missing.
    """
    both = columns(folder)
    missing = {*CATEGORICAL, *DENSE} - {
        kind for each in (*both[0], *both[1]) for kind in kinds(each)
    }
    assert not missing, f"no column of {missing}"
    made = []
    for group in both:
        plan = ModelPlan()
        for column in group:  # of one name there are several
            assembly.add_layer(plan, [column], None, 1, "sum")
        made.append((module(plan, TENSORFLOW), module(plan, NUMPY)))
    return made


def module(plan: ModelPlan, reading: Any) -> types.ModuleType:
    """Returns the module of a written program."""
    written = types.ModuleType(f"by_{reading.name}")
    written.__file__ = __file__
    exec(source.write_model(plan, "random values", reading), vars(written))
    return written


class Differences:
    """Counts of what was compared, and of what differs."""

    def __init__(self) -> None:
        self.ids = self.numbers = self.wrong = 0

    def compare(self, expected: dict[str, Any], found: dict[str, Any], batch: str) -> None:
        """Compares what two programs read, and prints what differs."""
        assert expected.keys() == found.keys()
        for key, tensor in expected.items():
            wanted, have = tensor.numpy(), found[key]
            if wanted.dtype != have.dtype or wanted.shape != have.shape:
                differ = max(wanted.size, 1)
            else:
                # Numbers below the least normal one may be 0.
                close = {"rtol": 0.0, "atol": 1.2e-38, "equal_nan": True}
                with np.errstate(all="ignore"):
                    same = (
                        np.isclose(have, wanted, **close)
                        if wanted.dtype.kind == "f"
                        else have == wanted
                    )
                differ = same.size - np.count_nonzero(same)
            if differ:
                shapes = f"{wanted.shape} {have.shape}"
                print(f"\n{batch}: {differ} of {key} differ, {shapes}: {wanted} {have}")
            self.wrong += differ
            if wanted.dtype.kind == "f":
                self.numbers += wanted.size
            else:  # filled places don't count
                weights = expected.get(f"{key.removesuffix('_ids')}_weights", wanted == wanted)
                self.ids += np.count_nonzero(weights)

    def __str__(self) -> str:
        return f"{self.ids:,} ids and {self.numbers:,} numbers, {self.wrong} differ"


def compare(number: int, seed: int, folder: Path) -> Differences:
    """Compares some number of ids, or a few more; prints a line of progress."""
    made, total = programs(folder), Differences()
    for batch in range(10**9):
        values = Values(seed + batch, BATCHES[min(batch, len(BATCHES) - 1)])
        given = features(values)
        for by_tensorflow, by_numpy in made:
            expected = by_tensorflow.preprocess({key: each.tensor for key, each in given.items()})
            found = by_numpy.preprocess({key: each.array for key, each in given.items()})
            total.compare(expected, found, f"seed {seed + batch}")
        print(f"\r{total.ids / number:4.0%}: {total}", end="", flush=True)
        if total.ids >= number:
            print()
            return total
    raise AssertionError


def main() -> int:
    """Compares, and returns the exit status."""
    import tempfile

    number, seed, *_ = [*map(int, sys.argv[1:]), 10**7, 0][-2 if len(sys.argv) < 2 else 0 :]
    with tempfile.TemporaryDirectory() as folder:
        return int(compare(number, seed, Path(folder)).wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
