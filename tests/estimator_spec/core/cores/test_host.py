# SPDX-License-Identifier: Apache-2.0
"""The host core against NumPy: every optimizer, every argument, every kind of feature."""

from __future__ import annotations

import functools
import inspect
import re

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import oracle
from estimator_spec.core.cores import host, host_updates, native_tables, update_rules
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.updates import dependencies
from tpu_columns import Hardware, Mode, optimizations, placement, shared_state
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1
ROWS, DIM, BATCH, LENGTH, STEPS = 9, 3, 4, 3, 6
RATE = 0.05

SGD = es.StochasticGradientDescentParameters
VARIANTS = [
    SGD(RATE),
    es.AdagradParameters(RATE),
    es.AdagradParameters(RATE, initial_accumulator=1.5),
    es.AdagradMomentumParameters(RATE, momentum=0.6),
    es.AdagradMomentumParameters(RATE, momentum=0.2),
    es.AdagradMomentumParameters(RATE, 0.6, use_nesterov=True),
    es.AdagradMomentumParameters(RATE, 0.6, exponent=3),
    es.AdagradMomentumParameters(RATE, 0.6, beta2=0.9),
    es.AdagradMomentumParameters(RATE, 0.6, epsilon=0.01),
    es.ProximalAdagradParameters(RATE),
    es.ProximalAdagradParameters(RATE, initial_accumulator=1.0),
    es.ProximalAdagradParameters(RATE, l1_regularization_strength=0.2),
    es.ProximalAdagradParameters(RATE, l2_regularization_strength=0.3),
    es.AdamParameters(RATE),
    es.AdamParameters(RATE, beta1=0.5),
    es.AdamParameters(RATE, beta2=0.7),
    es.AdamParameters(RATE, epsilon=0.1),
    es.AdamParameters(RATE, epsilon=0.1, sum_inside_sqrt=False),
    es.AdamParameters(RATE, lazy_adam=False),
    es.FtrlParameters(RATE),
    es.FtrlParameters(RATE, learning_rate_power=-0.7),
    es.FtrlParameters(RATE, learning_rate_power=0.0),
    es.FtrlParameters(RATE, initial_accumulator_value=0.5),
    es.FtrlParameters(RATE, l1_regularization_strength=0.05),
    es.FtrlParameters(RATE, l2_regularization_strength=0.4),
    es.FtrlParameters(RATE, beta=0.3),
    es.FtrlParameters(RATE, multiply_linear_by_learning_rate=True),
    es.FtrlParameters(
        RATE, l1_regularization_strength=0.05, beta=0.3, multiply_linear_by_learning_rate=True
    ),
    es.FtrlParameters(RATE, initial_accumulator_value=0.0, allow_zero_accumulator=True),
    es.ProximalYogiParameters(RATE),
    es.ProximalYogiParameters(RATE, beta1=0.5, beta2=0.8),
    es.ProximalYogiParameters(RATE, epsilon=0.1),
    es.ProximalYogiParameters(RATE, l1_regularization_strength=0.1),
    es.ProximalYogiParameters(RATE, l2_regularization_strength=0.1),
    es.ProximalYogiParameters(RATE, initial_accumulator_value=0.5),
    es.MomentumParameters(RATE, 0.8),
    es.MomentumParameters(RATE, 0.8, use_nesterov=True),
    es.MomentumParameters(RATE, 0.3),
    es.RMSPropParameters(RATE, rho=0.9, momentum=0.5, epsilon=1e-3),
    es.RMSPropParameters(RATE, rho=0.6, momentum=0.5, epsilon=1e-3),
    es.RMSPropParameters(RATE, rho=0.9, momentum=0.0, epsilon=1e-3),
    es.RMSPropParameters(RATE, rho=0.9, momentum=0.5, epsilon=0.1),
    es.FrequencyEstimatorParameters(0.3, 5.0, 1.5, 1.0),
    es.FrequencyEstimatorParameters(0.7, 5.0, 1.5, 1.0),
    es.FrequencyEstimatorParameters(0.3, 2.0, 1.5, 1.0),
    es.FrequencyEstimatorParameters(0.3, 5.0, 0.5, 1.0),
    es.FrequencyEstimatorParameters(0.3, 5.0, 1.5, 2.0),  # no part of the update
    # The arguments that all optimizers share; a FrequencyEstimator, which learns nothing, has none.
    *[
        make(**{"learning_rate": RATE, **shared})
        for make in (
            SGD,
            es.AdagradParameters,
            functools.partial(es.AdagradMomentumParameters, momentum=0.6),
            es.ProximalAdagradParameters,
            es.AdamParameters,
            es.FtrlParameters,
            es.ProximalYogiParameters,
            functools.partial(es.MomentumParameters, momentum=0.8),
            functools.partial(es.RMSPropParameters, rho=0.9, momentum=0.5, epsilon=1e-3),
        )
        for shared in (
            {"learning_rate": 0.2},
            {"use_gradient_accumulation": False},
            {"clip_weight_min": -0.2, "clip_weight_max": 0.3},
            {"clip_gradient_min": -0.1, "clip_gradient_max": 0.05},
            {"weight_decay_factor": 0.1},
            {"weight_decay_factor": 0.1, "multiply_weight_decay_factor_by_learning_rate": True},
            {"weight_decay_factor": 0.1, "use_gradient_accumulation": False},
        )
    ],
    es.AdamParameters(RATE, lazy_adam=False, weight_decay_factor=0.1, clip_weight_max=0.3),
    es.AdagradParameters(
        RATE, use_gradient_accumulation=False, clip_weight_min=0.2, clip_weight_max=0.5
    ),
]
FIRST_OF_EACH_KIND = {type(parameters): parameters for parameters in reversed(VARIANTS)}.values()


