# SPDX-License-Identifier: Apache-2.0
"""What becomes of each argument of each constructor of feature columns; see `argument_table`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import column_strategies as drawn
import tpu_columns
from argument_table import Verdict, moves, no_effect
from column_strategies import Feature

tf1 = tf.compat.v1
fc = tf.feature_column
tpu = tf1.tpu.experimental

WORDS = ("ant", "bee", "cow")
BATCH = {
    "a": Feature([["ant", "zzz"], [], ["bee", "ant", ""]], "sparse", tf.string),
    "b": Feature([["cow"], [], ["ant", "bee"]], "sparse", tf.string),
    "c": Feature([["cow", "bee"], [], ["ant", "ant", "bee"]], "sparse", tf.string),
    "i": Feature([[1, 2], [], [4, 2, 3]], "sparse", tf.int64),
    # The weights are at other places than the ids, and some aren't positive.
    "w": Feature([[0.5], [-2.0, 3.0], [0.25, -1.5]], "sparse", tf.float32),
    "v": Feature([[4.0, 1.0, 2.0], [0.5], [3.0]], "sparse", tf.float32),
    "n": Feature([[0.5], [-3.0], [7.0]], "dense", tf.float32),
    "m": Feature([[0.5, 1.0], [-3.0, 2.0], [7.0, 0.0]], "dense", tf.float32),
    "s": Feature([[0.5, 1.0], [], [7.0, 0.0, 2.0, -1.0]], "sparse", tf.float32),
}


@dataclasses.dataclass(frozen=True)
class Column:
    """A constructor of columns.

    Attributes:
        constructor: it.
        needed: arguments without which no column can be made.
        arguments: what becomes of each.
        wrap: function from a column to those of a layer.
    """

    constructor: Callable[..., Any]
    needed: dict[str, Any]
    arguments: dict[str, Verdict]
    wrap: Callable[[Any], list[Any]] = lambda column: [fc.indicator_column(column)]

    def columns(self, options: dict[str, Any]) -> list[Any]:
        """Returns the columns of a layer with these arguments, of which functions are called."""
        given = {**self.needed, **options}
        with tf.Graph().as_default():  # shared columns are refused where execution is eager
            values = {key: value() if is_late(value) else value for key, value in given.items()}
            return self.wrap(self.constructor(**values))


def is_late(value: Any) -> bool:
    """Returns whether a value is a function that makes an argument."""
    return value in (words, weighted) or getattr(value, "__name__", "") == "<lambda>"


def as_it_is(column: Any) -> list[Any]:
    """Returns a column, or several, as the columns of a layer."""
    return list(column) if isinstance(column, list) else [column]


def halved(x: Any) -> Any:
    """Returns what a normalizer makes of numbers."""
    return x.with_values(x.values / 2.0) if isinstance(x, tf.SparseTensor) else x / 2.0


def words(key: str = "a") -> Any:
    """Returns a vocabulary column."""
    return fc.categorical_column_with_vocabulary_list(key, WORDS, num_oov_buckets=1)


def weighted() -> Any:
    """Returns a column of words with weights."""
    return fc.weighted_categorical_column(words(), "w")


FIRST_VALUES = no_effect("it is where training starts; the checkpoint has the trained values")
PARSING = no_effect("tf.io.parse_example reads it, and serve.py has it; the numbers are the same")
HOST = no_effect("it is about TPUs, and the lookup gives the same")
TRAINING = no_effect("the model's optimizer trains all tables; `embeddings='distributed'` reads it")
IDENTITY = {"key": moves("j"), "num_buckets": moves(7), "default_value": moves(0, num_buckets=4)}
HASHED = {"key": moves("b"), "hash_bucket_size": moves(11), "dtype": moves(tf.int64, key="i")}
LISTED = {
    "key": moves("b"),
    "vocabulary_list": moves(("bee", "ant", "cow")),
    "dtype": no_effect("it is that of the words"),
    "default_value": moves(1),
    "num_oov_buckets": moves(2),
}
OF_FILE = {
    "key": moves("b"),
    "vocabulary_file": moves(str(drawn.FILES / "reversed.txt")),
    "vocabulary_size": moves(2),
    "num_oov_buckets": moves(2),
    "default_value": moves(1),
    "dtype": moves(tf.int64, key="i", vocabulary_file=str(drawn.FILES / "integers.txt")),
}
(drawn.FILES / "reversed.txt").write_text("cow\nbee\nant\n")
EMBEDDING = {
    "dimension": moves(3),
    "combiner": moves("sqrtn"),
    "initializer": FIRST_VALUES,
    "max_norm": moves(0.5),
    "trainable": moves(False),
    "use_safe_embedding_lookup": moves(False),
}
CHECKPOINT = {"ckpt_to_load_from": FIRST_VALUES, "tensor_name_in_ckpt": FIRST_VALUES}
TPU = {
    "dimension": moves(3),
    "combiner": moves("sum"),
    "initializer": FIRST_VALUES,
    "learning_rate_fn": TRAINING,
    "embedding_lookup_device": HOST,
    "tensor_core_shape": HOST,
    "use_safe_embedding_lookup": moves(False),
}
NUMBER = {
    "key": moves("k"),
    "shape": moves(2, key="m"),
    "default_value": PARSING,
    "dtype": PARSING,
    "normalizer_fn": moves(halved),
}


def pairs(key: str) -> list[Any]:
    """Returns two categorical columns to share a table."""
    return [weighted() if key == "a" else words(key), words("b")]


def in_sequence(column: Any) -> list[Any]:
    """Returns an embedding of a sequence."""
    return [fc.embedding_column(column, 2)]


COLUMNS = {
    "numeric_column": Column(fc.numeric_column, {"key": "n"}, NUMBER, as_it_is),
    "bucketized_column": Column(
        fc.bucketized_column,
        {"source_column": lambda: fc.numeric_column("n"), "boundaries": [0.0]},
        {
            "source_column": moves(lambda: fc.numeric_column("m", 2)),
            "boundaries": moves([0.0, 1.0]),
        },
        as_it_is,
    ),
    "categorical_column_with_identity": Column(
        fc.categorical_column_with_identity, {"key": "i", "num_buckets": 5}, IDENTITY
    ),
    "categorical_column_with_hash_bucket": Column(
        fc.categorical_column_with_hash_bucket, {"key": "a", "hash_bucket_size": 5}, HASHED
    ),
    "categorical_column_with_vocabulary_list": Column(
        fc.categorical_column_with_vocabulary_list, {"key": "a", "vocabulary_list": WORDS}, LISTED
    ),
    "categorical_column_with_vocabulary_file": Column(
        fc.categorical_column_with_vocabulary_file,
        {"key": "a", "vocabulary_file": str(drawn.FILES / "words.txt"), "vocabulary_size": 3},
        {
            **OF_FILE,
            "file_format": moves("tfrecord_gzip", vocabulary_file=str(drawn.FILES / "records.gz")),
        },
    ),
    "crossed_column": Column(
        fc.crossed_column,
        {"keys": ("a", "b"), "hash_bucket_size": 5},
        {
            "keys": moves(lambda: [words(), "b"]),
            "hash_bucket_size": moves(11),
            "hash_key": moves(7),
        },
    ),
    "weighted_categorical_column": Column(
        fc.weighted_categorical_column,
        {"categorical_column": words, "weight_feature_key": "w"},
        {
            "categorical_column": moves(lambda: fc.categorical_column_with_hash_bucket("a", 5)),
            "weight_feature_key": moves("v"),
            "dtype": no_effect("lookups of columns take weights of float32 only"),
        },
        lambda column: [fc.embedding_column(column, 2)],
    ),
    "indicator_column": Column(
        fc.indicator_column,
        {"categorical_column": words},
        {"categorical_column": moves(weighted)},
        as_it_is,
    ),
    "embedding_column": Column(
        fc.embedding_column,
        {"categorical_column": weighted, "dimension": 2},
        {"categorical_column": moves(words), **EMBEDDING, **CHECKPOINT},
        as_it_is,
    ),
    "shared_embeddings": Column(
        fc.shared_embeddings,
        {"categorical_columns": lambda: pairs("a"), "dimension": 2},
        {
            "categorical_columns": moves(lambda: [words(), words("b")]),
            "shared_embedding_collection_name": no_effect("it names the table"),
            **EMBEDDING,
            **CHECKPOINT,
        },
        as_it_is,
    ),
    "v1.shared_embedding_columns": Column(
        tf1.feature_column.shared_embedding_columns,
        {"categorical_columns": lambda: pairs("a"), "dimension": 2},
        {
            "categorical_columns": moves(lambda: [words(), words("b")]),
            "shared_embedding_collection_name": no_effect("it names the table"),
            **EMBEDDING,
            **CHECKPOINT,
        },
        as_it_is,
    ),
    "sequence_numeric_column": Column(
        fc.sequence_numeric_column,
        {"key": "s"},
        {
            "key": moves("w"),
            "shape": moves(2),
            "default_value": moves(9.0),
            "dtype": PARSING,
            "normalizer_fn": moves(halved),
        },
        as_it_is,
    ),
    "sequence_categorical_column_with_identity": Column(
        fc.sequence_categorical_column_with_identity,
        {"key": "i", "num_buckets": 5},
        IDENTITY,
        in_sequence,
    ),
    "sequence_categorical_column_with_hash_bucket": Column(
        fc.sequence_categorical_column_with_hash_bucket,
        {"key": "a", "hash_bucket_size": 5},
        HASHED,
        in_sequence,
    ),
    "sequence_categorical_column_with_vocabulary_list": Column(
        fc.sequence_categorical_column_with_vocabulary_list,
        {"key": "a", "vocabulary_list": WORDS},
        LISTED,
        in_sequence,
    ),
    "sequence_categorical_column_with_vocabulary_file": Column(
        fc.sequence_categorical_column_with_vocabulary_file,
        {"key": "a", "vocabulary_file": str(drawn.FILES / "words.txt"), "vocabulary_size": 3},
        OF_FILE,
        in_sequence,
    ),
    "tpu_columns.embedding_column": Column(
        tpu_columns.embedding_column,
        {"categorical_column": weighted, "dimension": 2},
        {
            **TPU,
            "categorical_column": moves(words),
            "invalid_ids": moves(
                "clip", categorical_column=lambda: fc.categorical_column_with_identity("i", 4)
            ),
            "max_sequence_length": moves(
                2,
                categorical_column=lambda: fc.sequence_categorical_column_with_vocabulary_list(
                    "a", WORDS
                ),
            ),
        },
        as_it_is,
    ),
    "tpu_columns.shared_embedding_columns": Column(
        tpu_columns.shared_embedding_columns,
        {"categorical_columns": lambda: pairs("a"), "dimension": 2},
        {
            **TPU,
            "categorical_columns": moves(lambda: [words(), words("b")]),
            "invalid_ids": moves(
                "clip",
                categorical_columns=lambda: [
                    fc.categorical_column_with_identity(key, 4) for key in ("i", "j")
                ],
            ),
            "shared_embedding_collection_name": no_effect("it names the table"),
            "max_sequence_lengths": moves(
                [2, 2],
                categorical_columns=lambda: [
                    fc.sequence_categorical_column_with_vocabulary_list(key, WORDS)
                    for key in ("a", "c")
                ],
            ),
        },
        as_it_is,
    ),
}


def of_tensorflow_for_tpus() -> dict[str, Any]:
    """Returns TensorFlow's own columns for TPUs, of which none moves."""
    shared = tpu.shared_embedding_columns([words(), words("b")], 2)
    return {"embedding_column": tpu.embedding_column(words(), 2), "shared": shared}


CONSTRUCTORS = {
    **{name: getattr(fc, name) for name in dir(fc) if "column" in name or "embeddings" in name},
    "v1.shared_embedding_columns": tf1.feature_column.shared_embedding_columns,
    "tpu_columns.embedding_column": tpu_columns.embedding_column,
    "tpu_columns.shared_embedding_columns": tpu_columns.shared_embedding_columns,
}
with tf.io.TFRecordWriter(str(drawn.FILES / "records.gz"), "GZIP") as writer:
    for word in ("bee", "cow", "ant"):
        writer.write(word)
BATCH |= {
    "j": Feature([[2, 1], [3], [0]], "sparse", tf.int64),
    "k": Feature([[1.5], [3.0], [-7.0]], "dense", tf.float32),
    "d": Feature([[1.5], [2.0, -3.0], [0.25, 1.5]], "sparse", tf.float64),
}
