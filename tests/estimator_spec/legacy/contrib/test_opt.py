# SPDX-License-Identifier: Apache-2.0
"""Optimizers of tf.contrib.opt do what TensorFlow 1.15.5's did, of which values are recorded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import make_tf1_15_optimizers as made
from estimator_spec.legacy.contrib import opt as contrib_opt

tf1 = tf.compat.v1
RECORDED = json.loads(Path(made.__file__).with_name("tf1_15_optimizers.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def control_flow_of_tensorflow_1():
    """Lets averages read reference variables, as in a TF1 program under `run`."""
    was_v2 = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    yield
    if was_v2:
        tf1.enable_control_flow_v2()


@pytest.mark.parametrize("use_resource", [False, True], ids=["references", "resources"])
@pytest.mark.parametrize("case", made.CASES)
def test_variables_of_four_steps(case, use_resource):
    """Variables and slots have the recorded names and values after each step."""
    found = made.train(made.CASES[case], contrib_opt, tf1, use_resource)
    for step, expected in zip(found, RECORDED[case][use_resource], strict=True):
        assert step.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(step[name], value, rtol=1e-5, atol=1e-7, err_msg=name)


def test_decay_of_some_variables(caplog):
    """`apply_gradients` takes the variables that shrink; `minimize` says that it does not."""
    with tf.Graph().as_default(), tf1.Session() as session:
        shrinks, stays = (tf1.get_variable(name, initializer=[2.0]) for name in ("a", "b"))
        optimizer = contrib_opt.MomentumWOptimizer(lambda: 0.25, 0.1, 0.9)
        pairs = [(tf.constant([0.0]), variable) for variable in (shrinks, stays)]
        step = optimizer.apply_gradients(pairs, decay_var_list=[shrinks])
        session.run(tf1.global_variables_initializer())
        session.run(step)
        assert session.run([shrinks, stays]) == [[1.5], [2.0]]
        optimizer.minimize(shrinks * stays, decay_var_list=[shrinks])
        assert "decay_var_list has no effect" in caplog.text


def test_what_lars_refuses():
    """A table, and negative factors, are errors."""
    with tf.Graph().as_default():
        table = tf1.get_variable("table", initializer=[[1.0]])
        loss = tf.reduce_sum(tf.gather(table, [0]))
        with pytest.raises(NotImplementedError, match="Sparse gradient updates"):
            contrib_opt.LARSOptimizer(0.1).minimize(loss)
    for name in ("momentum", "weight_decay"):
        with pytest.raises(ValueError, match=f"{name} should be positive: -1"):
            contrib_opt.LARSOptimizer(0.1, **{name: -1})


@pytest.mark.parametrize("use_resource", [False, True], ids=["references", "resources"])
def test_swapped_averages(use_resource, tmp_path):
    """A checkpoint has the recorded averages under the variables' names, parts of one too."""
    found = made.swapped_names(contrib_opt, tf1, use_resource, str(tmp_path))
    for kind, expected in RECORDED["swapping_saver"][use_resource].items():
        assert found[kind].keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[kind][name], value, rtol=1e-6, err_msg=name)


def test_swapping_saver_refuses():
    """A saver before the update, or of a variable without its average, is an error."""
    with tf.Graph().as_default():
        weight = tf1.get_variable("weight", initializer=[1.0])
        optimizer = contrib_opt.MovingAverageOptimizer(tf1.train.AdagradOptimizer(0.1))
        with pytest.raises(RuntimeError, match="Must call apply_gradients or minimize before"):
            optimizer.swapping_saver()
        optimizer.minimize(tf.reduce_sum(weight))
        with pytest.raises(ValueError, match="swap weight/ExponentialMovingAverage is not part of"):
            optimizer.swapping_saver([weight])
        assert optimizer.get_slot_names() == ["accumulator"]
        assert optimizer.get_slot(weight, "accumulator") in optimizer.variables()
