# SPDX-License-Identifier: Apache-2.0
"""Tables of the host core that share variables and ops in training, seen from outside."""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
from estimator_spec.core.checkpoints import records
from estimator_spec.core.cores import host, table_groups
from tpu_columns import IdOutOfRangeError

tf1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("built_kernels")
ROWS, DIM, BATCH, LENGTH = 13, 8, 10, 3
OPTIMIZERS = {
    "sgd": es.StochasticGradientDescentParameters(0.05),
    "adagrad": es.AdagradParameters(0.05),
    "adagrad_momentum": es.AdagradMomentumParameters(0.05, 0.6),
    "proximal_adagrad": es.ProximalAdagradParameters(0.05, l1_regularization_strength=0.01),
    "adam": es.AdamParameters(0.05),
    "adam_of_all_rows": es.AdamParameters(0.05, lazy_adam=False, weight_decay_factor=0.01),
    "ftrl": es.FtrlParameters(0.05),
    "proximal_yogi": es.ProximalYogiParameters(0.05),
    "momentum": es.MomentumParameters(0.05, 0.8),
    "rms_prop": es.RMSPropParameters(0.05, rho=0.9, momentum=0.5, epsilon=1e-3),
    "frequency": es.FrequencyEstimatorParameters(0.3, 5.0, 1.5, 1.0),
}


@pytest.fixture(autouse=True)
def stack_few(monkeypatch):
    """Lets two tables make a stack, and share a stand-in."""
    monkeypatch.setattr(table_groups, "MIN_TABLES", 2)
    monkeypatch.setattr(host, "MIN_SHARING_TABLES", 2)


KINDS = {"one": "a", "two": "a", "sparse": "a", "steps": "b", "some": "b", "weighted": "c"}
FEW_KINDS = ("one", "some")


def spec_of(optimizers, strategy="div", kinds=KINDS):
    """Returns a spec with tables for each optimizer, and features of these kinds."""
    tables, features = {}, {}
    for number, (name, parameters) in enumerate(optimizers.items()):
        for place, suffix in enumerate(sorted({KINDS[kind] for kind in kinds})):
            tables[f"{name}_{suffix}"] = es.TableConfig(
                ROWS + 2 * place,
                DIM,
                initializer=tf1.random_uniform_initializer(0.1, 0.9, seed=10 * number + place),
                combiner=("mean", "sqrtn", "mean")[place],
                optimization_parameters=parameters,
            )
        options = {
            "steps": {"max_sequence_length": LENGTH},
            "weighted": {"weight_key": f"{name}_weights"},
        }
        features |= {
            f"{name}_{kind}": es.FeatureConfig(f"{name}_{KINDS[kind]}", **options.get(kind, {}))
            for kind in kinds
        }
    return es.EmbeddingConfigSpec(
        feature_to_config_dict=features, table_to_config_dict=tables, partition_strategy=strategy
    )


def input_fn_of(optimizers, change=None, kinds=KINDS):
    """Returns an input_fn of random ids: dense, sparse, weighted and sequences."""
    counts = {"one": 1, "two": 2, "sparse": 4, "steps": 5, "some": 3, "weighted": 4}

    def input_fn(params):
        rng = np.random.RandomState(5)
        steps = 24
        arrays = {
            f"{name}_{kind}": rng.randint(0, ROWS, [steps, BATCH, count])
            for name in optimizers
            for kind, count in counts.items()
            if kind in kinds
        }
        arrays["present"] = rng.uniform(size=[steps, BATCH, 5]) < 0.6
        if change is not None:
            change(arrays)
        weights = tf.constant(rng.uniform(0.5, 2, [BATCH, 5]).astype(np.float32))

        def as_features(batch):
            present = batch.pop("present")
            features = dict(batch)
            for name in optimizers:
                for kind in sorted({"sparse", "steps", "weighted"}.intersection(kinds)):
                    ids = batch[f"{name}_{kind}"]
                    mask = present[:, : ids.shape[1]]
                    where, shape = tf.where(mask), ids.shape.as_list()
                    features[f"{name}_{kind}"] = tf.SparseTensor(
                        where, tf.boolean_mask(ids, mask), shape
                    )
                    if kind == "weighted":
                        values = tf.boolean_mask(weights[:, : ids.shape[1]], mask)
                        features[f"{name}_weights"] = tf.SparseTensor(where, values, shape)
            return features, tf.ones([BATCH, 1])

        return tf.data.Dataset.from_tensor_slices(arrays).map(as_features).repeat()

    return input_fn


