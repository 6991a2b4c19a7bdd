# SPDX-License-Identifier: Apache-2.0
"""The host core's native ops against TensorFlow's: models, layers, ids and errors."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import forking_python
import traces
from estimator_spec.core.cores import host
from tpu_columns import Hardware, Mode, lookup_errors, optimizations, placement
from tpu_columns.kernels import loading
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
BATCH, STEPS = 6, 4
ALL = frozenset(Optimization)

pytestmark = pytest.mark.usefixtures("built_kernels")


class Program:
    """A random model over tables of the host core.

    Args:
        seed: of everything; the batch's size is known statically where it is even.
        num_features: number of its features.
        batch_size: examples of a batch.
        in_order: whether sparse ids are in the order of their places.
        kinds: kind of each feature, by key; others are random. Beside those of `every` there are
            "dense_sequence", "weighted_sequence" and "multivalent_sequence", with two ids a step.
    """

    def __init__(self, seed, num_features=5, batch_size=BATCH, in_order=True, **kinds):
        self.batch_size, self.in_order = batch_size, in_order
        self.rng = rng = np.random.default_rng(seed)
        every = ["dense", "padded", "sparse", "weighted", "sequence"]
        self.kinds = {f"f{i}": str(rng.choice(every)) for i in range(num_features)} | kinds
        self.types = {key: rng.choice([np.int16, np.int32, np.int64]) for key in self.kinds}
        # Two features may have the same table.
        self.tables = {key: f"t{rng.integers(num_features)}" for key in self.kinds}
        self.rows = {name: int(rng.integers(1, 12)) for name in self.tables.values()}
        self.width = {name: int(rng.choice([1, 3, 8, 24, 33])) for name in self.tables.values()}
        self.combiner = {name: str(rng.choice(["mean", "sum", "sqrtn"])) for name in self.rows}
        self.sgd = {name: bool(rng.integers(2)) for name in self.rows}
        self.batch = batch_size if seed % 2 == 0 else None
        self.strategy = str(rng.choice(["div", "mod"]))
        self.batches = [{key: self._ids(key) for key in self.kinds} for _ in range(STEPS)]

    def _ids(self, key):
        """Returns a feature's ids, -1 where there is none, and weights."""
        rows, kind = self.rows[self.tables[key]], self.kinds[key]
        count = 1 if kind == "dense" else int(self.rng.integers(1, 5))
        ids = self.rng.integers(0, rows, [self.batch_size, count]).astype(self.types[key])
        if kind not in ("dense", "padded"):
            ids[self.rng.random(ids.shape) < 0.3] = -1
        return ids, self.rng.uniform(-1, 2, ids.shape).astype(np.float32)

    def spec(self):
        """Returns the spec."""

        def initial(shape, dtype=tf.float32, partition_info=None):
            values = np.random.default_rng(shape[0]).normal(size=list(shape))
            return tf.constant(values, dtype)

        def optimizer(name):
            if self.sgd[name]:
                return es.StochasticGradientDescentParameters(0.1)
            return es.AdagradParameters(0.1)

        def config(key):
            return es.FeatureConfig(
                self.tables[key],
                max_sequence_length=3 if "sequence" in self.kinds[key] else 0,
                weight_key=f"{key}_weights" if "weighted" in self.kinds[key] else None,
            )

        return es.EmbeddingConfigSpec(
            feature_to_config_dict={key: config(key) for key in self.kinds},
            table_to_config_dict={
                name: es.TableConfig(
                    self.rows[name],
                    self.width[name],
                    initializer=initial,
                    combiner=self.combiner[name],
                    optimization_parameters=optimizer(name),
                )
                for name in self.rows
            },
            partition_strategy=self.strategy,
            experimental_gradient_multiplier_fn=lambda step: 1.0 + 0.1 * tf.cast(step, tf.float32),
        )

    def inputs(self):
        """Returns placeholders of ids and weights, and the features of them."""
        fed, features = {}, {}
        for key, kind in self.kinds.items():
            ids = fed[key] = tf1.placeholder(self.types[key], [self.batch, None])
            weights = fed[f"{key}_weights"] = tf1.placeholder(tf.float32, [self.batch, None])
            if kind in ("dense", "padded"):
                width = self.batches[0][key][0].shape[1] if kind == "padded" else 1
                features[key] = tf.ensure_shape(ids[:, :width], [self.batch, width])
                continue
            if kind == "dense_sequence":
                features[key] = tf.maximum(ids, 0)
                continue
            found = tf.where(ids >= 0)
            if not self.in_order:
                found = tf.reverse(found, [0])
            shape = tf.shape(ids, out_type=tf.int64)
            features[key] = tf.SparseTensor(found, tf.gather_nd(ids, found), shape)
            if kind == "multivalent_sequence":
                places = tf.stack([found[:, 0], found[:, 1] // 2, found[:, 1] % 2], 1)
                shape = tf.stack([shape[0], (shape[1] + 1) // 2, 2])
                features[key] = tf.SparseTensor(places, features[key].values, shape)
            if "weighted" in kind:
                values = tf.gather_nd(weights, found)
                features[f"{key}_weights"] = tf.SparseTensor(found, values, shape)
        return fed, features

    def feed(self, fed, batch):
        """Returns the feed dict of a batch; a padded feature has the ids of the first batch."""
        values = {}
        for key, (ids, weights) in batch.items():
            if self.kinds[key] == "padded":
                ids, weights = self.batches[0][key]
            values[fed[key]], values[fed[f"{key}_weights"]] = ids, weights
        return values


def layered(found, others):
    """Returns the loss of a model that joins activations with other tensors."""
    flat = [
        tf.reshape(value, [-1, int(np.prod(value.shape.as_list()[1:]))]) for value in found.values()
    ]
    layer = tf.concat([others[0], *flat, others[1]], 1)
    weights = np.random.default_rng(0).normal(size=[int(layer.shape[1]), 2])
    product = tf.matmul(layer, tf.constant(weights, tf.float32))
    return layer, tf.reduce_sum(tf.tanh(product))


def train(program, chosen, model=layered, fetch_activations=True):
    """Trains; returns variables, losses, layers and activations, and types of ops that ran.

    Activations are fetched in the first two steps. The ops are those of the last one.
    """
    with (
        tf.Graph().as_default(),
        tf1.Session() as session,
        placement.running(Mode.TRAIN, Hardware.CPU),
        optimizations.using(chosen),
    ):
        step = tf1.train.get_or_create_global_step()
        core = host.HostCore(program.spec(), training=True, num_shards=3)
        fed, features = program.inputs()
        found = core.receive(core.look_up(features, step))
        found = {key: found[key] for key in program.kinds}
        others = [tf.constant(float(i), tf.float32, [program.batch_size, i]) for i in (1, 2)]
        layer, loss = model(found, others)
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        minimized = optimizer.minimize(loss, step)
        core.attach()
        train_op = tf.group(minimized, core.update())
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        seen, metadata = [], tf1.RunMetadata()
        options = tf1.RunOptions(trace_level=3)
        for number, batch in enumerate(program.batches):
            feed = program.feed(fed, batch)
            fetched = [layer, loss, *(found.values() if fetch_activations and number < 2 else [])]
            seen.append(session.run([fetched, train_op], feed, options, metadata)[0])
        variables = {v.op.name: session.run(v) for v in tf1.global_variables()}
        return variables, seen, traces.kinds(metadata)


def check_equal(native, plain):
    """Compares a training by native ops with one by TensorFlow's."""
    assert {"TpuColumnsLookUpTables", "TpuColumnsUpdateTables"} <= set(native[2])
    assert not any(kind.startswith("TpuColumns") for kind in plain[2])
    assert native[0].keys() == plain[0].keys()
    for name, value in plain[0].items():
        np.testing.assert_allclose(native[0][name], value, rtol=2e-5, atol=2e-6, err_msg=name)
    for found, expected in zip(native[1], plain[1], strict=True):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


MORE = pytest.mark.nightly("more random models")


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(i, marks=MORE) for i in range(6, 20))])
def test_random_models(seed):
    """Losses, layers, activations, tables and slots equal those of TensorFlow's ops."""
    program = Program(seed)
    check_equal(train(program, ALL), train(program, ALL - {Optimization.NATIVE_KERNELS}))


SEQUENCES = ["sequence", "dense_sequence", "weighted_sequence", "multivalent_sequence"]


@pytest.mark.parametrize("seed", range(2))
def test_sequences(seed):
    """Each of the first three steps of a sequence has an activation, with any kind of ids."""
    kinds = {f"f{number}": kind for number, kind in enumerate([*SEQUENCES, *SEQUENCES, "dense"])}
    program = Program(seed, len(kinds), **kinds)
    native = train(program, ALL)
    assert native[2]["SparseSlice"] == 2 * 2  # ids and weights of both weighted sequences
    check_equal(native, train(program, ALL - {Optimization.NATIVE_KERNELS}))


def test_ids_behind_the_last_step_are_not_read():
    """An id out of range is no error in a step that is cut off."""
    program = Program(2, 5, **{f"f{number}": kind for number, kind in enumerate(SEQUENCES)})
    for batch in program.batches:
        for key in ("f0", "f1", "f2", "f3"):
            ids, weights = batch[key]
            ids = np.zeros([BATCH, 8], ids.dtype)
            ids[:, 6:] = 99  # step 3 on, also with two ids a step
            batch[key] = ids, np.ones(ids.shape, weights.dtype)
    check_equal(train(program, ALL), train(program, ALL - {Optimization.NATIVE_KERNELS}))


@pytest.mark.parametrize("seed", [1, 3, 5])  # tables of several rows: sums aren't large
def test_sparse_ids_in_another_order(seed):
    """Sparse ids needn't be in the order of their places."""
    kinds = {"f0": "sparse", "f1": "weighted"}
    program = Program(seed, 2, batch_size=20, in_order=False, **kinds)
    for batch in program.batches:
        for _, weights in batch.values():
            np.abs(weights, out=weights)  # a mean over weights near zero would be rounded much
    check_equal(train(program, ALL), train(program, ALL - {Optimization.NATIVE_KERNELS}))


def train_on_threads(number, path):
    """Trains batches of so many ids that several threads share them; writes tables and slots.

    The first session of a process determines how many threads all have.
    """
    tf.config.threading.set_intra_op_parallelism_threads(number)
    program = Program(4, num_features=7, batch_size=8_000)

    def model(found, others):
        # Elementwise: TensorFlow's sums depend on the number of threads.
        layer = tf.concat([*(tf.reshape(v, [8_000, -1]) for v in found.values()), *others], 1)
        return others[0], tf.reduce_sum(tf.tanh(layer))

    variables, _, ran = train(program, ALL, model, fetch_activations=False)
    assert "TpuColumnsUpdateTables" in ran
    np.savez(path, **variables)


TRAIN_ON_THREADS = """
import runpy, sys
runpy.run_path(sys.argv[1])["train_on_threads"](int(sys.argv[2]), sys.argv[3])
"""


def test_tables_don_t_depend_on_the_number_of_threads(tmp_path):
    """Batches of many ids are worked on by several threads; tables and slots are the same bits."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    trained = {}
    for threads in (1, 2, 4, 8, 16):
        path = os.fspath(tmp_path / f"{threads}.npz")
        command = ["-c", TRAIN_ON_THREADS, __file__, str(threads), path]
        forking_python.run(command, env=env, check=True, timeout=300)
        trained[threads] = dict(np.load(path))
    for threads, variables in trained.items():
        assert variables.keys() == trained[1].keys()
        for name, value in variables.items():
            message = f"{name}, {threads} threads"
            np.testing.assert_array_equal(value, trained[1][name], err_msg=message)


@pytest.mark.parametrize(("num_features", "seed"), [(4, 1), (20, 2)])
def test_a_layer_is_written_and_its_gradient_is_read_in_place(num_features, seed):
    """Nothing is concatenated, split or sliced where the model has one layer."""
    program = Program(seed, num_features, **{f"f{i}": "dense" for i in range(num_features)})

    def model(found, others):
        layer = tf.concat([*found.values(), others[0]], 1)
        return others[0], tf.reduce_sum(tf.tanh(layer))

    native = train(program, ALL, model, fetch_activations=False)
    check_equal(native, train(program, frozenset(), model, fetch_activations=False))
    ran = native[2]
    assert ran["TpuColumnsLookUpTables"] == 1
    assert ran["TpuColumnsUpdateTables"] == len(set(program.sgd.values()))
    assert not {"ConcatV2", "Split", "SplitV"} & set(ran)
    assert ran["Slice"] <= 1  # of a vector of widths


def _two_layers(found, others):
    """Joins activations twice, in different orders."""
    values = list(found.values())
    first = tf.concat([*values, others[0]], 1)
    second = tf.concat([others[1], *reversed(values)], -1)
    return first, tf.reduce_sum(tf.tanh(first)) + tf.reduce_sum(tf.sin(second))


def _dependent(found, others):
    """Joins an activation with a function of another one."""
    first, *rest = found.values()
    layer = tf.concat([first, tf.tanh(tf.concat(rest, 1))], 1)
    return layer, tf.reduce_sum(layer * layer)


def _twice(found, others):
    """Joins an activation with itself, and uses it elsewhere."""
    first, *rest = found.values()
    layer = tf.concat([first, first, *rest], 1)
    return layer, tf.reduce_sum(tf.tanh(layer)) + tf.reduce_sum(first * first)


def _rows(found, others):
    """Joins activations along the batch."""
    layer = tf.concat([value[:, :1] for value in found.values()], 0)
    return layer, tf.reduce_sum(layer * layer)


def _waiting(found, others):
    """Joins activations after an op."""
    with tf.control_dependencies([tf1.assert_equal(1, 1)]):
        layer = tf.concat([*found.values(), others[0]], 1)
    return layer, tf.reduce_sum(layer * layer)


def _some_without_gradient(found, others):
    """Has no gradient of some activations, and none of others' part of a layer."""
    first, second, *rest = found.values()
    layer = tf.concat([first, tf.stop_gradient(second), *rest], 1)
    return layer, tf.reduce_sum(tf.tanh(layer[:, 1:]))


def _beside_a_part_of_the_model(found, others):
    """Joins activations with the output of a dense layer, which is trained."""
    weights = tf1.get_variable("weights", [2, 3], initializer=tf1.ones_initializer())
    layer = tf.concat([tf.matmul(others[1], weights), *found.values()], 1)
    return layer, tf.reduce_sum(tf.tanh(layer))


def _beside_an_unknown_shape(found, others):
    """Joins activations with a tensor of unknown shape; that of the layer is known."""
    other = tf1.placeholder_with_default(others[1], None)
    layer = tf.concat([*found.values(), other], 1)
    layer.set_shape([None, sum(value.shape[1] for value in [*found.values(), others[1]])])
    return layer, tf.reduce_sum(tf.matmul(layer, tf.ones([layer.shape[1], 2])) ** 2)


@pytest.mark.parametrize(
    "model",
    [
        _beside_a_part_of_the_model,
        _beside_an_unknown_shape,
        _two_layers,
        _dependent,
        _twice,
        _rows,
        _waiting,
        _some_without_gradient,
    ],
)
def test_models(model):
    """Activations may be in several layers, in one twice, or depend on each other."""
    program = Program(3, f0="padded", f1="dense", f2="sparse", f3="sparse", f4="weighted")
    chosen = [ALL, ALL - {Optimization.NATIVE_KERNELS}]
    check_equal(*(train(program, each, model) for each in chosen))


@pytest.mark.parametrize("batch_size", [6, 8_000])
def test_a_table_of_which_one_feature_has_no_gradient(batch_size):
    """Only the other features' gradients train it, also where several threads find its rows."""
    program = Program(4, 3, batch_size, f0="dense", f1="padded", f2="sparse")
    table = program.tables["f0"]
    program.tables = dict.fromkeys(program.tables, table)
    program.rows, program.sgd[table] = {table: 9}, False
    program.batches = [{key: program._ids(key) for key in program.kinds} for _ in range(STEPS)]
    for batch in program.batches:
        for key, (ids, _) in batch.items():
            ids[...] = np.where(ids < 0, ids, ids % 3 + 3 * (key == "f1"))

    def model(found, others):
        layer = tf.concat([found["f0"], tf.stop_gradient(found["f1"]), found["f2"]], 1)
        return others[0], tf.reduce_mean(tf.tanh(layer))

    chosen = [ALL, ALL - {Optimization.NATIVE_KERNELS}]
    check_equal(*(train(program, each, model) for each in chosen))


@pytest.mark.parametrize("width", [1, 3])
def test_a_part_of_another_width_than_its_static_shape_is_an_error(width):
    """A part of a layer with a wrong static shape is refused before it is copied."""

    def model(found, others):
        other = tf1.placeholder_with_default(tf.ones([BATCH, width]), None)
        other.set_shape([None, 2])
        layer = tf.concat([*found.values(), other], 1)
        return layer, tf.reduce_sum(tf.matmul(layer, tf.ones([layer.shape[1], 1])))

    program = Program(2, f0="dense", f1="dense", f2="dense", f3="dense", f4="dense")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Dimensions of inputs should match"):
        train(program, ALL, model, fetch_activations=False)


def test_the_lookup_doesn_t_wait_for_the_model():
    """A layer with an output of the model is joined by the model's own op."""
    program = Program(2, **{f"f{i}": "dense" for i in range(5)})
    _, _, ran = train(program, ALL, _beside_a_part_of_the_model)
    assert ran["ConcatV2"] and ran["TpuColumnsLookUpTables"]


@pytest.mark.parametrize("columns", [1, 2])
def test_ids_without_a_shape(columns):
    """Dense steps of a sequence may have an unknown shape."""
    table = es.TableConfig(9, 2, initializer=tf1.ones_initializer(), combiner=None)
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"a": es.FeatureConfig("t", max_sequence_length=3)},
        table_to_config_dict={"t": table._replace(combiner="mean")},
        optimization_parameters=es.StochasticGradientDescentParameters(0.1),
    )
    with tf.Graph().as_default(), placement.running(Mode.TRAIN, Hardware.CPU):
        core = host.HostCore(spec, training=True)
        ids = tf1.placeholder_with_default(np.ones([BATCH, columns], np.int64), None)
        found = core.receive(core.look_up({"a": ids}, tf1.train.get_or_create_global_step()))
        tf1.gradients(tf.reduce_sum(found["a"]), tf1.trainable_variables())
        core.attach()
        update = core.update()
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
            (variable,) = (v for v in tf1.global_variables() if v.op.name == "t")
            session.run(update)
            expected = np.ones([9, 2])
            expected[1] -= 0.1 * BATCH * columns
            np.testing.assert_allclose(session.run(variable), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("key", "wrong"), [("f1", -7), ("f1", 12), ("f2", 12), ("f0", 12), ("f3", 10**9)]
)
def test_an_id_out_of_range_names_its_feature(key, wrong):
    """Dense, sparse and weighted ids out of range are refused, with the feature's name."""
    program = Program(5, f0="weighted", f1="padded", f2="sparse", f3="weighted")
    program.batches[0][key][0][2, 0] = wrong
    graphs = []

    def model(found, others):
        graphs.append(tf1.get_default_graph())
        return layered(found, others)

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        train(program, ALL, model)
    error = lookup_errors.explain(caught.value, graphs[0])
    assert isinstance(error, lookup_errors.IdOutOfRangeError)
    assert f"Column '{key}': id {wrong} of feature '{key}'" in str(error)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("variable", 9),
        ("first_row", -1),
        ("num_rows", 1 << 62),
        ("num_shards", 0),
        ("combiner", 3),
        ("num_steps", 1 << 31),
        ("column", -1),
        ("sparse", None),
        ("weighted", None),
        ("layer", 9),
        ("layer_of_other", -1),
        ("column_of_other", 1 << 62),
        ("width_of_other", -1),
    ],
)
def test_attributes_out_of_range_are_refused(monkeypatch, name, value):
    """The lookup's op refuses a number that isn't of its inputs or outputs before it reads."""
    module = loading.load()
    complete = module.tpu_columns_look_up_tables

    def changed(**attributes):
        first, *others = attributes[name]
        first = 1 - first if value is None else value
        return complete(**{**attributes, name: [first, *others]})

    def model(found, others):
        return others[0], tf.reduce_sum(tf.tanh(tf.concat([*found.values(), others[0]], 1)))

    program = Program(2, 4, f0="dense", f1="dense", f2="sparse", f3="weighted")
    train(program, ALL, model, fetch_activations=False)
    monkeypatch.setattr(module, "tpu_columns_look_up_tables", changed)
    words = "out of range|differ|no layer"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        train(program, ALL, model, fetch_activations=False)


