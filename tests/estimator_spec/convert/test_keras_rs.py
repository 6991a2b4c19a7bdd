# SPDX-License-Identifier: Apache-2.0
"""Conversion to keras_rs: the layer, its lookups, and models of legacy checkpoints."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import recorded_rules
import tpu_columns
from estimator_spec import FeatureConfig, TableConfig
from estimator_spec.convert import features_for, keras_optimizers, to_distributed_embedding
from estimator_spec.convert.report import LossyConversionError
from estimator_spec.core.embedding import optimizers
from tpu_columns import Hardware, IdOutOfRangeError

keras_rs = pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
keras = pytest.importorskip("keras")

ROOT = Path(__file__).resolve().parents[3]
ADAGRAD = optimizers.AdagradParameters(0.1)


def spec_of(parameters=ADAGRAD, table=None, feature=None, **arguments):
    """Returns a spec of one table."""
    return estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": feature or FeatureConfig("words")},
        table_to_config_dict={"words": table or TableConfig(10, 4)},
        optimization_parameters=parameters,
        **arguments,
    )


def look_up(layer, batch):
    """Returns activations by key, and lengths."""
    found = features_for(layer, batch)
    return {**layer(found.inputs, found.weights), **found.sequence_lengths}


@pytest.mark.parametrize("kind", ["columns", "dictionaries"])
def test_lookups_are_the_legacy_ones(families, tools, kind):
    """Every kind of feature and combiner equals the legacy lookup on a CPU."""
    family = families[kind]
    layer = to_distributed_embedding(family.spec, family.checkpoint, hardware=Hardware.CPU)
    assert isinstance(layer, keras_rs.layers.DistributedEmbedding)
    for found, expected in tools.check(family, lambda batch: look_up(layer, batch)):
        assert found == expected


def test_lookups_of_fixed_shapes_are_the_same(compact_family, tools):
    """With batch_size and max_ids all shapes are static."""
    family = compact_family
    layer = to_distributed_embedding(
        family.spec,
        family.checkpoint,
        batch_size=6,
        max_ids={"left": 5, "right": 6, "steps_sqrtn": 1},
    )
    for batch in family.batches:
        inputs = features_for(layer, batch).inputs
        assert inputs["left"].shape == (6, 5)
        assert inputs["steps_sqrtn"].shape == (6, 3, 1)
    list(tools.check(family, lambda batch: look_up(layer, batch)))


def test_too_many_ids_for_a_fixed_shape_are_refused(compact_family):
    """More ids than max_ids are refused; the error names feature and limit."""
    family = compact_family
    layer = to_distributed_embedding(family.spec, max_ids={"left": 1})
    with pytest.raises(tf.errors.InvalidArgumentError, match="'left' has more than max_ids = 1"):
        features_for(layer, family.batches[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": "x"}, "batch_size must be a positive int or None, got 'x'"),
        ({"max_ids": 0}, "max_ids must be a positive int or None, got 0"),
        ({"max_ids": {"word": -1}}, r"max_ids\['word'\] must be a positive int or None"),
        ({"max_ids": {"wrod": 3}}, r"max_ids names the feature 'wrod', .*are: \['word'\]"),
    ],
)
def test_sizes_that_mean_nothing_are_refused(arguments, words):
    """An unknown feature or an invalid max_ids is refused; the error names the argument."""
    with pytest.raises(ValueError, match=words):
        to_distributed_embedding(spec_of(), **arguments)


def test_a_loss_points_to_the_cores_optimizer():
    """A TPU's Adam is lost with Keras' own; the error names the alternative."""
    spec = spec_of(optimizers.AdamParameters(0.1))
    with pytest.raises(LossyConversionError, match="optimizers='core' has the embedding core's"):
        to_distributed_embedding(spec)
    assert to_distributed_embedding(spec, optimizers="core").conversion.report.lost == ()


def test_slots_of_the_models_own_tables_are_the_models(compact_family):
    """load_slots skips tables of the tensor core, which the model's optimizer trains."""
    layer = to_distributed_embedding(
        compact_family.spec, compact_family.checkpoint, optimizers="core"
    )
    conversion = layer.conversion
    assert conversion.optimizers["tbl_small"] is None
    conversion.optimizer(keras.optimizers.SGD(0.1)).build(layer.trainable_variables)
    assert conversion.load_slots(layer) == []  # the checkpoint has no slots


