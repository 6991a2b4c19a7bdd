# SPDX-License-Identifier: Apache-2.0
"""PartialEmbedding of Keras 3 and tf_keras: equality of plain and large tables."""

from __future__ import annotations

import importlib.util
import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import FeatureConfig, TableConfig, convert
from estimator_spec.convert import (
    features_for,
    partial_embedding_class,
    to_partial_embedding,
    to_partial_tpu_embedding,
)
from estimator_spec.convert.partial_lookup import tensorflow_variable
from estimator_spec.convert.report import LossyConversionError
from estimator_spec.convert.tpu_layer import mid_level_optimizer
from estimator_spec.core._tensorflow import private
from estimator_spec.core.embedding import optimizers
from tpu_columns import Hardware, IdOutOfRangeError

api = tf.tpu.experimental.embedding


def keras_3():
    """Returns Keras 3, or None."""
    if importlib.util.find_spec("keras") is None:
        return None
    import keras

    return keras if int(keras.__version__.split(".")[0]) >= 3 else None


@pytest.fixture(params=["tf.keras", "keras 3"])
def keras(request):
    """Returns each installed Keras; in the tests `tf.keras` is the legacy one."""
    if request.param == "tf.keras":
        return tf.keras
    return keras_3() or pytest.skip("there is no Keras 3 here")


def table(rows=20, **arguments):
    """Returns a mid-level table of dimension 4."""
    return api.TableConfig(rows, 4, **arguments)


def make(keras, features, threshold, **arguments):
    """Returns a layer of one Keras."""
    return partial_embedding_class(keras)(features, size_threshold=threshold, **arguments)


def set_tables(layer, features, seed=0):
    """Sets values that depend on a table's configuration only; returns them."""
    values = {}
    for name, feature in features.items():
        random = np.random.RandomState(seed + feature.table.vocabulary_size)
        value = random.normal(size=(feature.table.vocabulary_size, 4)).astype(np.float32)
        plain = layer.keras_embedding_layers.get(name)
        if plain is not None:
            plain.set_weights([value])
        else:
            layer.tpu_embedding.embedding_tables[feature.table].assign(value)
        values[name] = value
    return values


@pytest.mark.parametrize("kind", ["columns", "dictionaries"])
@pytest.mark.parametrize("threshold", [0, 6, None])
def test_lookups_are_the_legacy_ones(families, tools, keras, kind, threshold):
    """Sets values that depend on each table's configuration only; returns them."""
    family = families[kind]
    layer = to_partial_embedding(
        family.spec,
        family.checkpoint,
        size_threshold=threshold,
        keras=keras,
        hardware=Hardware.CPU,
    )

    def look_up(batch):
        found = features_for(layer, batch)
        return {**layer(found.inputs, weights=found.weights), **found.sequence_lengths}

    for found, expected in tools.check(family, look_up):
        assert found == expected


def test_the_threshold_decides(keras):
    """Tables above the threshold are large (0: all; None: none), and features share layers."""
    small, large = table(10), table(11)
    features = {
        "a": api.FeatureConfig(small),
        "b": api.FeatureConfig(large),
        "c": api.FeatureConfig(small),
    }
    layer = make(keras, features, 10)
    assert set(layer.keras_embedding_layers) == {"a", "c"}
    assert layer.keras_embedding_layers["a"] is layer.keras_embedding_layers["c"]
    assert isinstance(layer.keras_embedding_layers["a"], keras.layers.Embedding)
    assert list(layer.tpu_embedding.embedding_tables) == [large]
    assert make(keras, features, 0).keras_embedding_layers == {}
    assert make(keras, features, None).tpu_embedding is None
    kept = make(keras, features, 0, plain_features=["a", "c"])
    assert set(kept.keras_embedding_layers) == {"a", "c"}
    with pytest.raises(ValueError, match=r"\['a', 'c'\] share a table"):
        make(keras, features, 0, plain_features=["a"])


