# SPDX-License-Identifier: Apache-2.0
"""`estimator_spec.tpu`: TensorFlow's functions, or the host's."""

from __future__ import annotations

import pytest
import tensorflow as tf

import estimator_spec.tpu
from estimator_spec.legacy import tpu_stand_ins


def test_tensorflows_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the environment variable the functions are TensorFlow's."""
    monkeypatch.delenv("TPU_COLUMNS_CPU", raising=False)
    resolver = estimator_spec.tpu.TPUClusterResolver
    assert resolver is tf.distribute.cluster_resolver.TPUClusterResolver
    for name in set(dir(estimator_spec.tpu)) - {"CrossShardOptimizer", "TPUClusterResolver"}:
        assert getattr(estimator_spec.tpu, name) is getattr(tf.compat.v1.tpu, name)


def test_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the environment variable the host is one replica, and the cluster is empty."""
    monkeypatch.setenv("TPU_COLUMNS_CPU", "1")
    assert estimator_spec.tpu.TPUClusterResolver("my-tpu").master() == ""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        total = estimator_spec.tpu.cross_replica_sum(tf.constant(3.0))
        assert session.run(total) == 3.0
    for name in set(dir(estimator_spec.tpu)) - {"CrossShardOptimizer"}:
        assert getattr(estimator_spec.tpu, name) is getattr(tpu_stand_ins, name)


def test_optimizer_without_a_tpu() -> None:
    """`CrossShardOptimizer` calls the wrapped optimizer on one replica."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weight = tf.compat.v1.get_variable("w", initializer=2.0)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.5)
        step = estimator_spec.tpu.CrossShardOptimizer(optimizer).minimize(weight * 1.0)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(step)
        assert session.run(weight) == 1.5


def test_unknown_names() -> None:
    """Another name is an AttributeError."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        estimator_spec.tpu.nothing  # noqa: B018
