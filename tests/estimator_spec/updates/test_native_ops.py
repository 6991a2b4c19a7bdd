# SPDX-License-Identifier: Apache-2.0
"""Native kernels: the numbers of TensorFlow's ops, where they run, and the errors."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_spec as es
import tpu_columns
import traces
from estimator_spec.updates import native_library, native_ops, optimize_training_graph
from tpu_columns import Hardware, IdOutOfRangeError, Mode, combining, optimizations, placement
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
fc = tf.feature_column
NATIVE = Optimization.NATIVE_KERNELS
ALL = frozenset(Optimization)
ROOT = Path(es.__file__).resolve().parents[1]
ROWS, BATCH, WIDTH = 30, 8, 3

pytestmark = pytest.mark.skipif(
    native_library.find_compiler() is None, reason="there is no C++ compiler"
)


@pytest.fixture(scope="module")
def ops():
    """The module of the native ops."""
    return native_library.load()


def test_the_library_is_compiled_once(tmp_path):
    """The second call finds the file of the first, and nothing else is left in the directory."""
    unit = tmp_path / "kernels.cc"
    unit.write_text('extern "C" int number() { return 3; }\n')
    compiler = native_library.find_compiler()
    library = native_library.build(compiler, tmp_path / "new", unit)
    assert ctypes.CDLL(str(library)).number() == 3
    changed = library.stat().st_mtime_ns
    assert native_library.build(compiler, tmp_path / "new", unit) == library
    assert library.stat().st_mtime_ns == changed
    assert list(library.parent.iterdir()) == [library]
    unit.write_text('extern "C" int number() { return 4; }\n')
    assert native_library.build(compiler, tmp_path / "new", unit) != library


def test_a_failing_compiler_leaves_nothing(tmp_path):
    """The error has the compiler's last words, and no unfinished file stays."""
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\necho 'no such header' >&2\nexit 3\n")
    compiler.chmod(0o755)
    with pytest.raises(RuntimeError, match=r"c\+\+ failed on .*kernels.cc: no such header"):
        native_library.build([str(compiler)], tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_a_directory_that_cannot_be_written():
    """The error names the directory and the variable that names another."""
    with pytest.raises(RuntimeError, match="/proc/x can't be written .*: set TPU_COLUMNS_CACHE"):
        native_library.build(["c++"], Path("/proc/x"))


def test_the_compiler_has_a_path(tmp_path, monkeypatch):
    """In a process without PATH the compiler gets the system's, and finds its linker."""
    compiler = tmp_path / "c++"
    compiler.write_text(
        f"#!{sys.executable}\nimport os, sys\nsys.exit(os.environ.get('PATH', '-'))"
    )
    compiler.chmod(0o755)
    monkeypatch.delenv("PATH")
    with pytest.raises(RuntimeError, match=f"failed on .*: {os.defpath}"):
        native_library.build([str(compiler)], tmp_path / "cache")


@pytest.mark.parametrize("compiler", ["absent", "failing", "'half quoted"])
def test_without_a_library_there_are_no_ops(monkeypatch, tmp_path, compiler, caplog):
    """Without a compiler, or if it fails, a log line says why."""
    if compiler == "failing":
        (tmp_path / "failing").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "failing").chmod(0o755)
    monkeypatch.setenv("CXX", str(tmp_path / compiler))
    monkeypatch.setenv("TPU_COLUMNS_CACHE", str(tmp_path / "cache"))
    lines = []
    for level in ("info", "warning"):
        monkeypatch.setattr(tf1.logging, level, lambda text, *found: lines.append(text % found))
    assert native_library.load.__wrapped__() is None
    assert lines[-1].startswith("No native kernels: ")