def inputs():
    """Returns ids and weights of every kind for `kinds()`."""
    ragged = tf.ragged.constant([[1, 2, 2], [], [19]], tf.int64)
    sparse = ragged.to_sparse()
    deep = tf.sparse.from_dense(np.array([[[1, 2], [3, 0]], [[0, 0], [4, 0]], [[5, 6], [7, 8]]]))
    weights = tf.constant([0.5, 2.0, 1.0, 3.0])
    ids = {
        "one": tf.constant([3, 0, 19]),
        "many": tf.constant([[3, 0], [1, 2], [19, 19]]),
        "sparse": sparse,
        "ragged": ragged,
        "weighted": sparse,
        "weighted_ragged": ragged,
        "weighted_dense": tf.constant([[3, 0], [1, 2], [19, 19]]),
        "steps": sparse,
        "ragged_steps": ragged,
        "dense_steps": tf.constant([[3, 0, 1], [1, 2, 1], [19, 19, 1]]),
        "deep": deep,
        "folded": tf.ragged.constant([[1], [2, 3], []], tf.int64),
    }
    return ids, {
        "weighted": sparse.with_values(weights),
        "weighted_ragged": ragged.with_values(weights),
        "weighted_dense": tf.constant([[1.0, 2.0], [0.5, 0.0], [1.0, 3.0]]),
    }


def kinds(combiner):
    """Returns a feature of every kind, with its own table."""
    lengths = {"steps": 2, "ragged_steps": 4, "dense_steps": 2}
    ids, _ = inputs()
    return {
        name: api.FeatureConfig(
            table(20 + number, combiner=combiner),
            max_sequence_length=lengths.get(name, 0),
            output_shape=[3, 1] if name == "folded" else None,
        )
        for number, name in enumerate(ids)
    }


@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn"])
def test_both_sides_mean_the_same(keras, combiner):
    """Plain and large tables agree on dense, sparse, ragged, weighted and sequence input."""
    features, (ids, weights) = kinds(combiner), inputs()
    found = []
    for threshold in (0, None):
        layer = make(keras, features, threshold)
        set_tables(layer, features)
        found.append(layer(ids, weights=weights))
    shapes = {name: tuple(value.shape) for name, value in found[0].items()}
    assert shapes["one"] == shapes["sparse"] == shapes["weighted_dense"] == (3, 4)
    assert shapes["many"] == shapes["steps"] == shapes["dense_steps"] == (3, 2, 4)
    assert shapes["ragged_steps"] == (3, 4, 4)
    assert shapes["deep"] == (3, 2, 4)
    assert shapes["folded"] == (3, 1, 4)
    for name in ids:
        np.testing.assert_array_equal(found[0][name], found[1][name], err_msg=name)


@pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn"])
def test_both_sides_mean_what_tensorflow_means(keras, combiner):
    """Lookups equal TensorFlow's own where it supports the input."""
    features, (ids, weights) = kinds(combiner), inputs()
    layer = make(keras, features, None)
    values = set_tables(layer, features)
    found = layer(ids, weights=weights)
    not_there = {"weighted_dense", "dense_steps"}
    for name in set(ids) - not_there:
        feature = features[name]
        expected = api.serving_embedding_lookup(
            {name: ids[name]},
            {name: weights[name]} if name in weights else None,
            {feature.table: tf.Variable(values[name])},
            {name: feature},
        )[name]
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_it_is_interchangeable_with_the_field_s_layer():
    """Arguments, weights and results equal tensorflow-recommenders' PartialTPUEmbedding."""
    recommenders = pytest.importorskip("tensorflow_recommenders", reason="needs the extra tfrs")
    theirs_class = recommenders.experimental.layers.embedding.PartialTPUEmbedding
    small, large = table(10), table(40, combiner="sum")
    features = {
        "a": api.FeatureConfig(small),
        "b": api.FeatureConfig(small),
        "c": api.FeatureConfig(large),
        "d": api.FeatureConfig(large, max_sequence_length=2),
    }
    arguments = (api.SGD(0.1), False, 8, 20)
    theirs = theirs_class(features, *arguments)
    ours = convert.PartialEmbedding(features, *arguments)
    ragged = tf.ragged.constant([[1, 2], [], [39]], tf.int64)
    batch = {
        "a": tf.constant([1, 2, 3]),
        "b": tf.constant([[1, 2], [0, 9], [3, 3]]),
        "c": ragged.to_sparse(),
        "d": ragged.to_sparse(),
    }
    expected = theirs(batch)
    ours.set_weights(theirs.get_weights())
    found = ours(batch)
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)
    assert set(ours.keras_embedding_layers) == set(theirs.keras_embedding_layers)
    for layer in (ours, theirs):
        tables = layer.tpu_embedding.embedding_tables
        assert [config.vocabulary_size for config in tables] == [40]