def model_fn(features, labels, mode, params):
    """A linear model over all activations."""
    keys = sorted(key for key, value in features.items() if value.dtype == tf.float32)
    layer = tf.concat([tf.reshape(features[key], [BATCH, -1]) for key in keys], 1)
    kernel = tf1.get_variable(
        "kernel", [layer.shape[1], 1], initializer=tf1.random_normal_initializer(seed=4)
    )
    output = tf.matmul(layer, kernel) / 10
    return host_runs.regression(output, labels, mode, tf1.train.GradientDescentOptimizer, 0.01)


def make(
    model_dir, optimizers, layout=("div", 1), config=None, kinds=KINDS, model=model_fn, **kwargs
):
    """Returns an estimator on the host core."""
    return host_runs.make_estimator(
        model,
        model_dir,
        BATCH,
        config={"tf_random_seed": 1, **(config or {})},
        embedding_config_spec=spec_of(optimizers, layout[0], kinds),
        embedding_core="host",
        embedding_shards=layout[1],
        **kwargs,
    )


def check_equal(found, expected):
    """Checks that two checkpoints have the same names and numbers, bit for bit."""
    host_runs.assert_same_values(found, expected, rtol=0, atol=0)


class Variables(tf1.train.SessionRunHook):
    """Counts the variables of the native lookup: one for each table or stack."""

    count = 0

    def begin(self):
        for op in tf1.get_default_graph().get_operations():
            if op.type == "TpuColumnsLookUpTables":
                self.count += op.get_attr("num_variables")


class Kill(tf1.train.SessionRunHook):
    """Ends a training by an exception after some steps."""

    def __init__(self, steps):
        self._steps = steps

    def after_run(self, run_context, run_values):
        self._steps -= 1
        if not self._steps:
            raise KeyboardInterrupt


FEW = {name: OPTIMIZERS[name] for name in ("adagrad", "momentum")}
ADAGRAD = {"adagrad": OPTIMIZERS["adagrad"]}
MOMENTUM = {"momentum": OPTIMIZERS["momentum"]}


def test_tables_and_slots_equal_those_of_single_tables(tmp_path):
    """A run gives the same bits if parts of it have stacks, and others go on from them.

    One part is killed, so that the next one goes on from an earlier checkpoint.
    """
    found = {}
    for run, parts in {"single": (False,) * 3, "mixed": (True, False, True)}.items():
        config = {"save_checkpoints_steps": 4}
        estimators = [
            make(tmp_path / run, FEW, ("mod", 3), config, stacked_tables=stacked)
            for stacked in parts
        ]
        input_fn = input_fn_of(FEW)
        with pytest.raises(KeyboardInterrupt):
            estimators[0].train(input_fn, steps=10, hooks=[Kill(6)])
        assert 0 < estimators[0].get_variable_value("global_step") < 6
        estimators[1].train(input_fn, max_steps=10)
        estimators[2].train(input_fn, max_steps=15)
        found[run] = estimators[2]
    assert "momentum_b/Momentum" in found["single"].get_variable_names()
    check_equal(found["mixed"], found["single"])


@pytest.mark.slow
def test_every_optimizer(tmp_path):
    """Tables of each optimizer get the same bits in a stack that goes on from single tables."""
    input_fn = input_fn_of(OPTIMIZERS, kinds=FEW_KINDS)
    single, mixed = (
        make(tmp_path / name, OPTIMIZERS, ("div", 2), kinds=FEW_KINDS, stacked_tables=stacked)
        for name, stacked in (("single", False), ("mixed", True))
    )
    single.train(input_fn, steps=4)
    shutil.copytree(tmp_path / "single", tmp_path / "mixed")
    single.train(input_fn, steps=8)
    mixed.train(input_fn, steps=8)
    expected = host_runs.values_of(single)
    assert not any(np.isnan(value).any() for value in expected.values())
    check_equal(mixed, expected)


