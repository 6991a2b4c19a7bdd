# SPDX-License-Identifier: Apache-2.0
"""Sharded tables: training, records beside checkpoints, and checkpoints of other layouts."""

from __future__ import annotations

import glob
import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns
from estimator_spec import checkpoints
from estimator_spec.core.driver import table_warm_start
from tpu_columns import RowPartition, storage

tf1 = tf.compat.v1

ROWS = 11
TAGS = "one_two_shared_embedding"
LAYOUTS = [("div", 1), ("div", 3), ("mod", 4), ("mod", 50)]


def columns():
    """Returns a weighted column and two that share a table, initialized to one value."""
    make = tf.feature_column.categorical_column_with_identity
    value = tf1.constant_initializer(0.25)
    weighted = tf.feature_column.weighted_categorical_column(make("word", ROWS), "weight")
    word = tpu_columns.embedding_column(weighted, 2, combiner="sum", initializer=value)
    tags = tpu_columns.shared_embedding_columns(
        [make("one", 5), make("two", 5)],
        3,
        initializer=value,
        shared_embedding_collection_name=TAGS,
    )
    return [word, *tags]


WORD_TABLE = "input_layer/word_weighted_by_weight_embedding/embedding_weights"


def spec_of(strategy):
    """Returns a specification with a partition strategy."""
    return es.EmbeddingConfigSpec(columns(), es.AdagradParameters(0.1), partition_strategy=strategy)


def input_fn(mode, params):
    """Ids that cover every row; the label depends on the word."""
    size = params["batch_size"]
    generator = np.random.default_rng(0)
    word = generator.integers(0, ROWS, (64, 2))
    data = tf.data.Dataset.from_tensor_slices(
        (
            {
                "word": word,
                "weight": generator.random((64, 2)).astype(np.float32) + 0.5,
                "one": generator.integers(0, 5, (64, 1)),
                "two": generator.integers(0, 5, (64, 1)),
            },
            (word.sum(axis=1, keepdims=True) % 3).astype(np.float32),
        )
    )
    if mode == es.ModeKeys.TRAIN:
        data = data.repeat()
    return data.batch(size, drop_remainder=True)


def model_fn(features, labels, mode, params):
    """A linear model over the columns, trained by Adagrad."""
    layer = tf1.feature_column.input_layer(features, params.get("columns") or columns())
    kernel = tf1.get_variable("kernel", [8, 1], initializer=tf1.constant_initializer(0.5))
    return host_runs.regression(
        tf.matmul(layer, kernel), labels, mode, tf1.train.AdagradOptimizer, 0.3
    )


def make(model_dir, layout=("div", 1), config=None, spec=None, model=model_fn, **kwargs):
    """Returns an estimator whose tables have a layout."""
    return host_runs.make_estimator(
        model,
        model_dir,
        8,
        config={"tf_random_seed": 1, **(config or {})},
        embedding_config_spec=spec or spec_of(layout[0]),
        embedding_shards=layout[1],
        **kwargs,
    )


def outputs(estimator, **kwargs):
    """Returns all predictions."""
    return np.stack([found["output"] for found in estimator.predict(input_fn, **kwargs)])


def parsing_receiver():
    """Placeholders of the features."""
    return es.build_raw_serving_input_receiver_fn(
        {
            "word": tf1.placeholder(tf.int64, [None, 2]),
            "weight": tf1.placeholder(tf.float32, [None, 2]),
            "one": tf1.placeholder(tf.int64, [None, 1]),
            "two": tf1.placeholder(tf.int64, [None, 1]),
        }
    )()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns a model directory trained for 12 steps, and its predictions, for each layout."""
    base = tmp_path_factory.mktemp("trained")
    found = {}
    for layout in LAYOUTS:
        estimator = make(base / f"{layout[0]}{layout[1]}", layout)
        estimator.train(input_fn, steps=12)
        found[layout] = (estimator.model_dir, outputs(estimator), estimator.evaluate(input_fn))
    return found


@pytest.fixture
def copied(trained, tmp_path):
    """Copies a trained model's directory."""

    def copied(layout, name="model"):
        target = tmp_path / name
        shutil.copytree(trained[layout][0], target)
        return target

    return copied


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_shards_change_no_number(trained, layout):
    """A model trained with sharded tables equals one trained without shards."""
    model_dir, predictions, metrics = trained[layout]
    plain_dir, wanted, wanted_metrics = trained["div", 1]
    np.testing.assert_allclose(predictions, wanted, rtol=1e-5, atol=1e-6)
    assert metrics["loss"] == pytest.approx(wanted_metrics["loss"], rel=1e-5)
    assert len(np.unique(checkpoints.read_table(plain_dir, WORD_TABLE)[:, 0])) == ROWS
    for name in (WORD_TABLE, TAGS, WORD_TABLE + "/Adagrad", TAGS + "/Adagrad"):
        np.testing.assert_allclose(
            checkpoints.read_table(model_dir, name),
            checkpoints.read_table(plain_dir, name),
            rtol=1e-5,
            atol=1e-6,
        )


