# SPDX-License-Identifier: Apache-2.0
"""Reads the Adult data and computes the columns' features.

Every transformation is a TensorFlow op, so that training, evaluation, prediction and the served
model share one function, `make_features`, and a client sends raw values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

import estimator_spec as tpu_estimator

tf1 = tf.compat.v1

DATA_DIR = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
TRAIN_FILE = "adult.data.gz"
TEST_FILE = "adult.test.gz"
TRAIN_ROWS = 32561
TEST_ROWS = 16281

# The file's columns in order. `fnlwgt` is the survey's sampling weight.
FIELDS = (
    ("age", tf.float32),
    ("workclass", tf.string),
    ("fnlwgt", tf.float32),
    ("education", tf.string),
    ("education_num", tf.int64),
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
CATEGORICAL = tuple(name for name, dtype in FIELDS if dtype is tf.string and name not in UNUSED)

KNOTS = "age_knots"  # the feature of their ids
AGE_KNOTS = 16  # five years apart, from 15 to 90; an age is between two of them
DOLLAR_BUCKETS = 70  # four buckets for each doubling: 99,999 dollars are in bucket 66


def age_knots(age: Any) -> tuple[Any, Any]:
    """Returns the two knots next to an age, and the weight of each.

    38 years are 0.4 of knot 4 (35 years) and 0.6 of knot 5 (40): the embedding bends with age.

    Args:
        age: `[B]`, in years.

    Returns:
        Ids and weights, both `[B, 2]`.
    """
    position = tf.clip_by_value((age - 15.0) / 5.0, 0.0, AGE_KNOTS - 1.001)
    lower = tf.floor(position)
    ids = tf.cast(tf.stack([lower, lower + 1.0], axis=1), tf.int64)
    return ids, tf.stack([lower + 1.0 - position, position - lower], axis=1)


def dollar_bucket(dollars: Any) -> Any:
    """Returns the bucket of an amount on a logarithmic scale; 0 is bucket 0."""
    return tf.cast(4.0 * tf.math.log1p(dollars) / tf.math.log(2.0), tf.int64)


def make_features(raw: dict[str, Any]) -> dict[str, Any]:
    """Converts raw values to the columns' features, all of them dense.

    Args:
        raw: one `[B]` tensor for each used column of the file, as the file has it.

    Returns:
        A dictionary of `[B]` tensors, of two `[B, 2]` (`age_knots` and `age_weights`) and of a
        `[B, 8]` string tensor `profile`: the row as a sequence of `column=value` tokens, in which
        a missing value is empty.
    """
    knots, weights = age_knots(raw["age"])
    tokens = [
        tf.where(
            tf.equal(raw[name], "?"),
            tf.zeros_like(raw[name]),
            tf.strings.join([name, raw[name]], "="),
        )
        for name in CATEGORICAL
    ]
    features = {name: raw[name] for name in CATEGORICAL}
    features.update(
        {
            "education_num": raw["education_num"],
            KNOTS: knots,
            "age_weights": weights,
            "gain_bucket": dollar_bucket(raw["capital_gain"]),
            "loss_bucket": dollar_bucket(raw["capital_loss"]),
            "profile": tf.stack(tokens, axis=1),
            "age": (raw["age"] - 38.6) / 13.6,
            "hours_per_week": (raw["hours_per_week"] - 40.4) / 12.3,
            "schooling": (tf.cast(raw["education_num"], tf.float32) - 10.1) / 2.6,
            "log_gain": tf.math.log1p(raw["capital_gain"]) / 10.0,
            "log_loss": tf.math.log1p(raw["capital_loss"]) / 10.0,
        }
    )
    return features


def words_of(column: Any) -> list[str] | None:
    """Returns a column's vocabulary; None if ids are integers."""
    categorical = column.categorical_column
    # Weighted and sequence columns wrap the one with the vocabulary.
    while hasattr(categorical, "categorical_column"):
        categorical = categorical.categorical_column
    if hasattr(categorical, "vocabulary_list"):
        return list(categorical.vocabulary_list)
    if hasattr(categorical, "vocabulary_file"):
        with open(categorical.vocabulary_file, encoding="utf-8") as file:
            return file.read().splitlines()[: categorical.vocabulary_size]
    return None


def ids_of_words(columns: list[Any]) -> dict[str, Any]:
    """Creates the vocabulary lookup table of each feature, before the dataset that uses it."""
    found = {}
    for column in columns:
        words = words_of(column)
        if words is not None:
            entries = tf.lookup.KeyValueTensorInitializer(
                words, list(range(len(words))), tf.string, tf.int64
            )
            table = tf.lookup.StaticHashTable(entries, default_value=-1)
            found[column.get_feature_key_name()] = table
    return found