@pytest.fixture
def native(built_kernels, monkeypatch):
    """Native ops look up and train tables, as in the driver's graphs."""
    trained = []

    class Recorded(native_tables.NativeTables):
        def update(self, *arguments):
            ops = super().update(*arguments)
            trained.extend(ops)
            return ops

    monkeypatch.setattr(native_tables, "NativeTables", Recorded)
    with (
        placement.running(Mode.TRAIN, Hardware.CPU),
        optimizations.using(frozenset(Optimization)),
    ):
        yield
    assert trained, "TensorFlow's ops trained the tables"


@pytest.fixture(params=["tensorflow", "native"])
def kernels(request):
    """TensorFlow's ops or native ones look up and train tables."""
    if request.param == "native":
        request.getfixturevalue("native")


def shown(parameters):
    """Returns a short name of a case."""
    default = type(parameters).__name__.removesuffix("Parameters")
    return default + repr(parameters).split("(", 1)[1].replace("learning_rate=0.05", "")[:60]


def test_every_argument_is_among_the_variants():
    """Each of the ten optimizers is trained with two values of each of its arguments."""
    kinds = {type(parameters) for parameters in VARIANTS}
    assert len(kinds) == 10
    for kind in kinds:
        for name in inspect.signature(kind).parameters:
            values = {getattr(p, name) for p in VARIANTS if type(p) is kind}
            assert len(values) > 1, (kind, name)


KINDS = ("plain", "weighted", "steps")


def batches(seed, steps=STEPS):
    """Returns batches of three features as rows of (id, weight), with repeats and empty rows."""
    rng = np.random.RandomState(seed)

    def rows(most, weighted):
        return [
            [
                (int(rng.randint(ROWS)), float(rng.uniform(0.5, 2)) if weighted else 1.0)
                for _ in range(rng.randint(0, most + 1))
            ]
            for _ in range(BATCH)
        ]

    return [
        {"plain": rows(4, False), "weighted": rows(3, True), "steps": rows(5, False)}
        for _ in range(steps)
    ]


