# SPDX-License-Identifier: Apache-2.0
"""Conversion to the mid-level API: configurations, optimizers, building, saving, restoring."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import tpu_columns
from estimator_spec import FeatureConfig, TableConfig
from estimator_spec.checkpoints import CheckpointError
from estimator_spec.convert import look_up, to_config_proto, to_mid_level, to_tpu_embedding
from estimator_spec.convert.report import LossyConversionError, Status
from estimator_spec.core._tensorflow import private
from estimator_spec.core.cores import update_rules
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names
from tpu_columns import Hardware

embedding_api = tf.tpu.experimental.embedding


def spec_of(parameters, table=None, **arguments):
    """Returns a spec of one table."""
    return estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": FeatureConfig("words")},
        table_to_config_dict={"words": table or TableConfig(10, 4)},
        optimization_parameters=parameters,
        **arguments,
    )


def optimizer_of(parameters, **arguments):
    """Returns the mid-level optimizer of the only table."""
    return to_mid_level(spec_of(parameters), **arguments).feature_config["word"].table.optimizer


def test_configurations_say_what_the_columns_say(tools):
    """Tables, features, combiners and sequences are converted; features share tables."""
    spec = tools.column_spec()
    converted = to_mid_level(spec, hardware=Hardware.CPU)
    tables, features = estimator_spec.tables_and_features(spec)
    assert set(converted.feature_config) == set(features)
    assert set(converted.tables) == set(tables)
    for key, feature in converted.feature_config.items():
        table = tables[features[key].table_id]
        assert feature.name == key
        assert feature.table is converted.tables[features[key].table_id]
        assert (feature.table.vocabulary_size, feature.table.dim) == (
            table.vocabulary_size,
            table.dimension,
        )
        assert feature.table.combiner == (table.combiner or "mean")
        assert feature.table.initializer is table.initializer
        if key != "weighted_steps":
            assert feature.max_sequence_length == features[key].max_sequence_length
            assert feature.output_shape.rank is None
    left, right, both = (converted.feature_config[key].table for key in ("left", "right", "both"))
    assert left is right is both


def test_a_weighted_sequence_is_an_output_of_two_axes(tools):
    """Weighted sequences are converted by output_shape, which the API accepts."""
    spec = tools.column_spec(("mean",))
    for batch_size in (None, 32):
        converted = to_mid_level(spec, batch_size=batch_size)
        feature = converted.feature_config["weighted_steps"]
        assert feature.max_sequence_length == 0
        assert feature.output_shape.as_list() == [batch_size, 3]


def test_columns_of_the_tensor_core_are_left_to_the_model(tools):
    """Tables of the tensor core are left out and reported."""
    converted = to_mid_level(tools.column_spec(("mean",)))
    assert "small" not in converted.feature_config
    (entry,) = [entry for entry in converted.report.changed if entry.table == "tbl_small"]
    assert (entry.old, entry.new) == ("the tensor core's", "the model's")


def test_tables_of_equal_optimizers_share_one(tools):
    """Tables with equal optimizers and rates share one object."""
    adagrad = optimizers.AdagradParameters(0.1)
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={f"f{n}": FeatureConfig(f"t{n}") for n in range(4)},
        table_to_config_dict={
            "t0": TableConfig(5, 2),
            "t1": TableConfig(5, 2, optimization_parameters=optimizers.AdagradParameters(0.1)),
            "t2": TableConfig(5, 2, learning_rate=0.5),
            "t3": TableConfig(5, 2, optimization_parameters=optimizers.AdamParameters(0.1)),
        },
        optimization_parameters=adagrad,
    )
    tables = to_mid_level(spec).tables
    assert tables["t0"].optimizer is tables["t1"].optimizer
    assert tables["t2"].optimizer.learning_rate == 0.5
    assert isinstance(tables["t3"].optimizer, embedding_api.Adam)


def decayed(step):
    """Learning rate that falls with the step."""
    return 1.0 / (1.0 + tf.cast(step, tf.float32))


def test_learning_rate_functions_read_the_step():
    """A dynamic rate is a function without arguments, one object for all its tables."""
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"a": FeatureConfig("a"), "b": FeatureConfig("b")},
        table_to_config_dict={
            "a": TableConfig(5, 2, learning_rate_fn=decayed),
            "b": TableConfig(
                5,
                2,
                learning_rate_fn=decayed,
                optimization_parameters=optimizers.StochasticGradientDescentParameters(1.0),
            ),
        },
        optimization_parameters=optimizers.AdagradParameters(0.1),
    )
    converted = to_mid_level(spec)
    rates = [converted.tables[name].optimizer.learning_rate for name in "ab"]
    assert rates[0] is rates[1]
    assert float(rates[0]()) == 1.0
    converted.step.assign(3)
    assert float(rates[0]()) == 0.25
    for step in (tf.Variable(1), lambda: 1):
        found = to_mid_level(spec, step=step)
        assert float(found.tables["a"].optimizer.learning_rate()) == 0.5
    assert to_mid_level(spec_of(optimizers.AdagradParameters(0.1))).step is None


COMMON = {
    "clip_weight_min": -2.0,
    "clip_weight_max": 3.0,
    "weight_decay_factor": 0.25,
    "multiply_weight_decay_factor_by_learning_rate": True,
    "clip_gradient_max": 0.5,
}
EXACT = [
    optimizers.StochasticGradientDescentParameters(0.5),
    optimizers.StochasticGradientDescentParameters(0.5, use_gradient_accumulation=False),
    optimizers.StochasticGradientDescentParameters(0.5, **COMMON),
    optimizers.AdagradParameters(0.5, 0.25),
    optimizers.AdagradParameters(0.5, **COMMON),
    optimizers.AdagradMomentumParameters(0.5, 0.75, True, 3.0, 0.5, 0.125),
    optimizers.AdamParameters(0.5),
    optimizers.AdamParameters(0.5, 0.75, 0.5, 0.125, lazy_adam=False, sum_inside_sqrt=False),
    optimizers.FtrlParameters(0.5, -0.25, 0.5, 0.125, 0.25, beta=2.0),
    optimizers.FtrlParameters(
        0.5, multiply_linear_by_learning_rate=True, allow_zero_accumulator=True
    ),
    optimizers.ProximalAdagradParameters(0.5),
    optimizers.MomentumParameters(0.5, 0.0),
]
_SAME_RULE = {"proximal_adagrad": "adagrad", "momentum": "stochastic_gradient_descent"}


@pytest.mark.parametrize("parameters", EXACT, ids=lambda p: type(p).__name__)
def test_exact_optimizers_tell_the_core_the_same(parameters):
    """The mid-level optimizer's message equals the old system's, except for its name."""
    converted = to_mid_level(spec_of(parameters))
    assert converted.report.lost == ()
    table = converted.feature_config["word"].table
    ours = private.tpu_embedding_configuration_pb2.TPUEmbeddingConfiguration.TableDescriptor()
    table._set_table_descriptor(ours, 1, {})
    theirs = to_config_proto(spec_of(parameters), 8).table_descriptor[0]
    for proto in (ours, theirs):
        rule = proto.optimization_parameters
        for name, other in _SAME_RULE.items():
            if rule.WhichOneof("parameters") in (name, other):
                rule.ClearField(rule.WhichOneof("parameters"))
    assert ours == theirs
    assert isinstance(table.optimizer.low_dimensional_packing_status, int)


@pytest.mark.parametrize("parameters", EXACT, ids=lambda p: type(p).__name__)
def test_slots_have_the_names_of_the_api(parameters):
    """Our slots and the API's slots correspond one to one."""
    names = mid_level_slot_names(parameters)
    assert sorted(names.values()) == sorted(optimizer_of(parameters)._slot_names())
    if not isinstance(parameters, optimizers.MomentumParameters):
        assert set(names) == set(optimizers.slot_initial_values(parameters))