def test_an_empty_batch_gives_empty_activations():
    """An empty batch gives empty activations."""
    layer = to_distributed_embedding(spec_of())
    found = features_for(layer, {"word": tf.zeros([0, 2], tf.int64)})
    assert layer(found.inputs, found.weights)["word"].shape == (0, 4)


@pytest.mark.parametrize("bad", [-1, 10])
def test_ids_are_checked(bad):
    """features_for refuses -1, for which keras_rs reads the last row."""
    layer = to_distributed_embedding(spec_of())
    assert layer({"word": np.array([[-1]])})["word"].shape == (1, 4)  # the reason for the check
    with pytest.raises(IdOutOfRangeError, match=f"'word'.*size is 10.*{bad}"):
        features_for(layer, {"word": tf.sparse.from_dense([[bad]])})


def test_placements_follow_the_lookup_devices(tools):
    """Columns of the CPU and the tensor core are never on SparseCore; others are."""
    spec = tools.column_spec(("mean",))
    on_cpu = tpu_columns.embedding_column(
        tf.feature_column.categorical_column_with_identity("on_cpu", 5),
        2,
        embedding_lookup_device="cpu",
    )
    spec = spec._replace(feature_columns=[*spec.feature_columns, on_cpu])
    layer = to_distributed_embedding(spec)
    placements = {c.table.name: c.table.placement for c in layer._feature_configs.values()}
    assert placements["tbl_small"] == placements["tbl_on_cpu"] == "default_device"
    assert {v for k, v in placements.items() if k not in ("tbl_small", "tbl_on_cpu")} == {"auto"}


def test_tables_have_names_that_keras_takes():
    """Slashes in names become underscores, and names stay unique."""
    keys = ["a/b", "a_b", "a_b_2"]
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={f"f{n}": FeatureConfig(key) for n, key in enumerate(keys)},
        table_to_config_dict={key: TableConfig(5, 2) for key in keys},
        optimization_parameters=ADAGRAD,
    )
    layer = to_distributed_embedding(spec)
    names = layer.conversion.table_names
    assert set(names) == set(keys)
    assert len(set(names.values())) == 3
    assert set(layer.get_embedding_tables()) == set(names.values())


def test_initializers_are_keras_own():
    """The default initializer keeps its standard deviation 1/√D; functions are called."""
    values = to_distributed_embedding(spec_of(table=TableConfig(2000, 16))).get_embedding_tables()
    assert np.std(values["words"]) == pytest.approx(0.88 / 4, rel=0.05)
    for initializer in (
        tf.compat.v1.constant_initializer(0.5),
        tf.keras.initializers.Constant(0.5),
        lambda shape, dtype: tf.fill(shape, tf.cast(0.5, dtype)),
    ):
        table = TableConfig(10, 4, initializer=initializer)
        values = to_distributed_embedding(spec_of(table=table)).get_embedding_tables()["words"]
        assert np.all(np.asarray(values) == 0.5)


