# SPDX-License-Identifier: Apache-2.0
"""Tests conversions between the slots of an embedding core and TF1's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec import checkpoints
from estimator_spec.core.checkpoints import slots

TABLE = "input_layer/word_embedding/embedding_weights"


def word_spec(optimizer):
    """Returns a spec with one column of 5 rows."""
    word = tf.feature_column.categorical_column_with_identity("word", 5)
    return es.EmbeddingConfigSpec([tpu_columns.embedding_column(word, 2)], optimizer)


def arrays(names, seed=0):
    """Returns an array for each name."""
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=(5, 2)).astype(np.float32) for name in names}


@pytest.mark.parametrize("optimizer", ["Adam", "RMSProp"])
def test_names_that_differ(files, same, optimizer):
    """Slots are renamed from TPU to TF1 names and back, bit by bit."""
    on_tpu = slots.find_naming(optimizer, "tpu").suffixes
    on_cpu = slots.find_naming(optimizer, "cpu").suffixes
    variables = arrays([TABLE, *(TABLE + suffix for suffix in on_tpu.values())])
    source = files.write({**variables, "global_step": np.int64(9)})
    there, back = files.new(), files.new()
    report = checkpoints.convert(source, there, slots="cpu")
    assert any(note.startswith(optimizer) for note in report.notes)
    found = files.read(there)
    for slot, suffix in on_cpu.items():
        np.testing.assert_array_equal(found[TABLE + suffix], variables[TABLE + on_tpu[slot]])
        assert TABLE + on_tpu[slot] not in found
    report = checkpoints.convert(there, back, slots="tpu")
    assert any(note.startswith(optimizer) for note in report.notes)
    same(files.read(back), {**variables, "global_step": np.int64(9)})


@pytest.mark.parametrize("optimizer", ["Adagrad", "Ftrl", "Momentum", "ProximalAdagrad"])
def test_names_that_agree(files, optimizer):
    """Slots with the same names in both systems are copied without a note."""
    suffixes = slots.find_naming(optimizer, "tpu").suffixes.values()
    assert (
        slots.find_naming(optimizer, "cpu").suffixes == slots.find_naming(optimizer, "tpu").suffixes
    )
    source = files.write(arrays([TABLE, *(TABLE + suffix for suffix in suffixes)]))
    for system in ("cpu", "tpu"):
        report = checkpoints.convert(source, files.new(), slots=system)
        assert all(change.is_copy for change in report.changes)
        assert report.notes == ()


def test_the_bias_of_adam(files):
    """TF1's Adam gets the beta powers of the checkpoint's step, and the report says why."""
    variables = arrays([TABLE, TABLE + "/Adam/m", TABLE + "/Adam/v"])
    source = files.write({**variables, "global_step": np.int64(4)})
    for spec, betas in (
        (None, (0.9, 0.999)),
        (word_spec(es.AdamParameters(0.1, beta1=0.5, beta2=0.75)), (0.5, 0.75)),
    ):
        target = files.new()
        report = checkpoints.convert(source, target, spec, slots="cpu")
        found = files.read(target)
        assert found["beta1_power"] == pytest.approx(betas[0] ** 5, rel=1e-6)
        assert found["beta2_power"] == pytest.approx(betas[1] ** 5, rel=1e-6)
        assert "doesn't correct the bias" in str(report)


def test_tf1s_adam_goes_on_from_converted_slots(files):
    """TF1's Adam, restored from a converted checkpoint, takes a step by its own formula."""
    variables = arrays([TABLE, TABLE + "/Adam/m", TABLE + "/Adam/v"])
    variables[TABLE + "/Adam/v"] **= 2
    source = files.write({**variables, "global_step": np.int64(4)})
    target = files.new()
    checkpoints.convert(source, target, slots="cpu")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable(TABLE, [5, 2])
        step = tf.compat.v1.train.get_or_create_global_step()
        train = tf.compat.v1.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(table * 0.5), step)
        tf.compat.v1.train.Saver().restore(session, target)
        session.run(train)
        after = session.run(table)
    m = 0.9 * variables[TABLE + "/Adam/m"] + 0.1 * 0.5
    v = 0.999 * variables[TABLE + "/Adam/v"] + 0.001 * 0.25
    rate = 0.1 * np.sqrt(1 - 0.999**5) / (1 - 0.9**5)
    np.testing.assert_allclose(after, variables[TABLE] - rate * m / (np.sqrt(v) + 1e-8), rtol=1e-4)


