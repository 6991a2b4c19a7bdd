# SPDX-License-Identifier: Apache-2.0
"""The choice between TensorFlow's kernels and our formulas, by the clock."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from estimator_spec.updates import kernel_choice

tf1 = tf.compat.v1


def test_the_choice_is_measured():
    """A choice is made for any kind of update, by running both sides."""
    with tf.Graph().as_default():
        table, slot = (tf1.get_variable(name, [5, 2], use_resource=True) for name in "ab")
        op = tf.raw_ops.ResourceSparseApplyAdagrad(
            var=table.handle, accum=slot.handle, lr=0.1, grad=tf.ones([2, 2]), indices=[1, 3]
        )
        assert kernel_choice.formula_is_faster(op, None) in (True, False)
        assert kernel_choice.product_is_faster(tf.zeros([3, 20]), None) in (True, False)
        assert not kernel_choice.product_is_faster(tf.zeros([3, 20], tf.float64), None)
        measured = {("ResourceSparseApplyAdagrad", 16), ("UnsortedSegmentSum", 32)}
        assert measured <= {(kind, width) for kind, width, _ in kernel_choice._measured}


DETERMINISTIC = """
import tensorflow as tf
from estimator_spec.updates import kernel_choice as choice
tf.config.experimental.enable_op_determinism()
tf.compat.v1.disable_eager_execution()
print(choice.product_is_faster(tf.zeros([3, 20]), None), choice._measured)
"""


@pytest.mark.slow
def test_nothing_is_measured_where_tensorflow_is_deterministic():
    """After `enable_op_determinism` TensorFlow's kernels stay, whatever the clock would say."""
    done = subprocess.run([sys.executable, "-c", DETERMINISTIC], capture_output=True, text=True)
    assert done.stdout.split("\n")[-2:] == ["False {}", ""], done.stderr


@pytest.mark.parametrize("rows", [1024, 1 << 19])
def test_the_choice_is_measured_on_unique_ids(rows):
    """Kernels and formulas are timed on ids that don't repeat, others in each run."""
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
    """Updates of one variable at once don't free its memory twice, as TensorFlow 2.15 would."""
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