def test_each_table_has_its_optimizer():
    """Keras' MultiOptimizer selects tables' optimizers by path, and the default for the rest."""
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"a": FeatureConfig("a"), "b": FeatureConfig("b")},
        table_to_config_dict={
            "a": TableConfig(5, 2),
            "b": TableConfig(5, 2, learning_rate=0.5),
        },
        optimization_parameters=ADAGRAD,
    )
    layer = to_distributed_embedding(spec)
    found = layer.conversion.optimizers
    assert isinstance(found["a"], keras.optimizers.Adagrad)
    assert (float(found["a"].learning_rate), float(found["b"].learning_rate)) == pytest.approx(
        (0.1, 0.5)
    )
    assert found["a"].epsilon == 0
    default = keras.optimizers.SGD(1.0)
    multi = layer.conversion.optimizer(default)
    assert isinstance(multi, keras.optimizers.MultiOptimizer)
    inputs = {key: keras.Input((None,), dtype="int32") for key in "ab"}
    weights = {key: keras.Input((None,)) for key in "ab"}
    looked_up = layer(inputs, weights)
    output = keras.layers.Dense(1)(keras.layers.concatenate([looked_up["a"], looked_up["b"]]))
    model = keras.Model([inputs, weights], output)
    chosen = {variable.path: multi._optimizer_map(variable) for variable in model.weights}
    assert chosen.pop("distributed_embedding/a/embeddings") is found["a"]
    assert chosen.pop("distributed_embedding/b/embeddings") is found["b"]
    assert len(chosen) == 2
    assert set(chosen.values()) == {default}


def test_a_model_trains_saves_and_loads(tmp_path):
    """fit() trains tables and layers; a .keras file restores model and optimizer."""
    keras.utils.set_random_seed(0)
    table = TableConfig(10, 4, learning_rate_fn=None)
    layer = to_distributed_embedding(spec_of(table=table), optimizers="core")
    ids, weights = keras.Input((None,), dtype="int32"), keras.Input((None,))
    output = keras.layers.Dense(1)(layer({"word": ids}, {"word": weights})["word"])
    model = keras.Model([ids, weights], output)
    model.compile(layer.conversion.optimizer(keras.optimizers.SGD(0.1)), "mse")
    random = np.random.RandomState(0)
    words = random.randint(1, 10, (64, 2))
    labels = np.sum(words, 1, keepdims=True) / 10.0
    inputs = features_for(layer, {"word": words})
    data = [np.asarray(inputs.inputs["word"]), np.asarray(inputs.weights["word"])]
    history = model.fit(data, labels, epochs=20, verbose=0).history["loss"]
    assert history[-1] < history[0] / 3
    path = str(tmp_path / "model.keras")
    model.save(path)
    again = keras.models.load_model(path)
    np.testing.assert_allclose(again.predict(data, verbose=0), model.predict(data, verbose=0))
    assert again.evaluate(data, labels, verbose=0) == pytest.approx(history[-1], rel=0.2)
    again.fit(data, labels, verbose=0)


def test_what_keras_has_not_is_lost():
    """Pipelining is lost, and a gradient multiplier except with the core's optimizer."""
    pipelined = spec_of(pipeline_execution_with_tensor_core=True)
    with pytest.raises(LossyConversionError, match="the update of the step before"):
        to_distributed_embedding(pipelined)
    multiplied = spec_of(experimental_gradient_multiplier_fn=lambda step: 2.0)
    with pytest.raises(LossyConversionError, match="optimizers='core' has"):
        to_distributed_embedding(multiplied)
    assert to_distributed_embedding(multiplied, optimizers="core").conversion.report.lost == ()
    with pytest.raises(ValueError, match="'keras' or 'core', got 'tf'"):
        to_distributed_embedding(spec_of(), optimizers="tf")


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend",
    ["jax", pytest.param("tensorflow", marks=pytest.mark.nightly("the other tests' backend"))],
)
def test_other_processes_and_backends(compact_family, tools, tmp_path, backend):
    """Without legacy Keras, and on JAX, lookups are equal and the model trains."""
    if backend == "jax":
        pytest.importorskip("jax", reason="Keras' JAX backend needs jax")
    program = Path(__file__).with_name("keras_process.py")
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    environment |= {"KERAS_BACKEND": backend, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, str(program), compact_family.checkpoint, str(tmp_path / "out.npz")],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    expected = compact_family.expected[0]
    with np.load(tmp_path / "out.npz") as found:
        assert str(found["keras_backend"]) == backend
        assert found["losses"][-1] < found["losses"][0]
        keys = [key for key in found.files if key in expected]
        assert "weighted_steps" in keys
        for key in keys:
            np.testing.assert_allclose(found[key], expected[key], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        (optimizers.StochasticGradientDescentParameters(0.5), "SGD"),
        (optimizers.AdagradParameters(0.5, 0.25), "Adagrad"),
        (optimizers.AdamParameters(0.5, 0.25, 0.75, 0.125), "Adam"),
        (optimizers.FtrlParameters(0.5, beta=0.25), "FTRL"),
    ],
)
def test_tables_on_sparse_core_get_an_optimizer_that_keras_rs_takes(parameters, kind):
    """keras_rs converts the table's optimizer to SparseCore's with the spec's arguments."""
    from keras_rs.src.layers.embedding.tensorflow import config_conversion

    layer = to_distributed_embedding(spec_of(parameters), allow_lossy=True)
    (feature,) = layer._feature_configs.values()
    made = config_conversion.to_tf_tpu_optimizer(feature.table.optimizer)
    assert type(made).__name__ == kind
    assert made.learning_rate == 0.5
    if kind == "Adam":
        assert (made.beta_1, made.beta_2, made.epsilon) == (0.25, 0.75, 0.125)
    if kind == "Adagrad":
        assert made.initial_accumulator_value == 0.25


