# SPDX-License-Identifier: Apache-2.0
"""Initial values of tables in shards: the rows of one machine, bit for bit, whatever makes them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.core.cluster import devices, local_cluster
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.cores.host import HostCore
from tpu_columns import initial_rows, lookup, storage, tables
from tpu_columns.storage import TableStorage

tf1 = tf.compat.v1

ROWS, DIM = 23, 3  # no multiple of the shards, nor of four elements
ARRAY = np.random.RandomState(7).normal(size=[ROWS, DIM]).astype(np.float32)


def from_array(shape, dtype=tf.float32):
    """Returns pretrained vectors as an array."""
    return ARRAY[: shape[0]]


def from_tensor(shape, dtype=tf.float32):
    """Returns pretrained vectors as a tensor, whatever shard is asked for."""
    return tf.constant(ARRAY, dtype) if shape[0] > 3 else tf.constant(ARRAY[: shape[0]], dtype)


def from_unknown_shape(shape, dtype=tf.float32):
    """Returns pretrained vectors of a shape that isn't known before the graph runs."""
    return tf1.placeholder_with_default(ARRAY[: shape[0]], [None, None])


def from_numbers(shape, dtype=tf.float32):
    """Returns a function of the shape."""
    return tf.reshape(tf.range(shape[0] * shape[1], dtype=dtype), shape)


def from_random_array(shape, dtype=tf.float32):
    """Returns an array of NumPy's generator, seeded."""
    return np.random.RandomState(3).normal(size=shape).astype(np.float32)


def scaled_by_columns(shape, dtype=tf.float32):
    """Returns random numbers times a vector."""
    return tf1.random_normal(shape, seed=5) * tf.constant([1.0, 2.0, 3.0])


class Unmindful:
    """Initializer that takes `partition_info`, and returns the whole table nevertheless."""

    def __call__(self, shape, dtype=None, partition_info=None):
        """Returns pretrained vectors."""
        rows = shape[0] if partition_info is None else partition_info.full_shape[0]
        return tf.constant(ARRAY[:rows])


class ByRanges:
    """Initializer that returns the rows that it is asked for."""

    def __init__(self):
        self.calls = []

    def __call__(self, shape, dtype=None, partition_info=None):
        """Returns pretrained vectors of a range of rows."""
        start = 0 if partition_info is None else partition_info.var_offset[0]
        self.calls.append((start, shape[0]))
        return tf.constant(ARRAY[start : start + shape[0]])


def initializers():
    """Returns initializers by name: whole tables, and each kind of TensorFlow's and Keras'."""
    legacy_keras.select_legacy_keras()
    v1, v2, keras = tf1.initializers, tf.initializers, tf.keras.initializers
    found = {
        "array": from_array,
        "tensor": from_tensor,
        "unknown_shape": from_unknown_shape,
        "numbers": from_numbers,
        "random_array": from_random_array,
        "scaled_by_columns": scaled_by_columns,
        "unmindful": Unmindful(),
        "by_ranges": ByRanges(),
        "constant": tf1.constant_initializer(ARRAY),
        "keras_constant": keras.Constant(ARRAY),
        "number": tf1.constant_initializer(0.25),
        "zeros_class": tf1.zeros_initializer,
        "ones": tf1.ones_initializer(),
        "identity": tf1.initializers.identity(2.0),
        "orthogonal": v1.orthogonal(seed=1),
        "uniform": v1.random_uniform(-1.0, 3.0, seed=1),
        "normal": v1.random_normal(1.0, 0.3, seed=2),
        "truncated": v1.truncated_normal(0.5, 0.1, seed=3),
        "unit_scaling": v1.uniform_unit_scaling(seed=4),
        "glorot_uniform": v1.glorot_uniform(seed=5),
        "glorot_normal": v1.glorot_normal(seed=6),
        "he": v1.he_uniform(seed=7),
        "lecun": v1.lecun_normal(seed=-8),
        "same_seed": v1.random_normal(1.0, 0.3, seed=2),
    }
    for name in ("uniform", "normal", "untruncated_normal"):
        found[f"scaling_{name}"] = v1.variance_scaling(seed=9, distribution=name)
    for place, module in (("v2", v2), ("keras", keras)):
        for name in ("RandomUniform", "RandomNormal", "TruncatedNormal", "HeNormal", "Orthogonal"):
            found[f"{place}_{name}"] = getattr(module, name)(seed=11)
    return found


FEW = ("array", "numbers", "by_ranges", "constant", "number", "orthogonal", "uniform", "truncated")


def few(found):
    """Returns an initializer of each way in which shards get their rows."""
    return {name: found[name] for name in FEW}


def sizes(name):
    """Returns the rows of the tables of an initializer; some have fewer rows than shards."""
    return [ROWS, 2] if name in ("array", "by_ranges", "uniform") else [ROWS]


def columns_tables(found, strategy, shards):
    """Creates tables as columns do; returns the rows of all ids by name."""
    values = {}
    with storage.storing(TableStorage(strategy, shards)):
        for name, initializer in found.items():
            for rows in sizes(name):
                key = f"{name}_{rows}"
                table = tables.get_table(key, (rows, DIM), initializer)
                values[key] = lookup.gather_rows(table, tf.range(rows))
    return values


