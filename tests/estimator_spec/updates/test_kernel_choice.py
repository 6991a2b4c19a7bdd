# SPDX-License-Identifier: Apache-2.0
"""Measurements that choose between TensorFlow's kernels and our formulas."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from estimator_spec.updates import kernel_choice

tf1 = tf.compat.v1


def _adagrad():
    """Returns an update of a table of five rows."""
    table, slot = (tf1.get_variable(name, [5, 2], use_resource=True) for name in "ab")
    return tf.raw_ops.ResourceSparseApplyAdagrad(
        var=table.handle, accum=slot.handle, lr=0.1, grad=tf.ones([2, 2]), indices=[1, 3]
    )


@pytest.fixture(autouse=True)
def nothing_measured(monkeypatch):
    """Forgets earlier measurements of the process."""
    monkeypatch.setattr(kernel_choice, "_measured", {})


def test_the_choice_is_measured(monkeypatch):
    """Both sides of each choice are run, and the measured speed-up decides."""
    measured = []
    speed_up = kernel_choice._speed_up

    def recording(kind, width, *args):
        measured.append((kind, width, speed_up(kind, width, *args)))
        return measured[-1][2]

    monkeypatch.setattr(kernel_choice, "_speed_up", recording)
    with tf.Graph().as_default():
        formula = kernel_choice.formula_is_faster(_adagrad(), None)
        product = kernel_choice.product_is_faster(tf.zeros([3, 20]), None)
    (kernel, sums), clearly = measured, kernel_choice.CLEARLY
    assert kernel[:2] == ("ResourceSparseApplyAdagrad", 16)
    assert sums[:2] == ("UnsortedSegmentSum", 32)
    assert kernel[2] > 0 and formula == (kernel[2] > clearly)
    assert sums[2] > 0 and product == (sums[2] > clearly)


@pytest.mark.parametrize(("speed_up", "faster"), [(0.5, False), (1.1, False), (1.2, True)])
def test_our_ops_must_be_clearly_faster(speed_up, faster, monkeypatch):
    """Our ops are chosen from a speed-up of 1.15 on, and each size is measured once."""
    calls = []
    monkeypatch.setattr(kernel_choice, "_speed_up", lambda *args: calls.append(args) or speed_up)
    with tf.Graph().as_default():
        op, gradient = _adagrad(), tf.zeros([3, 20])
        for _ in range(2):
            assert kernel_choice.formula_is_faster(op, None) is faster
            assert kernel_choice.product_is_faster(gradient, None) is faster
    assert len(calls) == 2


def test_other_dtypes_are_not_measured():
    """Gradients of other dtypes than float32 keep TensorFlow's ops without a measurement."""
    with tf.Graph().as_default():
        assert not kernel_choice.product_is_faster(tf.zeros([3, 20], tf.float64), None)
    assert not kernel_choice._measured


DETERMINISTIC = """
import tensorflow as tf
from estimator_spec.updates import kernel_choice as choice
tf.config.experimental.enable_op_determinism()
tf.compat.v1.disable_eager_execution()
print(choice.product_is_faster(tf.zeros([3, 20]), None), choice._measured)
"""


@pytest.mark.slow
def test_nothing_is_measured_where_tensorflow_is_deterministic():
    """After `enable_op_determinism` TensorFlow's kernels are kept without a measurement."""
    done = subprocess.run([sys.executable, "-c", DETERMINISTIC], capture_output=True, text=True)
    assert done.stdout.split("\n")[-2:] == ["False {}", ""], done.stderr


@pytest.mark.parametrize("rows", [1024, 1 << 19])
def test_the_choice_is_measured_on_unique_ids(rows):
    """Kernels and formulas are timed on unique ids, which differ between runs."""
    with tf.Graph().as_default(), tf1.Session() as session:
        ids = kernel_choice._unique_ids(rows)
        runs = [set(session.run(ids)) for _ in range(5)]
    assert {len(run) for run in runs} == {1024}
    assert set.union(*runs) <= set(range(rows))
    assert rows == 1024 or len(set.union(*runs)) > 2 * 1024


MEASURED_OFTEN = """
import tensorflow as tf
from estimator_spec.updates import kernel_choice as choice
choice._UPDATES, choice._WARM_UP, choice._ROUNDS = 4, 0, 1
for _ in range(150):
    choice._speed_up("ResourceSparseApplyFtrl", 16, 1024, choice._kernel_and_formula, None)
"""


@pytest.mark.slow
def test_measuring_is_safe():
    """The measurement doesn't run concurrent first updates, which crash TensorFlow 2.15."""
    # What glibc does with freed memory then shows a second freeing soon.
    env = {**os.environ, "MALLOC_PERTURB_": "165"}
    command = [sys.executable, "-c", MEASURED_OFTEN]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr


WARNINGS_SHOWN = """
import tensorflow as tf
from estimator_spec.updates import kernel_choice as choice
tf.compat.v1.disable_eager_execution()
choice._ROUNDS = 1
choice.product_is_faster(tf.zeros([3, 20]), None)
choice._speed_up("ResourceSparseApplyAdagrad", 16, 1024, choice._kernel_and_formula, None)
print(len(choice._measured))
"""


@pytest.mark.slow
def test_measuring_changes_no_graph_that_a_session_ran():
    """TensorFlow doesn't warn that an op was changed after a session ran it."""
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "1"}
    command = [sys.executable, "-c", WARNINGS_SHOWN]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.stdout.split("\n")[-2:] == ["1", ""], done.stderr
    assert "was changed by" not in done.stderr


def test_the_speed_up_is_theirs_by_ours(monkeypatch):
    """A speed-up is the time of TensorFlow's ops divided by that of ours, of middling rounds."""
    rounds = kernel_choice._WARM_UP + kernel_choice._ROUNDS
    theirs, ours = [6.0] * rounds, [2.0] * rounds
    theirs[-1], ours[-1] = 500.0, 900.0  # something else ran, too
    times = iter([time for pair in zip(theirs, ours, strict=True) for time in pair])
    monkeypatch.setattr(kernel_choice, "_seconds", lambda call: next(times))
    with tf.Graph().as_default():
        assert kernel_choice.formula_is_faster(_adagrad(), None)
    assert next(times, None) is None
    times = iter([2.0, 6.0] * rounds)
    with tf.Graph().as_default():
        assert not kernel_choice.product_is_faster(tf.zeros([3, 20]), None)
