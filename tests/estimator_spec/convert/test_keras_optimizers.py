# SPDX-License-Identifier: Apache-2.0
"""Steps of Keras optimizers compared with the host core's."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import FeatureConfig, TableConfig
from estimator_spec.convert import features_for, to_distributed_embedding
from estimator_spec.convert.report import LossyConversionError
from estimator_spec.core.cores import update_rules
from estimator_spec.core.embedding import optimizers

pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
keras = pytest.importorskip("keras")

ROWS, WIDTH = 8, 3
# Repeated ids within and across rows, a row without ids, rows that only some steps look up.
BATCHES = [[[1, 1, 2], [2, 3], []], [[3], [3, 4, 4], [0]], [[5], [1], [1, 5]], [[], [], [2]]]


def decayed(step):
    """Learning rate that falls with the step."""
    return 0.5 / (1.0 + tf.cast(step, tf.float32))


def doubled(step):
    """Gradient multiplier that grows with the step."""
    return 1.0 + tf.cast(step, tf.float32)


def named(value):
    """Returns a short test id, the same in every process."""
    return getattr(value, "__name__", type(value).__name__.removesuffix("Parameters"))


def spec_of(parameters, rate=None, multiplier=None):
    """Returns a spec of one table with combiner sum."""
    return estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": FeatureConfig("words")},
        table_to_config_dict={
            "words": TableConfig(ROWS, WIDTH, combiner="sum", learning_rate_fn=rate)
        },
        optimization_parameters=parameters,
        experimental_gradient_multiplier_fn=multiplier,
    )


def values():
    """Returns initial values of the table, and the gradient of each activation in each step."""
    random = np.random.RandomState(7)
    table = random.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return table, random.normal(size=(len(BATCHES), 3, WIDTH)).astype(np.float32)


def by_keras(spec, options, steps):
    """Returns the table after each step of a converted layer and its optimizer."""
    layer = to_distributed_embedding(spec, **options)
    table, gradients = values()
    variable = layer.trainable_variables[0]
    variable.assign(table)
    optimizer = layer.conversion.optimizer(keras.optimizers.SGD(0.0))
    found = []

    @tf.function
    def step(ids, weights, gradient):
        with tf.GradientTape() as tape:
            activations = layer({"word": ids}, {"word": weights})["word"]
            loss = tf.reduce_sum(activations * gradient)
        optimizer.apply(tape.gradient(loss, [variable.value]), [variable])

    for number in range(steps):
        inputs = features_for(layer, {"word": tf.ragged.constant(BATCHES[number], tf.int64)})
        step(inputs.inputs["word"], inputs.weights["word"], gradients[number])
        found.append(variable.numpy())
    return found


def by_core(spec, steps):
    """Returns the table after each step of the host core's rules."""
    parameters = spec.optimization_parameters
    (config,) = spec.table_to_config_dict.values()
    table, gradients = values()
    slots = {
        name: np.full_like(table, value)
        for name, value in optimizers.slot_initial_values(parameters).items()
    }
    found = []
    for number in range(steps):
        summed = np.zeros_like(table)
        for row, ids in enumerate(BATCHES[number]):
            for one in ids:
                summed[one] += gradients[number, row]
        if spec.experimental_gradient_multiplier_fn is not None:
            summed *= spec.experimental_gradient_multiplier_fn(number)
        rate = parameters.learning_rate
        if config.learning_rate_fn is not None:
            rate = config.learning_rate_fn(number)
        looked_up = sorted({one for ids in BATCHES[number] for one in ids})
        touched = np.zeros([ROWS, 1], bool)
        touched[looked_up] = True
        new, new_slots = update_rules.apply(
            parameters, table, slots, tf.constant(summed), rate, number
        )
        new = update_rules.decay(parameters, new, np.where(touched, table, 0), rate)
        new = update_rules.clip_weights(parameters, new)
        moved = touched | update_rules.updates_all_rows(parameters)
        table = np.where(moved, new, table)
        slots = {name: np.where(moved, new_slots[name], slots[name]) for name in slots}
        found.append(table)
    return found


