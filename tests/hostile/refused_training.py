# SPDX-License-Identifier: Apache-2.0
"""Bad features and weights on embedding cores and in training."""

from __future__ import annotations

import tempfile

import numpy as np
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec.core.cores import enqueue
from refusal import case, column, dictionaries, each, estimator, identity, spec, weighted

tf1 = tf.compat.v1
IDS = [[1, 2], [3, 4]]


def _take(ids, weights=None, combiner="mean", **config):
    """Takes a feature for an embedding core."""
    features = {} if ids is None else {"words": ids}
    if weights is not None:
        features["weights"] = weights
    feature = es.FeatureConfig("table", weight_key="weights" if weights is not None else None)
    return enqueue.take(
        "words", feature._replace(**config), es.TableConfig(10, 4, combiner=combiner), features
    )


def _sparse(values, count=2):
    return tf.SparseTensor([[0, i] for i in range(count)], tf.constant(values), [2, 2])


ON_CORES = [
    case("no feature", lambda: _take(None), "Feature 'words' … is missing … []"),
    case(
        "feature None",
        lambda: enqueue.take(
            "words", es.FeatureConfig("t"), es.TableConfig(10, 4), {"words": None}
        ),
        "Feature 'words' … is None",
    ),
    *each(
        "ids of a core", [[["a"]], [[1.5]], np.array([["a"]])], _take, "Feature 'words' … integer"
    ),
    *each("shape of ids", [1, [[[1]]]], _take, "Feature 'words' … [B, n]"),
    case(
        "several dense ids without a combiner",
        lambda: _take(IDS, combiner=None),
        "Feature 'words' … combiner None … (2, 2)",
    ),
    case(
        "missing weights of sparse ids",
        lambda: _take(_sparse([1, 2]), weight_key="weights"),
        "Cannot find weights weights of feature words "
        "… Please check if the weights are present in feature dict",
    ),
    case(
        "missing weights of ragged ids",
        lambda: _take(tf.ragged.constant([[1], [2, 3]]), weight_key="weights"),
        "Cannot find weights weights of feature words",
    ),
    case(
        "weights without a combiner",
        lambda: _take([[1], [2]], [[1.0], [2.0]], combiner=None),
        "Found weights weights … not compatible with sparse feature words",
    ),
    case(
        "dense weights of sparse ids",
        lambda: _take(_sparse([1, 2]), tf.constant([[1.0, 2.0]])),
        "Feature words … Dense weights are not supported on TPU",
    ),
    case(
        "strings as weights of a core",
        lambda: _take(_sparse([1, 2]), _sparse(["a", "b"])),
        "Feature 'words' … weights 'weights' … string",
    ),
    case(
        "number of weights of a core",
        lambda: _take(_sparse([1, 2]), _sparse([1.0], 1)),
        "'words' … differ in number",
    ),
]


def _train(features, columns, of_spec=None, core=None, layer=tf1.feature_column.input_layer):
    """Trains one step; `features` returns the features, `of_spec` is another specification."""

    def model_fn(features, labels, mode, params):
        del labels, params
        scale = tf1.get_variable("scale", [], initializer=tf1.ones_initializer())
        loss = tf.reduce_mean(layer(features, columns)) * scale
        step = tf1.train.get_global_step()
        train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    used = of_spec or spec(columns)
    made = estimator(model_fn=model_fn, embedding_config_spec=used, embedding_core=core)
    made.train(lambda params: (features(), tf.zeros([2])), steps=1)


def _train_weighted(ids, weights, core=None, **arguments):
    def features():
        # Of unknown shapes, as from a file.
        def fed(values):
            return tf1.placeholder_with_default(tf.constant(values), [None, None])

        if core is None:
            return {"words": fed(ids), "weights": fed(weights)}
        return {
            "words": tf.sparse.from_dense(fed(ids)),
            "weights": tf.sparse.from_dense(fed(weights)),
        }

    _train(features, [weighted(**arguments)], core=core)


def _two_columns(core):
    columns = [column(), column("titles")]
    _train(lambda: dict.fromkeys(("words", "titles"), tf.constant(IDS)), columns, spec(), core)


def _look_up_in_dict_mode(features, core=None):
    _train(features, [], dictionaries(), core, lambda features, columns: features["words"])


