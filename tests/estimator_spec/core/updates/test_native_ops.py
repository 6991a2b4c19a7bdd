# SPDX-License-Identifier: Apache-2.0
"""Native kernels: the numbers of TensorFlow's ops, and where they run."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import forking_python
import tpu_columns
import traces
from estimator_spec.core.updates import kernels, native_ops, optimize_training_graph
from tpu_columns import Hardware, IdOutOfRangeError, Mode, optimizations, placement
from tpu_columns.kernels import loading
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
fc = tf.feature_column
NATIVE = Optimization.NATIVE_KERNELS
ALL = frozenset(Optimization)
ROOT = Path(es.__file__).resolve().parents[1]
ROWS, BATCH, WIDTH = 30, 8, 3

pytestmark = pytest.mark.usefixtures("built_kernels")


@pytest.fixture(scope="module")
def ops():
    """The module of the native ops."""
    return loading.load()


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
        rule=rule,
        sums=False,
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


def test_limits_are_all_or_none(ops):
    """A number of limits that isn't five or none is refused."""
    for wrong in ([1.0], [1.0] * 6):
        with pytest.raises(tf.errors.InvalidArgumentError, match="there are . limits"):
            ops.tpu_columns_resource_update(
                table=tf.Variable(tf.ones([4, 2])).handle,
                slots=[],
                hyperparameters=[0.1],
                ids=[0],
                gradients=[tf.ones([1, 2])],
                rule="sgd",
                sums=False,
                limits=wrong,
            )


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


# Attributes of ops that update rows, by type; types of the second kind have no reference variables.
KINDS = [
    ("ScatterAdd", {}),
    ("ScatterSub", {}),
    ("SparseApplyAdadelta", {}),
    ("SparseApplyAdagrad", {}),
    ("SparseApplyAdagradDA", {}),
    ("SparseApplyAdagradV2", {}),
    ("SparseApplyCenteredRMSProp", {}),
    ("SparseApplyFtrl", {}),
    ("SparseApplyFtrlV2", {}),
    ("SparseApplyMomentum", {}),
    ("SparseApplyMomentum", {"use_nesterov": True}),
    ("SparseApplyProximalAdagrad", {}),
    ("SparseApplyProximalGradientDescent", {}),
    ("SparseApplyRMSProp", {}),
]
RESOURCE_KINDS = [
    ("SparseApplyKerasMomentum", {}),
    ("SparseApplyKerasMomentum", {"use_nesterov": True}),
]
EVERY_KIND = [
    *KINDS,
    *(("Resource" + kind, attributes) for kind, attributes in [*KINDS, *RESOURCE_KINDS]),
]
SCALARS = {
    "alpha": 0.1,
    "lr": 0.1,
    "l1": 0.02,
    "l2": 0.03,
    "l2_shrinkage": 0.01,
    "epsilon": 1e-3,
    "momentum": 0.9,
    "rho": 0.8,
}
NO_VARIABLES = {"grad", "updates", "indices", "global_step", "name", "use_locking"} | {
    *("use_nesterov", "update_slots", "multiply_linear_by_lr"),
}
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, 1.0, -2.0, 1e20, -1e25, 1e-30]


def update_of(kind, attributes, ids, gradient, numbers, scalars):
    """Returns an op of a type in the default graph, and its variables.

    Args:
        kind: type of the op.
        attributes: its attributes.
        ids: the rows to update.
        gradient: of these rows.
        numbers: returns the initial value of a variable.
        scalars: its scalar inputs, by name.
    """
    make = getattr(tf.raw_ops, kind)
    is_resource = kind.startswith("Resource")
    variables, arguments = [], {}
    for name in inspect.signature(make).parameters:
        if name in scalars:
            arguments[name] = tf.constant(scalars[name])
        elif name not in NO_VARIABLES:
            variables.append(tf1.Variable(numbers(), use_resource=is_resource))
            arguments[name] = variables[-1].handle if is_resource else variables[-1]
    if "AdagradDA" in kind:
        arguments["global_step"] = tf.constant(3, tf.int64)
    arguments["updates" if "Scatter" in kind else "grad"] = tf.constant(gradient)
    made = make(**arguments, indices=tf.unique(tf.constant(ids))[0], **attributes)
    return getattr(made, "op", made), variables


