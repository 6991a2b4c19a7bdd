# SPDX-License-Identifier: Apache-2.0
"""Reads the Adult data of the census example, and defines the wide and the deep columns."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
DATA_DIR = os.path.join(os.path.dirname(HERE), "census", "data")
TRAIN_FILE = "adult.data.gz"
TEST_FILE = "adult.test.gz"
TRAIN_ROWS = 32561

# The file's columns in order. `fnlwgt` is the survey's sampling weight.
FIELDS = (
    ("age", tf.float32),
    ("workclass", tf.string),
    ("fnlwgt", tf.float32),
    ("education", tf.string),
    ("education_num", tf.float32),
    ("marital_status", tf.string),
    ("occupation", tf.string),
    ("relationship", tf.string),
    ("race", tf.string),
    ("sex", tf.string),
    ("capital_gain", tf.float32),
    ("capital_loss", tf.float32),
    ("hours_per_week", tf.float32),
    ("native_country", tf.string),
    ("label", tf.string),
)
UNUSED = ("fnlwgt", "label")

EDUCATIONS = (
    "Preschool",
    "1st-4th",
    "5th-6th",
    "7th-8th",
    "9th",
    "10th",
    "11th",
    "12th",
    "HS-grad",
    "Some-college",
    "Assoc-voc",
    "Assoc-acdm",
    "Bachelors",
    "Masters",
    "Prof-school",
    "Doctorate",
)
MARITAL_STATUSES = (
    "Divorced",
    "Married-AF-spouse",
    "Married-civ-spouse",
    "Married-spouse-absent",
    "Never-married",
    "Separated",
    "Widowed",
)
RELATIONSHIPS = ("Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife")
AGES = (18, 25, 30, 35, 40, 45, 50, 55, 60, 65)


def categorical_columns() -> dict[str, Any]:
    """Returns a column of ids for each feature that isn't a number, and for ranges of ages."""
    fc = tf.feature_column
    return {
        "education": fc.categorical_column_with_vocabulary_list("education", EDUCATIONS),
        "marital_status": fc.categorical_column_with_vocabulary_list(
            "marital_status", MARITAL_STATUSES
        ),
        "relationship": fc.categorical_column_with_vocabulary_list("relationship", RELATIONSHIPS),
        # Hashed: their words needn't be known.
        "workclass": fc.categorical_column_with_hash_bucket("workclass", 30),
        "occupation": fc.categorical_column_with_hash_bucket("occupation", 100),
        "native_country": fc.categorical_column_with_hash_bucket("native_country", 200),
        "ages": fc.bucketized_column(fc.numeric_column("age"), AGES),
    }


def wide_columns() -> list[Any]:
    """Returns the columns of the linear model: ids, and crosses of ids."""
    ids = categorical_columns()
    return [
        *ids.values(),
        tf.feature_column.crossed_column(["education", "occupation"], 10_000),
        tf.feature_column.crossed_column([ids["ages"], "education", "occupation"], 100_000),
        tf.feature_column.crossed_column(["marital_status", "relationship", "sex"], 1_000),
    ]


def deep_columns() -> list[Any]:
    """Returns the columns of the network: numbers, indicators and embeddings."""
    fc, ids = tf.feature_column, categorical_columns()

    def scaled(key: str, mean: float, spread: float) -> Any:
        return fc.numeric_column(key, normalizer_fn=lambda x: (x - mean) / spread)

    def logarithm(key: str) -> Any:
        return fc.numeric_column(key, normalizer_fn=lambda x: tf.math.log1p(x) / 10.0)

    def embedding(key: str, dimension: int, seed: int) -> Any:
        initializer = tf.compat.v1.truncated_normal_initializer(stddev=0.3, seed=seed)
        return fc.embedding_column(ids[key], dimension, initializer=initializer)

    return [
        scaled("age", 38.6, 13.6),
        scaled("education_num", 10.1, 2.6),
        scaled("hours_per_week", 40.4, 12.3),
        logarithm("capital_gain"),
        logarithm("capital_loss"),
        *(fc.indicator_column(ids[key]) for key in ("marital_status", "relationship", "workclass")),
        embedding("occupation", 8, 1),
        embedding("native_country", 8, 2),
    ]


def parse(lines: Any) -> tuple[dict[str, Any], Any]:
    """Parses a batch of lines to (features, labels `[B, 1]`)."""
    lines = tf.strings.regex_replace(lines, ", ", ",")
    values = tf.io.decode_csv(lines, [tf.constant([], dtype) for _, dtype in FIELDS])
    raw = {name: value for (name, _), value in zip(FIELDS, values, strict=True)}
    label = tf.strings.regex_full_match(raw["label"], r">50K\.?")
    features = {name: raw[name] for name in raw if name not in UNUSED}
    return features, tf.cast(label, tf.int64)[:, tf.newaxis]


def input_fn_builder(
    data_dir: str, file_name: str, batch_size: int, is_training: bool = False
) -> Callable[[], Any]:
    """Returns the `input_fn` of one file.

    Args:
        data_dir: where the file is.
        file_name: its name.
        batch_size: rows a step.
        is_training: shuffle, and repeat.
    """

    def input_fn() -> Any:
        path = os.path.join(data_dir, file_name)
        lines = tf.data.TextLineDataset(path, compression_type="GZIP").skip(1)
        if is_training:
            lines = lines.cache().shuffle(TRAIN_ROWS, seed=7).repeat()
        return lines.batch(batch_size).map(parse, num_parallel_calls=2).prefetch(4)

    return input_fn
