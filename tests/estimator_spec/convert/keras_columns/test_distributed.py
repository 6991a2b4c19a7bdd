# SPDX-License-Identifier: Apache-2.0
"""TPU embedding columns in one `keras_rs.layers.DistributedEmbedding`, with their tables."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import column_strategies as drawn
import estimator_spec
import tpu_columns
from column_strategies import Feature
from estimator_spec import EmbeddingConfigSpec, FeatureConfig, TableConfig
from estimator_spec.convert import to_keras
from estimator_spec.core.embedding import optimizers

keras = pytest.importorskip("keras")
keras_rs = pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

fc = tf.feature_column
BATCH = {
    "a": Feature([["ant", "zzz"], [], ["bee", "ant", ""]], "ragged", tf.string),
    "b": Feature([["dog"], ["cow", "cow"], [""]], "sparse", tf.string),
    "i": Feature([[1, 9], [3, -1], [0, 2]], "dense", tf.int64),
    "w": Feature([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]], "dense", tf.float32),
    "n": Feature([[1.0], [2.0], [3.0]], "dense", tf.float32),
}


def words(key):
    """Returns a vocabulary column."""
    return fc.categorical_column_with_vocabulary_list(key, drawn.WORDS, num_oov_buckets=1)


def pooled():
    """Returns columns of every kind that aren't sequences; two share a table, one isn't a TPU's."""
    ids = fc.categorical_column_with_identity("i", 8, default_value=7)
    weighted = fc.weighted_categorical_column(ids, "w")
    return [
        *tpu_columns.shared_embedding_columns([words("a"), words("b")], 3, combiner="sqrtn"),
        tpu_columns.embedding_column(weighted, 2, combiner="mean"),
        tpu_columns.embedding_column(
            fc.categorical_column_with_identity("i", 5), 4, combiner="sum", invalid_ids="mod"
        ),
        fc.embedding_column(words("b"), 2),
        fc.numeric_column("n"),
    ]


def sequence():
    """Returns a sequence of two steps."""
    column = fc.sequence_categorical_column_with_vocabulary_list("a", drawn.WORDS)
    return tpu_columns.embedding_column(column, 3, max_sequence_length=2)


def layer_of(model):
    """Returns the one layer of a model that is a `DistributedEmbedding`."""
    (found,) = (
        layer
        for layer in model.core.layers
        if isinstance(layer, keras_rs.layers.DistributedEmbedding)
    )
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns what layers of both kinds of columns give, and a checkpoint."""

    def build(features):
        wide = tpu_columns.input_layer(features, pooled())
        return wide, *tpu_columns.sequence_input_layer(features, [sequence()])

    return drawn.run_columns(build, BATCH, str(tmp_path_factory.mktemp("trained")))[:2]


@pytest.mark.parametrize("embeddings", ["layers", "distributed"])
def test_columns_are_equal(embeddings, trained, tmp_path):
    """Sums, means, weights, shared tables, policies and sequences are the columns', also saved."""
    expected, checkpoint = trained
    model = to_keras([*pooled(), sequence()], checkpoint, embeddings=embeddings)
    batch = {key: value.tensor(for_columns=False) for key, value in BATCH.items()}
    found = model(batch)
    assert list(found) == ["input_layer", "sequence_input", "sequence_length"]
    for old, new in zip(expected, found.values(), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6, atol=1e-6)
    assert len(model.conversion.variables) == 5
    model.core.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")(model.preprocess(batch))
    np.testing.assert_array_equal(again["input_layer"], found["input_layer"])
    if embeddings == "distributed":
        assert len(layer_of(model).weights) == 4
        origins = {o.column: o.layers for o in model.conversion.origins}
        named = [name for name, text in origins.items() if "DistributedEmbedding`" in text]
        assert len(named) == 5 and "EmbedReduce" in origins["b_embedding"]


@pytest.mark.parametrize(
    ("parameters", "kind", "rate_fn", "rate"),
    [
        (optimizers.AdagradParameters(0.25, 0.5), "Adagrad", None, 0.25),
        (optimizers.StochasticGradientDescentParameters(1.0), "SGD", lambda step: step + 0.5, 0.5),
        (optimizers.AdamParameters(0.25), "Adam", None, 0.25),
        (optimizers.MomentumParameters(0.1, momentum=0.9), None, None, None),
    ],
)
def test_the_optimizers_of_tables(parameters, kind, rate_fn, rate):
    """A table has its spec's optimizer, for SparseCore; without one there, the default device."""
    column = tpu_columns.embedding_column(words("b"), 2, learning_rate_fn=rate_fn)
    model = to_keras(EmbeddingConfigSpec([column], parameters), embeddings="distributed")
    configs = layer_of(model).get_config()["tables"]
    assert len(configs) == 1
    whats = {difference.what for difference in model.conversion.differences}
    for config in configs:
        config = config.get("config", config)
        if kind is None:
            assert config["placement"] == "default_device" and "optimizer" in whats
            continue
        assert config["placement"] == "auto"
        optimizer = keras.saving.deserialize_keras_object(config["optimizer"])
        assert type(optimizer).__name__ == kind
        np.testing.assert_allclose(optimizer.learning_rate, rate)
    assert ("learning_rate" in whats) == (rate_fn is not None)
    assert ("optimizer" in whats) == (kind in (None, "Adam"))  # Adam's bias depends on the backend


def test_a_column_of_the_host_stays_there():
    """A table that the CPU looks up is on the default device."""
    column = tpu_columns.embedding_column(words("a"), 2, embedding_lookup_device="cpu")
    spec = EmbeddingConfigSpec([column], optimizers.AdagradParameters(0.1))
    for source in (spec, [column]):
        (config,) = layer_of(to_keras(source, embeddings="distributed")).get_config()["tables"]
        assert config.get("config", config)["placement"] == "default_device"


def test_an_estimator_goes_on_in_keras():
    """A canned estimator's tables and slots move into the layer, and its training goes on."""
    column = tpu_columns.embedding_column(words("b"), 2)
    estimator = estimator_spec.canned.v1.DNNRegressor([4], [column, fc.numeric_column("n")])
    features = {"b": np.array(["ant", "ant", "cow", "x"]), "n": np.arange(4, dtype=np.float32)}

    def input_fn():
        return tf.data.Dataset.from_tensors((features, np.arange(4.0))).repeat(6)

    estimator.train(input_fn)
    model = to_keras(estimator, embeddings="distributed")
    assert len(layer_of(model).weights) == 1
    for more in (0, 6):
        if more:
            estimator.train(input_fn)
            model.fit(input_fn().map(model.training_batch), verbose=0)
        rows = estimator.predict(lambda: input_fn().take(1))
        expected = np.array([row["predictions"] for row in rows])
        found = model.predictions(features)["predictions"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


REFUSED = {
    "no such columns": (lambda: [fc.numeric_column("n")], "distributed", "there are none"),
    "another argument": (pooled, "keras", "'layers' or 'distributed', got 'keras'"),
    "dictionaries": (
        lambda: EmbeddingConfigSpec(
            feature_to_config_dict={"word": FeatureConfig("words")},
            table_to_config_dict={"words": TableConfig(10, 4)},
            optimization_parameters=optimizers.AdagradParameters(0.1),
        ),
        "distributed",
        "to_distributed_embedding",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    """What has no columns for the layer is refused, with what to do."""
    make, embeddings, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        to_keras(make(), embeddings=embeddings)
