# SPDX-License-Identifier: Apache-2.0
"""Large variables on huge pages of the system's memory."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.driver import huge_pages
from tpu_columns.kernels import loading
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
PAGE = 1 << 21
DIM = 16
LARGE = 3 * PAGE // (4 * DIM)  # rows of three pages

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="huge pages are of Linux"),
    pytest.mark.usefixtures("built_kernels"),
]


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch):
    """Settings of a system that gives huge pages to those who ask; returns their directory."""
    directory = tmp_path / "settings"
    directory.mkdir()
    (directory / "enabled").write_text("always [madvise] never\n")
    (directory / "hpage_pmd_size").write_text(f"{PAGE}\n")
    monkeypatch.setattr(huge_pages, "SETTINGS", directory)
    return directory


def _advised_bytes():
    """Returns how much memory of this process was requested in huge pages."""
    blocks = re.findall(
        r"^Size: +(\d+) kB$.*?^VmFlags: (.*?)$",
        Path("/proc/self/smaps").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    return 1024 * sum(int(size) for size, flags in blocks if "hg" in flags.split())


def _build(graph):
    """Adds the ops to a graph, which has another native op as if it had tables."""
    with graph.as_default():
        loading.load().tpu_columns_use_huge_pages(values=[0.0], page_bytes=PAGE)
    return huge_pages.build(graph, [])


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("rows", [LARGE // 2, LARGE - 1, LARGE + 11, 20 * LARGE])
def test_a_variable_moves_and_keeps_its_values(use_resource, rows):
    """All whole pages of a variable are requested, of one by several threads, too."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        values = tf.random.stateless_uniform([rows, DIM], [1, 2])
        variable = tf1.get_variable("v", initializer=values, use_resource=use_resource)
        session.run(variable.initializer)
        before = session.run(variable)
        (num_bytes,) = session.run(list(_build(graph).num_bytes))
        np.testing.assert_array_equal(session.run(variable), before)
        assert num_bytes % PAGE == 0
        assert before.nbytes - 2 * PAGE < num_bytes <= before.nbytes
        assert _advised_bytes() >= num_bytes
        session.run(tf1.assign_add(variable, tf.ones_like(variable)))  # it can be written
        np.testing.assert_array_equal(session.run(variable), before + 1)


def test_large_float_variables_on_the_cpu_move():
    """Small variables, those of another type, and those of a GPU stay where they are."""
    with tf.Graph().as_default() as graph:
        zeros = tf1.zeros_initializer()
        tf1.get_variable("large", [LARGE, DIM], initializer=zeros)
        tf1.get_variable("small", [LARGE // 4, DIM], initializer=zeros)
        tf1.get_variable("integers", [LARGE, DIM], tf.int32, initializer=zeros)
        with tf1.device("/device:GPU:0"):
            tf1.get_variable("gpu", [LARGE, DIM], initializer=zeros)
        (num_bytes,) = _build(graph).num_bytes
    assert num_bytes.op.inputs[0].op.inputs[0].op.name == "large"


@pytest.mark.parametrize(
    "enabled", ["[always] madvise never", "always madvise [never]", None], ids=str
)
def test_other_systems_are_left_alone(settings, enabled):
    """Nothing moves where a program has huge pages anyway, or can't have them."""
    if enabled is None:
        (settings / "enabled").unlink()
    else:
        (settings / "enabled").write_text(enabled)
    with tf.Graph().as_default() as graph:
        tf1.get_variable("large", [LARGE, DIM])
        assert _build(graph) is None


def test_a_graph_without_native_ops_gets_none():
    """A graph that TensorFlow alone can read stays one."""
    with tf.Graph().as_default() as graph:
        tf1.get_variable("large", [LARGE, DIM])
        before = graph.as_graph_def()
        assert huge_pages.build(graph, []) is None
        assert graph.as_graph_def() == before


def _train(directory, core, **steps):
    """Trains a large table; returns it and its slot variable."""
    column = es.embedding_column(
        tf.feature_column.categorical_column_with_identity("id", LARGE),
        DIM,
        initializer=tf1.random_uniform_initializer(-1, 1, seed=3),
    )

    def model_fn(features, labels, mode, params):
        del params
        net = tf1.feature_column.input_layer(features, [column])
        loss = tf.reduce_mean((tf.reduce_sum(net, 1) - labels) ** 2)
        optimizer = tf1.train.AdagradOptimizer(0.1)
        train_op = optimizer.minimize(loss, tf1.train.get_or_create_global_step())
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn(params):
        del params
        random = np.random.default_rng(5)
        ids, labels = random.integers(0, LARGE, [80, 1]), random.normal(size=80)
        batches = tf.data.Dataset.from_tensor_slices(({"id": ids}, labels.astype(np.float32)))
        return batches.batch(8, drop_remainder=True).repeat()

    spec = None
    if core == "host":
        spec = es.EmbeddingConfigSpec([column], es.AdagradParameters(0.1))
    estimator = es.TPUEstimator(
        model_fn,
        directory,
        es.RunConfig(tf_random_seed=1),
        train_batch_size=8,
        use_tpu=False,
        embedding_config_spec=spec,
        embedding_core=core,
    )
    estimator.train(input_fn, **steps)
    large = [n for n in estimator.get_variable_names() if "embedding_weights" in n]
    return [estimator.get_variable_value(name) for name in sorted(large)]


@pytest.mark.parametrize("core", [None, "host"])
def test_trainings_are_equal(core, tmp_path, monkeypatch):
    """Trainings that move their tables, and go on, equal those that don't, bit for bit."""
    monkeypatch.setattr(tf1.logging, "info", lambda text, *args: lines.append(text % args))
    lines = []
    _train(str(tmp_path / "moved"), core, steps=100)
    moved = _train(str(tmp_path / "moved"), core, max_steps=200)
    told = [line for line in lines if "huge pages" in line]
    assert told == ["8 MiB of tables and slot variables use huge pages."] * 2
    lines.clear()
    monkeypatch.setenv(Optimization.HUGE_PAGES.value, "0")
    _train(str(tmp_path / "left"), core, steps=100)
    left = _train(str(tmp_path / "left"), core, max_steps=200)
    assert not [line for line in lines if "huge pages" in line]
    assert len(moved) == 2
    for one, other in zip(moved, left, strict=True):
        np.testing.assert_array_equal(one, other)


def test_short_trainings_move_nothing(tmp_path, monkeypatch):
    """A training of fewer than 100 steps, or of fewer that are left, begins at once."""
    monkeypatch.setattr(tf1.logging, "info", lambda text, *args: lines.append(text % args))
    lines = []
    _train(str(tmp_path), None, steps=99)
    _train(str(tmp_path), None, max_steps=198)
    assert not [line for line in lines if "huge pages" in line]
    _train(str(tmp_path), None, max_steps=298)
    assert [line for line in lines if "huge pages" in line]
