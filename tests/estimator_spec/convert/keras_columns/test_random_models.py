# SPDX-License-Identifier: Apache-2.0
"""Random models train on as their estimators: any keys, flags, weights, optimizers, fifty steps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import estimator_spec
from argument_table import MOVES, OPTIMIZERS, optimizer_class
from estimator_spec import canned
from estimator_spec.convert import to_keras
from test_columns import some
from test_names import KEYS

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

tf1 = tf.compat.v1
fc = tf.feature_column
SIZE, BATCH = 24, 6
WORDS = ("ant", "bee", "cow")


@st.composite
def optimizers(draw: st.DrawFn, generation: int):
    """Draws an optimizer with some arguments, as a function or by name."""
    if draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(("Adagrad", "Adam", "Ftrl", "RMSProp", "SGD")))
    is_tf1 = generation == 1
    names = [
        name
        for name, row in OPTIMIZERS.items()
        if row.arguments and name.endswith("Optimizer") == is_tf1
    ]
    name = draw(st.sampled_from(names))
    row = OPTIMIZERS[name]
    moving = [key for key, verdict in row.arguments.items() if verdict.kind == MOVES]
    apart = {"learning_rate", "lr", "clipvalue", "clipnorm", "global_clipnorm", "decay"}
    own = sorted({*moving} - apart)
    drawn = draw(st.lists(st.sampled_from(own), max_size=2, unique=True)) if own else []
    clipping = sorted(apart & {"clipvalue", "clipnorm", "global_clipnorm", "decay"} & {*moving})
    if clipping and draw(st.booleans()):
        drawn.append(draw(st.sampled_from(clipping)))
    options = {"learning_rate": 0.02}
    for key in drawn:
        options |= {**row.arguments[key].others, key: row.arguments[key].value}
    options = {**row.needed, **options}
    return lambda: optimizer_class(name)(**options)


@st.composite
def features(draw: st.DrawFn, keys: list[str]):
    """Draws examples: sparse words, weights at other places of each example, and numbers."""
    random = np.random.RandomState(draw(st.integers(0, 99)))
    words, weights, numbers = keys
    counts = random.randint(0, 4, SIZE)
    places = [np.sort(random.choice(5, count, replace=False)) for count in counts]
    others = [np.sort(random.choice(5, count, replace=False)) for count in counts]
    total = int(counts.sum())

    def sparse(columns, values):
        rows = np.repeat(np.arange(SIZE), counts)
        indices = np.stack([rows, np.concatenate(columns)], 1)
        return tf1.SparseTensorValue(indices, values, [SIZE, 5])

    texts = random.choice([*WORDS, "unknown", ""], total).astype(object)
    return {
        words: sparse(places, texts),
        weights: sparse(others, random.choice([0.5, 2.0, -1.0, 0.0], total).astype(np.float32)),
        numbers: random.normal(size=SIZE).astype(np.float32),
    }


@st.composite
def models(draw: st.DrawFn):
    """Draws a function that makes an estimator, its features, and whether some are unsafe."""
    generation = draw(st.sampled_from((1, 2)))
    keys = draw(st.lists(KEYS, min_size=3, max_size=3, unique=True))
    buckets = draw(st.integers(1, 3))
    words = fc.categorical_column_with_vocabulary_list(keys[0], WORDS, num_oov_buckets=buckets)
    weighted = fc.weighted_categorical_column(words, keys[1])
    number = fc.numeric_column(keys[2])
    embedding = fc.embedding_column(
        draw(st.sampled_from((words, weighted))),
        2,
        draw(st.sampled_from(("mean", "sum", "sqrtn"))),
        trainable=draw(st.sampled_from((True, True, False))),
        use_safe_embedding_lookup=draw(st.booleans()),
    )
    wide = [number, draw(st.sampled_from((words, weighted)))]
    module = {1: canned.v1, 2: estimator_spec}[generation]
    dnn, linear = draw(optimizers(generation)), draw(optimizers(generation))
    options = {
        "linear_feature_columns": wide,
        "dnn_feature_columns": [number, embedding],
        "dnn_hidden_units": [3],
        "dnn_optimizer": dnn,
        "linear_optimizer": linear,
        "dnn_activation_fn": tf.nn.tanh,
        "linear_sparse_combiner": draw(st.sampled_from(("sum", "mean"))),
    }
    if generation == 1:
        parts = draw(st.sampled_from((None, 1, 2)))
        partitioner = None if parts is None else tf1.fixed_size_partitioner(parts)
        options["input_layer_partitioner"] = partitioner
    return module.DNNLinearCombinedClassifier, options, draw(features(keys))


@pytest.mark.timeout(7200)
@some(60, 2)
@given(drawn=models())
def test_random_models_train_on(drawn):
    """Logits of a model and its estimator are the same before, and after fifty more steps."""
    kind, options, given_features = drawn
    estimator = kind(**options)

    def tensors():
        return {
            key: tf.convert_to_tensor(value)
            if isinstance(value, np.ndarray)
            else tf.SparseTensor(*value)
            for key, value in given_features.items()
        }

    (numbers,) = (value for value in given_features.values() if isinstance(value, np.ndarray))
    labels = (numbers > 0).astype(np.int64)

    def data():
        return tf.data.Dataset.from_tensor_slices((tensors(), labels)).batch(BATCH)

    estimator.train(lambda: data().repeat(), steps=3)
    model = to_keras(estimator)
    assert model.optimizer is not None
    assert not [d for d in model.conversion.differences if "no slots" in d.text]
    for more in (0, 50):
        if more:
            estimator.train(lambda: data().repeat(), steps=more)
            batches = data().repeat().map(model.training_batch)
            model.fit(batches, steps_per_epoch=more, verbose=0)
        expected = [row["logits"] for row in estimator.predict(data)]
        found = model.predictions(tensors())["logits"]
        tolerance = 2e-3 if more else 1e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