def test_variables_are_partitioned(trained):
    """Shards of tables and slot variables are stored as TensorFlow's slices."""
    names = [name for name, _ in tf.train.list_variables(trained["div", 1][0])]
    for layout in LAYOUTS[1:]:
        assert [name for name, _ in tf.train.list_variables(trained[layout][0])] == names
        table = next(
            e for e in checkpoints.inspect(trained[layout][0]).tables if e.name == WORD_TABLE
        )
        shards = min(layout[1], ROWS)
        assert (table.strategy, table.shards, table.stored_in) == (layout[0], shards, shards)
        assert table.layout_from == "recorded"
        assert table.optimizer == "Adagrad (tpu and cpu)"
        assert table.key == "tbl_word_weighted_by_weight"


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (("div", 1), ("mod", 2)),
        (("mod", 4), ("div", 2)),
        (("mod", 50), ("mod", 2)),
        (("div", 3), ("div", 2)),
    ],
)
def test_predictions_from_other_shards(trained, before, now):
    """A checkpoint of any layout can be predicted from."""
    model_dir, wanted, _ = trained[before]
    np.testing.assert_allclose(outputs(make(model_dir, now)), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("before", "now"), [(("mod", 4), ("div", 1)), (("div", 3), ("mod", 2))])
def test_checkpoints_of_other_shards(copied, trained, before, now):
    """A checkpoint of another layout can be evaluated, predicted from and trained further."""
    estimator = make(copied(before), now)
    _, wanted, metrics = trained[before]
    np.testing.assert_allclose(outputs(estimator), wanted, rtol=1e-6, atol=1e-7)
    assert estimator.evaluate(input_fn)["loss"] == pytest.approx(metrics["loss"], rel=1e-6)
    estimator.train(input_fn, steps=1)
    assert checkpoints.inspect(estimator.model_dir).global_step == 13
    table = checkpoints.inspect(estimator.model_dir).tables[0]
    assert (table.strategy, table.shards) == now
    # The same step from the same layout.
    other = make(copied(before, "same"), before)
    other.train(input_fn, steps=1)
    np.testing.assert_allclose(outputs(estimator), outputs(other), rtol=1e-5, atol=1e-6)


def test_no_room_for_a_copy(copied, monkeypatch):
    """The error for a full disk says what to do."""
    model_dir = copied(("mod", 4))
    usage = shutil.disk_usage(str(model_dir))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(OSError, match="has 1,000 bytes left.*Set TMPDIR to a directory"):
        make(model_dir, ("div", 1)).evaluate(input_fn)


def test_values_of_variables(trained):
    """`get_variable_value` returns tables and slot variables in row order for any layout."""
    plain = make(trained["div", 1][0])
    for layout in LAYOUTS[1:]:
        host_runs.assert_same_values(make(trained[layout][0], layout), plain)