@pytest.mark.parametrize("name", ["combiner", "num_steps", "weighted", "safe", "key"])
def test_attributes_of_another_length_are_refused(monkeypatch, name):
    """The lookup's op reads no attribute of a feature that isn't there."""
    module = loading.load()
    complete = module.tpu_columns_look_up_tables

    def incomplete(**attributes):
        return complete(**{**attributes, name: attributes[name][1:]})

    monkeypatch.setattr(module, "tpu_columns_look_up_tables", incomplete)
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 4 elements"):
        train(Program(2), ALL)


def test_missing_weights_name_their_feature():
    """Other numbers of ids and weights are refused, with the feature's name."""
    program = Program(5, **{f"f{i}": "weighted" for i in range(5)})
    with (
        tf.Graph().as_default() as graph,
        tf1.Session() as session,
        placement.running(Mode.TRAIN, Hardware.CPU),
        optimizations.using(ALL),
    ):
        step = tf1.train.get_or_create_global_step()
        core = host.HostCore(program.spec(), training=True)
        fed, features = program.inputs()
        some = features["f3_weights"]
        features["f3_weights"] = tf.SparseTensor(some.indices, some.values[1:], some.dense_shape)
        found = core.receive(core.look_up(features, step))
        loss = sum(tf.reduce_sum(found[key]) for key in program.kinds)
        tf1.gradients(loss, tf1.trainable_variables())
        core.attach()
        update = core.update()
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(update, program.feed(fed, program.batches[0]))
        error = lookup_errors.explain(caught.value, graph)
    assert isinstance(error, lookup_errors.WeightCountError)
    assert "feature 'f3'" in str(error)
