# SPDX-License-Identifier: Apache-2.0
"""Tests `inspect`: tables, slots, optimizers, layouts, what is missing or left over."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec import checkpoints
from estimator_spec.core.checkpoints import records, slots
from estimator_spec.core.embedding import optimizers

TABLE = "input_layer/word_embedding/embedding_weights"

OPTIMIZERS = {
    "Adagrad": es.AdagradParameters(0.1),
    "AdagradMomentum": es.AdagradMomentumParameters(0.1, 0.9),
    "ProximalAdagrad": es.ProximalAdagradParameters(0.1),
    "Adam": es.AdamParameters(0.1),
    "Ftrl": es.FtrlParameters(0.1),
    "ProximalYogi": es.ProximalYogiParameters(0.1),
    "Momentum": es.MomentumParameters(0.1, 0.9),
    "RMSProp": es.RMSPropParameters(0.1, 0.9, 0.9, 1e-8),
    "FrequencyEstimator": es.FrequencyEstimatorParameters(0.1, 1.0, 2.0, 1.0),
}

TF1_OPTIMIZERS = {
    "Adagrad": lambda: tf.compat.v1.train.AdagradOptimizer(0.1),
    "Adam": lambda: tf.compat.v1.train.AdamOptimizer(0.1),
    "Ftrl": lambda: tf.compat.v1.train.FtrlOptimizer(0.1),
    "Momentum": lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
    "RMSProp": lambda: tf.compat.v1.train.RMSPropOptimizer(0.1),
    "ProximalAdagrad": lambda: tf.compat.v1.train.ProximalAdagradOptimizer(0.1),
    "RMSProp, centered": lambda: tf.compat.v1.train.RMSPropOptimizer(0.1, centered=True),
    "Adadelta": lambda: tf.compat.v1.train.AdadeltaOptimizer(0.1),
}


def word_spec(rows=5, width=2, optimizer=None, **kwargs):
    """A spec with one column, `word`."""
    word = tf.feature_column.categorical_column_with_identity("word", rows)
    return es.EmbeddingConfigSpec(
        [tpu_columns.embedding_column(word, width)],
        optimizer or es.AdagradParameters(0.1),
        **kwargs,
    )


def table_of(inspection, name=TABLE):
    """Returns the entry of the only table."""
    return next(entry for entry in inspection.tables if entry.name == name)


def test_the_checkpoint_of_tensorflow_1(tf1_checkpoint):
    """Tables, Adagrad slots, layers and step of TensorFlow 1.15.5's checkpoint are recognized."""
    found = checkpoints.inspect(tf1_checkpoint)
    assert found.global_step == 40
    assert {entry.name: entry.shape for entry in found.tables} == {
        "input_layer/colour_embedding/embedding_weights": (10, 4),
        "input_layer/tag_weighted_by_tag_weight_embedding/embedding_weights": (9, 4),
        TABLE: (6, 4),
        "left_right_shared_embedding": (7, 3),
    }
    assert {entry.optimizer for entry in found.tables} == {"Adagrad (tpu and cpu)"}
    assert {(e.strategy, e.shards, e.layout_from) for e in found.tables} == {("div", 1, "assumed")}
    slots_found = {entry.name: entry.beside for entry in found.entries if entry.kind == "slot"}
    assert slots_found[TABLE + "/Adagrad"] == TABLE
    assert slots_found["head/kernel/Adagrad"] == "head/kernel"
    assert found.num_bytes == 1784
    assert (found.missing, found.leftover, found.recorded) == ((), (), False)
    text = str(found)
    assert "The checkpoint has no record of its tables' layouts." in text
    assert "1.7 KiB, step 40" in text
    assert "10×4" in text and "div × 1 (assumed)" in text
    assert checkpoints.verify(tf1_checkpoint).ok
    json.dumps(dataclasses.asdict(found))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slots_of_an_embedding_core(files, name):
    """Each optimizer of an embedding core is recognized by its slots."""
    parameters = OPTIMIZERS[name]
    names = optimizers.slot_names(parameters, TABLE).values()
    table = np.zeros((5, 2), np.float32)
    prefix = files.write({TABLE: table, **dict.fromkeys(names, table)})
    found = table_of(checkpoints.inspect(prefix))
    assert found.optimizer.startswith(f"{name} (tpu")
    assert checkpoints.inspect(prefix).leftover == ()


