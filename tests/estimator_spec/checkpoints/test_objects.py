# SPDX-License-Identifier: Apache-2.0
"""Tests `convert(objects=…)`: TF2 objects restore the checkpoints that it writes."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec import checkpoints, convert
from estimator_spec.checkpoints import cli

WORD = "input_layer/word_embedding/embedding_weights"
SHARED = "one_two_shared_embedding"
SHAPES = {WORD: (11, 4), SHARED: (7, 3)}

OPTIMIZERS = {
    "Adagrad": es.AdagradParameters(0.1),
    "Adam": es.AdamParameters(0.1),
    "Ftrl": es.FtrlParameters(0.1),
    "SGD": es.StochasticGradientDescentParameters(0.1),
}


def spec_of(optimizer, rows=11, tensor_core=False):
    """Returns a spec with one column, and two that share a table."""
    make = tf.feature_column.categorical_column_with_identity
    device = "tpu_tensor_core" if tensor_core else None
    shape = [8, 2] if tensor_core else None
    word = tpu_columns.embedding_column(
        make("word", rows),
        4,
        combiner="sum",
        embedding_lookup_device=device,
        tensor_core_shape=shape,
    )
    shared = tpu_columns.shared_embedding_columns(
        [make("one", 7), make("two", 7)], 3, combiner="sum"
    )
    return es.EmbeddingConfigSpec([word, *shared], optimizer)


def write(files, suffixes, layout=("mod", 3)):
    """Writes a checkpoint of a graph; returns its arrays in row order."""
    generator = np.random.default_rng(0)
    values = {
        name + suffix: generator.random(shape).astype(np.float32) + 0.1
        for name, shape in SHAPES.items()
        for suffix in ("", *suffixes)
    }
    layouts = dict.fromkeys(values, layout)
    return files.write({**values, "global_step": np.int64(7), "bias": 1.5}, layouts), values


def tables_and_slots(embedding):
    """Returns all arrays of an object by its own names."""
    return {
        f"{table}/{name}": variable.numpy()
        for table, kept in embedding._variables.items()
        for name, variable in kept.items()
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_tpu_embedding(files, name):
    """`convert` writes what `to_tpu_embedding` holds, including slots, bit by bit."""
    parameters = OPTIMIZERS[name]
    suffixes = [slot.suffix for slot in parameters.SLOTS]
    source, _ = write(files, suffixes)
    spec = spec_of(parameters)
    target = files.new("embedding")
    report = checkpoints.convert(source, target, spec, objects="tpu_embedding")
    assert [c.target for c in report.changes if c.source in ("global_step", "bias")] == [None] * 2
    wanted = tables_and_slots(convert.to_tpu_embedding(spec, source))
    fresh = convert.to_tpu_embedding(spec)
    status = tf.train.Checkpoint(embedding=fresh).restore(target)
    status.assert_consumed()
    found = tables_and_slots(fresh)
    assert sorted(found) == sorted(wanted)
    assert len(found) == 2 * (1 + len(suffixes))
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)
    assert checkpoints.verify(target).ok
    saved = tf.train.Checkpoint(embedding=fresh).save(files.new("again"))
    assert sorted(files.read(saved)) == sorted(files.read(target))


def test_a_spec_by_dictionaries(files):
    """Tables of dictionaries keep their keys, including dots and slashes."""
    key = "words/of.all"
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"word": es.FeatureConfig(key)},
        table_to_config_dict={key: es.TableConfig(5, 2, combiner="sum")},
        optimization_parameters=es.AdagradMomentumParameters(0.1, 0.9),
    )
    suffixes = [slot.suffix for slot in es.AdagradMomentumParameters.SLOTS]
    values = {
        key + suffix: np.arange(10, dtype=np.float32).reshape(5, 2) + number
        for number, suffix in enumerate(["", *suffixes])
    }
    target = files.new()
    checkpoints.convert(files.write(values), target, spec, objects="tpu_embedding")
    fresh = convert.to_tpu_embedding(spec)
    tf.train.Checkpoint(embedding=fresh).restore(target).assert_consumed()
    wanted = dict(zip(["parameters", "accumulators", "momenta"], values.values(), strict=True))
    for name, value in tables_and_slots(fresh).items():
        np.testing.assert_array_equal(value, wanted[name.rsplit("/", 1)[1]])


def test_a_table_for_serving(files):
    """The object for serving gets only the tables, under a user's keyword."""
    source, values = write(files, ["/Adam", "/Adam_1"])
    spec = spec_of(es.AdamParameters(0.1))
    target = files.new("serving")
    checkpoints.convert(source, target, spec, objects="serving", root="tables")
    served = convert.to_serving(spec, source)
    for config, table in served.embedding_tables.items():
        table.assign(tf.zeros_like(table))
        assert config.name
    tf.train.Checkpoint(tables=served).restore(target).assert_consumed()
    found = {config.name: table.numpy() for config, table in served.embedding_tables.items()}
    np.testing.assert_array_equal(found["tbl_word"], values[WORD])
    np.testing.assert_array_equal(found[f"tbl_{SHARED}"], values[SHARED])