@pytest.mark.parametrize("kind", ["keras", "core"])
@pytest.mark.parametrize(
    "parameters",
    [
        optimizers.RMSPropParameters(0.5, 0.9, 0.9, 1e-4),
        optimizers.AdamParameters(0.5, sum_inside_sqrt=False),
        optimizers.AdamParameters(0.5, sum_inside_sqrt=False, lazy_adam=False),
        optimizers.AdagradParameters(0.5, clip_weight_min=-1.0),
        optimizers.FtrlParameters(0.5, multiply_linear_by_learning_rate=True),
        optimizers.StochasticGradientDescentParameters(0.5, clip_weight_min=-1.0),
        optimizers.ProximalYogiParameters(0.5),
    ],
)
def test_an_optimizer_that_sparse_core_has_not_is_refused_there(parameters, kind):
    """keras_rs refuses optimizers whose default would train the table differently."""
    from keras_rs.src.layers.embedding.tensorflow import config_conversion

    spec = spec_of(parameters)
    layer = to_distributed_embedding(spec, optimizers=kind, allow_lossy=True)
    (feature,) = layer._feature_configs.values()
    with pytest.raises(ValueError, match="Unsupported optimizer type"):
        config_conversion.to_tf_tpu_optimizer(feature.table.optimizer)


@pytest.mark.parametrize("name", [n for n in recorded_rules.SETS if n.startswith("adam/spec:")])
def test_on_jax_sparse_core_gets_a_rate_without_bias_correction(name):
    """What jax_tpu_embedding makes of the table's rate is the spec's rate in each step."""
    rate = float(name.partition("learning_rate=")[2].partition(",")[0])
    steps = [each.parameters for each in recorded_rules.fixed(name)]
    spec = dataclasses.replace(steps[0], learning_rate=rate)
    for parameters in (spec, dataclasses.replace(spec, sum_inside_sqrt=True)):
        made = keras_optimizers.sparse_core_optimizer(parameters, rate, "jax")
        assert type(made) is keras.optimizers.Adam
        for step, recorded in enumerate(steps):
            corrected = float(made._learning_rate(step)) * recorded.learning_rate / rate
            assert corrected == pytest.approx(rate, rel=1e-4)  # 1 - β2ᵗ in float32


def test_on_jax_the_report_names_epsilon(monkeypatch):
    """What differs on SparseCore by Keras' backend is in the report of that backend."""
    spec = spec_of(optimizers.AdamParameters(0.5))
    found = []
    for backend in ("tensorflow", "jax"):
        monkeypatch.setattr(keras.backend, "backend", lambda name=backend: name)
        report = to_distributed_embedding(spec, allow_lossy=True).conversion.report
        found.append({entry.argument for entry in report.lost})
    assert found[1] - found[0] == {"Adam.epsilon on SparseCore"}
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(ValueError, match="needs Keras' TensorFlow backend"):
        to_distributed_embedding(spec, optimizers="core")