def test_a_damaged_library_is_built_again(tmp_path, monkeypatch):
    """A file that can't be loaded is replaced."""
    whole = native_library.build(native_library.find_compiler(), native_library.cache_directory())
    # A compiler that is done at once.
    compiler = tmp_path / "c++"
    compiler.write_text(
        f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncp {shlex.quote(str(whole))} "$2"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    library = native_library.build([str(compiler)], tmp_path)
    library.write_bytes(b"")
    # A process of its own: TensorFlow registers an op once.
    program = "from estimator_spec.updates import native_library as n; n.load().tpu_columns_unique"
    environment = os.environ | {"TPU_COLUMNS_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert library.stat().st_size > 1000


def test_the_cache_must_be_an_absolute_path(monkeypatch):
    """No library is loaded from a path that depends on the working directory."""
    monkeypatch.setenv("TPU_COLUMNS_CACHE", "cache")
    with pytest.raises(RuntimeError, match="'cache', must be an absolute path"):
        native_library.cache_directory()


def test_the_compiler_may_have_arguments(monkeypatch):
    """CXX may be a command with arguments, as in makefiles."""
    (compiler,) = native_library.find_compiler()
    monkeypatch.setenv("CXX", f"{compiler} -O2")
    assert native_library.find_compiler() == [compiler, "-O2"]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 9)), st.booleans())
def test_distinct_ids_are_those_of_unique(ids, is_long):
    """Distinct ids and places are those of `tf.unique`, in its order."""
    ids = np.array(ids, np.int64 if is_long else np.int32)
    found = native_library.load().tpu_columns_unique(ids)
    expected = tf.unique(ids, tf.int64)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


