# SPDX-License-Identifier: Apache-2.0
"""Shared tables outside of graphs: models, layers and scopes are independent of each other."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import tensorflow as tf

import tpu_columns
from tpu_columns import eager_tables

fc = tf.feature_column
tf1 = tf.compat.v1
layers = tf.keras.layers

INITIAL = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
FEATURES = {"p": tf.constant([[1], [2]]), "q": tf.constant([[1], [3]])}
LABELS = tf.constant([[5.0], [6.0]])


def make_columns(initializer=None):
    """Returns two columns of one collection, whose table starts from known values."""
    return tpu_columns.shared_embedding_columns(
        [fc.categorical_column_with_identity(key, 8) for key in "pq"],
        3,
        initializer=initializer or tf1.constant_initializer(INITIAL),
    )


def sequential(columns):
    """Returns a model of one feature layer."""
    return tf.keras.Sequential([layers.DenseFeatures(columns), layers.Dense(1)])


def functional(columns):
    """Returns a functional model with a feature layer for each column."""
    inputs = {key: tf.keras.Input([1], dtype=tf.int32, name=key) for key in "pq"}
    looked_up = [layers.DenseFeatures([column])(inputs) for column in columns]
    return tf.keras.Model(inputs, layers.Dense(1)(layers.concatenate(looked_up)))


class Towers(tf.keras.Model):
    """Model with a feature layer for each column, built in the model's first call."""

    def __init__(self, columns):
        super().__init__()
        self.towers = [layers.DenseFeatures([column]) for column in columns]
        self.top = layers.Dense(1)

    def call(self, features):
        """Returns the logits."""
        return self.top(tf.concat([tower(features) for tower in self.towers], 1))


class TowersModule(tf.Module):
    """The same without Keras around the layers."""

    def __init__(self, columns):
        super().__init__()
        self.towers = [layers.DenseFeatures([column]) for column in columns]

    def __call__(self, features):
        """Returns the embeddings."""
        return tf.concat([tower(features) for tower in self.towers], 1)


def in_scope(columns):
    """Returns the functional model, made where layers share tables."""
    with tpu_columns.sharing_tables():
        return functional(columns)


def in_strategy(columns):
    """Returns a model made in a strategy's scope."""
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        model = sequential(columns)
        model.compile("sgd", "mse")
    return model


def tables_of(model):
    """Returns the model's shared tables, each once."""
    return list({id(v): v for v in model.trainable_variables if "p_q_shared" in v.name}.values())


def train(model, run_eagerly=False):
    """Trains a model for a step; returns its table."""
    if not model.optimizer:
        model.compile(tf.keras.optimizers.legacy.SGD(0.5), "mse", run_eagerly=run_eagerly)
    model.fit(FEATURES, LABELS, verbose=0)
    (table,) = tables_of(model)
    return table.numpy()


@pytest.mark.parametrize("make", [sequential, in_scope, Towers, in_strategy])
def test_folds_start_anew(make):
    """Models made from the same columns, one after another, train tables of their own."""
    columns = make_columns()
    first = make(columns)
    trained = train(first)
    moved = np.abs(trained - INITIAL).max(1) > 0
    assert moved.tolist() == [False, True, True, True] + 4 * [False]
    second = make(columns)
    second.predict(FEATURES, verbose=0)
    np.testing.assert_array_equal(tables_of(second)[0].numpy(), INITIAL)
    train(second)
    np.testing.assert_array_equal(tables_of(first)[0].numpy(), trained)


def test_fit_in_a_graph_equals_eager_fit():
    """The default `compile`, with a `tf.function`, trains the same values as `run_eagerly`."""
    found = []
    for run_eagerly in (True, False):
        tf.keras.utils.set_random_seed(1)
        found.append(train(Towers(make_columns()), run_eagerly))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


@pytest.mark.parametrize("kind", [Towers, TowersModule])
def test_layers_of_a_model_share(kind):
    """Feature layers that one model's call builds look up one table, also in a `tf.function`."""
    columns = make_columns()
    eager, traced = kind(columns), kind(columns)
    same = eager(FEATURES), tf.function(traced)(FEATURES)
    assert [len(tables_of(model)) for model in (eager, traced)] == [1, 1]
    assert tables_of(eager)[0] is not tables_of(traced)[0]
    assert same[0].shape == same[1].shape


def test_a_functional_model_refuses_layers_with_a_table_each():
    """The error says that the model be made in `sharing_tables`; two such models don't disturb."""
    columns = make_columns()
    message = "of one model have a table of the shared embedding 'p_q_shared_embedding' each"
    with pytest.raises(ValueError, match=message):
        functional(columns)(FEATURES)
    good = [in_scope(columns), in_scope(columns)]
    np.testing.assert_allclose(*(model(FEATURES).shape for model in good))
    layer = layers.Dense(1)  # of two models, neither of which has two tables
    inputs = {key: tf.keras.Input([1], dtype=tf.int32, name=key) for key in "pq"}
    for _ in range(2):
        outputs = layer(layers.DenseFeatures(columns)(inputs))
        assert tf.keras.Model(inputs, outputs)(FEATURES).shape == (2, 1)


def test_layers_alone_are_independent():
    """Layers without a model have a table each, in `sharing_tables` one, which checks initializers.

    A scope within another is its own.
    """
    columns = make_columns()

    def build(columns):
        layer = layers.DenseFeatures(columns)
        layer(FEATURES)
        return layer.variables[0]

    assert build(columns[:1]) is not build(columns[:1])
    with tpu_columns.sharing_tables():
        table = build(columns[:1])
        with tpu_columns.sharing_tables():
            assert build(columns[1:]) is not table
        assert build(columns[1:]) is table
        with pytest.raises(ValueError, match="in this model or layer, but a column wants another"):
            build(make_columns(tf1.ones_initializer()))


@pytest.mark.parametrize("layer", [tpu_columns.input_layer, tf1.feature_column.input_layer])
def test_a_call_of_input_layer_has_tables_of_its_own(layer):
    """Columns of one eager call share a table, calls only in `sharing_tables`."""
    columns = make_columns(tf1.random_normal_initializer())

    def call():
        return layer({"p": [[1], [2]], "q": [[1], [2]]}, columns).numpy()

    first, second = call(), call()
    np.testing.assert_array_equal(first[:, :3], first[:, 3:])
    assert np.abs(first - second).min() > 0
    with tpu_columns.sharing_tables():
        np.testing.assert_array_equal(call(), call())
    variables = {}
    tpu_columns.input_layer(FEATURES, columns, cols_to_vars=variables)
    assert variables[columns[0]][0] is variables[columns[1]][0]


def test_a_saved_model_has_one_table(tmp_path):
    """Weights and SavedModels of layers that share keep sharing and values."""
    model = Towers(make_columns())
    train(model)
    model.save_weights(str(tmp_path / "weights"))
    again = Towers(make_columns())
    again(FEATURES)
    again.load_weights(str(tmp_path / "weights")).expect_partial()
    model.save(str(tmp_path / "saved"))
    with tpu_columns.sharing_tables():
        loaded = tf.keras.models.load_model(str(tmp_path / "saved"))
    assert len(tables_of(loaded)) == 1
    for other in (again, loaded):
        np.testing.assert_allclose(other(FEATURES), model(FEATURES), rtol=1e-6)


def test_tables_go_with_their_model():
    """Nothing keeps the table of a model that is gone."""
    gc.collect()
    before = len(eager_tables._owners)
    model = Towers(make_columns())
    model(FEATURES)
    assert len(eager_tables._owners) == before + 1
    del model
    gc.collect()
    assert len(eager_tables._owners) == before