@pytest.mark.parametrize(
    ("arguments", "variables", "expected"),
    [
        ({}, {}, 1),
        ({"stacked_tables": False}, {}, 3),
        ({}, {"TPU_COLUMNS_STACKED_TABLES": "0"}, 3),
        ({"stacked_tables": True}, {"TPU_COLUMNS_STACKED_TABLES": "0"}, 1),
        ({"plain": True}, {}, 0),
        ({}, {"TPU_COLUMNS_NATIVE_KERNELS": "0"}, 0),
        ({"warm_start_from": "start"}, {}, 3),
    ],
    ids=str,
)
def test_switches(tmp_path, monkeypatch, arguments, variables, expected):
    """Arguments and the environment turn stacks off; without kernels, or warm, there are none."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if "warm_start_from" in arguments:
        start = make(tmp_path / "start", ADAGRAD)
        start.train(input_fn_of(ADAGRAD), steps=1)
        arguments = {"warm_start_from": start.model_dir}
    variables_of_tables = Variables()
    estimator = make(tmp_path / "model", ADAGRAD, **arguments)
    estimator.train(input_fn_of(ADAGRAD), hooks=[variables_of_tables], steps=1)
    assert variables_of_tables.count == expected


@pytest.mark.parametrize("of_variables", [False, True])
def test_a_saver_of_the_program(tmp_path, monkeypatch, of_variables):
    """A scaffold's saver saves stacked tables, too; one of global variables alone is refused."""

    def with_saver(features, labels, mode, params):
        def scaffold_fn():
            variables = tf1.global_variables() if of_variables else None
            return tf1.train.Scaffold(saver=tf1.train.Saver(variables))

        return model_fn(features, labels, mode, params)._replace(scaffold_fn=scaffold_fn)

    estimator = make(tmp_path, ADAGRAD, model=with_saver)
    if of_variables:
        with pytest.raises(ValueError, match="saver of the Scaffold doesn't save table 'adagrad_a"):
            estimator.train(input_fn_of(ADAGRAD), steps=1)
        monkeypatch.setenv("TPU_COLUMNS_STACKED_TABLES", "0")
        estimator = make(tmp_path, ADAGRAD, model=with_saver)
    estimator.train(input_fn_of(ADAGRAD), steps=1)
    estimator.train(input_fn_of(ADAGRAD), steps=1)
    assert {"adagrad_a", "adagrad_b/Adagrad"} <= set(estimator.get_variable_names())


def test_a_wrong_type(tmp_path):
    """`stacked_tables` must be a bool or None."""
    with pytest.raises(TypeError, match="stacked_tables"):
        make(tmp_path, FEW, stacked_tables="yes")


@pytest.mark.parametrize(
    ("feature", "wrong"),
    [
        ("adagrad_one", -1),
        ("adagrad_two", 2**60),
        ("adagrad_some", ROWS + 2),
        ("adagrad_some", -(2**63)),
    ],
)
def test_an_id_out_of_range(tmp_path, feature, wrong):
    """The error names the feature, its id and the vocabulary size, not those of the stack."""
    rows = ROWS + (2 if feature.endswith("some") else 0)

    def change(arrays):
        arrays[feature][1, 2, 0] = wrong

    estimator = make(tmp_path, ADAGRAD)
    with pytest.raises(IdOutOfRangeError) as error:
        estimator.train(input_fn_of(ADAGRAD, change), steps=3)
    assert f"Column {feature!r}: id {wrong} of feature {feature!r}" in str(error.value)
    assert f"whose size is {rows} " in str(error.value)


def test_padding_updates_no_row(tmp_path):
    """A table whose ids are all padding keeps its rows, as a table alone does."""

    def change(arrays):
        for key in ("one", "two", "some"):
            arrays[f"momentum_{key}"][:] = 0
        arrays["present"][:] = False
        arrays["present"][:, 0] = True

    found = []
    for stacked in (True, False):
        estimator = make(tmp_path / str(stacked), MOMENTUM, stacked_tables=stacked)
        estimator.train(input_fn_of(MOMENTUM, change), steps=5)
        found.append(estimator)
    check_equal(*found)


ONE_ID = {f"table_{i:02}": 5 + i for i in range(12)}  # rows


def train_one_id_tables(model_dir, initializer_of, hooks=()):
    """Trains tables of one dense id an example for a step; returns the values by name."""
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={f"id_{key}": es.FeatureConfig(key) for key in ONE_ID},
        table_to_config_dict={
            key: es.TableConfig(rows, DIM, initializer=initializer_of(key), combiner="mean")
            for key, rows in ONE_ID.items()
        },
        optimization_parameters=es.AdagradParameters(0.05),
    )

    def input_fn(params):
        ids = {f"id_{key}": tf.ones([BATCH, 1], tf.int64) for key in ONE_ID}
        return tf.data.Dataset.from_tensors((ids, tf.ones([BATCH, 1])))

    estimator = host_runs.make_estimator(
        model_fn,
        model_dir,
        BATCH,
        config={"tf_random_seed": 1},
        embedding_config_spec=spec,
        embedding_core="host",
    )
    estimator.train(input_fn, hooks=list(hooks), steps=1)
    return host_runs.values_of(estimator)