@pytest.mark.parametrize("name", TF1_OPTIMIZERS)
def test_slots_of_tf1_optimizers(files, name):
    """Each optimizer of TF1 is recognized by the slots that it creates."""
    prefix = files.write({"nothing": 0})
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable(TABLE, [5, 2], use_resource=False)
        step = tf.compat.v1.train.get_or_create_global_step()
        TF1_OPTIMIZERS[name]().minimize(tf.reduce_sum(tf.gather(table, [1])), step)
        session.run(tf.compat.v1.global_variables_initializer())
        prefix = tf.compat.v1.train.Saver().save(session, prefix + "x")
    found = checkpoints.inspect(prefix)
    system = (
        "tpu and cpu" if slots.find_naming(name, "tpu") == slots.find_naming(name, "cpu") else "cpu"
    )
    assert table_of(found).optimizer == f"{name} ({system})"
    assert (found.missing, found.leftover) == ((), ())


def test_partitioned_variables_of_tensorflow(files):
    """Variables of TensorFlow's partitioner, and their slots, have the div layout."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table = tf.compat.v1.get_variable(
            TABLE, [5, 2], partitioner=tf.compat.v1.fixed_size_partitioner(3)
        )
        loss = tf.reduce_sum(tf.nn.embedding_lookup(list(table), [1, 4]))
        tf.compat.v1.train.AdagradOptimizer(0.1).minimize(loss)
        session.run(tf.compat.v1.global_variables_initializer())
        values = session.run(list(table))
        prefix = tf.compat.v1.train.Saver().save(session, files.write({"nothing": 0}) + "x")
    found = checkpoints.inspect(prefix)
    entry = table_of(found)
    assert (entry.shape, entry.stored_in, entry.shards, entry.strategy) == ((5, 2), 3, 3, "div")
    assert entry.optimizer == "Adagrad (tpu and cpu)"
    np.testing.assert_array_equal(checkpoints.read_table(prefix, TABLE), np.concatenate(values))


def test_optimizers_within_a_scope(files):
    """Slots in an optimizer's own variable scope belong to their table."""
    table = np.zeros((5, 2), np.float32)
    prefix = files.write({TABLE: table, f"train/{TABLE}/Adagrad": table})
    found = checkpoints.inspect(prefix)
    assert table_of(found).optimizer == "Adagrad (tpu and cpu)"
    target = files.new()
    checkpoints.convert(prefix, target, rename={TABLE: "words/embedding_weights"})
    assert sorted(files.read(target)) == [
        "train/words/embedding_weights/Adagrad",
        "words/embedding_weights",
    ]


def test_missing_and_leftover(files):
    """Incomplete optimizers, slots without a variable and unknown slots are listed."""
    table = np.zeros((5, 2), np.float32)
    prefix = files.write(
        {TABLE: table, TABLE + "/Adam/m": table, TABLE + "/mine": table, "gone/Adagrad": table}
    )
    found = checkpoints.inspect(prefix)
    assert found.missing == (f"{TABLE}/Adam/v: a slot of Adam",)
    assert found.leftover == (
        "gone/Adagrad: a slot without its variable gone",
        f"{TABLE}/mine: of no known optimizer",
    )
    assert "missing: " in str(found)
    assert "left over: " in str(found)


def test_against_a_spec(files):
    """With a spec, missing tables, extra tables and other optimizers' slots are listed."""
    table = np.zeros((5, 2), np.float32)
    prefix = files.write({TABLE: table, TABLE + "/Adagrad": table})
    fits = checkpoints.inspect(prefix, word_spec())
    assert (fits.missing, fits.leftover, table_of(fits).key) == ((), (), "tbl_word")
    other = checkpoints.inspect(
        prefix, word_spec(optimizer=es.AdamParameters(0.1), partition_strategy="mod")
    )
    assert other.missing == (
        f"{TABLE}/Adam/m: a slot of the spec's Adam",
        f"{TABLE}/Adam/v: a slot of the spec's Adam",
    )
    assert other.leftover == (f"{TABLE}/Adagrad: of Adagrad, the spec has Adam",)
    assert (table_of(other).strategy, table_of(other).layout_from) == ("mod", "told")
    plain = files.write({"other_shared_embedding": table})
    assert checkpoints.inspect(plain, word_spec()).missing == (
        "tbl_word: no variable ends in 'word_embedding/embedding_weights'",
    )
    with pytest.raises(checkpoints.CheckpointError, match=r"has shape \[5, 2\], in the spec"):
        checkpoints.inspect(prefix, word_spec(rows=6))


