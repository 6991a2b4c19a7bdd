# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of columns, tables, optimizers and specifications."""

from __future__ import annotations

import functools

import tensorflow as tf

import estimator_spec as es
import tpu_columns
from constructors import bad
from refusal import INF, NAN, case, column, dictionaries, each, identity, sequence, shared, spec

tf1 = tf.compat.v1
fc = tf.feature_column

_ON_TENSOR_CORE = {"embedding_lookup_device": "tpu_tensor_core", "tensor_core_shape": [None, 2]}
_NO_TENSOR_CORE_SHAPES = [3, "ab", [None, 0], [None, None], [None, "3"], [0, 3], [-2, 3], ["a", 3]]


def _two_initializers():
    zeros, ones = tf1.zeros_initializer(), tf1.ones_initializer()
    return [*shared(keys="xy", initializer=zeros), *shared(keys="zu", initializer=ones)]


def _of(categorical_column):
    return tpu_columns.embedding_column(categorical_column, 4)


def _of_all(categorical_columns, **arguments):
    return tpu_columns.shared_embedding_columns(categorical_columns, 4, **arguments)


COLUMNS = [
    *bad(column, "dimension", [2.5, "4", True, [8]], "Invalid dimension", TypeError),
    *(
        refusal
        for value in (0, -1, None)
        for make in (column, shared)
        for refusal in bad(make, "dimension", [value], f"Invalid dimension {value}.")
    ),
    *bad(column, "combiner", ["max", 3, ["mean"]], "must be one of 'mean', 'sqrtn' or"),
    case(
        "no combiner on the tensor core",
        lambda: column(combiner=None, **_ON_TENSOR_CORE),
        "does not support combiner other than sum and mean",
    ),
    *bad(column, "initializer", [0.5], "initializer must be callable if … words"),
    *bad(shared, "initializer", [0.5], "initializer must be callable if specified"),
    *bad(column, "learning_rate_fn", [0.1], "learning_rate_fn must be callable … words"),
    *bad(
        column,
        "max_sequence_length",
        [3],
        "Non zero max_seq_length=3 specified for non sequence column words.",
    ),
    *bad(column()._replace, "dimension", [0], "Invalid dimension 0"),
    *bad(column()._replace, "max_sequence_length", [2], "Non zero max_seq_length=2"),
    *bad(column()._replace, "no_such_field", [2], "no_such_field", TypeError),
    *bad(sequence, "length", [0, -1], "max_sequence_length must be greater than 0 for seq"),
    *bad(
        sequence, "length", ["3", 2.5], "max_sequence_length of column steps must be an", TypeError
    ),
    case(
        "sequence on the tensor core",
        lambda: sequence()._replace(**_ON_TENSOR_CORE),
        "does not support sequence columns",
    ),
    *bad(column, "embedding_lookup_device", ["gpu", 3], "embedding_lookup_device must be in"),
    *bad(column, "tensor_core_shape", [[3], [None, 2, 3]], "must be size 2. Got"),
    *bad(column, "tensor_core_shape", _NO_TENSOR_CORE_SHAPES, "tensor_core_shape must"),
    *bad(
        column,
        "embedding_lookup_device",
        ["tpu_tensor_core"],
        "requires tensor_core_shape to be set. … words_embedding",
    ),
    *bad(
        _of,
        "categorical_column",
        ["words", None, 3, [identity()], fc.numeric_column("words")],
        "must be type … categorical_column_with_identity",
        TypeError,
    ),
    *bad(
        _of,
        "categorical_column",
        [fc.categorical_column_with_hash_bucket("w", 9)],
        "'w' … tf.strings.to_hash_bucket_fast",
        TypeError,
    ),
    *bad(_of_all, "categorical_columns", [[]], "at least one categorical column"),
    *bad(_of_all, "categorical_columns", [None, 3], "columns must be a list", TypeError),
    *bad(
        _of_all,
        "categorical_columns",
        [[identity("y", 20), identity("words", 10)]],
        "same number of buckets … words with … 10 … y with … 20",
    ),
    *bad(shared, "max_sequence_lengths", [3], "max_sequence_lengths", TypeError),
    *bad(shared, "max_sequence_lengths", [[1]], "must be of the same length"),
    *bad(
        shared,
        "name",
        [3, b"table", ["table"]],
        "shared_embedding_collection_name … ['x', 'y']",
        TypeError,
    ),
    *each(
        "split",
        [None, fc.numeric_column("n")],
        lambda v: tpu_columns.split_sequence_columns([v]),
        "column must be a TPU embedding column",
        TypeError,
    ),
    case(
        "mode of route",
        lambda: tpu_columns.route(column(), "train", tpu_columns.Hardware.CPU),
        "tpu_columns.Mode",
        TypeError,
    ),
]