def test_a_spec_becomes_the_field_s_layer(families, tools):
    """Large tables of tensorflow-recommenders' layer equal the legacy lookups; small ones don't."""
    pytest.importorskip("tensorflow_recommenders", reason="needs the extra tfrs")
    family = families["columns"]
    with pytest.raises(LossyConversionError, match="nothing is combined") as caught:
        to_partial_tpu_embedding(family.spec, size_threshold=8, hardware=Hardware.CPU)
    combiners = [e.table for e in caught.value.report.entries if e.argument == "combiner"]
    assert sorted(combiners) == sorted(set(combiners))
    layer = to_partial_tpu_embedding(
        family.spec,
        family.checkpoint,
        size_threshold=0,
        hardware=Hardware.CPU,
        allow_lossy=True,
    )
    lost = {entry.argument for entry in layer.conversion.report.lost}
    assert lost == {"weight_key"}

    def look_up(batch):
        found = features_for(layer, batch)
        weights = {key: (found.weights or {}).get(key) for key in found.inputs}
        return {**layer.tpu_embedding(found.inputs, weights), **found.sequence_lengths}

    for found, expected in tools.check(family, look_up):
        assert found == expected


def test_a_model_trains_both_sides(keras, tmp_path):
    """fit() trains plain and large tables off a TPU; saved weights are restored."""
    features = {"a": api.FeatureConfig(table(10)), "b": api.FeatureConfig(table(30))}

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = make(keras, features, 20, optimizer="adagrad")
            self.dense = keras.layers.Dense(1)

        def call(self, batch):
            found = self.embedding(batch)
            return self.dense(tf.concat([found["a"], found["b"]], axis=1))

    model = Model()
    model.compile("adam", "mse")
    batch = {"a": np.arange(8) % 10, "b": np.arange(8) + 20}
    labels = np.arange(8.0)[:, np.newaxis]
    model.fit(batch, labels, batch_size=8, verbose=0)
    assert len(model.trainable_variables) == 4
    before = [np.array(variable) for variable in model.trainable_variables]
    losses = model.fit(batch, labels, batch_size=8, epochs=5, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    for variable, old in zip(model.trainable_variables, before, strict=True):
        assert np.abs(np.array(variable) - old).max() > 0
    path = str(tmp_path / "model.weights.h5")
    model.save_weights(path)
    other = Model()
    other(batch)
    other.load_weights(path)
    np.testing.assert_allclose(other(batch), model(batch), rtol=1e-6)


def test_it_joins_functional_models(keras):
    """Symbolic dense, sparse and ragged inputs have the shapes of a batch."""
    features = {
        "dense": api.FeatureConfig(table(10)),
        "sparse": api.FeatureConfig(table(30, combiner="sum")),
        "ragged": api.FeatureConfig(table(40), max_sequence_length=3),
    }
    layer = make(keras, features, 20)
    given = {
        "dense": keras.Input((), dtype="int32", name="dense"),
        "sparse": keras.Input((None,), dtype="int32", sparse=True, name="sparse"),
        "ragged": keras.Input((None,), dtype="int32", ragged=True, name="ragged"),
    }
    looked_up = layer(given)
    expected = {"dense": (4,), "sparse": (4,), "ragged": (3, 4)}
    assert {name: tuple(value.shape)[1:] for name, value in looked_up.items()} == expected
    model = keras.Model(given, looked_up)
    ragged = tf.ragged.constant([[1], [1, 2, 3, 4]], tf.int32)
    batch = {"dense": tf.constant([1, 2]), "sparse": ragged.to_sparse(), "ragged": ragged}
    for name, value in model(batch).items():
        np.testing.assert_allclose(value, layer(batch)[name], rtol=1e-6)


def test_gradients_reach_the_rows_of_weighted_sparse_input(keras):
    """Weights scale the gradient of their rows in plain and large tables."""
    features = {"word": api.FeatureConfig(table(20, combiner="sum"))}
    ids = tf.sparse.from_dense([[3, 5]])
    weights = ids.with_values([2.0, -1.0])
    for threshold in (0, None):
        layer = make(keras, features, threshold)
        with tf.GradientTape() as tape:
            found = layer({"word": ids}, weights={"word": weights})["word"]
            loss = tf.reduce_sum(found)
        (variable,) = layer.trainable_variables
        gradient = tape.gradient(loss, tensorflow_variable(variable))
        dense = tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_array_equal(np.nonzero(dense[:, 0])[0], [3, 5])
        np.testing.assert_array_equal(dense[[3, 5], 0], [2.0, -1.0])


def test_wrong_use_is_named(keras):
    """Unknown features, ids and weights of different kinds, and wrong types are refused."""
    features = {"word": api.FeatureConfig(table())}
    layer = make(keras, features, None)
    with pytest.raises(ValueError, match=r"\['other'\] have no configuration"):
        layer({"other": tf.constant([1])})
    sparse = tf.sparse.from_dense([[1]])
    with pytest.raises(ValueError, match="ids are sparse, weights are dense"):
        layer({"word": sparse}, weights={"word": tf.constant([[1.0]])})
    with pytest.raises(ValueError, match=r"weights for \['other'\], but no ids"):
        layer({"word": sparse}, weights={"other": sparse.with_values([1.0])})
    with pytest.raises(tf.errors.InvalidArgumentError, match="'word' must have a weight for each"):
        two = tf.sparse.from_dense([[1.0, 2.0]])
        layer({"word": sparse}, weights={"word": two})
    with pytest.raises(ValueError, match="'word' has ids of type string"):
        layer({"word": tf.constant(["ant"])})
    for arguments, words in (
        ({"threshold": -1}, "size_threshold must be"),
        ({"threshold": "10"}, "size_threshold must be"),
        ({"threshold": 0, "batch_size": 0}, "batch_size must be a positive int or None, got 0"),
        ({"threshold": 0, "plain_features": ["wrod"]}, "plain_features names the feature 'wrod'"),
    ):
        with pytest.raises(ValueError, match=words):
            make(keras, features, **arguments)
    with pytest.raises(TypeError, match="must be a dict of FeatureConfig"):
        make(keras, [features["word"]], None)
    with pytest.raises(TypeError, match="'word' must be a"):
        make(keras, {"word": table()}, None)


@pytest.mark.parametrize("threshold", [0, None])
def test_ids_outside_of_a_table_are_named(keras, threshold):
    """The error has feature, id and size; in a graph the node name has the feature."""
    features = {"word/of": api.FeatureConfig(table(20, combiner="sum"))}
    layer = make(keras, features, threshold)
    for bad in (20, -1):
        with pytest.raises(IdOutOfRangeError, match=f"'word/of' has the id {bad}, .* of 20 rows"):
            layer({"word/of": tf.constant([bad])})
    with pytest.raises(IdOutOfRangeError, match="'word/of' has the id 20, .* of 20 rows"):
        layer({"word/of": tf.sparse.from_dense([[20]])})
    with pytest.raises(tf.errors.InvalidArgumentError, match="of_word_of"):
        tf.function(lambda ids: layer({"word/of": ids}))(tf.constant([20]))


@pytest.mark.parametrize("given", ["adam", api.Adam(0.5), optimizers.AdamParameters(0.5)])
def test_optimizers_of_large_tables_can_write_their_message(given):
    """Optimizers can be serialized with protobuf 7.34, which accepts no bool for an enum."""
    own = api.TableConfig(20, 4, optimizer=mid_level_optimizer(given), name="own")
    message = private.tpu_embedding_configuration_pb2.TPUEmbeddingConfiguration.TableDescriptor()
    own._set_table_descriptor(message, 1, {})
    assert message.optimization_parameters.WhichOneof("parameters") == "adam"


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("sgd", "SGD"),
        ("adagrad", "Adagrad"),
        ("adam", "Adam"),
        ("ftrl", "FTRL"),
        (api.SGD(0.5), "SGD"),
        (optimizers.AdagradParameters(0.5), "Adagrad"),
        (None, "NoneType"),
    ],
)
def test_optimizers_of_large_tables(given, kind):
    """Names, TensorFlow's classes and ours are converted."""
    made = mid_level_optimizer(given)
    assert type(made).__name__ == kind
    if not isinstance(given, (str, type(None))):
        assert made.learning_rate == 0.5