def test_dict_mode(files):
    """Tables of a spec by dictionaries are named by their keys, with their own optimizers."""
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"a": es.FeatureConfig("words"), "b": es.FeatureConfig("tags")},
        table_to_config_dict={
            "words": es.TableConfig(5, 2, optimization_parameters=es.AdamParameters(0.1)),
            "tags": es.TableConfig(4, 2),
        },
        optimization_parameters=es.FtrlParameters(0.1),
    )
    words, tags = np.zeros((5, 2), np.float32), np.zeros((4, 2), np.float32)
    prefix = files.write(
        {
            "words": words,
            "words/Adam/m": words,
            "words/Adam/v": words,
            "tags": tags,
            "tags/Ftrl": tags,
            "tags/Ftrl_1": tags,
        }
    )
    found = checkpoints.inspect(prefix, spec)
    assert (found.missing, found.leftover) == ((), ())
    assert {e.name: e.optimizer for e in found.tables} == {
        "tags": "Ftrl (tpu and cpu)",
        "words": "Adam (tpu)",
    }
    assert checkpoints.tables_of(prefix, spec) == {"tags": "tags", "words": "words"}


def test_a_record_tells_layouts(files):
    """The record's layout is shown, and arguments that contradict it are refused."""
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    prefix = files.write({TABLE: table, TABLE + "/Adagrad": table}, {TABLE: ("mod", 2)})
    found = checkpoints.inspect(prefix)
    entry = table_of(found)
    assert (entry.strategy, entry.shards, entry.layout_from) == ("mod", 2, "recorded")
    assert "no record" not in str(found)
    np.testing.assert_array_equal(checkpoints.read_table(prefix, "word_embedding"), table)
    with pytest.raises(ValueError, match="says that .* 'mod'; told was 'div' on 2 shard"):
        checkpoints.inspect(prefix, strategy="div")


def test_a_layout_is_told(files):
    """The layout of a checkpoint without a record comes from arguments, or from the spec."""
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    prefix = files.write({TABLE: table}, {TABLE: ("mod", 3)}, recorded=False)
    np.testing.assert_array_equal(checkpoints.read_table(prefix, TABLE, strategy="mod"), table)
    spec = word_spec(rows=7, partition_strategy="mod")
    np.testing.assert_array_equal(checkpoints.read_table(prefix, "tbl_word", spec), table)
    assert (checkpoints.read_table(prefix, TABLE) != table).any()
    whole = files.write({TABLE: table[tpu_columns.RowPartition("mod", 7, 2).inverse_permutation()]})
    np.testing.assert_array_equal(checkpoints.read_table(whole, TABLE, spec, shards=2), table)
    path = checkpoints.record(prefix, spec)
    assert path == prefix + ".tables.json"
    np.testing.assert_array_equal(checkpoints.read_table(prefix, "tbl_word"), table)
    assert records.read(prefix).spec["optimizer"]["name"] == "Adagrad"
    with pytest.raises(ValueError, match="is there already"):
        checkpoints.record(prefix, spec)


def test_one_slice_in_the_order_of_shards(files):
    """A mod table stored in one piece is read by the number of shards in the arguments."""
    table = np.arange(14, dtype=np.float32).reshape(7, 2)
    order = tpu_columns.RowPartition("mod", 7, 3).inverse_permutation()
    prefix = files.write({TABLE: table[order]})
    found = checkpoints.read_table(prefix, TABLE, strategy="mod", shards=3)
    np.testing.assert_array_equal(found, table)
    parts = list(checkpoints.iterate_table(prefix, TABLE, strategy="mod", shards=3, rows_at_once=4))
    assert [first for first, _ in parts] == [0, 4]
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in parts]), table)


def test_an_incomplete_optimizer_that_the_spec_lacks(files):
    """Only slots that are there are left over, and a slot of another shape has its variable."""
    table = np.zeros((5, 2), np.float32)
    prefix = files.write(
        {
            TABLE: table,
            TABLE + "/Adam/m": table,
            "bias": np.zeros(3, np.float32),
            "bias/Momentum": np.zeros(4, np.float32),
        }
    )
    found = checkpoints.inspect(prefix, word_spec())
    assert found.missing == (
        f"{TABLE}/Adam/v: a slot of Adam",
        f"{TABLE}/Adagrad: a slot of the spec's Adagrad",
    )
    assert found.leftover == (f"{TABLE}/Adam/m: of Adam, the spec has Adagrad",)