def test_slots_of_tf1(files):
    """TF1's Adam slots are converted, without beta powers, and the report notes the bias."""
    source, values = write(files, ["/Adam", "/Adam_1"])
    spec = spec_of(es.AdamParameters(0.1))
    target = files.new()
    report = checkpoints.convert(source, target, spec, objects="tpu_embedding")
    assert any("corrects the bias" in note for note in report.notes)
    found = files.read(target)
    name = "embedding/tbl_word.Svelocities/.ATTRIBUTES/VARIABLE_VALUE"
    np.testing.assert_array_equal(found[name], values[WORD + "/Adam_1"])


@pytest.mark.parametrize("suffixes", [["/Momentum"], ["/Adam/m"], []])
def test_slots_that_the_object_has_not(files, suffixes):
    """Slots of another optimizer and incomplete slots are left out, and the report says so."""
    source, _ = write(files, suffixes)
    spec = spec_of(es.AdamParameters(0.1))
    target = files.new()
    report = checkpoints.convert(source, target, spec, objects="tpu_embedding")
    assert any("slots are left out" in note for note in report.notes) == bool(suffixes)
    assert len(files.read(target)) == 4  # two tables, the graph, the counter
    fresh = convert.to_tpu_embedding(spec)
    tf.train.Checkpoint(embedding=fresh).restore(target).expect_partial()


def test_growing_into_an_object(files):
    """Tables of objects can grow, and their rows be permuted."""
    source, values = write(files, ["/Adagrad"])
    spec = spec_of(es.AdagradParameters(0.1, initial_accumulator=0.5), rows=12)
    target = files.new()
    order = np.arange(11)[::-1]
    checkpoints.convert(
        source, target, spec, objects="tpu_embedding", vocabulary={"tbl_word": order}
    )
    fresh = convert.to_tpu_embedding(spec)
    tf.train.Checkpoint(embedding=fresh).restore(target).assert_consumed()
    found = tables_and_slots(fresh)
    np.testing.assert_array_equal(found["tbl_word/parameters"][:11], values[WORD][order])
    np.testing.assert_array_equal(found["tbl_word/accumulators"][11], np.full(4, 0.5, np.float32))


def test_tables_of_the_tensor_core(files):
    """Tables of the tensor core are left out of TPUEmbedding, but not of serving."""
    source, _ = write(files, [])
    spec = spec_of(es.StochasticGradientDescentParameters(0.1), tensor_core=True)
    for objects, number in (("tpu_embedding", 1), ("serving", 2)):
        target = files.new()
        report = checkpoints.convert(source, target, spec, objects=objects)
        assert len(files.read(target)) == number + 2
        left_out = [c.what for c in report.changes if c.source == WORD and c.target is None]
        assert left_out == (["the model's, not the object's"] if number == 1 else [])


def test_keys_of_a_record(files):
    """Keys come from the spec or the record; without either there is an error."""
    source, values = write(files, [])
    with pytest.raises(ValueError, match="object of .* is named by the table's key in the spec"):
        checkpoints.convert(source, files.new(), objects="serving")
    old = files.write({name: values[name] for name in SHAPES})
    checkpoints.record(old, spec_of(es.AdamParameters(0.1)))
    target = files.new()
    checkpoints.convert(old, target, objects="serving")
    name = "embedding/tbl_word/.ATTRIBUTES/VARIABLE_VALUE"
    np.testing.assert_array_equal(files.read(target)[name], values[WORD])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"objects": "keras"}, "objects must be one of .*'tpu_embedding'"),
        ({"root": "a/b"}, "root must be a keyword of tf.train.Checkpoint"),
        ({"rename": {WORD: "x"}}, "leave `rename` out"),
        ({"strategy": "mod"}, "leave strategy and shards out"),
        ({"shards": 2}, "leave strategy and shards out"),
        ({"slots": "cpu"}, "slots can't be 'cpu'"),
    ],
)
def test_what_objects_leave_no_choice_in(files, arguments, words):
    """Options that TF2 objects determine are refused."""
    source, _ = write(files, [])
    spec = spec_of(es.AdamParameters(0.1))
    with pytest.raises(ValueError, match=words):
        checkpoints.convert(source, files.new(), spec, **{"objects": "tpu_embedding", **arguments})


def test_from_a_shell(files, tmp_path, monkeypatch, capsys):
    """`--objects` and `--root` work likewise; a dry run writes nothing."""
    source, _ = write(files, ["/Adagrad"])
    (tmp_path / "my_objects_for_the_cli.py").write_text(
        "import tensorflow as tf, tpu_columns, estimator_spec\n"
        "make = tf.feature_column.categorical_column_with_identity\n"
        "spec = estimator_spec.EmbeddingConfigSpec(\n"
        "    [tpu_columns.embedding_column(make('word', 11), 4)],\n"
        "    estimator_spec.AdagradParameters(0.1))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    target = files.new()
    command = ["convert", source, target, "--objects=tpu_embedding", "--root", "tables"]
    command += ["--spec", "my_objects_for_the_cli:spec", "--table", WORD, "--drop", SHARED]
    assert cli.main([*command, "--dry-run"]) == 0
    planned = capsys.readouterr().out
    with pytest.raises(checkpoints.CheckpointError):
        checkpoints.inspect(target)
    assert cli.main(command) == 0
    assert capsys.readouterr().out.splitlines()[1:] == planned.splitlines()[1:]
    assert "tables/tbl_word.Saccumulators/.ATTRIBUTES/VARIABLE_VALUE" in files.read(target)