def test_beta_powers_of_others_stay(files):
    """Beta powers are left out for an embedding core, unless dense layers need them."""
    variables = arrays([TABLE, TABLE + "/Adam", TABLE + "/Adam_1"])
    powers = {"beta1_power": np.float32(0.5), "beta2_power": np.float32(0.9)}
    dense = arrays(["head/kernel", "head/kernel/Adam", "head/kernel/Adam_1"])
    alone, together = files.new(), files.new()
    report = checkpoints.convert(files.write({**variables, **powers}), alone, slots="tpu")
    assert "beta1_power" not in files.read(alone)
    assert "an embedding core's Adam has none" in str(report)
    checkpoints.convert(files.write({**variables, **powers, **dense}), together, slots="tpu")
    found = files.read(together)
    assert found["beta1_power"] == np.float32(0.5)
    assert "head/kernel/Adam_1" in found  # layers keep TF1's names
    assert TABLE + "/Adam/v" in found
    back = files.new()
    checkpoints.convert(together, back, slots="cpu")
    assert files.read(back)["beta2_power"] == np.float32(0.9)


def test_linear_times_rate(files):
    """Ftrl's linear slot that holds linear·lr is divided by the rate, and multiplied back."""
    spec = word_spec(es.FtrlParameters(0.25, multiply_linear_by_learning_rate=True))
    variables = arrays([TABLE, TABLE + "/Ftrl", TABLE + "/Ftrl_1"])
    source, there, back = files.write(variables), files.new(), files.new()
    report = checkpoints.convert(source, there, spec, slots="cpu")
    assert "divided by the learning rate 0.25" in str(report)
    found = files.read(there)
    np.testing.assert_array_equal(found[TABLE + "/Ftrl_1"], variables[TABLE + "/Ftrl_1"] * 4)
    np.testing.assert_array_equal(found[TABLE + "/Ftrl"], variables[TABLE + "/Ftrl"])
    checkpoints.convert(there, back, spec, slots="tpu")
    np.testing.assert_array_equal(files.read(back)[TABLE + "/Ftrl_1"], variables[TABLE + "/Ftrl_1"])


@pytest.mark.parametrize(
    ("suffixes", "system", "words"),
    [
        (["/ProximalYogi", "/ProximalYogi_1"], "cpu", "TF1 has no such optimizer. Leave the slots"),
        (["/Adadelta", "/Adadelta_1"], "tpu", "An embedding core has no such optimizer"),
        (["/Adam/m"], "cpu", "lacks /Adam/v of Adam"),
    ],
)
def test_slots_without_a_counterpart(files, suffixes, system, words):
    """Slots without a counterpart are an error that says how to leave them out."""
    source = files.write(arrays([TABLE, *(TABLE + suffix for suffix in suffixes)]))
    with pytest.raises(ValueError, match=words):
        checkpoints.convert(source, files.new(), slots=system)
    target = files.new()
    report = checkpoints.convert(source, target, slots=system, drop=[f"{s}$" for s in suffixes])
    assert list(files.read(target)) == [TABLE]
    assert "(left out)" in str(report)


def test_new_rows_of_slots(files):
    """New rows of a slot get the initial value of the optimizer with the new names."""
    names = [TABLE, TABLE + "/RMSProp/ms", TABLE + "/RMSProp/mom"]
    source = files.write(arrays(names))
    tpu, cpu = files.new(), files.new()
    checkpoints.convert(source, tpu, grow={TABLE: 6})
    checkpoints.convert(source, cpu, grow={TABLE: 6}, slots="cpu")
    assert files.read(tpu)[TABLE + "/RMSProp/ms"][5].tolist() == [0, 0]
    assert files.read(cpu)[TABLE + "/RMSProp"][5].tolist() == [1, 1]
    assert files.read(cpu)[TABLE + "/RMSProp_1"][5].tolist() == [0, 0]


def test_new_rows_of_averages_and_unknown_slots(files):
    """A moving average gets the table's new rows; a slot of no known optimizer can't grow."""
    average, unknown = TABLE + "/ExponentialMovingAverage", TABLE + "/mine"
    target = files.new()
    checkpoints.convert(files.write(arrays([TABLE, average])), target, grow={TABLE: 9})
    found = files.read(target)
    np.testing.assert_array_equal(found[average][5:], found[TABLE][5:])
    with pytest.raises(ValueError, match="belongs to no known optimizer"):
        checkpoints.convert(files.write(arrays([TABLE, unknown])), files.new(), grow={TABLE: 9})
