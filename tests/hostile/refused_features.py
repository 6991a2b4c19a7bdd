# SPDX-License-Identifier: Apache-2.0
"""Bad features, weights and initializers in feature layers."""

from __future__ import annotations

import functools

import tensorflow as tf

import estimator_spec as es
import tpu_columns
from refusal import case, column, each, identity, in_graph, sequence, shared, weighted

fc = tf.feature_column
tf1 = tf.compat.v1
IDS = [[1, 2], [3, 4]]


def _layer(features, *columns):
    """Builds an input_layer in a graph of its own; lists stand for dense tensors."""
    with tf.Graph().as_default():
        if callable(features):
            features = features()
        return tpu_columns.input_layer(features, columns or [column()])


def _weights(weights):
    """Builds an input_layer of dense ids with weights."""
    return _layer(lambda: {"words": tf.constant(IDS), "weights": weights()}, weighted())


def _ones(*args, **kwargs):
    return tf.ones(*args, **kwargs)


def _initialize(initializer):
    return _layer({"words": IDS}, column(initializer=initializer))


def _two_tables(**arguments):
    first, second = shared(keys="xy", initializer=_ones), shared(keys="zu", **arguments)
    return _layer(dict.fromkeys("xyzu", IDS), *first, *second)


def _canned(features, *columns, kind=es.LinearEstimator):
    """Builds a canned model, whose features are a function's."""
    arguments = {"hidden_units": [2]} if kind is es.DNNEstimator else {}
    head = es.heads.RegressionHead()
    model = kind(head=head, feature_columns=columns, **arguments)
    with tf.Graph().as_default():
        model.model_fn(features(), tf.zeros([2, 1]), "eval", model.config)


def _two_lengths():
    """Looks up two columns that share a weight feature, which fits the first."""
    second = fc.weighted_categorical_column(identity("titles"), "weights")

    def features():
        titles = tf.ragged.constant([[1], [3]], dtype=tf.int64)
        return {"words": _ragged(tf.int64), "titles": titles, "weights": _ragged(tf.float32)}

    return _layer(features, weighted(), tpu_columns.embedding_column(second, 4))


def _ragged(dtype):
    return tf.ragged.constant([[1, 2], [3]], dtype=dtype)


def _sparse(values, dtype=tf.float32):
    """Returns a sparse feature with an entry for each value, one a row."""
    return tf.SparseTensor([[i, 0] for i in range(len(values))], tf.cast(values, dtype), [2, 1])


_WEIGHTED = fc.weighted_categorical_column(identity(), "weights")
_INDICATOR = fc.indicator_column(_WEIGHTED)
_DEEP = functools.partial(_canned, kind=es.DNNEstimator)
_AGE = fc.numeric_column("age")
_STRINGS = lambda: {"age": tf.constant([["30"], ["40"]])}  # noqa: E731 - a table's entry