def test_keras_optimizers_of_large_tables(keras):
    """Keras' optimizers keep their arguments; a schedule is evaluated in each step."""
    found = mid_level_optimizer(keras.optimizers.Adam(0.5, beta_1=0.25, clipvalue=2.0))
    assert (found.learning_rate, found.beta_1) == (0.5, 0.25)
    assert (found.clip_gradient_min, found.clip_gradient_max) == (-2.0, 2.0)
    found = mid_level_optimizer(keras.optimizers.Ftrl(0.5, l1_regularization_strength=0.25))
    assert found.l1_regularization_strength == 0.25
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [3.0, 2.0, 1.0])
    optimizer = keras.optimizers.SGD(schedule)
    found = mid_level_optimizer(optimizer)
    assert float(found.learning_rate()) == 3.0
    optimizer.iterations.assign(2)
    assert float(found.learning_rate()) == 2.0
    for refused, words in (
        (keras.optimizers.SGD(0.1, momentum=0.9), "momentum"),
        (keras.optimizers.RMSprop(0.1), "can't be translated"),
        ("lion", "one of"),
    ):
        with pytest.raises(ValueError, match=words):
            mid_level_optimizer(refused)
    with pytest.raises(LossyConversionError):
        mid_level_optimizer(optimizers.MomentumParameters(0.1, 0.9))