@settings(deadline=None, max_examples=50)
@given(st.data(), st.sampled_from([1, 3, 16, 40]), st.booleans(), st.booleans())
def test_products_are_those_of_tensorflow(data, width, transposed, ones):
    """Products and lookups have the bits of TensorFlow's gather and sparse product."""
    count = data.draw(st.integers(0, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    sums, num_ids = 5, 4
    rows = tf.constant(rng.normal(size=[num_ids, width]).astype(np.float32))
    places, segments = rng.integers(0, num_ids, count), rng.integers(0, sums, count)
    pairs, shape = combining.summing_matrix(
        tf.constant(places), tf.constant(segments), sums, num_ids, transposed
    )
    values = np.ones(count) if ones else rng.normal(size=count)
    values = tf.constant(values.astype(np.float32))
    expected = tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=pairs, a_values=values, a_shape=shape, b=rows, adjoint_a=transposed
    )
    ops = native_library.load()
    product = ops.tpu_columns_product(pairs, values, shape, rows, adjoint=transposed)
    ids = tf.constant([3, 1, 0, 2])
    table = tf.gather(rows, tf.argsort(ids))
    look_up = ops.tpu_columns_look_up(table, ids, pairs, values, shape, adjoint=transposed)
    variable = tf.Variable(table)
    from_variable = ops.tpu_columns_resource_look_up(
        variable.handle, ids, pairs, values, shape, adjoint=transposed
    )
    for found in (product, look_up, from_variable):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    if ones:
        np.testing.assert_array_equal(product, expected)


def test_pairs_outside_of_the_matrix_are_errors(ops):
    """Indices beyond the rows or the sums, or ids beyond the table, raise and read nothing."""
    rows, values, shape = tf.ones([2, 3]), tf.ones([1]), tf.constant([2, 2], tf.int64)
    for pair in ([2, 0], [0, 2], [-1, 0], [0, -1]):
        with pytest.raises(tf.errors.InvalidArgumentError, match="outside of the matrix"):
            ops.tpu_columns_product([pair], values, shape, rows, adjoint=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"= 2 is not in \[0, 2\)"):
        ops.tpu_columns_look_up(rows, [2], [[0, 0]], values, [1, 2], adjoint=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="does not match number"):
        ops.tpu_columns_product([[0, 0]], tf.ones([2]), shape, rows, adjoint=True)


def test_updates_don_t_change_values_read_before(ops):
    """A value that a program has read keeps its numbers when the variable is updated in place."""
    table, slot = tf.Variable(tf.ones([4, 2])), tf.Variable(tf.fill([4, 2], 3.0))
    before = table.read_value()
    update(ops, table, [slot], [1.0], "adagrad")
    np.testing.assert_array_equal(before, np.ones([4, 2]))
    np.testing.assert_array_equal(table.read_value()[1], [0.5, 0.5])


def update(ops, table, slots, hyperparameters, rule):
    """Updates row 1 of a table of width 2 by a gradient of ones."""
    ops.tpu_columns_resource_update(
        table=table.handle,
        slots=[slot.handle for slot in slots],
        hyperparameters=hyperparameters,
        ids=[1],
        gradients=[tf.ones([1, 2])],
        pairs=tf.zeros([0, 2], tf.int32),
        values=[],
        rule=rule,
        sums=False,
        adjoint=False,
    )


def test_slots_of_another_shape_are_errors(ops):
    """A slot that isn't as large as its table is refused, before anything is written."""
    table, slot = tf.Variable(tf.ones([4, 2])), tf.Variable(tf.ones([1, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not have the same shape"):
        update(ops, table, [slot], [0.1], "adagrad")
    np.testing.assert_array_equal(table, np.ones([4, 2]))


def test_hyperparameters_of_ftrl_are_checked(ops):
    """Rates and strengths that TensorFlow's kernel refuses are refused."""
    for wrong in ([0, 0, 0, -0.5], [0.1, -1, 0, -0.5], [0.1, 0, -1, -0.5], [0.1, 0, 0, 0.5]):
        variables = [tf.Variable(tf.ones([4, 2])) for _ in range(3)]
        values = [tf.constant(value, tf.float32) for value in wrong]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Ftrl needs lr > 0"):
            update(ops, variables[0], variables[1:], values, "ftrl")


def test_an_update_outside_of_the_step_runs_alone():
    """An optimizer that a hook runs beside the step doesn't run the step's lookups."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        table = tf1.get_variable("table", [5, 4], use_resource=True)
        ids = [tf1.placeholder(tf.int64, [None]) for _ in range(2)]
        train = [
            tf1.train.AdagradOptimizer(0.1, name=f"a{place}").minimize(
                tf.reduce_sum(tf1.nn.embedding_lookup(table, tf.unique(each)[0]) ** 2)
            )
            for place, each in enumerate(ids)
        ]
        optimize_training_graph(graph, train[0], ALL)
        assert any(op.type == "TpuColumnsResourceUpdate" for op in graph.get_operations())
        session.run(tf1.global_variables_initializer())
        before = session.run(table)
        session.run(train[1], {ids[1]: [2]})
        changed = np.any(session.run(table) != before, axis=1)
        np.testing.assert_array_equal(changed, [False, False, True, False, False])


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, 1.0, -2.0, 1e20, -1e25, 1e-30]
RULES = {
    "SparseApplyAdagrad": {"lr": 0.1},
    "SparseApplyAdagradV2": {"lr": 0.1, "epsilon": 1e-3},
    "SparseApplyFtrl": {"lr": 0.1, "l1": 0.02, "l2": 0.03, "lr_power": -0.5},
    "SparseApplyFtrlV2": {"lr": 0.1, "l1": 0.02, "l2": 0.03, "l2_shrinkage": 0.1, "lr_power": -0.5},
}


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("kind", RULES)
def test_updates_equal_kernels_on_nan_and_infinity(kind, use_resource):
    """Tables and slots have NaN and infinity exactly where TensorFlow's kernels have them."""
    rng = np.random.default_rng(0)
    num_slots = 2 if "Ftrl" in kind else 1
    make = getattr(tf.raw_ops, f"Resource{kind}" if use_resource else kind)
    names = ["var", "accum", "linear"][: 1 + num_slots]

    def numbers():
        spoiled = rng.random((60, 8)) < 0.4
        ordinary = rng.uniform(0.5, 1.5, (60, 8))
        return np.where(spoiled, rng.choice(SPECIAL, (60, 8)), ordinary).astype(np.float32)

    initial, gradient, results = [numbers() for _ in names], numbers(), []
    for native in (False, True):
        with tf.Graph().as_default(), tf1.Session() as session:
            variables = [tf1.Variable(value, use_resource=use_resource) for value in initial]
            handles = [v.handle if use_resource else v for v in variables]
            scalars = {name: tf.constant(value) for name, value in RULES[kind].items()}
            made = make(
                **dict(zip(names, handles, strict=True)),
                **scalars,
                grad=tf.constant(gradient),
                indices=tf.unique(tf.range(60))[0],
            )
            op = getattr(made, "op", made)
            if native:
                (op,) = native_ops.replace_updates([op], frozenset()).values()
            session.run(tf1.global_variables_initializer())
            session.run(op)
            results.append(session.run(variables))
    for kernel, ours in zip(*results, strict=True):
        np.testing.assert_allclose(ours, kernel, rtol=2e-6, atol=1e-6)
    assert not np.isfinite(results[0][0]).all()


OPTIMIZERS = {
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001),
    "ftrl_power": lambda: tf1.train.FtrlOptimizer(
        0.1, learning_rate_power=-0.7, l2_regularization_strength=0.01
    ),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "adam": lambda: tf1.train.AdamOptimizer(0.1),
}


CASES = [(kind, width) for kind in ("dense", "sparse", "weighted") for width in (4, 40)]


def build(optimizer, chosen, use_resource):
    """Builds the driver's graph that trains a table for each of `CASES`.

    Returns:
        The ops of ids, and the step.
    """
    rng = np.random.default_rng(3)
    placeholders, losses = [], []
    with placement.running(Mode.TRAIN, Hardware.CPU), optimizations.using(chosen):
        tf1.set_random_seed(1)
        for kind, width in CASES:
            key = f"{kind}_{width}"
            ids = tf1.placeholder(tf.int64, [BATCH, WIDTH])
            categorical = fc.categorical_column_with_identity(key, ROWS)
            features = {key: ids}
            if kind != "dense":
                features[key] = tf.sparse.from_dense(ids + 1)
            if kind == "weighted":
                categorical = fc.weighted_categorical_column(categorical, "w")
                weights = rng.uniform(0.5, 2, [BATCH * WIDTH]).astype(np.float32)
                values = tf.constant(weights)[: tf.size(features[key].values)]
                features["w"] = tf.SparseTensor(features[key].indices, values, [BATCH, WIDTH])
            with tf1.variable_scope("", use_resource=use_resource):
                column = tpu_columns.embedding_column(
                    categorical, width, initializer=tf1.random_normal_initializer(seed=width)
                )
                layer = tpu_columns.input_layer(features, [column])
            losses.append(tf.reduce_mean(tf.square(layer - 1.0)))
            placeholders.append(ids.op)
        step = tf1.train.get_or_create_global_step()
        return placeholders, optimizer().minimize(tf.add_n(losses), step)


def run(ids, train_op):
    """Runs three steps of the default graph; returns variables and types of ops of the last."""
    fed = np.random.default_rng(3).integers(-1, 9, [BATCH, WIDTH])
    metadata, options = tf1.RunMetadata(), tf1.RunOptions(trace_level=3)
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        feed = {each.outputs[0]: fed for each in ids}
        for _ in range(2):
            session.run(train_op, feed)
        session.run(train_op, feed, options, metadata)
        variables = {v.op.name: session.run(v) for v in tf1.global_variables()}
        return variables, traces.kinds(metadata)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_is_the_same(name, use_resource):
    """Native ops train tables and slots as TensorFlow's own; meta graphs have the original ops.

    Formulas read rows for themselves. A program that imports the meta graph needs no native ops.
    """
    with tf.Graph().as_default():
        plain, _ = run(*build(OPTIMIZERS[name], frozenset(), use_resource))
    with tf.Graph().as_default() as graph:
        ids, train_op = build(OPTIMIZERS[name], ALL, use_resource)
        replaced = optimize_training_graph(graph, train_op, ALL)
        meta_graph = tf1.train.export_meta_graph()
        fast, ran = run(ids, replaced)
    with tf.Graph().as_default() as graph:
        tf1.train.import_meta_graph(meta_graph)
        # The name that the driver runs has the update, too.
        imported = [graph.get_operation_by_name(op.name) for op in (*ids, replaced)]
        assert not any(op.type.startswith("TpuColumns") for op in graph.get_operations())
        again, _ = run(imported[:-1], imported[-1])
    assert plain.keys() == fast.keys() == again.keys()
    for found in (fast, again):
        for variable, value in plain.items():
            np.testing.assert_allclose(
                found[variable], value, rtol=5e-6, atol=1e-6, err_msg=variable
            )
    prefix = "TpuColumnsResource" if use_resource else "TpuColumns"
    is_native = name in ("adagrad", "ftrl", "ftrl_power")
    assert ran["TpuColumnsUnique"] and not ran["UniqueWithCounts"]
    assert ran[f"{prefix}Update"] == (len(CASES) if is_native else 0)
    # Weights that may be trained have a gradient, which reads the rows, too.
    unweighted = [kind for kind, _ in CASES if kind != "weighted"]
    assert not is_native or ran[f"{prefix}LookUp"] == len(unweighted)


def model_fn(features, labels, mode, params):
    """A linear model of one column."""
    layer = tpu_columns.input_layer(features, [params["column"]])
    kernel = tf1.get_variable("kernel", [4, 1], initializer=tf1.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(layer, kernel) - 1.0))
    step = tf1.train.get_or_create_global_step()
    train_op = tf1.train.AdagradOptimizer(0.1).minimize(loss, step)
    return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


class Kinds(tf1.train.SessionRunHook):
    """Records the types of the graph's ops."""

    def begin(self):
        self.found = {op.type for op in tf1.get_default_graph().get_operations()}


def train(directory, ids, core, steps=6):
    """Trains by a TPUEstimator; returns its variables, and the types of its graph's ops."""
    column = tpu_columns.embedding_column(
        fc.categorical_column_with_identity("a", ROWS),
        4,
        initializer=tf1.random_uniform_initializer(seed=3),
    )
    spec = es.EmbeddingConfigSpec([column], es.AdagradParameters(0.1)) if core else None
    estimator = es.TPUEstimator(
        model_fn,
        params={"column": column},
        config=es.RunConfig(model_dir=str(directory), tf_random_seed=1),
        use_tpu=False,
        train_batch_size=BATCH,
        embedding_config_spec=spec,
        embedding_core="host" if core else None,
    )
    hook = Kinds()

    def input_fn(params):
        return tf.data.Dataset.from_tensors(({"a": tf.constant(ids)}, tf.zeros([BATCH]))).repeat()

    estimator.train(input_fn, hooks=[hook], steps=steps)
    names = estimator.get_variable_names()
    return {name: estimator.get_variable_value(name) for name in names}, hook.found


@pytest.mark.parametrize("core", [False, True])
def test_an_estimator_trains_by_them(tmp_path, monkeypatch, core):
    """An estimator trains by native ops, unless their variable is 0."""
    ids = np.random.default_rng(1).integers(0, ROWS, [BATCH, WIDTH])
    native, kinds = train(tmp_path / "native", ids, core)
    names = ["LookUpTables", "UpdateTables"] if core else ["ResourceLookUp", "ResourceUpdate"]
    assert {f"TpuColumns{name}" for name in names} <= kinds
    monkeypatch.setenv(NATIVE.value, "0")
    plain, kinds = train(tmp_path / "plain", ids, core)
    assert not any(kind.startswith("TpuColumns") for kind in kinds)
    assert plain.keys() == native.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(native[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_meta_files_of_an_estimator(tmp_path):
    """The `.meta` file of a checkpoint has no native ops."""
    ids = np.random.default_rng(1).integers(0, ROWS, [BATCH, WIDTH])
    _, kinds = train(tmp_path, ids, core=False)
    assert "TpuColumnsResourceUpdate" in kinds
    meta_graph = tf1.MetaGraphDef()
    meta_graph.ParseFromString((tmp_path / "model.ckpt-6.meta").read_bytes())
    kinds = {node.op for node in meta_graph.graph_def.node}
    assert "ResourceSparseApplyAdagrad" in kinds
    assert not any(kind.startswith("TpuColumns") for kind in kinds)


@pytest.mark.parametrize("core", [False, True])
def test_a_bad_id_names_its_column(tmp_path, core):
    """An id out of range is refused by an error that names column, id and vocabulary."""
    ids = np.full([BATCH, WIDTH], 3)
    ids[2, 1] = 77
    with pytest.raises(IdOutOfRangeError, match=r"'a.*': id 77 of feature 'a' .* size is 30"):
        train(tmp_path, ids, core)


def test_two_trainings_are_the_same(tmp_path):
    """Two trainings on the host core give the same bits."""
    ids = np.random.default_rng(1).integers(0, ROWS, [BATCH, WIDTH])
    first, second = (train(tmp_path / name, ids, True, 40)[0] for name in ("a", "b"))
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(value, second[name], err_msg=name)


def test_a_graph_without_a_driver_has_none():
    """Lookups that a program builds itself keep TensorFlow's ops."""
    with tf.Graph().as_default() as graph, optimizations.using(ALL):
        column = tpu_columns.embedding_column(fc.categorical_column_with_identity("a", ROWS), 40)
        tpu_columns.input_layer({"a": tf.constant([[1, 2]])}, [column])
        assert not any(op.type.startswith("TpuColumns") for op in graph.get_operations())