@pytest.mark.parametrize("now", [("div", 2), ("mod", 4)])
def test_a_flipped_bit_stops_every_run(copied, now):
    """A table with a wrong bit is refused, whether or not its layout differs."""
    model_dir = copied(("mod", 4))
    prefix = tf.train.latest_checkpoint(str(model_dir))
    with checkpoints.Checkpoint(prefix) as found:
        piece = found.variables[WORD_TABLE].pieces[2]
    path = prefix + ".data-00000-of-00001"
    with open(path, "r+b") as file:
        file.seek(piece.offset + 1)
        byte = file.read(1)[0]
        file.seek(piece.offset + 1)
        file.write(bytes([byte ^ 8]))
    estimator = make(model_dir, now)
    runs = [
        lambda: outputs(estimator),
        lambda: estimator.evaluate(input_fn),
        lambda: estimator.train(input_fn, steps=1),
        lambda: estimator.export_saved_model(str(model_dir / "out"), parsing_receiver),
    ]
    for run in runs:
        with pytest.raises(es.CheckpointError, match="is damaged") as caught:
            run()
        assert prefix in str(caught.value)
    assert tf.train.latest_checkpoint(str(model_dir)) == prefix
    assert os.listdir(model_dir / "out") == []


def test_records_live_with_their_checkpoints(tmp_path):
    """A checkpoint always has a record, which is deleted with it."""
    seen = []

    class Look(tf1.train.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            seen.append(os.path.exists(tmp_path / f"model.ckpt-{global_step_value}.tables.json"))

    estimator = make(tmp_path, ("mod", 3), {"save_checkpoints_steps": 2, "keep_checkpoint_max": 2})
    estimator.train(input_fn, steps=8, saving_listeners=[Look()])
    assert seen and all(seen)
    ends = {os.path.basename(path) for path in glob.glob(f"{tmp_path}/*.tables.json")}
    assert ends == {"model.ckpt-6.tables.json", "model.ckpt-8.tables.json"}
    record = json.loads((tmp_path / "model.ckpt-8.tables.json").read_text())
    assert record["tables"][WORD_TABLE] == {
        "table": "tbl_word_weighted_by_weight",
        "rows": ROWS,
        "width": 2,
        "strategy": "mod",
        "shards": 3,
    }
    assert record["spec"]["partition_strategy"] == "mod"
    assert record["spec"]["optimizer"]["name"] == "Adagrad"
    assert record["spec"]["tables"][f"tbl_{TAGS}"]["features"] == ["one", "two"]


NO_SAVING = {"save_checkpoints_steps": None, "save_checkpoints_secs": None}


def test_checkpoints_that_a_hook_of_the_users_writes(tmp_path):
    """Checkpoints that only the user's hook saves have records, too."""
    values = []
    for name, config in (("ours", {}), ("theirs", NO_SAVING)):
        estimator = make(tmp_path / name, ("mod", 3), config)
        hook = tf1.train.CheckpointSaverHook(str(tmp_path / name), save_steps=100)
        estimator.train(input_fn, steps=3, hooks=[hook] if config else [])
        assert os.path.exists(tmp_path / name / "model.ckpt-3.tables.json")
        values.append(estimator.get_variable_value(WORD_TABLE))
    np.testing.assert_array_equal(values[0], values[1])


def test_checkpoints_that_are_written_elsewhere(tmp_path):
    """An older checkpoint gets no record if the hook saves to another directory."""
    make(tmp_path).train(input_fn, steps=1)
    for record in glob.glob(f"{tmp_path}/*.tables.json"):
        os.remove(record)
    hook = tf1.train.CheckpointSaverHook(str(tmp_path / "backup"), save_steps=100)
    make(tmp_path, ("mod", 3), NO_SAVING, spec=spec_of("div")).train(
        input_fn, steps=1, hooks=[hook]
    )
    assert glob.glob(f"{tmp_path}/backup/*.index")
    assert not os.path.exists(tmp_path / "model.ckpt-1.tables.json")


def test_no_spec_no_record(tmp_path):
    """An estimator without a specification writes no records, but restores recorded layouts."""
    estimator = make(tmp_path, ("mod", 3))
    estimator.train(input_fn, steps=3)
    wanted = outputs(estimator)
    plain = host_runs.make_estimator(model_fn, tmp_path, 8)
    np.testing.assert_allclose(outputs(plain), wanted, rtol=1e-6, atol=1e-7)
    plain.train(input_fn, steps=1)
    assert [os.path.basename(p) for p in glob.glob(f"{tmp_path}/*.tables.json")] == [
        "model.ckpt-0.tables.json",
        "model.ckpt-3.tables.json",
    ]


@pytest.mark.parametrize("now", [("div", 1), ("div", 4)])
def test_killed_while_a_step_is_written_anew(copied, trained, monkeypatch, now):
    """A run of another layout that fails while saving leaves the old checkpoint readable."""
    model_dir = copied(("mod", 4))

    def die(self, *args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tf1.train.Saver, "save", die)
        with pytest.raises(KeyboardInterrupt):
            make(model_dir, now).train(input_fn, steps=1)
    table = checkpoints.inspect(model_dir).tables[0]
    assert (table.strategy, table.shards) == ("mod", 4)
    np.testing.assert_allclose(
        outputs(make(model_dir, now)), trained["mod", 4][1], rtol=1e-6, atol=1e-7
    )


def bare_model_fn(features, labels, mode, params):
    """Looks up words in a plain variable with the name of the column's table."""
    del labels, params
    table = tf1.get_variable(WORD_TABLE, [ROWS, 2])
    step = tf1.train.get_global_step()
    return es.TPUEstimatorSpec(
        mode,
        loss=tf.constant(0.0),
        train_op=tf1.assign_add(step, 1),
        predictions={"output": tf.nn.embedding_lookup(table, features["word"])},
    )


def test_tables_that_no_column_made(copied):
    """A plain variable gets the rows of a recorded mod table in row order in every mode."""
    model_dir = str(copied(("mod", 4)))
    table = checkpoints.read_table(model_dir, WORD_TABLE)
    estimator = es.Estimator(bare_model_fn, model_dir)

    def words(params=None):
        ids = np.arange(ROWS)[:, np.newaxis]
        return tf.data.Dataset.from_tensors({"word": ids})

    found = np.stack([p["output"][0] for p in estimator.predict(words)])
    np.testing.assert_array_equal(found, table)

    def receiver():
        inputs = {"word": tf1.placeholder(tf.int64, [None, 1])}
        return es.ServingInputReceiver(inputs, inputs)

    path = estimator.export_saved_model(os.path.join(model_dir, "out"), receiver).decode()
    saved = tf.train.load_variable(path + "/variables/variables", WORD_TABLE)
    np.testing.assert_array_equal(saved, table)
    warm = es.Estimator(bare_model_fn, os.path.join(model_dir, "warm"), warm_start_from=model_dir)
    warm.train(words, steps=1)
    np.testing.assert_array_equal(warm.get_variable_value(WORD_TABLE), table)


@pytest.mark.parametrize("told", ["by the spec", "by a record"])
def test_a_checkpoint_without_a_record(copied, trained, told):
    """A mod checkpoint without a record is read by the spec's strategy or a record added later."""
    model_dir = copied(("mod", 4))
    for path in glob.glob(f"{model_dir}/*.tables.json"):
        os.remove(path)
    strategy = "mod"
    if told == "by a record":
        checkpoints.record(model_dir, strategy="mod", shards=4)
        strategy = "div"
    found = outputs(make(model_dir, (strategy, 2)))
    np.testing.assert_allclose(found, trained["mod", 4][1], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("now", [("div", 1), ("mod", 2)])
def test_warm_start(trained, tmp_path, now):
    """A warm start from a checkpoint of another layout keeps the rows in order."""
    before, wanted, _ = trained["mod", 4]
    estimator = make(tmp_path, now, warm_start_from=before)
    estimator.train(input_fn, steps=1)
    first = str(tmp_path / "model.ckpt-0")
    np.testing.assert_array_equal(
        checkpoints.read_table(first, WORD_TABLE), checkpoints.read_table(before, WORD_TABLE)
    )
    np.testing.assert_allclose(
        outputs(estimator, checkpoint_path=first), wanted, rtol=1e-6, atol=1e-7
    )


def dict_spec(strategy):
    """Returns the same specification made of dictionaries."""
    value = tf1.constant_initializer(0.25)
    return es.EmbeddingConfigSpec(
        feature_to_config_dict={"one": es.FeatureConfig("tags"), "two": es.FeatureConfig("tags")},
        table_to_config_dict={"tags": es.TableConfig(5, 3, initializer=value)},
        optimization_parameters=es.AdagradParameters(0.3),
        partition_strategy=strategy,
    )


def dict_model_fn(features, labels, mode, params):
    """A linear model of activations in the features."""
    output = tf.reduce_sum(features["one"] * 2 + features["two"], axis=1, keepdims=True)
    return host_runs.regression(output, labels, mode, tf1.train.AdagradOptimizer, 0.3)


@pytest.mark.parametrize("core", [None, "host"])
def test_dict_mode_and_the_host_core(tmp_path, core):
    """Tables of dictionaries and of an embedding core are sharded and restored in the same way."""
    wanted = None
    for layout in (("div", 1), ("mod", 3)):
        model_dir = tmp_path / f"{layout[0]}{layout[1]}"
        options = {"spec": dict_spec(layout[0]), "model": dict_model_fn, "embedding_core": core}
        estimator = make(model_dir, layout, **options)
        estimator.train(input_fn, steps=5)
        table = checkpoints.inspect(str(model_dir)).tables[0]
        assert (table.name, table.strategy, table.shards) == ("tags", *layout)
        predictions = outputs(estimator)
        wanted = predictions if wanted is None else wanted
        np.testing.assert_allclose(predictions, wanted, rtol=1e-5, atol=1e-6)
        other = make(model_dir, ("mod", 2), **{**options, "spec": dict_spec("mod")})
        np.testing.assert_allclose(outputs(other), wanted, rtol=1e-5, atol=1e-6)
        path = other.export_saved_model(str(tmp_path / "out"), dict_receiver).decode()
        serve = tf.saved_model.load(path).signatures["serving_default"]
        features = next(iter(input_fn("infer", {"batch_size": 64})))[0]
        found = serve(one=features["one"], two=features["two"])
        np.testing.assert_allclose(found["output"], wanted, rtol=1e-5, atol=1e-6)


def dict_receiver():
    """Placeholders of the ids."""
    inputs = {key: tf1.placeholder(tf.int64, [None, 1], name=key) for key in ("one", "two")}
    return es.ServingInputReceiver(inputs, inputs)


def test_from_the_model_to_the_core(copied):
    """The host core continues training from a model's own sharded tables, in another layout."""
    found = []
    for layout in (("div", 1), ("mod", 3)):
        model_dir = copied(("mod", 4), f"{layout[0]}")
        core = make(model_dir, layout, embedding_core="host")
        core.train(input_fn, steps=2)
        found.append((outputs(core), checkpoints.read_table(model_dir, WORD_TABLE)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"embedding_shards": 0}, "num_shards must be at least 1"),
        ({"embedding_shards": 2, "embedding_config_spec": None}, "there is no spec"),
        ({"embedding_shards": 2, "use_tpu": True}, "with use_tpu=True the TPU cuts them"),
    ],
)
def test_senseless_shards(tmp_path, arguments, words):
    """The constructor refuses an invalid number of shards."""
    options = {
        "config": es.RunConfig(model_dir=str(tmp_path)),
        "use_tpu": False,
        "train_batch_size": 8,
        "embedding_config_spec": spec_of("mod"),
    }
    with pytest.raises(ValueError, match=words):
        es.TPUEstimator(model_fn, **{**options, **arguments})


def test_a_vocabulary_of_permuted_rows(tmp_path):
    """A warm start can't remap words to rows that mod sharding permuted; it says what can."""
    prefix = str(tmp_path / "model.ckpt-1")
    tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=["table"], shape_and_slices=[""], tensors=[tf.zeros([7, 2])]
    )
    words = es.VocabInfo("new", 7, 0, "old")
    settings = es.WarmStartSettings(prefix, ".*", {"table": words})
    with tf.Graph().as_default():
        storage.record_layout("table", RowPartition("mod", 7, 3))
        with pytest.raises(ValueError, match="'table' .* 3 shards, so its vocabulary can't be"):
            table_warm_start.relayout_checkpoint(settings)