def test_keras_oldest_optimizers_of_large_tables():
    """Optimizers of `tf.keras.optimizers.legacy` are converted."""
    schedule = tf.keras.optimizers.schedules.PiecewiseConstantDecay([1, 2], [3.0, 2.0, 1.0])
    optimizer = tf.keras.optimizers.legacy.Adagrad(schedule, initial_accumulator_value=0.25)
    optimizer.iterations.assign(2)
    found = mid_level_optimizer(optimizer)
    assert found.initial_accumulator_value == 0.25
    assert float(found.learning_rate()) == 2.0


def test_a_spec_becomes_a_layer(keras):
    """Large tables have the spec's optimizer, small ones the model's."""
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"a": FeatureConfig("small"), "b": FeatureConfig("large")},
        table_to_config_dict={
            "small": TableConfig(
                5, 2, optimization_parameters=optimizers.MomentumParameters(0.1, 0.9)
            ),
            "large": TableConfig(50, 2),
        },
        optimization_parameters=optimizers.AdagradParameters(0.1),
        pipeline_execution_with_tensor_core=True,
    )
    layer = to_partial_embedding(spec, size_threshold=10, batch_size=4, keras=keras)
    assert set(layer.keras_embedding_layers) == {"a"}
    (config,) = layer.tpu_embedding.embedding_tables
    assert isinstance(config.optimizer, api.Adagrad)
    assert layer.tpu_embedding.batch_size == 4
    entries = {entry.table: entry for entry in layer.conversion.report.changed}
    assert entries["small"].new == "the model's"
    with pytest.raises(LossyConversionError, match=r"small  Momentum\.momentum"):
        to_partial_embedding(spec, size_threshold=0, keras=keras)


class PretendedStrategy(tf.distribute.TPUStrategy):
    """Minimal TPUStrategy for the layer."""

    def __init__(self, feature):
        """Skips the search for a TPU."""
        self._feature = feature

    @property
    def extended(self):
        """Returns the hardware feature."""
        return types.SimpleNamespace(
            tpu_hardware_feature=types.SimpleNamespace(embedding_feature=self._feature)
        )