def test_rms_prop_without_momentum_is_adam():
    """With beta_1 = 0 and the square root of epsilon, Adam's steps equal RMSProp's."""
    rms_prop = optimizers.RMSPropParameters(0.5, rho=0.75, momentum=0.0, epsilon=0.25)
    made = optimizer_of(rms_prop)
    assert isinstance(made, embedding_api.Adam)
    adam = optimizers.AdamParameters(
        made.learning_rate,
        made.beta_1,
        made.beta_2,
        made.epsilon,
        lazy_adam=made.lazy_adam,
        sum_inside_sqrt=made.sum_inside_sqrt,
    )
    random = np.random.RandomState(0)
    w = {kind: random.normal(size=[3, 2]).astype(np.float32) for kind in ("rms", "adam")}
    w["adam"] = w["rms"]
    slots = {"rms": dict.fromkeys(("ms", "mom"), 0.0), "adam": dict.fromkeys("mv", 0.0)}
    for step in range(5):
        g = random.normal(size=[3, 2]).astype(np.float32)
        for kind, parameters in (("rms", rms_prop), ("adam", adam)):
            w[kind], slots[kind] = update_rules.apply(
                parameters, w[kind], slots[kind], g, 0.5, step
            )
        np.testing.assert_allclose(w["rms"], w["adam"], rtol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "kind", "argument"),
    [
        (optimizers.MomentumParameters(0.5, 0.9), "SGD", "Momentum.momentum"),
        (optimizers.RMSPropParameters(0.5, 0.9, 0.9, 1e-4), "Adam", "RMSProp.momentum"),
        (
            optimizers.ProximalAdagradParameters(0.5, l1_regularization_strength=0.1),
            "Adagrad",
            "ProximalAdagrad.l1_regularization_strength",
        ),
        (optimizers.ProximalYogiParameters(0.5), "Adam", "ProximalYogi"),
        (
            optimizers.FtrlParameters(
                0.5, initial_accumulator_value=0.0, allow_zero_accumulator=True
            ),
            "FTRL",
            "Ftrl.initial_accumulator_value",
        ),
        (optimizers.FrequencyEstimatorParameters(0.5, 9, 2, 1), "SGD", "FrequencyEstimator"),
    ],
)
def test_what_has_no_counterpart_is_refused_or_reported(parameters, kind, argument):
    """A loss is an error that names the argument; if allowed, the nearest optimizer is used."""
    with pytest.raises(LossyConversionError, match=argument.replace(".", r"\.")):
        to_mid_level(spec_of(parameters))
    converted = to_mid_level(spec_of(parameters), allow_lossy=True)
    assert [entry.argument for entry in converted.report.lost] == [argument]
    made = converted.feature_config["word"].table.optimizer
    assert type(made).__name__ == kind
    if isinstance(parameters, optimizers.FrequencyEstimatorParameters):
        assert made.learning_rate == 0.0
    else:
        assert made.learning_rate == 0.5


