# SPDX-License-Identifier: Apache-2.0
"""Switches of the optimizations."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tpu_columns
from tpu_columns import environment, optimizations
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
ALL = frozenset(Optimization)
UPDATES = Optimization.UPDATES
SPEED = Path(__file__).resolve().parents[2] / "docs" / "speed.md"


@pytest.mark.parametrize(
    ("variables", "arguments", "expected"),
    [
        ({}, {}, ALL),
        ({environment.PLAIN: "1"}, {}, frozenset()),
        ({environment.PLAIN: "1"}, {"plain": False}, ALL),
        ({environment.PLAIN: "0"}, {"plain": True}, frozenset()),
        ({environment.PLAIN: "", UPDATES.value: ""}, {}, ALL),
        ({UPDATES.value: "0"}, {}, ALL - {UPDATES}),
        ({UPDATES.value: "0"}, {"fast_updates": True}, ALL),
        ({}, {"fast_updates": False}, ALL - {UPDATES}),
        ({}, {"fast_updates": False, "plain": True}, frozenset()),
        ({environment.PLAIN: "true"}, {"fast_updates": True}, frozenset()),
        ({Optimization.LOOKUPS.value: "false"}, {}, ALL - {Optimization.LOOKUPS}),
        ({}, {"stacked_tables": False}, ALL - {Optimization.STACKED_TABLES}),
        ({Optimization.STACKED_TABLES.value: "0"}, {"stacked_tables": True}, ALL),
        ({environment.PLAIN: "1"}, {"stacked_tables": True}, frozenset()),
    ],
)
def test_arguments_and_environment(monkeypatch, variables, arguments, expected):
    """Arguments take precedence over their variables; every optimization has its own variable."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert optimizations.choose(**arguments) == expected


@pytest.mark.parametrize("name", [environment.PLAIN, *(each.value for each in Optimization)])
def test_values_of_the_environment(monkeypatch, name):
    """A variable that is neither 0 nor 1 is an error that names it."""
    monkeypatch.setenv(name, "some")
    with pytest.raises(ValueError, match=f"{name}='some' must be 0 or 1"):
        optimizations.choose()


def test_contradicting_arguments():
    """`plain=True` with `fast_updates=True` or `stacked_tables=True` is an error."""
    for name in ("fast_updates", "stacked_tables"):
        with pytest.raises(ValueError, match=f"plain=True turns off all.*, and {name}=True"):
            optimizations.choose(plain=True, **{name: True})


def test_the_innermost_context_counts(monkeypatch):
    """Within `using` the environment doesn't matter; outside it decides."""
    monkeypatch.setenv(environment.PLAIN, "1")
    assert not optimizations.is_used(Optimization.LOOKUPS)
    with optimizations.using(ALL):
        assert optimizations.is_used(Optimization.LOOKUPS)
        with optimizations.using(frozenset()):
            assert not optimizations.is_used(Optimization.LOOKUPS)
    assert not optimizations.is_used(Optimization.LOOKUPS)


def test_the_page_lists_all_switches():
    """docs/speed.md has a row for each switch, and none for others."""
    rows = re.findall(
        r"^\| `(TPU_COLUMNS_\w+)` \|", SPEED.read_text(encoding="utf-8"), re.MULTILINE
    )
    expected = [environment.PLAIN, *(each.value for each in Optimization)]
    assert sorted(rows) == sorted(expected)


def _kinds_and_values(column, features, plain):
    """Returns the op types of a lookup's graph with its gradient, and the values of both."""
    chosen = frozenset() if plain else ALL
    with tf.Graph().as_default() as graph, tf1.Session() as session, optimizations.using(chosen):
        tensors = {
            key: tf.SparseTensor(*value) if isinstance(value, tuple) else tf.constant(value)
            for key, value in features.items()
        }
        layer = tpu_columns.input_layer(tensors, [column])
        gradient = tf.convert_to_tensor(
            tf.gradients(tf.reduce_sum(layer**2), tf1.trainable_variables())[0]
        )
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        return {op.type for op in graph.get_operations()}, session.run([layer, gradient])


@pytest.mark.parametrize("combiner", ["mean", "sqrtn", "sum"])
@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("dense", [True, False])
def test_plain_lookups_are_tensorflows(combiner, safe, dense):
    """Without the optimization, lookups have TensorFlow's ops, and equal values and gradients."""
    column = tpu_columns.embedding_column(
        tf.feature_column.categorical_column_with_identity("a", 7),
        3,
        combiner=combiner,
        initializer=tf1.random_normal_initializer(seed=5),
        use_safe_embedding_lookup=safe,
    )
    ids = np.array([[1, 6], [3, 3], [0, 2]])
    indices = [(row, place) for row in range(3) for place in range(2)]
    features = {"a": ids if dense else (indices, ids.ravel(), (3, 2))}
    kinds, plain = _kinds_and_values(column, features, plain=True)
    fast_kinds, fast = _kinds_and_values(column, features, plain=False)
    assert "SparseTensorDenseMatMul" in fast_kinds - kinds
    assert "Unique" in kinds and "UniqueWithCounts" not in kinds
    for one, other in zip(plain, fast, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-7)