def make_spec(parameters, combiners="mean", rates=None, kinds=KINDS, **kwargs):
    """Returns a spec in dict mode, of features over each of some tables.

    Args:
        parameters: the optimizer of each table, `table_0` and so on.
        combiners: combiner of each table, or of all.
        rates: learning rate of each table, or a function of the step; None for the optimizer's.
        kinds: kinds of the features of each table.
        **kwargs: further arguments of the spec.
    """
    names = [f"table_{number}" for number in range(len(parameters))]
    combiners = combiners if isinstance(combiners, list) else [combiners] * len(names)
    tables = {
        name: es.TableConfig(
            ROWS,
            DIM,
            initializer=initial,
            combiner=combiner,
            optimization_parameters=optimizer,
            learning_rate_fn=rate if callable(rate) else None,
            learning_rate=None if callable(rate) else rate,
        )
        for name, combiner, optimizer, rate in zip(
            names, combiners, parameters, rates or [None] * len(names), strict=True
        )
    }
    features = {
        f"{name}/{kind}": es.FeatureConfig(
            name,
            max_sequence_length=LENGTH if kind == "steps" else 0,
            weight_key=f"{name}/weights" if kind == "weighted" else None,
        )
        for name in names
        for kind in kinds
    }
    return es.EmbeddingConfigSpec(
        feature_to_config_dict=features, table_to_config_dict=tables, **kwargs
    )


VALUES = np.random.RandomState(1).uniform(0.1, 0.9, [ROWS, DIM]).astype(np.float32)
TARGETS = {
    "plain": np.random.RandomState(2).normal(size=[BATCH, DIM]),
    "weighted": np.random.RandomState(3).normal(size=[BATCH, DIM]),
    "steps": np.random.RandomState(4).normal(size=[BATCH, LENGTH, DIM]),
}


def initial(shape, dtype=tf.float32, partition_info=None):
    """Returns the table's initial values, equal on both sides."""
    del partition_info
    return tf.constant(VALUES, dtype=dtype, shape=shape)


def placeholders(size=BATCH):
    """Returns sparse placeholders of the three features."""
    return {
        "plain": tf1.sparse_placeholder(tf.int64, [size, None]),
        "weighted": tf1.sparse_placeholder(tf.int32, [size, None]),
        "weights": tf1.sparse_placeholder(tf.float32, [size, None]),
        "steps": tf1.sparse_placeholder(tf.int64, [size, None]),
    }


def fed(inputs, batch):
    """Returns the feed dict of a batch."""

    def value(rows, which, dtype):
        indices = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
        values = np.array([pair[which] for row in rows for pair in row], dtype)
        width = max([len(row) for row in rows] + [1])
        return tf1.SparseTensorValue(
            np.reshape(indices, [-1, 2]).astype(np.int64), values, [len(rows), width]
        )

    return {
        inputs["plain"]: value(batch["plain"], 0, np.int64),
        inputs["weighted"]: value(batch["weighted"], 0, np.int32),
        inputs["weights"]: value(batch["weighted"], 1, np.float32),
        inputs["steps"]: value(batch["steps"], 0, np.int64),
    }


def finish(core, loss):
    """Creates a core's tables; returns the op that trains them with the gradients of a loss."""
    tf1.gradients(loss, tf1.trainable_variables())
    core.attach()
    return core.update()


def split(batch, replicas):
    """Returns the batch of each replica."""
    size = BATCH // replicas
    return [
        {key: rows[size * replica : size * (replica + 1)] for key, rows in batch.items()}
        for replica in range(replicas)
    ]


def whole(variables):
    """Returns variables by name; parts of one variable, which are on servers, are concatenated."""
    found = {}
    for name in sorted(variables):
        found.setdefault(re.sub(r"/part_\d+$", "", name), []).append(variables[name])
    return {
        name: np.concatenate(parts) if len(parts) > 1 else parts[0] for name, parts in found.items()
    }