def test_a_gradient_multiplier_is_lost_and_layouts_are_not():
    """A gradient multiplier is lost; the partition strategy isn't."""
    adagrad = optimizers.AdagradParameters(0.1)
    with pytest.raises(LossyConversionError, match="before apply_gradients"):
        to_mid_level(spec_of(adagrad, experimental_gradient_multiplier_fn=decayed))
    table = TableConfig(10, 4, hot_id_replication=True)
    spec = spec_of(adagrad, table, partition_strategy="mod", profile_data_directory="/tmp")
    changed = {entry.argument for entry in to_mid_level(spec).report.changed}
    assert changed == {"hot_id_replication", "partition_strategy", "profile_data_directory"}


@pytest.mark.parametrize("kind", ["columns", "dictionaries"])
def test_an_object_looks_up_as_the_legacy_columns(families, tools, kind):
    """A TPUEmbedding with a legacy checkpoint's tables equals the legacy lookups."""
    family = families[kind]
    embedding = to_tpu_embedding(family.spec, family.checkpoint, hardware=Hardware.CPU)
    for found, expected in tools.check(family, lambda batch: look_up(embedding, batch)):
        assert expected - found == ({"small"} if kind == "columns" else set())


@pytest.mark.parametrize(
    ("parameters", "slots"),
    [
        (optimizers.StochasticGradientDescentParameters(0.1), {}),
        (optimizers.AdagradParameters(0.1), {"/Adagrad": "accumulators"}),
        (optimizers.AdamParameters(0.1), {"/Adam/m": "momenta", "/Adam/v": "velocities"}),
        (optimizers.AdamParameters(0.1), {"/Adam": "momenta", "/Adam_1": "velocities"}),
        (optimizers.FtrlParameters(0.1), {"/Ftrl": "accumulators", "/Ftrl_1": "linears"}),
    ],
)
def test_objects_are_built_saved_and_restored(tools, tmp_path, parameters, slots):
    """tf.train.Checkpoint restores tables and slots of a legacy checkpoint into a new object."""
    spec = spec_of(parameters)
    random = np.random.RandomState(3)
    values = {
        f"words{suffix}": random.uniform(1, 2, (10, 4)).astype(np.float32)
        for suffix in ("", *slots)
    }
    checkpoint = tools.write_checkpoint(str(tmp_path / "model.ckpt-7"), values)
    embedding = to_tpu_embedding(spec, checkpoint)
    path = tf.train.Checkpoint(embedding=embedding).save(str(tmp_path / "new"))
    other = to_tpu_embedding(spec)
    tf.train.Checkpoint(embedding=other).restore(path).assert_existing_objects_matched()
    ((_, table),) = other.embedding_tables.items()
    np.testing.assert_array_equal(table.numpy(), values["words"])
    assert set(other._variables["words"]) == {"parameters", *slots.values()}
    for suffix, name in slots.items():
        found = other._variables["words"][name].numpy()
        np.testing.assert_array_equal(found, values[f"words{suffix}"])


def test_slots_that_begin_anew_are_in_the_report(tools, tmp_path):
    """The report names restored slots, and tables whose slots the checkpoint lacks."""
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"a": FeatureConfig("a"), "b": FeatureConfig("b")},
        table_to_config_dict={"a": TableConfig(5, 2), "b": TableConfig(5, 2)},
        optimization_parameters=optimizers.AdagradParameters(0.1),
    )
    values = {name: np.ones([5, 2], np.float32) for name in ("a", "b", "a/Adagrad")}
    checkpoint = tools.write_checkpoint(str(tmp_path / "model.ckpt-7"), values)
    found = to_tpu_embedding(spec, checkpoint).conversion.report
    slots = {entry.table: entry for entry in found.entries if entry.argument == "slots"}
    assert (slots["a"].status, slots["a"].value) == (Status.EXACT, "a/Adagrad")
    assert (slots["b"].status, slots["b"].new) == (Status.CHANGED, "initial values")
    assert "slots" not in {e.argument for e in to_tpu_embedding(spec).conversion.report.entries}