def core_tables(found, strategy, shards, on_servers):
    """Creates tables in a host core; returns the activations of all ids by name."""
    place = "servers" if on_servers else "host"
    configs = {
        f"{place}_{name}_{rows}": es.TableConfig(rows, DIM, initializer, "sum")
        for name, initializer in found.items()
        for rows in sizes(name)
    }
    spec = es.EmbeddingConfigSpec(
        table_to_config_dict=configs,
        feature_to_config_dict={key: es.FeatureConfig(key) for key in configs},
        partition_strategy=strategy,
    )
    core = HostCore(spec, training=False, num_shards=shards, on_servers=on_servers)
    ids = {
        key: tf.sparse.from_dense(tf.range(1, 1 + table.vocabulary_size)[:, tf.newaxis])
        for key, table in configs.items()
    }
    ids = {key: each.with_values(each.values - 1) for key, each in ids.items()}
    step = tf1.train.get_or_create_global_step()
    activations = core.look_up(ids, step)
    core.attach()
    return {key.removeprefix(f"{place}_"): activations[key] for key in configs}


def session_without_rewriting():
    """Returns a session that runs a graph as it is, which is faster for many small tables."""
    config = tf1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf1.Session(config=config)


def run(session, values):
    """Initializes all variables; returns the values of tensors."""
    session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
    return session.run(values)


@pytest.fixture(scope="module")
def one_machine():
    """Returns the rows of each table in one variable."""
    with tf.Graph().as_default(), session_without_rewriting() as session:
        tf1.set_random_seed(4)
        return run(session, columns_tables(initializers(), "div", 1))


def assert_same(found, wanted):
    """Checks that each table has the same rows, bit for bit."""
    wrong = [name for name in found if found[name].tobytes() != wanted[name].tobytes()]
    assert len(found) > 3
    assert wrong == []


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_shards_have_the_rows_of_one_machine(one_machine, strategy, shards, monkeypatch):
    """Each id has the row that it has on one machine: tables of columns, cores, and servers."""
    if shards != 3:
        monkeypatch.setattr(initial_rows, "_BLOCK", 24)  # several blocks of a table by mod
    with tf.Graph().as_default(), session_without_rewriting() as session:
        tf1.set_random_seed(4)
        found = initializers() if shards == 3 else few(initializers())
        values = [
            columns_tables(found, strategy, shards),
            core_tables(few(found), strategy, shards, on_servers=False),
            core_tables(few(found), strategy, shards, on_servers=True),
        ]
        for each in run(session, values):
            assert_same(each, one_machine)


@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_servers_have_the_rows_of_one_machine(one_machine, strategy, monkeypatch):
    """On three parameter servers, too; each computes the random rows that it has."""
    monkeypatch.setattr(initial_rows, "_BLOCK", 24)  # several blocks of a table by mod
    chief, *servers = (f"127.0.0.1:{port}" for port in local_cluster.find_free_ports(4))
    cluster = {"chief": [chief], "ps": servers}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    running = [
        tf.distribute.Server(cluster, job, number)
        for job, addresses in cluster.items()
        for number in range(len(addresses))
    ]
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(4)
        found = few(initializers())
        with graph.device(devices.device_function(es.RunConfig())):
            values = [
                columns_tables(found, strategy, 3),
                core_tables(found, strategy, 3, on_servers=True),
            ]
        with tf1.Session(running[0].target) as session:
            for each in run(session, values):
                assert_same(each, one_machine)


def test_ranges_are_asked_for_as_before():
    """An initializer that takes `partition_info` is called for each shard that is a range."""
    initializer = ByRanges()
    with tf.Graph().as_default():
        columns_tables({"by_ranges": initializer}, "div", 3)
    assert initializer.calls == [(0, 8), (8, 8), (16, 7), (0, 1), (1, 1)]


def test_shards_differ_without_a_seed():
    """Random initial values without a seed differ between shards, and between runs."""
    found = {"normal": tf1.random_normal_initializer(), "v2": tf.random_normal_initializer()}
    seen = []
    for _ in range(2):
        with tf.Graph().as_default(), session_without_rewriting() as session:
            values = run(session, columns_tables(found, "div", 5))
        seen += [np.unique(row) for row in values.values()]
    assert np.unique(np.concatenate(seen)).size == sum(map(np.size, seen))
    assert len(np.concatenate(seen)) == 2 * 2 * ROWS * DIM


def test_a_partitioner_of_the_program(one_machine):
    """In a scope with a partitioner whole tables are cut, and others have `get_variable`'s rows."""
    partitioner = tf1.fixed_size_partitioner(4)
    found = initializers()
    cut = {name: found[name] for name in ("tensor", "by_ranges", "constant", "number")}
    drawn = {name: found[name] for name in ("uniform", "truncated", "v2_HeNormal")}
    with tf.Graph().as_default(), session_without_rewriting() as session:
        tf1.set_random_seed(4)
        with tf1.variable_scope("model", partitioner=partitioner):
            values = columns_tables(cut, "div", 1), columns_tables(drawn, "div", 1)
        with tf1.variable_scope("plain", partitioner=partitioner):
            plain = {
                f"{name}_{rows}": tf1.get_variable(f"{name}_{rows}", [rows, DIM], tf.float32, each)
                for name, each in drawn.items()
                for rows in sizes(name)
            }
            plain = {name: tf.convert_to_tensor(variable) for name, variable in plain.items()}
        (whole, parts), wanted = run(session, [values, plain])
        assert_same(whole, one_machine)
        assert len(parts) == 4
        for name, value in parts.items():
            np.testing.assert_array_equal(value, wanted[name], name)
        assert len(tf1.global_variables("model/by_ranges")) == 4 + 2


def test_a_wrong_shape_is_refused():
    """The error names the table, and the shape that the whole one must have."""
    for on_servers in (False, True):
        with tf.Graph().as_default(), pytest.raises(ValueError, match=r"wrong_23'.*\[23, 3\]"):
            wrong = {"wrong": lambda shape, dtype: tf.zeros([5, 3])}
            if on_servers:
                core_tables(wrong, "mod", 2, on_servers)
            else:
                columns_tables(wrong, "mod", 2)
