# SPDX-License-Identifier: Apache-2.0
"""The rule that chooses between TensorFlow's kernels and our formulas."""

from __future__ import annotations

import pytest
import tensorflow as tf

import forking_python
from estimator_spec.updates import kernel_choice, kernel_table, kernels

tf1 = tf.compat.v1

TABLE = {
    (2, 15): {"UnsortedSegmentSum": (None, 0), "SparseApplyAdagrad": (100, None)},
    (2, 20): {"UnsortedSegmentSum": (0, 0), "SparseApplyAdagrad": (6, 0)},
}


@pytest.fixture
def small_table(monkeypatch):
    """A table of two versions and two widths."""
    monkeypatch.setattr(kernel_table, "WIDTHS", (16, 32))
    monkeypatch.setattr(kernel_table, "MINIMUM_ROWS", TABLE)


def _adagrad(rows, dtype=tf.float32):
    """Returns an update of a table of two columns."""
    zeros = tf1.zeros_initializer()
    table, slot = (
        tf1.get_variable(name, [rows, 2], dtype, zeros, use_resource=True) for name in "ab"
    )
    return tf.raw_ops.ResourceSparseApplyAdagrad(
        var=table.handle,
        accum=slot.handle,
        lr=tf.constant(0.1, dtype),
        grad=tf.ones([2, 2], dtype),
        indices=[1, 3],
    )


@pytest.mark.parametrize(
    ("version", "kind", "width", "rows"),
    [
        ("1.15.5", "SparseApplyAdagrad", 16, 100),
        ("2.15.1", "SparseApplyAdagrad", 1, 100),
        ("2.19.0", "ResourceSparseApplyAdagrad", 17, None),
        ("2.20.0-rc1", "ResourceSparseApplyAdagrad", 16, 6),
        ("2.21.0.dev20260101", "SparseApplyAdagrad", 32, 0),
        ("3.0.0", "UnsortedSegmentSum", 500, 0),
    ],
)
def test_the_nearest_entry_decides(small_table, version, kind, width, rows):
    """Versions have the nearest older entry, widths the next larger one."""
    assert kernel_choice.minimum_rows(version, kind, width) == rows


@pytest.mark.parametrize(("rows", "faster"), [(5, False), (6, True), (7, True)])
def test_the_rows_of_the_table_decide(small_table, monkeypatch, rows, faster):
    """The formula is chosen from the table's number of rows on."""
    monkeypatch.setattr(kernel_choice.tf, "__version__", "2.20.0")
    with tf.Graph().as_default():
        assert kernel_choice.formula_is_faster(_adagrad(rows)) is faster


@pytest.mark.parametrize(("version", "faster"), [("2.19.1", False), ("2.20.0", True)])
def test_the_version_decides(small_table, monkeypatch, version, faster):
    """The matrix product is chosen by TensorFlow's version."""
    monkeypatch.setattr(kernel_choice.tf, "__version__", version)
    with tf.Graph().as_default():
        assert kernel_choice.product_is_faster(tf.zeros([3, 16])) is faster


def test_other_gradients_keep_the_kernel(small_table, monkeypatch):
    """Gradients of other dtypes than float32, or of unknown width, keep TensorFlow's ops."""
    monkeypatch.setattr(kernel_choice.tf, "__version__", "2.20.0")
    with tf.Graph().as_default():
        assert not kernel_choice.product_is_faster(tf.zeros([3, 16], tf.float64))
        assert not kernel_choice.product_is_faster(tf1.placeholder(tf.float32, [None, None]))
        assert not kernel_choice.product_is_faster(tf1.placeholder(tf.float32))
        assert not kernel_choice.formula_is_faster(_adagrad(100, tf.float64))


def test_a_table_of_unknown_size(small_table, monkeypatch):
    """A table whose number of rows isn't known counts as small."""
    monkeypatch.setattr(kernel_choice.tf, "__version__", "2.20.0")
    with tf.Graph().as_default():
        op = _adagrad(100)
        kernels.replace_input(op, "var", tf1.placeholder(tf.resource))
        assert not kernel_choice.formula_is_faster(op)


def test_the_measured_table_is_whole():
    """Every version has an entry for every kernel, and every kernel one for every width."""
    kinds = {"UnsortedSegmentSum", *kernels.kinds()}
    assert list(kernel_table.MINIMUM_ROWS) == sorted(kernel_table.MEASURED)
    for rule in kernel_table.MINIMUM_ROWS.values():
        assert set(rule) == kinds
        assert {len(rows) for rows in rule.values()} == {len(kernel_table.WIDTHS)}
    assert list(kernel_table.WIDTHS) == sorted(kernel_table.WIDTHS)


DETERMINISTIC = """
import tensorflow as tf
from estimator_spec.updates import kernel_choice as choice
tf.compat.v1.disable_eager_execution()
gradient = tf.zeros([3, 64])
print(choice.product_is_faster(gradient))
tf.config.experimental.enable_op_determinism()
print(choice.product_is_faster(gradient))
"""


@pytest.mark.slow
def test_deterministic_ops_are_kept():
    """After `enable_op_determinism` TensorFlow's own ops are kept."""
    done = forking_python.run(["-c", DETERMINISTIC])
    assert done.stdout.split("\n")[-3:] == ["True", "False", ""], done.stderr