def test_what_is_wrong_is_found_before_a_table_is_made(monkeypatch):
    """A missing checkpoint and invalid arguments are refused before any allocation."""

    def allocate(*arguments, **more):
        raise AssertionError("allocated")

    monkeypatch.setattr(embedding_api, "TPUEmbedding", allocate)
    spec = spec_of(optimizers.AdagradParameters(0.1))
    with pytest.raises(CheckpointError, match="nowhere"):
        to_tpu_embedding(spec, "/nowhere/model.ckpt-1")
    with pytest.raises(ValueError, match="batch_size must be a positive int or None, got 'all'"):
        to_tpu_embedding(spec, batch_size="all")
    with pytest.raises(ValueError, match="Table 'words' has no learning rate.*AdagradParameters"):
        to_tpu_embedding(spec_of(optimizers.AdagradParameters(None)))


def test_a_legacy_checkpoint_sets_the_step(columns_family):
    """Learning rates continue from the checkpoint's step."""
    words = tf.feature_column.categorical_column_with_identity("small", 5)
    column = tpu_columns.embedding_column(words, 2, learning_rate_fn=decayed)
    spec = estimator_spec.EmbeddingConfigSpec([column], optimizers.AdagradParameters(0.1))
    converted = to_tpu_embedding(spec, columns_family.checkpoint).conversion
    assert int(converted.step) == 7


def test_without_a_tpu_the_object_says_where_it_ends():
    """enqueue, dequeue and apply_gradients raise TensorFlow's error without a TPUStrategy."""
    embedding = to_tpu_embedding(spec_of(optimizers.AdagradParameters(0.1)))
    ids = {"word": tf.sparse.from_dense([[1]])}
    for call in (
        lambda: embedding.enqueue(ids),
        lambda: embedding.dequeue(),
        lambda: embedding.apply_gradients(ids),
    ):
        with pytest.raises(RuntimeError, match="not created under a TPUStrategy"):
            call()


def test_v0_takes_the_configurations_as_far_as_a_tpu():
    """TPUEmbeddingV0 accepts the configurations up to its need of a TPUStrategy."""
    converted = to_mid_level(spec_of(optimizers.AdagradParameters(0.1)))
    with pytest.raises(RuntimeError, match="should be created under TPUStrategy"):
        embedding_api.TPUEmbeddingV0(converted.feature_config, None)


def test_columns_read_as_a_tpu_drop_zeros(tools, tmp_path):
    """With Hardware.TPU dense zeros are padding, and combiner None is sum."""
    words = tf.feature_column.categorical_column_with_identity("word", 5)
    column = tpu_columns.embedding_column(words, 2, combiner=None)
    spec = estimator_spec.EmbeddingConfigSpec([column], optimizers.AdagradParameters(0.1))
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    checkpoint = tools.write_checkpoint(
        str(tmp_path / "model.ckpt-1"), {"input_layer/word_embedding/embedding_weights": table}
    )
    batch = {"word": tf.sparse.from_dense([[1, 2]])}
    for hardware, expected in ((Hardware.CPU, [[3.0, 4.0]]), (Hardware.TPU, [[6.0, 8.0]])):
        embedding = to_tpu_embedding(spec, checkpoint, hardware=hardware)
        np.testing.assert_allclose(look_up(embedding, batch)["word"], expected)
    summed = dataclasses.replace(column, combiner="sum")
    spec = spec._replace(feature_columns=[summed])
    dense = {"word": tf.constant([[0, 2]])}
    for hardware, expected in ((Hardware.CPU, [[4.0, 6.0]]), (Hardware.TPU, [[4.0, 5.0]])):
        embedding = to_tpu_embedding(spec, checkpoint, hardware=hardware)
        np.testing.assert_allclose(look_up(embedding, dense)["word"], expected)


def test_negative_weights_are_refused_where_a_lookup_drops_them():
    """Negative weights are refused, as the target's CPU lookup would drop their ids."""
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": FeatureConfig("words", weight_key="weight")},
        table_to_config_dict={"words": TableConfig(10, 4)},
        optimization_parameters=optimizers.AdagradParameters(0.1),
    )
    ids = tf.sparse.from_dense([[1, 2]])
    batch = {"word": ids, "weight": ids.with_values([1.0, -1.0])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="'word' has a negative weight"):
        look_up(to_tpu_embedding(spec), batch)