def train_core(spec, data, num_shards=1, replicas=1, on_servers=False):
    """Trains all tables of a spec in one graph.

    Returns:
        Variables by name, each step's activations by feature, and the variables after updates that
        were held back.
    """
    with tf.Graph().as_default() as graph:
        step = tf1.train.get_or_create_global_step()
        inputs = [placeholders(BATCH // replicas) for _ in range(replicas)]
        core = host.HostCore(spec, training=True, num_shards=num_shards, on_servers=on_servers)
        keys = list(spec.feature_to_config_dict)

        def of_tables(given):
            tables = spec.table_to_config_dict
            return {f"{name}/{kind}": given[kind] for name in tables for kind in given}

        parts = [core.look_up(of_tables(features), step) for features in inputs]
        parts = [core.receive(features, replica) for replica, features in enumerate(parts)]
        features = {key: tf.concat([part[key] for part in parts], 0) for key in keys}
        loss = sum(
            tf.reduce_sum(0.5 * (value - TARGETS[key.split("/")[1]]) ** 2)
            for key, value in features.items()
        )
        with tf.control_dependencies([finish(core, loss)]):
            train = tf1.assign_add(step, 1)
        with tf1.Session(graph=graph) as session:
            session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
            seen = []
            for batch in data:
                feeds = map(fed, inputs, split(batch, replicas))
                feed = {key: value for each in feeds for key, value in each.items()}
                seen.append(session.run([features, train], feed)[0])
            variables = {v.op.name: v for v in tf1.global_variables()}
            before = whole(session.run(variables))
            session.run(graph.get_collection(shared_state.HELD_UPDATES))
            return before, seen, whole(session.run(variables))


def train_oracle(
    parameters,
    data,
    combiner="mean",
    rate=None,
    multiplier=None,
    stale=False,
    replicas=1,
    kinds=KINDS,
):
    """Trains a table in NumPy; returns it, its activations and the update that is held back."""
    table = oracle.Table(VALUES, parameters)
    rate = rate or (lambda step: parameters.learning_rate)
    held, seen = None, []
    for step, batch in enumerate(data):
        occurrences, activations = [], {}
        for key in kinds:
            length = LENGTH if key == "steps" else 0
            value, uses = oracle.look_up(table.w, batch[key], combiner, length)
            gradient = value - TARGETS[key]
            if multiplier:
                gradient = gradient * multiplier(step)
            occurrences += [
                (row, weight * gradient[place], place[0] * replicas // BATCH)
                for row, weight, place in uses
            ]
            activations[key] = value
        seen.append(activations)
        update = (occurrences, rate(step), step, replicas)
        if not stale:
            table.update(*update)
            continue
        if held:
            table.update(*held)
        held = update
    return table, seen, held


def check(variables, table, prefix="table_0", atol=1e-5):
    """Compares the table and its slots, by name."""
    np.testing.assert_allclose(variables[prefix], table.w, rtol=1e-5, atol=atol)
    names = optimizers.slot_names(table.p, prefix)
    for slot, name in names.items():
        np.testing.assert_allclose(variables[name], table.slots[slot], rtol=1e-4, atol=atol)
    assert {name for name in variables if name.split("/")[0] == prefix} == {prefix, *names.values()}


def check_all(subtests, cases, data, replicas=1, kinds=KINDS, num_servers=0, **kwargs):
    """Trains a table for each case in one graph, and compares each with the oracle by its name.

    Args:
        subtests: pytest's.
        cases: optimizers, and their combiners.
        data: batches.
        replicas: number of replicas.
        kinds: kinds of the features of each table.
        num_servers: number of servers that have shards of the tables, 0 for none.
        **kwargs: further arguments of the spec.
    """
    parameters, combiners = zip(*cases, strict=True)
    spec = make_spec(parameters, list(combiners), kinds=kinds, **kwargs)
    stale = bool(kwargs.get("pipeline_execution_with_tensor_core"))
    variables, seen, drained = train_core(
        spec, data, num_servers or 1, replicas, on_servers=num_servers > 0
    )
    assert len(seen) == len(data)
    assert {name.split("/")[0] for name in variables} == {*spec.table_to_config_dict, "global_step"}
    for name, (optimizer, combiner) in zip(spec.table_to_config_dict, cases, strict=True):
        with subtests.test(f"{shown(optimizer)} {combiner}"):
            table, wanted, held = train_oracle(
                optimizer, data, combiner or "sum", None, None, stale, replicas, kinds
            )
            for found, activations in zip(seen, wanted, strict=True):
                for key, value in activations.items():
                    own = found[f"{name}/{key}"]
                    np.testing.assert_allclose(own, value, rtol=1e-4, atol=1e-5)
            check(variables, table, name)
            if stale:
                table.update(*held)
            check(drained, table, name)


def test_every_argument_equals_the_oracle(subtests):
    """Tables and slots equal the formulas for each optimizer with each of its arguments."""
    cases = [(parameters, "mean") for parameters in VARIANTS]
    check_all(subtests, cases, batches(seed=6), kinds=["weighted"])


def test_all_features_of_a_table_train_it(subtests):
    """Tables and slots equal the formulas with repeated ids, weights and sequences."""
    check_all(
        subtests, [(parameters, "mean") for parameters in FIRST_OF_EACH_KIND], batches(seed=7)
    )


def test_native_ops_equal_the_oracle(native, subtests):
    """They train tables and slots by the formulas, with repeated ids, weights and sequences."""
    cases = [
        (parameters, combiner)
        for parameters in VARIANTS
        if update_rules.native_rule(parameters)
        for combiner in (("mean", "sum", "sqrtn") if type(parameters) is SGD else ("mean",))
    ]
    assert {type(p) for p, _ in cases} == {type(p) for p in VARIANTS}
    check_all(subtests, cases, batches(seed=7))


def test_native_updates_on_servers_equal_the_oracle(built_kernels, monkeypatch, subtests):
    """An op for each shard updates it by the formulas, with limits, decay and the global step."""
    updates = []
    make_update = host_updates.native_ops.update_rows

    def update_rows(*arguments):
        updates.append(make_update(*arguments))
        return updates[-1]

    monkeypatch.setattr(host_updates.native_ops, "update_rows", update_rows)
    cases = [
        (parameters, "mean") for parameters in VARIANTS if update_rules.native_rule(parameters)
    ]
    with (
        placement.running(Mode.TRAIN, Hardware.CPU),
        optimizations.using(frozenset(Optimization)),
    ):
        check_all(
            *(subtests, cases, batches(seed=6), 1, ["weighted"]),
            num_servers=3,
            partition_strategy="div",
        )
    assert len(updates) == 3 * len(cases)


@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas_equal_the_oracle(replicas, subtests):
    """Without gradient accumulation the replicas' sums are applied one after the other."""
    summed = [SGD(RATE), es.AdagradParameters(RATE)]
    in_turns = [p for p in VARIANTS if not p.use_gradient_accumulation]
    cases = [(parameters, "mean") for parameters in [*summed, *in_turns]]
    # The turns of more replicas don't depend on the optimizer.
    cases, kinds = (cases, ["plain"]) if replicas == 2 else (cases[:4], KINDS)
    check_all(subtests, cases, batches(seed=6), replicas, kinds)


def test_combiners(subtests):
    """All combiners train by the formulas; None is sum, as on a TPU."""
    cases = [(es.AdagradParameters(RATE), combiner) for combiner in ("sum", "sqrtn", None)]
    check_all(subtests, cases, batches(seed=8))


@pytest.mark.usefixtures("kernels")
def test_a_batch_without_ids_of_one_feature(subtests):
    """A feature without ids in a batch adds nothing to the gradient of its table.

    TensorFlow's kernels may return uninitialized memory for it.
    """
    data = batches(seed=12)
    for batch in data:
        batch["plain"] = [[] for _ in range(BATCH)]
    check_all(subtests, [(SGD(RATE), combiner) for combiner in ("mean", "sum", "sqrtn")], data)


@pytest.mark.usefixtures("kernels")
def test_gradient_multiplier_and_learning_rate_fn():
    """learning_rate_fn and the gradient multiplier get the global step at the step's beginning."""
    parameters = SGD(123.0)
    rate = lambda step: 0.1 / (1.0 + step)  # noqa: E731 - a formula
    spec = make_spec(
        [parameters],
        rates=[lambda s: 0.1 / (1.0 + tf.cast(s, tf.float32))],
        experimental_gradient_multiplier_fn=lambda s: 1.0 - 0.02 * tf.cast(s, tf.float32),
    )
    data = batches(seed=9)
    variables, _, _ = train_core(spec, data)
    wanted, _, _ = train_oracle(parameters, data, rate=rate, multiplier=lambda s: 1 - 0.02 * s)
    check(variables, wanted)


@pytest.mark.usefixtures("kernels")
def test_the_rate_of_a_table(subtests):
    """A table's learning rate replaces the optimizer's; 0 counts as none, as in TensorFlow's."""
    rates = {None: RATE, 0.0: RATE, 0.25: 0.25}
    data = batches(seed=13, steps=3)
    variables, _, _ = train_core(make_spec([SGD(RATE)] * 3, rates=list(rates)), data)
    for number, (rate, used) in enumerate(rates.items()):
        with subtests.test(f"rate {rate}"):
            table, _, _ = train_oracle(SGD(RATE), data, rate=lambda step, used=used: used)
            check(variables, table, f"table_{number}")


@pytest.mark.parametrize("replicas", [1, 2])
def test_pipelining_is_one_step_stale(replicas, subtests):
    """With pipelining, step N reads tables without step N-1's update; draining applies it."""
    adagrad = es.AdagradParameters
    parameters = [SGD(RATE), adagrad(RATE), adagrad(RATE, use_gradient_accumulation=False)]
    check_all(
        subtests,
        [(each, "mean") for each in parameters],
        batches(seed=10),
        replicas,
        pipeline_execution_with_tensor_core=True,
    )


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("strategy", "num_shards"), [("mod", 1), ("mod", 2), ("mod", 4), ("mod", 11), ("div", 4)]
)
def test_shards_are_a_permutation(strategy, num_shards):
    """A variable holds the concatenated shards; those of div are in the order of the rows."""
    data, parameters = batches(seed=11, steps=3), es.AdagradParameters(RATE)
    spec = make_spec([parameters], partition_strategy=strategy)
    variables, _, _ = train_core(spec, data, num_shards=num_shards)
    table, _, _ = train_oracle(parameters, data)
    if strategy == "mod":
        order = np.concatenate([np.arange(shard, ROWS, num_shards) for shard in range(num_shards)])
        table.w, table.slots["accumulator"] = table.w[order], table.slots["accumulator"][order]
    check(variables, table)


def one_feature(combiner="sum", keys=("table",), **kwargs):
    """A spec of one feature for each table, by the table's key, and a function for each rate."""
    rates = {key: kwargs.pop(f"rate_of_{key}", None) for key in keys}
    return es.EmbeddingConfigSpec(
        feature_to_config_dict={f"ids_of_{key}": es.FeatureConfig(key) for key in keys},
        table_to_config_dict={
            key: es.TableConfig(
                ROWS, DIM, initializer=initial, combiner=combiner, learning_rate_fn=rates[key]
            )
            for key in keys
        },
        optimization_parameters=kwargs.pop("parameters", SGD(RATE)),
        **kwargs,
    )


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("shape", [[3], [3, 1]])
def test_dense_ids_without_a_combiner(shape):
    """Without a combiner 0 is an id like any other: its row is looked up and trained."""
    with tf.Graph().as_default(), tf1.Session() as session:
        core = host.HostCore(one_feature(combiner=None), training=True)
        ids = tf.reshape(tf.constant([1, 0, 2]), shape)
        step = tf1.train.get_or_create_global_step()
        found = core.receive(core.look_up({"ids_of_table": ids}, step))["ids_of_table"]
        update = finish(core, tf.reduce_sum(found))
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        activations, _ = session.run([found, update])
        (table,) = (v for v in tf1.global_variables() if v.op.name == "table")
        after = session.run(table)
    np.testing.assert_allclose(activations, VALUES[[1, 0, 2]])
    wanted = VALUES.copy()
    wanted[:3] -= RATE
    np.testing.assert_allclose(after, wanted, rtol=1e-6)


@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_an_id_outside_of_a_cut_table(strategy):
    """It is refused, wherever the arithmetic of shards would put it."""
    with tf.Graph().as_default(), tf1.Session() as session:
        spec = one_feature(partition_strategy=strategy)
        core = host.HostCore(spec, training=False, num_shards=4)
        fed_id = tf1.placeholder(tf.int32, [])
        ids = tf.SparseTensor([[0, 0], [1, 0]], tf.stack([1, fed_id]), [2, 1])
        step = tf1.train.get_or_create_global_step()
        found = core.look_up({"ids_of_table": ids}, step)["ids_of_table"]
        core.attach()
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        np.testing.assert_array_equal(session.run(found, {fed_id: 8})[1], VALUES[8])
        for bad in (-1, ROWS, ROWS + 1, 99):
            with pytest.raises(tf.errors.InvalidArgumentError, match=rf" {bad}|\[{bad}\]|{bad} is"):
                session.run(found, {fed_id: bad})


@pytest.mark.usefixtures("kernels")
def test_each_table_has_its_own_rate():
    """Tables of different functions of the step are trained at different rates."""
    spec = one_feature(
        keys=("a", "b", "c"),
        rate_of_a=lambda step: 0.5,
        rate_of_b=lambda step: 0.25 * tf.cast(step + 1, tf.float32),
    )
    with tf.Graph().as_default(), tf1.Session() as session:
        core = host.HostCore(spec, training=True)
        step = tf1.train.get_or_create_global_step()
        ids = {f"ids_of_{key}": tf.sparse.from_dense(tf.constant([[4]])) for key in "abc"}
        found = core.receive(core.look_up(ids, step))
        update = finish(core, sum(map(tf.reduce_sum, found.values())))
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        session.run(update)
        after = {v.op.name: session.run(v) for v in tf1.global_variables()}
    for key, rate in (("a", 0.5), ("b", 0.25), ("c", RATE)):
        np.testing.assert_allclose(after[key][4], VALUES[4] - rate, rtol=1e-5)


@pytest.mark.usefixtures("kernels")
def test_the_step_is_read_before_the_model_counts():
    """Multipliers see the step as it began, also where the model counts before its gradients."""
    counted = []

    def multiplier(step):
        with tf.control_dependencies(counted):
            return tf.cast(tf.identity(step), tf.float32)

    spec = one_feature(parameters=SGD(1.0), experimental_gradient_multiplier_fn=multiplier)
    with tf.Graph().as_default(), tf1.Session() as session:
        core = host.HostCore(spec, training=True)
        step = tf1.train.get_or_create_global_step()
        ids = tf.sparse.from_dense(tf.constant([[4]]))
        found = core.receive(core.look_up({"ids_of_table": ids}, step))["ids_of_table"]
        with tf.control_dependencies([found]):  # as early as a model can
            counted.append(step.assign_add(10, read_value=False))
        update = finish(core, tf.reduce_sum(found))
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        session.run(step.assign(2))
        session.run(update)
        (table,) = (v for v in tf1.global_variables() if v.op.name == "table")
        np.testing.assert_allclose(session.run(table)[4], VALUES[4] - 2.0, rtol=1e-5)
        reads = dependencies.collect_ancestors(found)
        assert any(op.type == "ReadVariableOp" and op.inputs[0] is step.handle for op in reads)


@pytest.mark.parametrize("parameters", FIRST_OF_EACH_KIND, ids=shown)
def test_rows_are_written_after_they_were_read(parameters):
    """Whatever a new value is made of, it is written when the old one has been read."""
    with tf.Graph().as_default() as graph:
        core = host.HostCore(one_feature(parameters=parameters), training=True)
        step = tf1.train.get_or_create_global_step()
        ids = tf.sparse.from_dense(tf.constant([[4]]))
        found = core.receive(core.look_up({"ids_of_table": ids}, step))["ids_of_table"]
        finish(core, tf.reduce_sum(found))
        reads = [op for op in graph.get_operations() if op.type == "ResourceGather"]
        writes = [op for op in graph.get_operations() if op.type == "ResourceScatterUpdate"]
    for write in writes:
        before = dependencies.collect_ancestors(write)
        mine = {read for read in reads if read.inputs[0] is write.inputs[0]}
        assert mine and mine <= before
    assert len(writes) == 1 + len(optimizers.slot_names(parameters, "table"))
