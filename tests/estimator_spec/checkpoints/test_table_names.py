# SPDX-License-Identifier: Apache-2.0
"""One table by each of its names: variable, key in the spec, feature."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec import checkpoints
from estimator_spec.checkpoints import cli
from estimator_spec.core.checkpoints import records

VARIABLE = "input_layer/word_embedding/embedding_weights"
SHARED = "left_right_shared_embedding"
NAMES = [VARIABLE, "word_embedding", "tbl_word", "word"]
ROWS = np.arange(14, dtype=np.float32).reshape(7, 2)
OTHER = np.zeros((5, 2), np.float32)


def make_spec():
    """Returns a spec of one table for a feature, and one for two."""
    word, left, right = (
        tf.feature_column.categorical_column_with_identity(key, rows)
        for key, rows in (("word", 7), ("left", 5), ("right", 5))
    )
    shared = tpu_columns.shared_embedding_columns([left, right], 2)
    return es.EmbeddingConfigSpec(
        [tpu_columns.embedding_column(word, 2), *shared], es.AdagradParameters(0.1)
    )


@pytest.fixture(params=["spec", "record", "variables"])
def source(files, request):
    """A checkpoint, and the arguments from which the names are known: a spec, or none."""
    prefix = files.write({VARIABLE: ROWS, f"{VARIABLE}/Adagrad": ROWS, SHARED: OTHER})
    if request.param == "record":
        checkpoints.record(prefix, make_spec(), strategy="div")
    return prefix, {"spec": make_spec()} if request.param == "spec" else {}


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_taken(files, source, name):
    """Reading, new rows, vocabularies, initializers, renaming and `tables` take each name."""
    prefix, spec = source
    np.testing.assert_array_equal(checkpoints.read_table(prefix, name, **spec), ROWS)
    order = {name: np.arange(7)[::-1]}
    target = files.new()
    checkpoints.convert(prefix, target, vocabulary=order, rename={name: "words"}, **spec)
    found = files.read(target)
    np.testing.assert_array_equal(found["words"], ROWS[::-1])
    assert "words/Adagrad" in found
    if not spec:  # which has the number of rows
        ones = {name: tf.compat.v1.ones_initializer()}
        checkpoints.convert(prefix, target + "1", grow={name: 8}, initializers=ones)
        assert files.read(target + "1")[VARIABLE][7].tolist() == [1, 1]
    assert VARIABLE in {e.name for e in checkpoints.inspect(prefix, tables=[name], **spec).tables}
    assert not checkpoints.diff(prefix, prefix, tables=[name], **spec)


def test_features_that_share_a_table(source):
    """Each feature of a shared table names it, where spec or record tell its features."""
    prefix, spec = source
    names = [SHARED, f"tbl_{SHARED}"]
    if spec or records.read(prefix):
        names += ["left", "right"]
    for name in names:
        assert checkpoints.read_table(prefix, name, **spec).shape == (5, 2)


def test_names_of_several_tables(files):
    """A name of several tables is an error that lists these with their names, a full name isn't."""
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"user": es.FeatureConfig("item"), "item": es.FeatureConfig("shop")},
        table_to_config_dict={"item": es.TableConfig(5, 2), "shop": es.TableConfig(5, 2)},
        optimization_parameters=es.AdagradParameters(0.1),
    )
    prefix = files.write({"model/item": OTHER, "model/shop": OTHER + 1, "other/kernel": ROWS})
    words = (
        r"name: 'item' should name one table of .*, but means each of these. Give one by its full "
        r"name: 'model/item' \(item, user\), 'model/shop' \(shop, item\)\."
    )
    with pytest.raises(ValueError, match=words):
        checkpoints.read_table(prefix, "item", spec)
    for name, value in (("model/item", 0), ("user", 0), ("shop", 1), ("model/shop", 1)):
        assert checkpoints.read_table(prefix, name, spec)[0, 0] == value
    with pytest.raises(ValueError, match="name: '' should name one table .* is none of them"):
        checkpoints.read_table(prefix, "", spec)
    with pytest.raises(ValueError, match=r"tables: 'model' should name one table of .* each of"):
        checkpoints.inspect(prefix, tables=["model"])


def test_two_names_of_one_table(files):
    """Two values for one table are an error, whatever its names are."""
    prefix = files.write({VARIABLE: ROWS})
    with pytest.raises(ValueError, match=f"grow: 'word' and 'tbl_word' are the same.*{VARIABLE}"):
        checkpoints.convert(prefix, files.new(), grow={"word": 9, "tbl_word": 8})
    with pytest.raises(ValueError, match="rename: 'word' and .* are the same table"):
        checkpoints.convert(prefix, files.new(), rename={"word": "a", VARIABLE: "b"})


def test_lists_have_each_name_once(files, source, capsys):
    """`inspect` and conversions list variable, key and features of a table in one line."""
    prefix, spec = source
    found = checkpoints.inspect(prefix, **spec)
    report = checkpoints.convert(prefix, files.new(), dry_run=True, shards=2, **spec)
    known = ["left, right"] if spec or found.recorded else []
    wanted = {VARIABLE: ["tbl_word", "word"], SHARED: [f"tbl_{SHARED}", *known]}
    for text in map(str, (found, report)):
        lines = [re.split("  +", line.strip()) for line in text.splitlines() if "tbl_" in line]
        assert {cells[0]: cells[-len(wanted[cells[0]]) :] for cells in lines} == wanted
    entries = {entry.name: dataclasses.asdict(entry) for entry in found.entries}
    assert entries[VARIABLE]["features"] == ("word",)
    assert cli.main(["inspect", prefix, "--table", "tbl_word"]) == 0
    assert capsys.readouterr().out.count("tbl_word") == 1
