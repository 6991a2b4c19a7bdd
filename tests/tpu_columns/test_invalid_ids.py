# SPDX-License-Identifier: Apache-2.0
"""Policies for invalid ids: the same result on every lookup device, and in every kind of input."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tpu_columns
from estimator_spec.convert import legacy_ids
from estimator_spec.convert.resolved_spec import resolve
from estimator_spec.core.cores import tensor_core
from estimator_spec.core.cores.host import HostCore
from estimator_spec.core.driver import dict_mode
from estimator_spec.core.embedding.optimizers import StochasticGradientDescentParameters
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from estimator_spec.core.embedding.table_config import FeatureConfig, TableConfig
from tpu_columns import Hardware, Mode, invalid_ids, placement

tf1 = tf.compat.v1
fc = tf.feature_column

ROWS, DIM, STEPS, WIDTH = 5, 2, 3, 4
TABLE = np.arange(1, 2 * ROWS + 1, dtype=np.float32).reshape(ROWS, DIM) ** 2
POLICIES = ["drop", "clip", "mod", 2]

ids_of_rows = st.lists(st.lists(st.integers(-7, 12), max_size=WIDTH), min_size=1, max_size=3)


def expected_ids(row, policy):
    """Returns the ids of a row under a policy."""
    changed = {
        "drop": lambda i: None,
        "clip": lambda i: min(max(i, 0), ROWS - 1),
        "mod": lambda i: i % ROWS,
    }.get(policy, lambda i: policy)
    found = [i if 0 <= i < ROWS else changed(i) for i in row]
    return [i for i in found if i is not None]


def mean(rows):
    """Returns the mean embedding of the ids of each row; zeros without ids."""
    found = [TABLE[row].mean(axis=0) if row else np.zeros(DIM) for row in rows]
    return np.array(found, np.float32)


def sparse_value(rows, values=None, dtype=np.int64):
    """Returns a SparseTensorValue [rows, WIDTH]."""
    indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    flat = [value for row in (rows if values is None else values) for value in row]
    indices = np.reshape(np.array(indices, np.int64), [-1, 2])
    return tf1.SparseTensorValue(indices, np.array(flat, dtype), [len(rows), WIDTH])


def dense_value(rows, missing=-1):
    """Returns a matrix [rows, WIDTH]; rows are filled up with `missing`."""
    return np.array([[*row, *[missing] * (WIDTH - len(row))] for row in rows], np.int64)


def make_column(policy, kind="ids", **arguments):
    """Returns a column of the feature `ids`, whose table is `TABLE`."""
    categorical = fc.categorical_column_with_identity("ids", ROWS)
    if kind == "sequence":
        categorical = fc.sequence_categorical_column_with_identity("ids", ROWS)
        arguments["max_sequence_length"] = STEPS
    if kind == "weighted":
        categorical = fc.weighted_categorical_column(categorical, "weights")
    return tpu_columns.embedding_column(
        categorical,
        DIM,
        initializer=tf1.constant_initializer(TABLE),
        invalid_ids=policy,
        **arguments,
    )


def spec_of(column):
    """Returns a spec of one column."""
    return EmbeddingConfigSpec(
        feature_columns=[column], optimization_parameters=StochasticGradientDescentParameters(0.1)
    )


def on_cpu(column, features):
    """Looks up a column in TF1's feature layer."""
    if column.is_sequence_column():
        return tpu_columns.sequence_input_layer(features, [column])[0]
    return tpu_columns.input_layer(features, [column])


def on_host_core(column, features):
    """Looks up a column on the host's embedding core."""
    core = HostCore(spec_of(column), training=False)
    with placement.running(Mode.PREDICT, Hardware.TPU):
        found = on_cpu(column, core.look_up(features, tf.constant(0, tf.int64)))
    core.attach()
    return found


def on_tensor_core(column, features):
    """Looks up a column on the tensor core."""
    column = column._replace(
        embedding_lookup_device="tpu_tensor_core", tensor_core_shape=[None, WIDTH]
    )
    with placement.running(Mode.PREDICT, Hardware.TPU):
        return on_cpu(column, tensor_core.pad([column], features))


def by_dictionaries(column, features):
    """Looks up a column's feature by a spec of dictionaries, under the estimator's policy."""
    table = TableConfig(ROWS, DIM, initializer=column.initializer)
    spec = EmbeddingConfigSpec(
        feature_to_config_dict={
            "ids": FeatureConfig(
                "table", column.max_sequence_length, weight_key=column.get_weight_key_name()
            )
        },
        table_to_config_dict={"table": table},
    )
    with invalid_ids.using(column.invalid_ids):
        return dict_mode.look_up(spec, features)["ids"]


ALL = [on_cpu, on_host_core, on_tensor_core, by_dictionaries]


def session_of(look_up, column, placeholders):
    """Builds a lookup in a graph; returns a function from fed values to its result."""
    with tf.Graph().as_default() as graph:
        inputs = placeholders()
        result = look_up(column, inputs)
        session = tf1.Session(graph=graph)
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
    return lambda **values: session.run(
        result, {inputs[key]: value for key, value in values.items()}
    )


def sessions_of(devices, column, placeholders):
    """Returns functions as `session_of` does, by the name of the device."""
    return {look_up.__name__: session_of(look_up, column, placeholders) for look_up in devices}


def sparse_ids():
    """Returns a placeholder of sparse ids."""
    return {"ids": tf1.sparse_placeholder(tf.int64, [None, WIDTH])}


def dense_ids():
    """Returns a placeholder of dense ids."""
    return {"ids": tf1.placeholder(tf.int64, [None, WIDTH])}