def ids_for_embedding_core(
    features: dict[str, Any], columns: list[Any], tables: dict[str, Any]
) -> dict[str, Any]:
    """Converts features to an embedding core's ids, `[B, L]`; -1 for a word without id.

    Args:
        features: as `make_features` gives them.
        columns: what will be looked up.
        tables: the words' ids, from `ids_of_words`.
    """
    features = dict(features)
    for column in columns:
        key = column.get_feature_key_name()
        values = features[key]
        if values.shape.rank == 1:
            values = values[:, tf.newaxis]
        features[key] = tables[key].lookup(values) if key in tables else tf.cast(values, tf.int64)
    return features


def with_sparse_ids(features: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Converts ids, and the knots' weights, to sparse tensors.

    A weighted column takes weights of sparse ids only. For an embedding core, all ids are sparse,
    so that id 0 isn't padding; -1 is no entry.

    Args:
        features: ids `[B, L]` by key, and others.
        keys: of the ids; the knots' is one of them.
    """
    features = dict(features)
    for key in keys:
        ids = features[key]
        found = tf.where(ids >= 0)
        shape = tf.shape(ids, out_type=tf.int64)
        features[key] = tf.SparseTensor(found, tf.gather_nd(ids, found), shape)
    knots, weights = features[KNOTS], features["age_weights"]
    features["age_weights"] = knots.with_values(tf.reshape(weights, [-1]))
    return features


def read(path: str) -> Any:
    """Returns the dataset of a file, whose one element is all of it: `[N]` values by field."""
    lines = tf1.data.TextLineDataset(path, compression_type="GZIP").skip(1)
    defaults = [tf.constant([], dtype) for _, dtype in FIELDS]

    def parse(lines: Any) -> dict[str, Any]:
        without_spaces = tf.strings.regex_replace(lines, ", ", ",")
        values = tf1.decode_csv(without_spaces, defaults)
        return {name: value for (name, _), value in zip(FIELDS, values, strict=True)}

    return lines.batch(TRAIN_ROWS).map(parse)


def shuffle_rows(features: dict[str, Any], labels: Any) -> tuple[dict[str, Any], Any]:
    """Returns the rows of dense features and their labels in one random order."""
    order = tf.random.shuffle(tf.range(tf.size(labels)), seed=7)
    shuffled = {name: tf.gather(feature, order) for name, feature in features.items()}
    return shuffled, tf.gather(labels, order)


def input_fn_builder(
    data_dir: str,
    file_name: str,
    is_training: bool,
    use_tpu: bool,
    core_columns: list[Any] | None = None,
) -> Callable[..., Any]:
    """Returns the `input_fn` of one file.

    Args:
        data_dir: where the file is.
        file_name: its name.
        is_training: shuffle, and repeat.
        use_tpu: full batches only.
        core_columns: the columns that an embedding core looks up; None without one.
    """
    columns = core_columns or []
    keys = [column.get_feature_key_name() for column in columns] or [KNOTS]

    def input_fn(params: dict[str, Any]) -> Any:
        tables = ids_of_words(columns)

        def features_and_labels(raw: dict[str, Any]) -> tuple[dict[str, Any], Any]:
            label = tf.strings.regex_full_match(raw["label"], r">50K\.?")
            features = make_features({name: raw[name] for name in raw if name not in UNUSED})
            labels = tf.cast(label, tf.float32)[:, tf.newaxis]
            return ids_for_embedding_core(features, columns, tables), labels

        # The file fits in memory: its features are computed once, and a batch is a slice of them.
        data = read(os.path.join(data_dir, file_name)).map(features_and_labels)
        if is_training:
            data = data.cache().repeat().map(shuffle_rows)
        # A TPU needs full batches; on a CPU the last batch of the test split may be short.
        batches = data.rebatch(params["batch_size"], drop_remainder=is_training or use_tpu)
        return batches.map(lambda x, y: (with_sparse_ids(x, keys), y)).prefetch(4)

    return input_fn


def serving_input_receiver_fn() -> Any:
    """Returns the receiver of a client's request: one raw value for each column and person."""
    raw = {
        name: tf1.placeholder(dtype, [None], name=name)
        for name, dtype in FIELDS
        if name not in UNUSED
    }
    features = with_sparse_ids(make_features(raw), [KNOTS])
    return tpu_estimator.ServingInputReceiver(features, raw)