LIMITS = {
    "clip_weight_min": -0.5,
    "clip_weight_max": 1.0,
    "weight_decay_factor": 0.25,
    "clip_gradient_max": 0.5,
}
CORE = [
    optimizers.StochasticGradientDescentParameters(0.25),
    optimizers.StochasticGradientDescentParameters(0.25, **LIMITS),
    optimizers.AdagradParameters(0.25),
    optimizers.AdagradParameters(
        0.25, multiply_weight_decay_factor_by_learning_rate=True, **LIMITS
    ),
    optimizers.AdagradMomentumParameters(0.25, 0.5, True, 3.0, 0.5, 0.125),
    optimizers.ProximalAdagradParameters(0.25, 0.1, 0.125, 0.25),
    optimizers.AdamParameters(0.25),
    optimizers.AdamParameters(0.25, lazy_adam=False, sum_inside_sqrt=False, **LIMITS),
    optimizers.FtrlParameters(0.25, l1_regularization_strength=0.125, beta=0.5),
    optimizers.FtrlParameters(0.25, multiply_linear_by_learning_rate=True),
    optimizers.ProximalYogiParameters(0.25, l1_regularization_strength=0.125),
    optimizers.MomentumParameters(0.25, 0.75, use_nesterov=True),
    optimizers.RMSPropParameters(0.25, 0.75, 0.5, 0.125),
    optimizers.FrequencyEstimatorParameters(0.5, 2, 2, 1),
]


