# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of columns, tables, optimizers and specifications."""

from __future__ import annotations

import functools

import tensorflow as tf

import estimator_spec as es
import tpu_columns
from refusal import (
    INF,
    NAN,
    column,
    dictionaries,
    each,
    identity,
    refused,
    sequence,
    shared,
    spec,
)

tf1 = tf.compat.v1
fc = tf.feature_column


def _two_initializers():
    zeros, ones = tf1.zeros_initializer(), tf1.ones_initializer()
    return [*shared(keys="xy", initializer=zeros), *shared(keys="zu", initializer=ones)]


COLUMNS = [
    *each("dimension", [2.5, "4", True], lambda v: column(dimension=v), TypeError, "dimension"),
    *each("dimension", [0, -1, None], lambda v: column(dimension=v), ValueError, "dimension", "1"),
    *each("combiner", ["max", 3, ["mean"]], lambda v: column(combiner=v), ValueError, "combiner"),
    refused("initializer", lambda: column(initializer=0.5), ValueError, "initializer", "words"),
    refused("rate", lambda: column(learning_rate_fn=0.1), ValueError, "learning_rate_fn", "words"),
    refused("length", lambda: column(max_sequence_length=3), ValueError, "max_seq_length", "words"),
    *each("length", [0, -1], lambda v: sequence(length=v), ValueError, "max_sequence_length"),
    *each("length", ["3", 2.5], lambda v: sequence(length=v), TypeError, "max_sequence_length"),
    *each(
        "device",
        ["gpu", 3],
        lambda v: column(embedding_lookup_device=v),
        ValueError,
        "embedding_lookup_device",
    ),
    *each(
        "tensor_core_shape",
        [3, [3], [None, 0], [None, "3"], [0, 3], ["a", 3], [None, 2, 3], "ab"],
        lambda v: column(tensor_core_shape=v),
        ValueError,
        "tensor_core_shape",
    ),
    refused(
        "tensor core without a shape",
        lambda: column(embedding_lookup_device="tpu_tensor_core"),
        ValueError,
        "tensor_core_shape",
        "words_embedding",
    ),
    *each(
        "categorical column",
        ["words", None, 3, [identity()], fc.numeric_column("words")],
        lambda v: tpu_columns.embedding_column(v, 4),
        TypeError,
        "categorical_column",
    ),
    refused(
        "hashed column",
        lambda: tpu_columns.embedding_column(fc.categorical_column_with_hash_bucket("w", 9), 4),
        TypeError,
        "'w'",
        "tf.strings.to_hash_bucket_fast",
    ),
    refused("no columns", lambda: tpu_columns.shared_embedding_columns([], 4), ValueError, "one"),
    *each(
        "shared columns",
        [None, 3],
        lambda v: tpu_columns.shared_embedding_columns(v, 4),
        TypeError,
        "categorical_columns must be a list",
    ),
    refused(
        "sizes of vocabularies",
        lambda: tpu_columns.shared_embedding_columns([identity(), identity("y", 20)], 4),
        ValueError,
        "number of buckets",
        "words",
        "y",
    ),
    refused("lengths", lambda: shared(max_sequence_lengths=3), TypeError, "max_sequence_lengths"),
    refused("1 length", lambda: shared(max_sequence_lengths=[1]), ValueError, "same length"),
    *each(
        "collection name",
        [3, b"table", ["table"]],
        shared,
        TypeError,
        "shared_embedding_collection_name",
        "['x', 'y']",
    ),
    refused("split", lambda: tpu_columns.split_sequence_columns([None]), TypeError, "NoneType"),
    refused(
        "mode of route",
        lambda: tpu_columns.route(column(), "train", tpu_columns.Hardware.CPU),
        TypeError,
        "tpu_columns.Mode",
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

OPTIMIZERS = [
    *(
        refusal
        for name, make in _OPTIMIZERS.items()
        for refusal in (
            *each(f"{name} rate", [INF, -INF, -0.1], make, ValueError, name, "learning_rate"),
            *each(f"{name} rate", [NAN, "0.1", True, [1]], make, TypeError, name, "learning_rate"),
        )
    ),
    *each(
        "clip_weight_min",
        [NAN, "1", True],
        lambda v: es.AdagradParameters(0.1, clip_weight_min=v),
        TypeError,
        "AdagradParameters: clip_weight_min must be a number",
    ),
    refused(
        "limits in the wrong order",
        lambda: es.AdagradParameters(0.1, clip_weight_min=1, clip_weight_max=0),
        ValueError,
        "clip_weight_min must not be greater than clip_weight_max",
    ),
    refused(
        "clipping without accumulation",
        lambda: es.AdagradParameters(0.1, use_gradient_accumulation=False, clip_gradient_max=1),
        ValueError,
        "gradient accumulation must be enabled",
    ),
    refused(
        "initial accumulator",
        lambda: es.AdagradParameters(0.1, initial_accumulator=0),
        ValueError,
        "initial_accumulator must be greater than zero",
    ),
    *each("beta1", [INF, 1, -1], lambda v: es.AdamParameters(0.1, v), ValueError, "beta1", "0."),
    refused("epsilon", lambda: es.AdamParameters(0.1, epsilon=0), ValueError, "must be positive"),
]

TABLES = [
    *each(
        "vocabulary_size",
        [0, -1, 2.5, "10", None, True],
        lambda v: es.TableConfig(v, 4),
        ValueError,
        "vocabulary_size must >= 1",
    ),
    *each(
        "table dimension",
        [0, 2.5, "4"],
        lambda v: es.TableConfig(10, v),
        ValueError,
        "dimension must be a positive int",
    ),
    *each(
        "table rate",
        [INF, -1.0],
        lambda v: es.TableConfig(10, 4, learning_rate=v),
        ValueError,
        "TableConfig: learning_rate must be finite",
    ),
    *each(
        "table rate",
        [NAN, "0.1", True, [1]],
        lambda v: es.TableConfig(10, 4, learning_rate=v),
        TypeError,
        "TableConfig: learning_rate must be a number",
    ),
    refused(
        "two rates",
        lambda: es.TableConfig(10, 4, learning_rate=0.1, learning_rate_fn=abs),
        ValueError,
        "learning_rate and learning_rate_fn",
    ),
    refused(
        "table combiner", lambda: es.TableConfig(10, 4, combiner="max"), ValueError, "combiner"
    ),
    refused(
        "table initializer", lambda: es.TableConfig(10, 4, 0.1), ValueError, "initializer", "0.1"
    ),
    refused(
        "table optimizer",
        lambda: es.TableConfig(10, 4, optimization_parameters="adagrad"),
        ValueError,
        "optimization_parameters",
        "AdagradParameters",
    ),
    *each(
        "table_id",
        [None, 3, b"t", ["t"]],
        es.FeatureConfig,
        TypeError,
        "FeatureConfig: table_id must be a string",
    ),
    *each(
        "weight_key",
        [3, ["w"]],
        lambda v: es.FeatureConfig("t", 0, v),
        TypeError,
        "FeatureConfig: weight_key must be a string",
    ),
    *each(
        "max_sequence_length",
        [-1, 2.5, "3", None],
        lambda v: es.FeatureConfig("t", v),
        ValueError,
        "max_sequence_length",
    ),
]

SPECS = [
    *each(
        "clipping_limit",
        [NAN, -1, -0.5, "1", True, [1]],
        lambda v: spec(clipping_limit=v),
        ValueError,
        "clipping_limit must be a number greater than or equal to 0",
    ),
    *each("strategy", ["hash", None, 3], lambda v: spec(partition_strategy=v), ValueError, "div"),
    refused(
        "multiplier",
        lambda: spec(experimental_gradient_multiplier_fn=2.0),
        TypeError,
        "experimental_gradient_multiplier_fn",
    ),
    refused("below", lambda: spec(tensor_core_below="5"), TypeError, "tensor_core_below"),
    refused("below 0", lambda: spec(tensor_core_below=-5), ValueError, "tensor_core_below", "-5"),
    refused("neither form", es.EmbeddingConfigSpec, ValueError, "Exactly one of", "neither"),
    refused("both forms", lambda: dictionaries(feature_columns=[column()]), ValueError, "both"),
    refused("one column", lambda: spec(column()), TypeError, "feature_columns must be a list"),
    *each("columns", [[1], [identity()]], spec, TypeError, "feature columns", "embedding_column"),
    *each(
        "optimizer of columns",
        [None, es.AdagradParameters, "adagrad", es.ProximalYogiParameters(0.1)],
        lambda v: spec(optimization_parameters=v),
        ValueError,
        "optimization_parameters must be an instance of type",
    ),
    *each(
        "feature key",
        [3, None, b"words"],
        lambda v: dictionaries({v: es.FeatureConfig("table")}),
        TypeError,
        "keys of feature_to_config_dict must be strings",
    ),
    *each(
        "table key",
        [3, None, b"table"],
        lambda v: dictionaries(None, {v: es.TableConfig(10, 4), "table": es.TableConfig(10, 4)}),
        TypeError,
        "keys of table_to_config_dict must be strings",
    ),
    refused("list of features", lambda: dictionaries([1]), TypeError, "feature_to_config_dict"),
    refused("list of tables", lambda: dictionaries(None, [1]), TypeError, "table_to_config_dict"),
    refused("feature", lambda: dictionaries({"a": "t"}), TypeError, "feature a", "FeatureConfig"),
    refused(
        "table", lambda: dictionaries(None, {"table": 3}), TypeError, "table table", "TableConfig"
    ),
    refused(
        "unknown table",
        lambda: dictionaries({"a": es.FeatureConfig("u")}),
        ValueError,
        "Feature a refers to table u",
        "['table']",
    ),
    refused(
        "one feature twice",
        lambda: es.tables_and_features(spec([column(), column(dimension=8)])),
        ValueError,
        "Feature column words is used with multiple embeddings",
    ),
    refused(
        "two initializers of one table",
        lambda: es.tables_and_features(spec(_two_initializers())),
        ValueError,
        "tbl_table",
        "initializer",
    ),
    refused("no spec", lambda: es.tables_and_features(None), TypeError, "EmbeddingConfigSpec"),
]

REFUSALS = [*COLUMNS, *OPTIMIZERS, *TABLES, *SPECS]