class PretendedEmbedding:
    """Fake embedding core that records calls; its lookups return ones."""

    def __init__(self, features, optimizer, pipelined=False):
        """Creates the fake."""
        self.features = features
        self.optimizer, self.pipelined = optimizer, pipelined
        self.calls = []

    def build(self, per_replica_batch_size):
        """Records the call."""
        self.calls.append(("build", per_replica_batch_size))

    def enqueue(self, features, weights, training, name):
        """Records the call."""
        self.calls.append(("enqueue", list(features), weights, training, name))

    def dequeue(self, name):
        """Returns ones."""
        self.calls.append(("dequeue", name))
        return {key: tf.ones([2, 4]) for key in self.features}

    def apply_gradients(self, gradients, name=None, preserved_outputs=None):
        """Records the call."""
        found = {key: float(tf.reduce_sum(value)) for key, value in gradients.items()}
        self.calls.append(("apply_gradients", found, name, preserved_outputs))

    def __call__(self, features, weights):
        """SparseCore's form."""
        return self.dequeue(None), "preserved"


@pytest.mark.parametrize("generation", ["V1", "V2"])
def test_on_a_tpu_gradients_go_to_the_core(keras, monkeypatch, generation):
    """Under a TPUStrategy the core looks up large tables, and gets their gradients."""
    if generation == "V2" and not hasattr(api, "TPUEmbeddingV2"):
        pytest.skip(f"TensorFlow {tf.__version__} has no TPUEmbeddingV2")
    feature = getattr(tf.tpu.experimental.HardwareFeature.EmbeddingFeature, generation)
    strategy = PretendedStrategy(feature)
    large = table(50, optimizer=api.SGD(0.5))
    features = {"a": api.FeatureConfig(table(10)), "b": api.FeatureConfig(large)}
    name = "TPUEmbedding" if generation == "V1" else "TPUEmbeddingV2"
    with monkeypatch.context() as patch:
        patch.setattr(tf.distribute, "get_strategy", lambda: strategy)
        patch.setattr(api, name, PretendedEmbedding)
        options = {"pipeline_execution_with_tensor_core": True, "batch_size": 2}
        layer = make(keras, features, 20, optimizer="sgd", **options)
        batch = {"a": tf.constant([1, 2]), "b": tf.constant([[3], [4]])}
        trap = layer.tpu_embedding.trainable_variables[0]
        with tf.GradientTape() as tape:
            found = layer(batch)
            loss = 3.0 * tf.reduce_sum(found["b"])
        gradient = tape.gradient(loss, tensorflow_variable(trap))
        np.testing.assert_array_equal(gradient, [0.0])
        with pytest.raises(ValueError, match=r"\['b'\] are missing"):
            layer.tpu_embedding({})
    core = layer.tpu_embedding._held.api
    assert isinstance(core.optimizer, api.SGD)
    assert core.pipelined is True
    message = private.tpu_embedding_configuration_pb2.TPUEmbeddingConfiguration.TableDescriptor()
    large.name = "large"
    large._set_table_descriptor(message, 1, {})
    np.testing.assert_array_equal(found["b"], np.ones([2, 4]))
    if generation == "V1":
        assert core.calls == [
            ("build", 2),
            ("enqueue", ["b"], None, True, "1"),
            ("dequeue", "1"),
            ("apply_gradients", {"b": 24.0}, "1", None),
        ]
    else:
        assert core.calls == [
            ("dequeue", None),
            ("apply_gradients", {"b": 24.0}, None, "preserved"),
        ]


def test_the_class_is_tf_keras_own():
    """`convert.PartialEmbedding` is a layer of `tf.keras`, created once."""
    assert issubclass(convert.PartialEmbedding, tf.keras.layers.Layer)
    assert convert.PartialEmbedding is convert.PartialEmbedding
    assert convert.PartialEmbedding.__name__ == "PartialEmbedding"
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        convert.nothing_of_the_kind  # noqa: B018


def test_another_backend_is_refused():
    """A TPU's embedding core is TensorFlow's."""
    module = types.ModuleType("keras")
    module.backend = types.SimpleNamespace(backend=lambda: "jax")
    with pytest.raises(ValueError, match="backend is 'jax'"):
        partial_embedding_class(module)