@pytest.mark.parametrize("parameters", CORE, ids=named)
def test_the_cores_optimizer_steps_as_the_core(parameters):
    """The core's optimizer equals the host core for four steps of all ten optimizers."""
    spec = spec_of(parameters)
    actual = by_keras(spec, {"optimizers": "core"}, len(BATCHES))
    for found, expected in zip(actual, by_core(spec, len(BATCHES)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_cores_optimizer_takes_rates_and_multipliers():
    """learning_rate_fn and experimental_gradient_multiplier_fn get the right step."""
    spec = spec_of(optimizers.AdagradParameters(0.25), decayed, doubled)
    actual = by_keras(spec, {"optimizers": "core"}, len(BATCHES))
    for found, expected in zip(actual, by_core(spec, len(BATCHES)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


EXACT = [
    (optimizers.StochasticGradientDescentParameters(0.25), None),
    (optimizers.StochasticGradientDescentParameters(0.25), decayed),
    (
        optimizers.StochasticGradientDescentParameters(
            0.25, clip_gradient_min=-0.5, clip_gradient_max=0.5
        ),
        None,
    ),
    (optimizers.AdagradParameters(0.25, 0.5), None),
    (optimizers.AdagradParameters(0.25, clip_gradient_min=-0.5, clip_gradient_max=0.5), decayed),
    (optimizers.ProximalAdagradParameters(0.25), None),
    (optimizers.AdagradMomentumParameters(0.25, 0.0, epsilon=0.125), None),
    (optimizers.MomentumParameters(0.25, 0.0), None),
    (optimizers.AdamParameters(0.25, lazy_adam=False, sum_inside_sqrt=False), None),
    (optimizers.AdamParameters(0.25, 0.5, 0.75, lazy_adam=False, sum_inside_sqrt=False), decayed),
]


@pytest.mark.parametrize(("parameters", "rate"), EXACT, ids=named)
def test_keras_own_optimizers_step_as_the_core_where_the_report_says_so(parameters, rate):
    """Without a loss in the report, four steps equal the core's, including other rows."""
    spec = spec_of(parameters, rate)
    assert to_distributed_embedding(spec).conversion.report.lost == ()
    actual = by_keras(spec, {}, len(BATCHES))
    for found, expected in zip(actual, by_core(spec, len(BATCHES)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


NAMED = [
    (optimizers.AdamParameters(0.25), ["Adam.lazy_adam", "Adam.sum_inside_sqrt"]),
    (optimizers.FtrlParameters(0.25), ["Ftrl: rows not looked up"]),
    (optimizers.MomentumParameters(0.25, 0.75), ["Momentum: rows not looked up"]),
    (
        optimizers.MomentumParameters(0.25, 0.75, use_nesterov=True),
        ["Momentum: rows not looked up"],
    ),
    (
        optimizers.RMSPropParameters(0.25, 0.75, 0.5, 0.125),
        ["RMSProp: rows not looked up"],
    ),
]


@pytest.mark.parametrize(("parameters", "lost"), NAMED, ids=named)
def test_keras_own_optimizers_differ_where_the_report_says_so(parameters, lost):
    """The rows of a first step equal the core's; later differences are reported, and real."""
    spec = spec_of(parameters)
    with pytest.raises(LossyConversionError) as caught:
        to_distributed_embedding(spec)
    assert [entry.argument for entry in caught.value.report.lost] == lost
    actual = by_keras(spec, {"allow_lossy": True}, len(BATCHES))
    expected = by_core(spec, len(BATCHES))
    looked_up = sorted({one for ids in BATCHES[0] for one in ids})
    np.testing.assert_allclose(actual[0][looked_up], expected[0][looked_up], rtol=1e-5, atol=1e-6)
    assert not np.allclose(actual[-1], expected[-1], rtol=1e-3)


@pytest.mark.parametrize(
    ("parameters", "lost"),
    [
        (
            optimizers.FtrlParameters(0.25, initial_accumulator_value=0.0),
            "Ftrl.initial_accumulator_value",
        ),
        (optimizers.RMSPropParameters(0.25, 0.75, 0.0, 0.0), "RMSProp.epsilon"),
    ],
    ids=named,
)
def test_a_zero_divisor_spoils_no_row(parameters, lost):
    """Keras updates all rows: where 0 would divide 0, a tiny number is passed, and reported."""
    spec = spec_of(parameters)
    with pytest.raises(LossyConversionError, match=f"{lost}: 0.0 .*NaN: 1e-30 is passed"):
        to_distributed_embedding(spec)
    actual = by_keras(spec, {"allow_lossy": True}, 1)
    looked_up = sorted({one for ids in BATCHES[0] for one in ids})
    expected = by_core(spec, 1)[0]
    np.testing.assert_allclose(actual[0][looked_up], expected[looked_up], rtol=1e-5, atol=1e-6)
    assert np.isfinite(actual[0]).all()


@pytest.mark.parametrize("kind", ["StochasticGradientDescent", "Adagrad"])
def test_without_accumulation_one_replica_sums_as_with_it(kind):
    """On one replica a row is updated, and decays, once a step; with several it may differ."""
    rules = getattr(optimizers, f"{kind}Parameters")
    parameters = rules(0.25, use_gradient_accumulation=False, weight_decay_factor=0.25)
    spec = spec_of(parameters)
    with pytest.raises(LossyConversionError, match="once a step.* exact only for True, o"):
        to_distributed_embedding(spec, optimizers="core")
    actual = by_keras(spec, {"optimizers": "core", "allow_lossy": True}, len(BATCHES))
    summed = spec_of(dataclasses.replace(parameters, use_gradient_accumulation=True))
    for found, expected in zip(actual, by_core(summed, len(BATCHES)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        (optimizers.ProximalYogiParameters(0.25), keras.optimizers.Adam),
        (optimizers.FrequencyEstimatorParameters(0.5, 2, 2, 1), keras.optimizers.SGD),
        (optimizers.AdagradMomentumParameters(0.25, 0.5), keras.optimizers.Adagrad),
    ],
)
def test_what_keras_has_not_is_replaced_only_if_allowed(parameters, kind):
    """The nearest Keras optimizer is used, and a frequency table doesn't change."""
    spec = spec_of(parameters)
    with pytest.raises(LossyConversionError):
        to_distributed_embedding(spec)
    made = to_distributed_embedding(spec, allow_lossy=True).conversion.optimizers["words"]
    assert isinstance(made, kind)
    if isinstance(parameters, optimizers.FrequencyEstimatorParameters):
        assert float(made.learning_rate) == 0


@pytest.mark.parametrize(("low", "high", "clips"), [(-0.5, 0.5, 0.5), (-0.1, 0.5, None)])
def test_only_symmetric_limits_are_keras_clipvalue(low, high, clips):
    """Keras clips to ±clipvalue: other limits are lost, not replaced by one of the two."""
    spec = spec_of(
        optimizers.AdagradParameters(0.25, clip_gradient_min=low, clip_gradient_max=high)
    )
    made = to_distributed_embedding(spec, allow_lossy=True).conversion
    assert made.optimizers["words"].clipvalue == clips
    lost = {entry.argument for entry in made.report.lost}
    assert ("Adagrad.clip_gradient_max" in lost) == (clips is None), lost


def test_gradients_of_repeated_ids_are_summed_first():
    """Gradients of repeated ids are summed before Keras' Adagrad squares them."""
    spec = spec_of(optimizers.AdagradParameters(0.25))
    layer = to_distributed_embedding(spec)
    plain = keras.optimizers.Adagrad(0.25, 0.1, epsilon=0.0)
    table, _ = values()
    variable = layer.trainable_variables[0]
    slices = tf.IndexedSlices(tf.ones([2, WIDTH]), tf.constant([1, 1]), tf.constant([ROWS, WIDTH]))
    found = []
    for optimizer in (plain, layer.conversion.optimizers["words"]):
        variable.assign(table)
        optimizer.apply([slices], [variable])
        found.append(variable.numpy()[1] - table[1])
    np.testing.assert_allclose(found[1], -0.25 * 2 / np.sqrt(0.1 + 4), rtol=1e-5)
    assert not np.allclose(found[0], found[1])


def test_a_dense_gradient_is_refused_by_the_cores_optimizer():
    """A dense gradient is refused with possible reasons."""
    layer = to_distributed_embedding(spec_of(CORE[0]), optimizers="core")
    (optimizer,) = layer.conversion.optimizers.values()
    with pytest.raises(TypeError, match="regularizer"):
        optimizer.apply([tf.zeros([ROWS, WIDTH])], layer.trainable_variables)


@pytest.mark.parametrize("target", ["keras", "core"])
def test_optimizers_come_back_from_their_config(target):
    """The config has parameters, multiplier, and rate functions by name."""
    parameters = optimizers.AdamParameters(0.25, lazy_adam=False, sum_inside_sqrt=False)
    multiplier = doubled if target == "core" else None
    spec = spec_of(parameters, decayed, multiplier)
    (optimizer,) = to_distributed_embedding(spec, optimizers=target).conversion.optimizers.values()
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert type(again) is type(optimizer)
    assert float(again.learning_rate) == pytest.approx(float(optimizer.learning_rate))
    if target == "core":
        assert again.parameters == parameters
        assert again._multiplier is doubled


@pytest.mark.parametrize(
    ("parameters", "suffixes"),
    [
        (optimizers.AdagradParameters(0.25), {"accumulator": "/Adagrad"}),
        (optimizers.AdamParameters(0.25), {"m": "/Adam/m", "v": "/Adam/v"}),
        (optimizers.AdamParameters(0.25), {"m": "/Adam", "v": "/Adam_1"}),
    ],
)
def test_a_checkpoints_slots_and_step_go_on(tools, tmp_path, parameters, suffixes):
    """The core's optimizer continues from the slots and the step of a checkpoint."""
    random = np.random.RandomState(1)
    tensors = {
        f"words{suffix}": random.uniform(1, 2, (ROWS, WIDTH)).astype(np.float32)
        for suffix in ("", *suffixes.values())
    }
    checkpoint = tools.write_checkpoint(str(tmp_path / "model.ckpt-7"), tensors)
    layer = to_distributed_embedding(spec_of(parameters), checkpoint, optimizers="core")
    conversion = layer.conversion
    conversion.optimizer(keras.optimizers.SGD(0.1)).build(layer.trainable_variables)
    assert conversion.load_slots(layer) == ["words"]
    (optimizer,) = conversion.optimizers.values()
    assert int(optimizer.iterations) == 7
    for slot, suffix in suffixes.items():
        found = optimizer.slot(slot, layer.trainable_variables[0]).numpy()
        np.testing.assert_array_equal(found, tensors[f"words{suffix}"])


def test_slots_need_a_checkpoint_and_the_cores_optimizer(tools, tmp_path):
    """Missing checkpoints and unbuilt optimizers are refused with advice."""
    spec = spec_of(optimizers.AdagradParameters(0.25))
    layer = to_distributed_embedding(spec, optimizers="core")
    with pytest.raises(ValueError, match="without a checkpoint"):
        layer.conversion.load_slots(layer)
    tensors = {"words": np.zeros((ROWS, WIDTH), np.float32)}
    checkpoint = tools.write_checkpoint(str(tmp_path / "model.ckpt-7"), tensors)
    layer = to_distributed_embedding(spec, checkpoint)
    with pytest.raises(ValueError, match="'words' is Keras' own.*optimizers='core'"):
        layer.conversion.load_slots(layer)
    layer = to_distributed_embedding(spec, checkpoint, optimizers="core")
    with pytest.raises(ValueError, match="'words' isn't built.*optimizer.build"):
        layer.conversion.load_slots(layer)


@pytest.mark.parametrize(
    ("target", "becomes"), [("keras", "initial values"), ("core", "conversion.load_slots(layer)")]
)
def test_a_report_says_what_becomes_of_slots(tools, tmp_path, target, becomes):
    """The report says that Keras' own optimizers start anew, and the core's can continue."""
    tensors = {name: np.ones((ROWS, WIDTH), np.float32) for name in ("words", "words/Adagrad")}
    checkpoint = tools.write_checkpoint(str(tmp_path / "model.ckpt-7"), tensors)
    spec = spec_of(optimizers.AdagradParameters(0.25))
    found = to_distributed_embedding(spec, checkpoint, optimizers=target).conversion.report
    (entry,) = (entry for entry in found.changed if entry.argument == "slots")
    assert (entry.table, entry.old, entry.new) == ("words", "words/Adagrad", becomes)


def test_parameters_without_a_rate_are_refused():
    """A table without any learning rate is refused by the conversion."""
    parameters = dataclasses.replace(CORE[2], learning_rate=None)
    with pytest.raises(ValueError, match="no learning rate"):
        to_distributed_embedding(spec_of(parameters))