_OPTIMIZERS = {
    "StochasticGradientDescent": es.StochasticGradientDescentParameters,
    "Adagrad": es.AdagradParameters,
    "Adam": es.AdamParameters,
    "Ftrl": es.FtrlParameters,
    "Momentum": functools.partial(es.MomentumParameters, momentum=0.9),
    "RMSProp": functools.partial(es.RMSPropParameters, rho=0.9, momentum=0.0, epsilon=1e-8),
    "ProximalYogi": es.ProximalYogiParameters,
}

# `test_optimizers.py` has what each optimizer refuses of its own.
OPTIMIZERS = [
    *(
        refusal
        for name, make in _OPTIMIZERS.items()
        for refusal in (
            *each(f"{name} rate", [INF, -INF, -0.1], make, f"{name} … learning_rate"),
            *each(
                f"{name} rate", [NAN, "0.1", True, [1]], make, f"{name} … learning_rate", TypeError
            ),
        )
    ),
    *bad(
        es.AdagradParameters,
        "clip_weight_min",
        [NAN, "1", True],
        "AdagradParameters: clip_weight_min must be a number",
        TypeError,
        learning_rate=0.1,
    ),
    *bad(es.AdamParameters, "beta1", [INF], "beta1 … 0.", learning_rate=0.1),
]


def _table(vocabulary_size=10, dimension=4, **others):
    return es.TableConfig(vocabulary_size, dimension, **others)


_RATE = "TableConfig: learning_rate"
TABLES = [
    *bad(_table, "vocabulary_size", [0, -1, 2.5, "10", None, True], "ary_size must >= 1"),
    *bad(_table, "dimension", [0, 2.5, "4", None], "dimension must be a positive int"),
    *bad(_table, "learning_rate", [INF, -1.0], f"{_RATE} must be finite"),
    *bad(_table, "learning_rate", [NAN, "0.1", True, [1]], f"{_RATE} must be a number", TypeError),
    *bad(_table, "learning_rate_fn", [0.1], "learning_rate_fn must be callable"),
    *bad(
        _table,
        "learning_rate",
        [0.1],
        "At most one of learning_rate and learning_rate_fn can be",
        learning_rate_fn=abs,
    ),
    *bad(_table, "combiner", ["max"], 'must be "mean", "sum", "sqrtn" or None'),
    *bad(_table, "initializer", [0.1], "initializer must be callable if … 0.1"),
    *bad(
        _table,
        "optimization_parameters",
        ["adagrad"],
        "`optimization_parameters` must … AdagradParameters",
    ),
    *bad(es.FeatureConfig, "table_id", [None, 3, b"t", ["t"]], "table_id must be a str", TypeError),
    *bad(
        es.FeatureConfig,
        "weight_key",
        [3, ["w"]],
        "FeatureConfig: weight_key must be a string",
        TypeError,
        table_id="t",
    ),
    *bad(
        es.FeatureConfig,
        "max_sequence_length",
        [-1, 2.5, "3", None],
        "max_sequence_length must be zero or a positive int",
        table_id="t",
    ),
]