REFUSALS = [
    *each(
        "strings of a numeric column",
        [(_layer, _AGE), (_canned, _AGE), (_canned, fc.bucketized_column(_AGE, [35]))],
        lambda v: v[0](_STRINGS, v[1]),
        "Column 'age … feature 'age' holds strings, but numeric_column casts it to float32 "
        "… tf.strings.to_number",
    ),
    *each(
        "ragged feature of a numeric column",
        [_layer, _canned],
        lambda v: v(lambda: {"age": _ragged(tf.float32)}, _AGE),
        "Column 'age': feature 'age' is a ragged tensor of float32 … to_tensor()",
    ),
    *each(
        "ragged feature of a column of TensorFlow",
        [fc.crossed_column(["words", "titles"], 9), fc.indicator_column(identity())],
        lambda v: _canned(lambda: dict.fromkeys(("words", "titles"), _ragged(tf.int64)), v),
        "feature 'words' is a ragged tensor of int64 … to_sparse()",
    ),
    *each(
        "weights of another number of TensorFlow's column",
        [(_layer, _INDICATOR), (_DEEP, _INDICATOR), (_canned, _WEIGHTED)],
        lambda v: v[0](
            lambda: {"words": _sparse([1, 2], tf.int64), "weights": _sparse([1.0])}, v[1]
        ),
        "Column 'words_weighted_by_weights … feature 'words' must have a weight for each id "
        "… its weights, feature 'weights', differ in number",
    ),
    *each(
        "ragged weights of another number",
        [(_DEEP, fc.embedding_column(_WEIGHTED, 2)), (_canned, _WEIGHTED)],
        lambda v: v[0](
            lambda: {"words": _ragged(tf.int64), "weights": tf.ragged.constant([[1.0], [2.0]])},
            v[1],
        ),
        "Column 'words_weighted_by_weights … its weights, feature 'weights', differ in number",
    ),
    *each(
        "dtype of the weights of TensorFlow's column",
        [(_layer, _INDICATOR), (_DEEP, _INDICATOR), (_canned, _WEIGHTED)],
        lambda v: v[0](
            lambda: {"words": tf.constant(IDS), "weights": tf.constant([["1", "2"]] * 2)}, v[1]
        ),
        "Column 'words_weighted_by_weights "
        "… Bad dtype, expected <dtype: 'float32'>, but got <dtype: 'string'> "
        "… The weights 'weights' must have the dtype",
    ),
    *each(
        "missing weights of TensorFlow's column",
        [(_layer, _INDICATOR), (_DEEP, _INDICATOR), (_canned, _WEIGHTED)],
        lambda v: v[0](lambda: {"words": tf.constant(IDS)}, v[1]),
        "Column 'words_weighted_by_weights … Feature weights is not in features dictionary "
        "… ['words']",
    ),
    case(
        "shared weights of another number",
        _two_lengths,
        "Column 'titles_weighted_by_weights_embedding': feature 'titles' "
        "… its weights, feature 'weights', differ in number",
    ),
    *each("features", [None, [1], 3], _layer, "features must be a dict … input_fn", TypeError),
    case(
        "tensor as features",
        lambda: _layer(lambda: tf.constant(IDS)),
        "features must be a dict",
        TypeError,
    ),
    case(
        "missing feature",
        lambda: _layer({"titles": IDS, "authors": IDS}),
        "Column 'words_embedding' … Feature words is not in features dictionary "
        "… ['authors', 'titles']",
    ),
    case(
        "feature that is None",
        lambda: _layer({"words": None}),
        "Column 'words_embedding' of feature 'words' … None … input_fn must give tensors",
    ),
    case(
        "missing weights",
        lambda: _layer({"words": IDS}, weighted()),
        "'words_weighted_by_weights_embedding' … Feature weights is not in features dictionary "
        "… ['words']",
    ),
    case(
        "missing steps",
        in_graph(lambda: tpu_columns.sequence_input_layer({"words": IDS}, [sequence()])),
        "Column 'steps_embedding' … Feature steps is not in features dictionary … ['words']",
    ),
    *each(
        "type of ids",
        [[[1.5]], [["a"]]],
        lambda v: _layer({"words": v}),
        "Column 'words_embedding' of feature 'words' … not integer … input_fn",
    ),
    *each(
        "dtype of weights",
        [tf.int32, tf.int64, tf.float64],
        lambda v: _weights(lambda: tf.cast([[1, 2], [3, 4]], v)),
        "'words_weighted_by_weights_embedding' of feature 'words' … Bad dtype, expected "
        "… The weights 'weights' … cast them in input_fn",
    ),
    case(
        "weights of strings",
        lambda: _weights(lambda: tf.constant([["a", "b"], ["c", "d"]])),
        "Bad dtype, expected … 'weights'",
    ),
    case(
        "number of sparse weights",
        lambda: _layer(
            lambda: {
                "words": tf.SparseTensor([[0, 0], [0, 1]], tf.constant([1, 2]), [2, 2]),
                "weights": tf.SparseTensor([[0, 0]], tf.constant([1.0]), [2, 2]),
            },
            weighted(),
        ),
        "'words_weighted_by_weights_embedding' … feature 'words' must have a weight for each id",
    ),
    *each(
        "key",
        ["my words", "wörter", "a:b"],
        lambda v: _layer({v: IDS}, column(v)),
        "Column of feature ' … _embedding' is not a valid scope name … Rename it",
    ),
    case(
        "key of a sequence",
        in_graph(lambda: tpu_columns.sequence_input_layer({"a b": IDS}, [sequence("a b")])),
        "Column of feature 'a b' … is not a valid scope name",
    ),
    *each(
        "name of a shared table in a layer",
        ["my table", "täble"],
        lambda v: _layer({"x": IDS, "y": IDS}, *shared(v)),
        "Table: ' … is not a valid scope name",
    ),
    case("columns", lambda: tpu_columns.input_layer({}, None), "feature_columns", TypeError),
    case("no columns", lambda: tpu_columns.input_layer({}, []), "not be empty"),
    case("dict", lambda: tpu_columns.input_layer({}, {"w": column()}), "dict … lis"),
    case(
        "string as a sequence column",
        lambda: tpu_columns.sequence_input_layer({}, ["words"]),
        "_SequenceDenseColumn … words",
    ),
    case(
        "sequence in input_layer",
        lambda: _layer({"steps": IDS}, sequence()),
        "steps_embedding … sequence_input_layer",
    ),
    case(
        "pooled column as a sequence",
        in_graph(lambda: tpu_columns.sequence_input_layer({"words": IDS}, [column()])),
        "words_embedding … sequence_categorical_column",
    ),
    case(
        "initializer without a result",
        lambda: _initialize(lambda shape, dtype: None),
        "Table 'input_layer/words_embedding/embedding_weights' … returned None … [10, 4]",
    ),
    *each(
        "shape of an initializer",
        [[3], [], [4, 10]],
        lambda v: _initialize(lambda shape, dtype: tf.zeros(v)),
        "Table 'input_layer/words_embedding/embedding_weights' … returned a tensor of shape "
        "… [10, 4]",
    ),
    case(
        "dtype of an initializer",
        lambda: _initialize(lambda shape, dtype: tf.zeros(shape, tf.float64)),
        "input_layer/words_embedding/embedding_weights … float64 … must return a float32 tensor",
    ),
    case(
        "arguments of an initializer",
        lambda: _initialize(lambda: 0),
        "input_layer/words_embedding/embedding_weights … initializer(shape, dtype=tf.float32)",
        TypeError,
    ),
    case(
        "two initializers of a collection",
        lambda: _two_tables(initializer=tf1.zeros_initializer()),
        "Shared embedding 'table' already has the initializer … shared_embedding_collection_name",
    ),
    case(
        "two dimensions of a collection",
        lambda: _two_tables(dimension=8, initializer=_ones),
        "Shared embedding 'table' already has shape … (10, 8)",
    ),
]