_WEIGHTED = "Column 'words_weighted_by_weights_embedding'"
_COUNTS = "feature 'words' must have a weight for each id"
IN_TRAINING = [
    case(
        "dense weight of zero",
        lambda: _train_weighted(IDS, [[1.0, 0.0], [3.0, 4.0]]),
        f"{_WEIGHTED} … {_COUNTS} … no id the weight 0",
    ),
    case(
        "fewer weights than ids",
        lambda: _train_weighted(IDS, [[1.0], [3.0]], combiner="sum"),
        f"{_WEIGHTED} … {_COUNTS}",
    ),
    case(
        "one weight of four",
        lambda: _train_weighted(IDS, [[1.0]], use_safe_embedding_lookup=False),
        f"{_WEIGHTED} … {_COUNTS}",
    ),
    case(
        "fewer weights than ids on a core",
        lambda: _train_weighted(IDS, [[1.0, 0.0], [3.0, 4.0]], "host"),
        _COUNTS,
    ),
    case(
        "column that isn't in the spec",
        lambda: _two_columns("host"),
        "Column 'titles_embedding' … isn't in the embedding_config_spec … feature_columns",
    ),
    *each(
        "dimension of the spec, embedding_core",
        [None, "host"],
        lambda v: _train(lambda: {"words": tf.constant(IDS)}, [column()], _wider(), v),
        "words … dimension 4 in the model … dimension 8 in the embedding_config_spec",
    ),
    *each(
        "features of a core, type",
        [list, tuple],
        lambda v: _train(lambda: v([tf.constant(IDS)]), [column()], core="host"),
        "features must be a dict",
    ),
    case(
        "list as features",
        lambda: _train(lambda: [tf.constant(IDS)], [column()]),
        "dict of tensors by key … input_fn returned list",
        TypeError,
    ),
    case(
        "tensor as features in training",
        lambda: _train(lambda: tf.constant(IDS), [column()]),
        "dict of tensors by key",
        TypeError,
    ),
    case(
        "list as features of dictionaries",
        lambda: _look_up_in_dict_mode(lambda: [tf.constant(IDS)]),
        "features must be a dict … list",
    ),
    *each(
        "id out of range, embedding_core",
        [None, "host"],
        lambda v: _train(lambda: {"words": tf.constant([[1], [20]])}, [column()], core=v),
        "id 20 of feature 'words' … valid: 0 to 9",
    ),
]


def _fed(values):
    """Returns a tensor whose shape the graph doesn't know, as from a file."""
    return tf1.placeholder_with_default(tf.constant(values), None)


def _fit(columns, labels, weights=None, kind=es.LinearClassifier, **arguments):
    """Trains a canned model by a batch of two examples of unknown shape."""

    def features():
        found = {"words": tf1.placeholder_with_default(IDS, [None, None]), "age": tf.ones([2, 1])}
        if weights is not None:
            found["weights"] = tf1.placeholder_with_default(weights, [None, None])
        return found

    if kind is es.DNNClassifier:
        arguments["hidden_units"] = [2]
    made = kind(feature_columns=columns, model_dir=tempfile.mkdtemp(), **arguments)
    made.train(lambda: (features(), _fed(labels)), steps=1)


_AGE = [tf.feature_column.numeric_column("age")]
_OF_WORDS = tf.feature_column.weighted_categorical_column(identity(), "weights")
IN_CANNED_MODELS = [
    *each(
        "label of a batch",
        [{"n_classes": 2}, {"n_classes": 3}],
        lambda v: _fit(_AGE, [[0], [7]], **v),
        "Labels must be <= n_classes - 1 … The batch has [[0][7]] … input_fn",
    ),
    case(
        "label of a batch that the vocabulary lacks",
        lambda: _fit(_AGE, [["no"], ["maybe"]], label_vocabulary=["no", "yes"]),
        "Labels must be >= 0 … isn't in label_vocabulary, ['no', 'yes']",
    ),
    case(
        "number of labels of a batch",
        lambda: _fit(_AGE, [[0], [1], [1]]),
        "labels shape must be [D0, D1, ... DN, 1]",
    ),
    case(
        "number of weights of a batch",
        lambda: _fit(_AGE, [[0], [1]], [[1.0], [1.0], [1.0]], weight_column="weights"),
        "weights shape must be [D0, D1, ... DN]",
    ),
    *each(
        "weights of the ids of a batch",
        [
            (es.DNNClassifier, tf.feature_column.indicator_column(_OF_WORDS)),
            (es.LinearClassifier, _OF_WORDS),
        ],
        lambda v: _fit([v[1]], [[0], [1]], [[1.0], [2.0]], v[0]),
        "Column 'words_weighted_by_weights … feature 'words' must have a weight for each id "
        "… its weights, feature 'weights', differ in number",
    ),
]


def _wider():
    return spec([tpu_columns.embedding_column(identity(), 8)])


REFUSALS = [*ON_CORES, *IN_TRAINING, *IN_CANNED_MODELS]