_TABLE, _FEATURE = es.TableConfig(10, 4), es.FeatureConfig("table")
SPECS = [
    *bad(
        spec,
        "clipping_limit",
        [NAN, -1, -0.5, "1", True, [1]],
        "clipping_limit must be a number greater than or equal to 0",
    ),
    *bad(
        spec,
        "partition_strategy",
        ["hash", None, 3, "DIV"],
        'Invalid partition_strategy … Must be one of "mod" or "div".',
    ),
    *bad(
        spec,
        "experimental_gradient_multiplier_fn",
        [2.0],
        "experimental_gradient_multiplier_fn must be a",
        TypeError,
    ),
    *bad(spec, "tensor_core_below", ["5", 1.5, True], "_below must be a number of rows", TypeError),
    *bad(spec, "tensor_core_below", [-5], "tensor_core_below … -5"),
    *bad(dictionaries, "tensor_core_below", [11], "_below needs feature_columns"),
    case("neither form", es.EmbeddingConfigSpec, "Exactly one of … neither"),
    *bad(spec, "columns", [[]], "Exactly one of `feature_columns` and the pair"),
    *(
        refusal
        for name, value in (("feature_to", {"a": _FEATURE}), ("table_to", {"t": _TABLE}))
        for refusal in bad(
            es.EmbeddingConfigSpec,
            f"{name}_config_dict",
            [value],
            "`feature_to_config_dict` and `table_to_config_dict`",
        )
    ),
    *bad(
        dictionaries,
        "feature_columns",
        [[column()]],
        "Exactly one of … must be specified. Got both",
    ),
    case("column", lambda: spec(column=[column()]), "column", TypeError),
    *bad(spec, "columns", [column(), 3], "feature_columns must be a list of columns", TypeError),
    *bad(
        spec,
        "columns",
        [[column(), v] for v in (1, "word", identity(), fc.indicator_column(identity()), column)],
        "All feature columns must be supported types … Got … embedding_column",
        TypeError,
    ),
    *bad(
        spec,
        "optimization_parameters",
        [None, es.AdagradParameters, "adagrad", es.ProximalYogiParameters(0.1)],
        "optimization_parameters must be an instance of type",
    ),
    *each(
        "feature key",
        [3, None, b"words"],
        lambda v: dictionaries({v: _FEATURE}),
        "keys of feature_to_config_dict must be strings",
        TypeError,
    ),
    *each(
        "table key",
        [3, None, b"table"],
        lambda v: dictionaries(None, {v: _TABLE, "table": _TABLE}),
        "keys of table_to_config_dict must be strings",
        TypeError,
    ),
    *bad(dictionaries, "features", [[1]], "feature_to_config_dict", TypeError),
    *bad(dictionaries, "tables", [[1]], "table_to_config_dict", TypeError),
    *bad(
        dictionaries,
        "features",
        [{"a": "t"}],
        "Config for feature a must be of type `FeatureConfig`",
        TypeError,
    ),
    *bad(
        dictionaries,
        "tables",
        [{"table": 3}],
        "Config for table table must be of type `TableConfig`",
        TypeError,
    ),
    *bad(
        dictionaries,
        "features",
        [{"a": es.FeatureConfig("u")}],
        "Feature a refers to table u which is not … ['table']",
    ),
    case(
        "one feature twice",
        lambda: es.tables_and_features(spec([column(), column(dimension=8)])),
        "Feature column words is used with multiple embeddings and this is not supported.",
    ),
    case(
        "two initializers of one table",
        lambda: es.tables_and_features(spec(_two_initializers())),
        "tbl_table … initializer",
    ),
    *bad(
        es.tables_and_features,
        "spec",
        [None, [column()]],
        "spec must be an EmbeddingConfigSpec",
        TypeError,
    ),
]

REFUSALS = [*COLUMNS, *OPTIMIZERS, *TABLES, *SPECS]
