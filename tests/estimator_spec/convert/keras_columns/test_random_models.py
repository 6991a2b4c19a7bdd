# SPDX-License-Identifier: Apache-2.0
"""Random models train on as their estimators: any keys, columns, heads, optimizers, fifty steps."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import column_strategies as drawn
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
    counts[BATCH - 1 :: BATCH] = 1  # else a lookup that isn't safe has fewer rows than the batch
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


def sparse_texts(random):
    """Returns words of each example, without order."""
    counts = random.randint(0, 4, SIZE)
    rows = np.repeat(np.arange(SIZE), counts)
    columns = np.concatenate([np.arange(count) for count in counts])
    texts = random.choice(drawn.TEXTS, len(rows)).astype(object)
    return tf1.SparseTensorValue(np.stack([rows, columns], 1), texts, [SIZE, 4])


def other_features(random):
    """Returns examples for the columns of `column_strategies`: no number is infinite."""
    words = sparse_texts(random)
    weights = random.choice([0.5, 2.0, 1.0, 0.0, -1.5], len(words.values)).astype(np.float32)
    return {
        "a": sparse_texts(random),
        "b": random.choice(drawn.TEXTS, (SIZE, 2)).astype(object),
        "i": random.randint(-1, 8, (SIZE, 2)),
        "words": words,
        "weights": words._replace(values=weights),
        "n": random.normal(size=(SIZE, 1)).astype(np.float32),
        "m": random.normal(size=(SIZE, 3)).astype(np.float32),
        "example_weight": random.choice([0.5, 2.0], SIZE).astype(np.float32),
    }


@st.composite
def heads(draw: st.DrawFn, random: np.random.RandomState):
    """Draws a kind of estimator, the arguments of its head, and labels."""
    options = draw(st.sampled_from(({}, {"weight_column": "example_weight"})))
    kind = draw(st.sampled_from(("Classifier", "classes", "words", "Regressor")))
    if kind == "Regressor":
        return kind, options, random.normal(size=SIZE).astype(np.float32)
    if kind == "Classifier":
        return kind, options, random.randint(0, 2, SIZE)
    if kind == "classes":
        return "Classifier", {**options, "n_classes": 3}, random.randint(0, 3, SIZE)
    options |= {"n_classes": len(WORDS), "label_vocabulary": list(WORDS)}
    return "Classifier", options, random.choice(WORDS, SIZE).astype(object)


@st.composite
def models(draw: st.DrawFn):
    """Draws a function that makes an estimator, its arguments, features and labels."""
    generation = draw(st.sampled_from((1, 2)))
    other = [*other_features(np.random.RandomState(0))]
    keys = st.lists(KEYS.filter(lambda key: key not in other), min_size=3, max_size=3, unique=True)
    keys = draw(keys)
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
    deep = [number, embedding, *draw(st.just([]) | drawn.DENSE)]
    wide = [number, draw(st.sampled_from((words, weighted))), *draw(st.just([]) | drawn.LINEAR)]
    layers = {"hidden_units": [3], "activation_fn": tf.nn.tanh, "batch_norm": draw(st.booleans())}
    combiner = {"sparse_combiner": draw(st.sampled_from(("sum", "mean")))}
    first, second = draw(optimizers(generation)), draw(optimizers(generation))
    random = np.random.RandomState(draw(st.integers(0, 99)))
    head, options, labels = draw(heads(random))
    parts = draw(st.sampled_from(("DNNLinearCombined", "DNNLinearCombined", "DNN", "Linear")))
    if parts == "DNN":
        options |= {"feature_columns": deep, "optimizer": first, **layers}
    elif parts == "Linear":
        options |= {"feature_columns": wide, "optimizer": second, **combiner}
    else:
        options |= {"linear_feature_columns": wide, "linear_optimizer": second}
        options |= {"dnn_feature_columns": deep, "dnn_optimizer": first}
        options |= {f"linear_{key}": value for key, value in combiner.items()}
        options |= {f"dnn_{key}": value for key, value in layers.items() if key != "batch_norm"}
        options["batch_norm"] = layers["batch_norm"]
    if generation == 1:
        count = draw(st.sampled_from((None, 1, 2)))
        partitioner = None if count is None else tf1.fixed_size_partitioner(count)
        name = "partitioner" if parts == "Linear" else "input_layer_partitioner"
        options[name] = partitioner
    module = {1: canned.v1, 2: estimator_spec}[generation]
    given_features = draw(features(keys)) | other_features(random)
    return getattr(module, parts + head), options, given_features, labels


def tensors_of(given_features):
    """Returns features as tensors."""
    return {
        key: tf.convert_to_tensor(value)
        if isinstance(value, np.ndarray)
        else tf.SparseTensor(*value)
        for key, value in given_features.items()
    }


@pytest.mark.timeout(7200)
@some(60, 2)
@given(drawn_model=models())
def test_random_models_train_on(drawn_model):
    """Logits of a model and its estimator are the same before, and after fifty more steps."""
    kind, options, given_features, labels = drawn_model
    estimator = kind(**options)

    def data():
        return tf.data.Dataset.from_tensor_slices((tensors_of(given_features), labels)).batch(BATCH)

    estimator.train(lambda: data().repeat(), steps=3)
    model = to_keras(estimator)
    assert model.optimizer is not None
    key = "predictions" if kind.__name__.endswith("Regressor") else "logits"
    assert not [d for d in model.conversion.differences if "no slots" in d.text]
    for more in (0, 50):
        if more:
            estimator.train(lambda: data().repeat(), steps=more)
            batches = data().repeat().map(model.training_batch)
            model.fit(batches, steps_per_epoch=more, verbose=0)
        expected = [row[key] for row in estimator.predict(data)]
        found = model.predictions(tensors_of(given_features))[key]
        tolerance = 2e-3 if more else 1e-5
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