def test_initial_values(tmp_path):
    """Tables without a seed get different rows of the initializer's range, alike for those alike.

    Initializers of other kinds, and those with seeds, are called for each table.
    """
    calls = []

    def own(shape, dtype=tf.float32):
        calls.append(shape)
        return tf.fill(shape, 7.0)

    kinds = [
        None,
        tf1.random_uniform_initializer(0.25, 0.5),
        tf1.random_uniform_initializer(0.5, 0.75, seed=3),
        own,
        tf1.zeros_initializer(),
        None,
    ]
    values = train_one_id_tables(tmp_path, lambda key: kinds[int(key[-2:]) % len(kinds)])
    # Row 1 was trained.
    rows = {key: np.delete(values[key], 1, axis=0) for key in ONE_ID}
    for number, key in enumerate(ONE_ID):
        kind = number % len(kinds)
        low, high = [(-0.8, 0.8), (0.25, 0.5), (0.5, 0.75), (7, 7), (0, 0), (-0.8, 0.8)][kind]
        assert rows[key].min() >= low and rows[key].max() <= high, key
    assert sorted(calls) == [[ONE_ID[key], DIM] for key in ("table_03", "table_09")]
    drawn = np.concatenate([rows[f"table_{i:02}"] for i in (0, 1, 5, 6, 7, 11)])
    assert len(np.unique(drawn)) > 0.99 * drawn.size
    # The same seed and shape give the same rows, as tables alone have them.
    assert np.array_equal(rows["table_02"][0], rows["table_08"][0])


def test_ops_of_a_table(tmp_path):
    """A table of one dense id an example costs few ops, none of them of sparse tensors."""
    found = []

    class Count(tf1.train.SessionRunHook):
        def begin(self):
            found.extend(op.type for op in tf1.get_default_graph().get_operations())

    train_one_id_tables(tmp_path, lambda key: None, [Count()])
    assert "Where" not in found and "GatherNd" not in found
    assert found.count("TruncatedNormal") == 1
    assert sum(kind == "ResourceApplyGradientDescent" for kind in found) == 2  # kernel, stand-in


def test_outside_of_training_tables_are_single(tmp_path):
    """Evaluation, prediction, records and a run in memory see each table of a stack."""
    found = []
    for stacked in (True, False):
        estimator = make(tmp_path / str(stacked), MOMENTUM, stacked_tables=stacked)
        input_fn = input_fn_of(MOMENTUM)
        evaluator = es.experimental.InMemoryEvaluatorHook(
            estimator, input_fn, steps=2, every_n_iter=3
        )
        estimator.train(input_fn, hooks=[evaluator], steps=4)
        metrics = estimator.evaluate(input_fn, steps=2)
        (event_file,) = (tmp_path / str(stacked) / "eval").glob("events*")
        in_memory = [
            value.simple_value
            for event in tf1.train.summary_iterator(str(event_file))
            for value in event.summary.value
            if value.tag == "loss"
        ]
        predictions = next(iter(estimator.predict(input_fn)))["output"]
        record = records.read(estimator.latest_checkpoint())
        found.append((metrics, in_memory, predictions, record))
    assert found[0] == found[1]
    assert set(found[0][3].tables) == {f"{name}_{table}" for name in MOMENTUM for table in "abc"}


def test_a_checkpoint_with_another_number_of_rows(tmp_path):
    """A table of another size in the checkpoint is an error that names it."""
    make(tmp_path, MOMENTUM).train(input_fn_of(MOMENTUM), steps=1)
    spec = spec_of(MOMENTUM)
    tables = dict(spec.table_to_config_dict)
    tables["momentum_a"] = tables["momentum_a"]._replace(vocabulary_size=ROWS + 1)
    os.remove(records.path_of(tf.train.latest_checkpoint(tmp_path)))
    estimator = host_runs.make_estimator(
        model_fn,
        tmp_path,
        BATCH,
        embedding_config_spec=es.EmbeddingConfigSpec(
            feature_to_config_dict=spec.feature_to_config_dict, table_to_config_dict=tables
        ),
        embedding_core="host",
    )
    with pytest.raises(Exception, match="momentum_a"):
        estimator.train(input_fn_of(MOMENTUM), steps=1)


def test_exported_meta_graphs_can_be_imported(tmp_path):
    """The meta graph beside a checkpoint restores the stacked tables."""
    estimator = make(tmp_path, MOMENTUM)
    estimator.train(input_fn_of(MOMENTUM), steps=2)
    checkpoint = estimator.latest_checkpoint()
    with tf.Graph().as_default() as graph, tf1.Session(graph=graph) as session:
        saver = tf1.train.import_meta_graph(checkpoint + ".meta")
        saver.restore(session, checkpoint)
        copy = saver.save(session, str(tmp_path / "copy"))
    names = {name for name, _ in tf.train.list_variables(checkpoint)}
    for name in names:
        before, after = (tf.train.load_variable(each, name) for each in (checkpoint, copy))
        np.testing.assert_array_equal(before, after)