def check(devices, wanted, feed):
    """Compares what devices look up in drawn rows of ids, fed in some form, with what is wanted."""

    @settings(max_examples=settings.default.max_examples // 5)
    @given(ids_of_rows)
    def compare(rows):
        expected = wanted(rows)
        for device, run in devices.items():
            found = run(ids=feed(rows))
            np.testing.assert_allclose(found, expected, rtol=1e-6, err_msg=device)

    compare()


def mean_without(missing, policy):
    """Returns the function from rows to the means of their ids under a policy, but for some ids."""
    return lambda rows: mean(
        [expected_ids([i for i in row if i not in missing], policy) for row in rows]
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_sparse_ids(policy):
    """Every device looks up sparse ids as if the input had the ids that the policy gives."""
    devices = sessions_of(ALL, make_column(policy), sparse_ids)
    check(devices, mean_without((), policy), sparse_value)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("plain", [False, True])
def test_dense_ids_on_a_cpu(policy, plain):
    """Dense ids follow the policy, with optimized and plain lookups; -1 is missing."""
    with tpu_columns.optimizations.using(tpu_columns.optimizations.choose(plain, None)):
        devices = sessions_of([on_cpu], make_column(policy), dense_ids)
    check(devices, mean_without((-1,), policy), dense_value)


@pytest.mark.parametrize("policy", POLICIES)
def test_dense_ids_on_cores(policy):
    """Dense ids of cores follow the policy; 0 and -1 are missing, but not a 0 from the policy."""
    devices = sessions_of(ALL[1:], make_column(policy), dense_ids)
    check(devices, mean_without((0, -1), policy), dense_value)


@pytest.mark.parametrize("policy", POLICIES)
def test_weights(policy):
    """An id that is dropped takes its weight with it; an id that is replaced keeps it."""

    def placeholders():
        return {**sparse_ids(), "weights": tf1.sparse_placeholder(tf.float32, [None, WIDTH])}

    devices = sessions_of(ALL, make_column(policy, "weighted"), placeholders)

    @settings(max_examples=settings.default.max_examples // 5)
    @given(
        st.lists(
            st.lists(st.tuples(st.integers(-7, 12), st.integers(1, 9)), max_size=WIDTH),
            min_size=1,
            max_size=3,
        )
    )
    def compare(rows):
        wanted = np.zeros([len(rows), DIM], np.float32)
        for i, row in enumerate(rows):
            kept = [(*expected_ids([number], policy), weight) for number, weight in row]
            kept = [pair for pair in kept if len(pair) == 2]
            if kept:
                numbers, weights = zip(*kept, strict=True)
                wanted[i] = np.average(TABLE[list(numbers)], axis=0, weights=weights)
        numbers = [[number for number, _ in row] for row in rows]
        weights = [[weight for _, weight in row] for row in rows]
        values = {
            "ids": sparse_value(numbers),
            "weights": sparse_value(numbers, weights, np.float32),
        }
        for device, run in devices.items():
            np.testing.assert_allclose(run(**values), wanted, rtol=1e-5, err_msg=device)

    compare()


@pytest.mark.parametrize("policy", POLICIES)
def test_sequences(policy):
    """A step of a sequence follows the policy; a dropped one has zeros."""
    column = make_column(policy, "sequence")
    devices = sessions_of([on_cpu, on_host_core, by_dictionaries], column, sparse_ids)

    def wanted(rows):
        expected = np.zeros([len(rows), STEPS, DIM], np.float32)
        for i, row in enumerate(rows):
            for step, number in enumerate(row[:STEPS]):
                for known in expected_ids([number], policy):
                    expected[i, step] = TABLE[known]
        return expected

    check(devices, wanted, sparse_value)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("hardware", list(Hardware))
def test_conversions(hardware, policy):
    """Ids that are read for today's systems follow the policy of their column."""
    source = resolve(spec_of(make_column(policy)), hardware)

    @settings(max_examples=settings.default.max_examples // 5)
    @given(ids_of_rows)
    def compare(rows):
        ids = legacy_ids.read_ids(source, {"ids": tf.SparseTensor(*sparse_value(rows))})["ids"].ids
        wanted = [expected_ids(row, policy) for row in rows]
        found = [
            ids.values.numpy()[ids.indices.numpy()[:, 0] == i].tolist() for i in range(len(rows))
        ]
        assert found == wanted

    compare()


@pytest.mark.parametrize("look_up", ALL)
@pytest.mark.parametrize("number", [-2, ROWS])
def test_errors(look_up, number):
    """The policy 'error' fails on every device, and names the column and the id."""
    run = session_of(look_up, make_column("error"), sparse_ids)
    np.testing.assert_allclose(run(ids=sparse_value([[1]])), TABLE[[1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"ids.*\[{number}\]"):
        run(ids=sparse_value([[1, number]]))


def test_a_policy_of_the_context():
    """Columns without a policy follow the context's; a column's own wins."""
    with invalid_ids.using("clip"):
        assert invalid_ids.rule_for_column(make_column(None)).policy == "clip"
        assert invalid_ids.rule_for_column(make_column("mod")).policy == "mod"
    assert invalid_ids.rule_for_column(make_column(None)) is None


def test_configuration():
    """The policy is part of a column's value and configuration; older configurations lack it."""
    column = make_column("clip")
    assert column != make_column("mod")
    config = column.get_config()
    assert type(column).from_config(config) == column
    del config["invalid_ids"]
    assert type(column).from_config(config) == make_column(None)


@pytest.mark.parametrize("policy", ["Drop", -1, True, 1.5, ROWS])
def test_bad_policies(policy):
    """A policy that isn't one, or a default row beyond the vocabulary, is refused by column."""
    with pytest.raises(ValueError, match="invalid_ids of column 'ids_embedding'"):
        make_column(policy)