def train_by_both(kinds, make_numbers, ids, gradient, steps, lr_power=-0.5):
    """Runs updates of all types by TensorFlow's kernels and by native ops, in one session.

    Returns:
        For each type the values of its variables by the kernel, and by the native op.
    """
    sides = []
    with tf.Graph().as_default(), tf1.Session() as session:
        for is_native in (False, True):
            numbers, ops, variables = make_numbers(), [], []
            for kind, attributes in kinds:
                scalars = {**SCALARS, "lr_power": lr_power}
                op, own = update_of(kind, attributes, ids, gradient, numbers, scalars)
                if is_native:
                    updates = [kernels.find_update(op)]
                    (op,) = native_ops.replace_updates(updates, frozenset()).values()
                ops.append(op)
                variables.append(own)
            sides.append((ops, variables))
        session.run(tf1.global_variables_initializer())
        for ops, _ in sides:
            for _ in range(steps):
                session.run(ops)
        values = [session.run(variables) for _, variables in sides]
    return list(zip(*values, strict=True))


def check_alike(kinds, values, subtests):
    """Checks that variables of both sides are equal, up to rounding."""
    for (kind, attributes), (by_kernel, by_native) in zip(kinds, values, strict=True):
        with subtests.test(f"{kind} {attributes}"):
            for kernel, native in zip(by_kernel, by_native, strict=True):
                np.testing.assert_allclose(native, kernel, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("lr_power", [-0.5, -0.7])
def test_updates_equal_kernels(lr_power, subtests):
    """Every rule changes table and slots as TensorFlow's kernel does, in three steps."""
    kinds = [each for each in EVERY_KIND if lr_power == -0.5 or "Ftrl" in each[0]]

    def make_numbers():
        rng = np.random.default_rng(1)
        return lambda: rng.uniform(0.5, 1.5, (10, 6)).astype(np.float32)

    gradient = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    values = train_by_both(kinds, make_numbers, [7, 2, 9, 0], gradient, 3, lr_power)
    check_alike(kinds, values, subtests)
    numbers = make_numbers()
    for (kind, _), (_, (table, *slots)) in zip(kinds, values, strict=True):
        for value in (table, *slots):
            before = numbers()
            changed = np.any(value != before, axis=1)
            np.testing.assert_array_equal(np.flatnonzero(changed), [0, 2, 7, 9], kind)


def test_updates_equal_kernels_on_nan_and_infinity(subtests):
    """Tables and slots have NaN and infinity exactly where TensorFlow's kernels have them."""

    def make_numbers():
        rng = np.random.default_rng(1)

        def numbers():
            spoiled = rng.random((60, 8)) < 0.4
            ordinary = rng.uniform(0.5, 1.5, (60, 8))
            return np.where(spoiled, rng.choice(SPECIAL, (60, 8)), ordinary).astype(np.float32)

        return numbers

    values = train_by_both(EVERY_KIND, make_numbers, np.arange(60), make_numbers()(), 1)
    check_alike(EVERY_KIND, values, subtests)
    assert not any(np.isfinite(by_kernel[0]).all() for by_kernel, _ in values)


def test_an_update_that_is_asked_for_by_name(subtests):
    """Fetching a replaced update doesn't update a second time."""

    def make_numbers():
        return lambda: np.ones((5, 3), np.float32)

    gradient = np.ones((2, 3), np.float32)
    once = train_by_both(EVERY_KIND, make_numbers, [1, 3], gradient, 1)
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        found = []
        for kind, attributes in EVERY_KIND:
            scalars = {**SCALARS, "lr_power": -0.5}
            found.append(update_of(kind, attributes, [1, 3], gradient, make_numbers(), scalars))
        ops, variables = zip(*found, strict=True)
        train_op = optimize_training_graph(graph, tf.group(*ops), ALL)
        session.run(tf1.global_variables_initializer())
        session.run([train_op, ops])
        values = session.run(variables)
    for each, (_, expected), found in zip(EVERY_KIND, once, values, strict=True):
        with subtests.test(each):
            np.testing.assert_array_equal(found, expected)


def test_an_update_that_is_the_train_op():
    """If the train op itself is an update, its replacement is returned."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        ones = np.ones((2, 3), np.float32)
        kind, scalars = "ResourceSparseApplyAdagrad", {"lr": 0.1}
        op, variables = update_of(kind, {}, [0, 1], ones, lambda: ones, scalars)
        faster = optimize_training_graph(graph, op, ALL)
        assert faster is not op
        session.run(tf1.global_variables_initializer())
        session.run(faster)
        assert (session.run(variables[0]) < 1).all()


def test_ftrl_whose_linear_slot_has_the_rate_stays():
    """Ftrl with `multiply_linear_by_lr` is another rule, and so is Adagrad that keeps its slots."""
    ones = np.ones((2, 3), np.float32)
    for kind, name in (
        ("SparseApplyFtrl", "multiply_linear_by_lr"),
        ("SparseApplyFtrlV2", "multiply_linear_by_lr"),
        ("SparseApplyAdagrad", "update_slots"),
        ("SparseApplyAdagradV2", "update_slots"),
    ):
        for value in (True, False):
            with tf.Graph().as_default():
                scalars = {**SCALARS, "lr_power": -0.5}
                op, _ = update_of(
                    f"Resource{kind}", {name: value}, [0, 1], ones, lambda: ones, scalars
                )
                is_supported = kernels.find_update(op) is not None
                assert is_supported == (value == (name == "update_slots"))


@pytest.mark.parametrize("width", [1, 16, 48, 37])
def test_gradients_of_repeated_ids(width):
    """The op sums the gradients of repeated ids itself, with bitwise equal sums."""
    values, ran = [], []
    gradients = tf.random.stateless_normal([40, width], [1, 2]).numpy()
    ids = np.random.default_rng(0).integers(0, 9, 40)
    for native in (False, True):
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            table = tf1.Variable(tf.ones([9, width]), use_resource=True)
            fed = tf1.placeholder(tf.int64, [40])
            loss = tf.reduce_sum(tf.gather(table, fed) * gradients)
            train_op = tf1.train.MomentumOptimizer(0.5, 0.9).minimize(loss)
            if native:
                train_op = optimize_training_graph(graph, train_op, ALL)
            session.run(tf1.global_variables_initializer())
            metadata, options = tf1.RunMetadata(), tf1.RunOptions(trace_level=3)
            session.run(train_op, {fed: ids}, options, metadata)
            ran.append(traces.kinds(metadata))
            values.append(session.run(table))
    np.testing.assert_array_equal(values[1], values[0])
    assert ran[0]["UnsortedSegmentSum"] and not ran[1]["UnsortedSegmentSum"]


OPTIMIZERS = {
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.1, l1_regularization_strength=0.001),
    "ftrl_power": lambda: tf1.train.FtrlOptimizer(
        0.1, learning_rate_power=-0.7, l2_regularization_strength=0.01
    ),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
    "rms_prop": lambda: tf1.train.RMSPropOptimizer(0.1),
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
    """Native ops train tables and slots as TensorFlow's own."""
    with tf.Graph().as_default():
        plain, _ = run(*build(OPTIMIZERS[name], frozenset(), use_resource))
    with tf.Graph().as_default() as graph:
        ids, train_op = build(OPTIMIZERS[name], ALL, use_resource)
        fast, ran = run(ids, optimize_training_graph(graph, train_op, ALL))
    assert plain.keys() == fast.keys()
    for variable, value in plain.items():
        np.testing.assert_allclose(fast[variable], value, rtol=5e-6, atol=1e-6, err_msg=variable)
    prefix = "TpuColumnsResource" if use_resource else "TpuColumns"
    assert ran["TpuColumnsLookUpTables"] == ran["TpuColumnsRowGradients"] == len(CASES)
    # Adam is fused.
    assert ran[f"{prefix}Update"] == (len(CASES) if name != "adam" else 0)
    assert not any(kind.startswith(("Unique", "UnsortedSegment", "Sparse")) for kind in ran)


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
    names = ["LookUpTables", "UpdateTables" if core else "ResourceUpdate"]
    assert {f"TpuColumns{name}" for name in names} <= kinds
    monkeypatch.setenv(NATIVE.value, "0")
    plain, kinds = train(tmp_path / "plain", ids, core)
    assert not any(kind.startswith("TpuColumns") for kind in kinds)
    assert plain.keys() == native.keys()
    for name, value in plain.items():
        np.testing.assert_allclose(native[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


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


def test_old_lookups_wait_for_new_updates():
    """Fetching a lookup's gather after an update doesn't run the replaced update again."""
    with tf.Graph().as_default() as graph, tf1.Session() as session:
        table = tf1.get_variable(
            "table", [40, 16], initializer=tf1.zeros_initializer(), use_resource=True
        )
        ids, _, _ = tf.unique_with_counts(tf1.placeholder_with_default([1, 2, 1], [None]))
        step = tf.raw_ops.ResourceScatterAdd(
            resource=table.handle, indices=ids, updates=tf.ones([2, 16])
        )
        with tf.control_dependencies([step]):
            after = tf1.nn.embedding_lookup(table, ids).op.inputs[0]
        train_op = optimize_training_graph(graph, step, ALL)
        assert train_op is not step
        session.run(tf1.global_variables_initializer())
        for count in range(1, 20):
            value, _ = session.run([after, train_op])
            np.testing.assert_array_equal(value, np.full([2, 16], count))


class Fetches(tf1.train.SessionRunHook):
    """Hook that fetches a program's own gather and an identity of it."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        rows = tf1.get_default_graph().get_tensor_by_name("own:0")
        return tf1.train.SessionRunArgs([rows, "again:0"])

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results)


def test_a_hook_that_fetches_rows(tmp_path):
    """Rows that a program gathers and a hook fetches are those before the step's update."""

    def model_fn(features, labels, mode, params):
        table = tf1.get_variable("table", [50, 16], use_resource=True)
        rows = tf.gather(table, features["a"], name="own")
        loss = tf.reduce_mean(tf.square(tf.identity(rows, name="again") - 1.0))
        train_op = tf1.train.GradientDescentOptimizer(9.0).minimize(
            loss, tf1.train.get_global_step()
        )
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn(params):
        ids = np.random.default_rng(0).integers(0, 50, [64])
        data = tf.data.Dataset.from_tensor_slices(({"a": ids}, np.zeros([64], np.float32)))
        return data.repeat().batch(params["batch_size"], drop_remainder=True)

    hook = Fetches()
    es.TPUEstimator(
        model_fn,
        use_tpu=False,
        train_batch_size=16,
        config=es.RunConfig(model_dir=str(tmp_path)),
    ).train(input_fn, steps=40, hooks=[hook])
    assert len(hook.values) == 40
    for fetched, used in hook.values:
        np.testing.assert_array_equal(fetched, used)


DETERMINISTIC = f"""
import sys
import numpy as np
import tensorflow as tf
sys.path[:0] = {sys.path}
tf.config.experimental.enable_op_determinism()
import test_native_ops as tests
ids = np.random.default_rng(0).integers(0, tests.ROWS, [tests.BATCH, 40])
for core in (False, True):
    runs = [tests.train(sys.argv[1] + str((core, i)), ids, core) for i in range(2)]
    assert any(kind.startswith("TpuColumns") for kind in runs[0][1]), core
    for name, value in runs[0][0].items():
        assert np.array_equal(value, runs[1][0][name]), (core, name)
print("equal")
"""


@pytest.mark.nightly("test_two_trainings_are_the_same has the same ops")
def test_with_op_determinism(tmp_path):
    """After `enable_op_determinism` the native ops train, and two trainings have the same bits."""
    done = forking_python.run(["-c", DETERMINISTIC, str(tmp_path)])
    assert done.stdout.endswith("equal\n"), done.stderr[-3000:]
