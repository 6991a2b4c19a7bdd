# SPDX-License-Identifier: Apache-2.0
"""Tests `convert`: TensorFlow reads its output, and converting back restores every bit."""

from __future__ import annotations

import errno
import os
import struct

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_spec as es
import tpu_columns
from estimator_spec import checkpoints
from estimator_spec.core.checkpoints import index_file, records
from tpu_columns import RowPartition

TABLE = "input_layer/word_embedding/embedding_weights"

layouts = st.tuples(st.sampled_from(["div", "mod"]), st.integers(1, 9))


def values(rows, width, seed=0):
    """Strategy for any float32 bits, including NaNs and denormals."""
    bits = np.random.default_rng(seed).integers(0, 2**32, (rows, width), dtype=np.uint32)
    return bits.view(np.float32)


def assert_bits(found, wanted):
    """Asserts that arrays are equal bit by bit, including NaNs."""
    assert found.shape == wanted.shape
    assert found.tobytes() == np.asarray(wanted).tobytes()


def assert_same_checkpoint(files, found, wanted):
    """Asserts the same data bytes at the same offsets, with the same checksums."""
    found, wanted = files.bytes_of(found), files.bytes_of(wanted)
    assert found[".data-00000-of-00001"] == wanted[".data-00000-of-00001"]
    assert index_file.read(found[".index"], "") == index_file.read(wanted[".index"], "")


@given(st.integers(1, 60), st.integers(1, 5), layouts, layouts, st.integers(0, 9))
@settings(max_examples=60)
def test_round_trips_of_layouts(module_files, rows, width, first, second, seed):
    """Converting between any two layouts and back is bit-exact, including slots."""
    table, slot = values(rows, width, seed), values(rows, width, seed + 100)
    source = module_files.write(
        {TABLE: table, TABLE + "/Adagrad": slot, "global_step": np.int64(7)},
        {TABLE: first, TABLE + "/Adagrad": first},
    )
    there, back = module_files.new(), module_files.new()
    checkpoints.convert(source, there, strategy=second[0], shards=second[1])
    found = module_files.read(there)
    order = RowPartition(second[0], rows, second[1]).inverse_permutation()
    assert_bits(found[TABLE], table[order])
    assert_bits(found[TABLE + "/Adagrad"], slot[order])
    assert_bits(checkpoints.read_table(there, TABLE), table)
    checkpoints.convert(there, back, strategy=first[0], shards=first[1])
    assert (
        module_files.bytes_of(back)[".tables.json"]
        == (module_files.bytes_of(source)[".tables.json"])
    )
    before, after = module_files.read(source), module_files.read(back)
    assert sorted(before) == sorted(after)
    for name, value in before.items():
        assert_bits(np.asarray(after[name]), value)
    assert checkpoints.verify(there).ok
    assert checkpoints.verify(back).ok


@given(st.integers(1, 40), layouts, layouts)
@settings(max_examples=20)
def test_tensorflow_restores_any_slices_of_ours(module_files, rows, first, second):
    """TensorFlow restores slices of any other number of shards from a converted checkpoint."""
    table = values(rows, 3)
    source = module_files.write({TABLE: table}, {TABLE: first})
    there = module_files.new()
    checkpoints.convert(source, there, strategy=second[0], shards=second[1])
    wanted = RowPartition(second[0], rows, second[1])
    stored = table[wanted.inverse_permutation()]
    shards = RowPartition("div", rows, 3)
    for start, size in zip(shards.shard_starts, shards.shard_sizes, strict=True):
        if size:
            (found,) = tf.raw_ops.RestoreV2(
                prefix=there,
                tensor_names=[TABLE],
                shape_and_slices=[f"{rows} 3 {start},{size}:0,3"],
                dtypes=[tf.float32],
            )
            assert_bits(found.numpy(), stored[start : start + size])


@given(st.dictionaries(st.sampled_from("abcdef"), st.text("xyz/", min_size=1), min_size=1))
@settings(max_examples=30)
def test_round_trips_of_names(module_files, renamed):
    """Renaming variables and back gives the same files; slots are renamed too."""
    variables = {}
    for i, name in enumerate("abcdef"):
        variables[name] = values(4, 2, i)
        variables[name + "/Adagrad"] = values(4, 2, i + 10)
    source = module_files.write(variables)
    new_names = {old: f"{new}!{old}" for old, new in renamed.items()}
    there, back = module_files.new(), module_files.new()
    checkpoints.convert(source, there, rename=new_names)
    wanted = {
        new_names.get(name[0], name[0]) + name[1:]: value for name, value in variables.items()
    }
    assert sorted(module_files.read(there)) == sorted(wanted)
    checkpoints.convert(there, back, rename={new: old for old, new in new_names.items()})
    assert_same_checkpoint(module_files, back, source)


def test_names_of_single_slots(files):
    """A slot is renamed with its variable, unless it has a new name of its own."""
    names = [TABLE, TABLE + "/Adagrad", "bias", "bias/Adagrad"]
    source = files.write({name: values(3, 2) for name in names})
    target = files.new()
    checkpoints.convert(
        source, target, rename={TABLE: "t", TABLE + "/Adagrad": "a", "bias/Adagrad": "b"}
    )
    assert sorted(files.read(target)) == ["a", "b", "bias", "t"]


def test_everything_else_is_copied(files, same):
    """Scalars, strings, small and half floats, and slices along other axes are copied."""
    variables = {
        "step": np.int64(3),
        "words": np.array([b"", b"a" * 300, "ü".encode()], object),
        "no_words": np.array([], object),
        "half": np.arange(6, dtype=np.float16).reshape(2, 3),
        "brain": tf.cast(tf.range(6), tf.bfloat16).numpy(),
        "flag": np.array([True, False]),
        "empty": np.zeros((0, 4), np.float32),
        "complex": np.array([1j], np.complex64),
        "long": np.arange(3 << 20, dtype=np.float32),
    }
    source = files.write(variables)
    half = np.arange(8, dtype=np.float32).reshape(2, 4)
    sliced = files.new()
    os.makedirs(os.path.dirname(sliced))
    tf.raw_ops.SaveV2(
        prefix=sliced,
        tensor_names=["columns", "columns"],
        shape_and_slices=["2 4 0,2:0,2", "2 4 -:2,2"],
        tensors=[half[:, :2], half[:, 2:]],
    )
    for prefix, wanted in ((source, variables), (sliced, {"columns": half})):
        target = files.new()
        report = checkpoints.convert(prefix, target)
        assert all(change.is_copy for change in report.changes)
        same(files.read(target), wanted)
        assert checkpoints.verify(target).ok


def test_several_data_files(files, same):
    """A checkpoint of several data files is converted to one of a single file."""
    parts = [files.write({f"v{i}": np.arange(3) + i}, prefix=files.new()) for i in range(3)]
    merged = files.new()
    os.makedirs(os.path.dirname(merged))
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=parts, destination_prefix=merged, delete_old_dirs=False
    )
    assert len([end for end in files.bytes_of(merged) if end.startswith(".data")]) == 3
    target = files.new()
    checkpoints.convert(merged, target)
    assert list(files.bytes_of(target)) and sorted(files.bytes_of(target)) == [
        ".data-00000-of-00001",
        ".index",
    ]
    same(files.read(target), {f"v{i}": np.arange(3) + i for i in range(3)})


def test_growing(files):
    """New rows follow the old ones, with the default initializer and the slots' initial values."""
    table = np.ones((5, 16), np.float32)
    source = files.write(
        {TABLE: table, TABLE + "/Adam/m": table * 2, TABLE + "/Adam/v": table * 3},
        dict.fromkeys((TABLE, TABLE + "/Adam/m", TABLE + "/Adam/v"), ("mod", 2)),
    )
    target, again = files.new(), files.new()
    report = checkpoints.convert(source, target, grow={"word_embedding": 2000}, seed=3)
    assert "1995 new rows" in str(report)
    new = checkpoints.read_table(target, TABLE)
    assert new.shape == (2000, 16)
    np.testing.assert_array_equal(new[:5], table)
    assert np.abs(new[5:]).max() <= 2 / 4
    assert np.std(new[5:]) == pytest.approx(0.88 / 4, rel=0.02)  # of a normal cut at 2
    assert len(np.unique(new[5:])) > 1990 * 16
    for slot, value in (("m", 2), ("v", 3)):
        rows = checkpoints.read_table(target, f"{TABLE}/Adam/{slot}")
        assert (rows[:5] == value).all()
        assert (rows[5:] == 0).all()
    checkpoints.convert(source, again, grow={"word_embedding": 2000}, shards=7, seed=3)
    assert_bits(checkpoints.read_table(again, TABLE), new)
    other = files.new()
    checkpoints.convert(source, other, grow={"word_embedding": 2000}, seed=4)
    assert (checkpoints.read_table(other, TABLE)[5:] != new[5:]).any()


def test_growing_to_a_spec(files):
    """A spec with a larger vocabulary grows its table by its initializer and accumulator."""
    word = tf.feature_column.categorical_column_with_identity("word", 9)
    column = tpu_columns.embedding_column(
        word, 4, initializer=tf.compat.v1.constant_initializer(0.25)
    )
    spec = es.EmbeddingConfigSpec([column], es.AdagradParameters(0.1, initial_accumulator=0.75))
    table = values(5, 4)
    source = files.write({TABLE: table, TABLE + "/Adagrad": table})
    target = files.new()
    checkpoints.convert(source, target, spec)
    found = files.read(target)
    assert_bits(found[TABLE], np.concatenate([table, np.full((4, 4), 0.25, np.float32)]))
    np.testing.assert_array_equal(found[TABLE + "/Adagrad"][5:], np.full((4, 4), 0.75))
    assert checkpoints.inspect(target, spec).missing == ()


def test_initializers(files):
    """A user's initializer sets the new rows of its table only."""
    table = values(3, 2)
    source = files.write({TABLE: table, "tag_shared_embedding": table})
    target = files.new()
    checkpoints.convert(
        source,
        target,
        grow={"word_embedding": 5, "tag_shared_embedding": 4},
        initializers={TABLE: tf.compat.v1.constant_initializer(7.0)},
    )
    found = files.read(target)
    np.testing.assert_array_equal(found[TABLE][3:], np.full((2, 2), 7.0))
    assert (found["tag_shared_embedding"][3:] != 7.0).all()
    with pytest.raises(ValueError, match=r"made values of shape \[1, 2\] where \[2, 2\]"):
        checkpoints.convert(
            source,
            files.new(),
            grow={TABLE: 5},
            initializers={TABLE: lambda shape, dtype: tf.zeros([1, 2], dtype)},
        )


def test_vocabularies(files, tmp_path):
    """Rows move with their words to a new vocabulary's lines; buckets of unknown words stay."""
    (tmp_path / "old.txt").write_text("red\ngreen\nblue\n")
    (tmp_path / "new.txt").write_text("blue\r\nviolet\r\nred\r\n")
    table = values(5, 3)  # three words and two buckets
    source = files.write(
        {TABLE: table, TABLE + "/Adagrad": table},
        {TABLE: ("mod", 2), TABLE + "/Adagrad": ("mod", 2)},
    )
    target = files.new()
    report = checkpoints.convert(
        source,
        target,
        vocabulary={"word_embedding": (str(tmp_path / "old.txt"), str(tmp_path / "new.txt"))},
        strategy="div",
        shards=3,
    )
    assert f"{TABLE}: 1 of its 5 rows are left out." in report.notes
    found = files.read(target)
    assert_bits(found[TABLE][[0, 2, 3, 4]], table[[2, 0, 3, 4]])
    assert_bits(found[TABLE + "/Adagrad"][[0, 2, 3, 4]], table[[2, 0, 3, 4]])
    np.testing.assert_array_equal(found[TABLE + "/Adagrad"][1], np.full(3, np.float32(0.1)))
    (tmp_path / "twice.txt").write_text("red\nblue\nred\n")
    with pytest.raises(ValueError, match="the word 'red' stands in line 1 and in line 3"):
        checkpoints.convert(
            source,
            files.new(),
            vocabulary={TABLE: (str(tmp_path / "old.txt"), str(tmp_path / "twice.txt"))},
        )


def test_a_smaller_vocabulary_for_a_spec(files, tmp_path):
    """A spec's number of rows must be that of the new vocabulary."""
    (tmp_path / "old.txt").write_text("red\ngreen\nblue\n")
    (tmp_path / "new.txt").write_text("blue\nred\n")
    table = values(3, 2)
    source = files.write({TABLE: table})
    vocabulary = {"tbl_word": (str(tmp_path / "old.txt"), str(tmp_path / "new.txt"))}

    def spec(rows):
        word = tf.feature_column.categorical_column_with_identity("word", rows)
        return es.EmbeddingConfigSpec(
            [tpu_columns.embedding_column(word, 2)], es.AdagradParameters(0.1)
        )

    target = files.new()
    checkpoints.convert(source, target, spec(2), vocabulary=vocabulary)
    assert_bits(files.read(target)[TABLE], table[[2, 0]])
    with pytest.raises(ValueError, match="would have 2 rows, in the spec 'tbl_word' has 1"):
        checkpoints.convert(source, files.new(), spec(1), vocabulary=vocabulary)
    with pytest.raises(ValueError, match="would have 9 rows, in the spec 'tbl_word' has 3"):
        checkpoints.convert(source, files.new(), spec(3), grow={TABLE: 9})
    with pytest.raises(checkpoints.CheckpointError, match=r"has shape \[3, 2\], in the spec"):
        checkpoints.convert(source, files.new(), spec(2))


@given(st.data())
@settings(max_examples=30)
def test_permutations(module_files, data):
    """Any selection of old rows in any order is written in any layout."""
    rows = data.draw(st.integers(1, 30))
    chosen = data.draw(st.lists(st.integers(-1, rows - 1), min_size=1, max_size=40))
    first, second = data.draw(layouts), data.draw(layouts)
    table = values(rows, 2)
    source = module_files.write({TABLE: table}, {TABLE: first})
    target = module_files.new()
    checkpoints.convert(
        source, target, vocabulary={TABLE: chosen}, strategy=second[0], shards=second[1]
    )
    found = checkpoints.read_table(target, TABLE)
    chosen = np.array(chosen)
    assert_bits(found[chosen >= 0], table[chosen[chosen >= 0]])
    assert len(found) == len(chosen)


def test_a_permutation_and_back(files):
    """A permutation and its inverse restore every bit, including slots."""
    table = values(1000, 8)
    order = np.random.default_rng(1).permutation(1000)
    source = files.write({TABLE: table, TABLE + "/Adagrad": table}, {TABLE: ("div", 1)})
    there, back = files.new(), files.new()
    checkpoints.convert(source, there, vocabulary={TABLE: order})
    assert_bits(files.read(there)[TABLE], table[order])
    checkpoints.convert(there, back, vocabulary={TABLE: np.argsort(order)})
    for name in (TABLE, TABLE + "/Adagrad"):
        assert_bits(files.read(back)[name], table)


def test_long_tables(files):
    """Tables of many chunks of uneven sizes keep their rows in all layouts."""
    table = values(700_003, 4)
    source = files.write({TABLE: table})
    previous = source
    for strategy, shards in (("mod", 3), ("div", 5), ("mod", 300), ("div", 1)):
        target = files.new()
        checkpoints.convert(previous, target, strategy=strategy, shards=shards)
        order = RowPartition(strategy, len(table), shards).inverse_permutation()
        assert_bits(files.read(target)[TABLE], table[order])
        previous = target
    assert_same_checkpoint(files, previous, source)


def test_dry_run(files):
    """A dry run reports what a run would do, and writes nothing."""
    source = files.write({TABLE: values(5, 2), "bias": np.zeros(2)})
    before = files.bytes_of(source)
    target = files.new()
    planned = checkpoints.convert(source, target, strategy="mod", shards=2, dry_run=True)
    assert not os.path.exists(os.path.dirname(target))
    assert "would be written" in str(planned)
    done = checkpoints.convert(source, target, strategy="mod", shards=2)
    assert done.changes == planned.changes
    assert files.bytes_of(source) == before


def test_a_directory_becomes_a_model_dir(files, same):
    """A new directory gets a file `checkpoint`; an existing one isn't changed."""
    source = files.write({"v": np.arange(3)})
    target = files.new("model.ckpt-7")
    directory = os.path.dirname(target)
    checkpoints.convert(source, target)
    assert tf.train.latest_checkpoint(directory) == target
    same(files.read(directory), {"v": np.arange(3)})
    report = checkpoints.convert(source, os.path.join(directory, "other"))
    assert "names another checkpoint" in report.notes[-1]
    assert tf.train.latest_checkpoint(directory) == target
    os.makedirs(target)
    assert checkpoints.inspect(target).path == target  # not the directory of that name
    os.rmdir(target)
    assert sorted(os.listdir(directory)) == [
        "checkpoint",
        "model.ckpt-7.data-00000-of-00001",
        "model.ckpt-7.index",
        "other.data-00000-of-00001",
        "other.index",
    ]


def test_progress(files):
    """`progress` is called with the bytes done, up to all of them."""
    seen = []
    source = files.write({TABLE: values(300_000, 8), "v": np.zeros(5)})
    checkpoints.convert(
        source, files.new(), strategy="mod", shards=2, progress=lambda *now: seen.append(now)
    )
    total = 300_000 * 8 * 4 + 40
    assert seen[-1] == (total, total)
    assert len(seen) >= 3
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"strategy": "hash"}, 'hash. Must be one of "mod" or "div"'),
        ({"shards": 0}, "num_shards must be at least 1, got 0"),
        ({"slots": "gpu"}, "slots must be 'tpu', 'cpu' or None, got 'gpu'"),
        ({"rename": {"nobody": "x"}}, "rename: 'nobody' should name one table of .* is none of"),
        ({"rename": [("^nobody", "x")]}, r"no variable matches the pattern '\^nobody'"),
        ({"rename": {"a": "b"}}, "'b' and 'a' would both be named 'b'|'a' and 'b' would both"),
        ({"grow": {"nobody": 9}}, "grow: 'nobody' should name one table of .* is none of them"),
        ({"grow": {"word_embedding": 2}}, "has 4 rows and can't be made smaller"),
        ({"grow": {"word_embedding": 5.5}}, "rows of 'word_embedding' must be an int, got 5.5"),
        ({"vocabulary": {TABLE: [0.5]}}, "must be one integer for each new row"),
        ({"vocabulary": {TABLE: [4]}}, r"name the old row 4, which is not in \[0, 4\)"),
        ({"source_shards": 2, "tables": ["nobody"]}, "tables: 'nobody' should name one table of"),
    ],
)
def test_what_cannot_be_done_is_refused(files, arguments, words):
    """Errors name the wrong argument and the alternatives, before anything is written."""
    source = files.write({TABLE: values(4, 2), "a": np.zeros(1), "b": np.zeros(1)})
    target = files.new()
    with pytest.raises(ValueError, match=words):
        checkpoints.convert(source, target, **arguments)
    assert not os.path.exists(os.path.dirname(target))


def test_nothing_is_written_over(files, tmp_path):
    """Targets that exist, the source itself, directories and remote paths are refused."""
    source = files.write({"v": np.arange(3)})
    other = files.write({"v": np.arange(4)})
    before = files.bytes_of(other)
    for target in (source, other):
        with pytest.raises(ValueError, match="There is a checkpoint .* already"):
            checkpoints.convert(source, target)
    with pytest.raises(ValueError, match="is a directory"):
        checkpoints.convert(source, str(tmp_path))
    with pytest.raises(ValueError, match="must be on a local disk"):
        checkpoints.convert(source, "gs://bucket/model.ckpt")
    assert files.bytes_of(other) == before


def test_a_disk_that_is_full(files, monkeypatch):
    """A disk with too little space is refused before writing; the error names both sizes."""
    import shutil

    source = files.write({TABLE: values(1000, 4)})
    usage = shutil.disk_usage(os.path.dirname(source))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=70 << 20))
    checkpoints.convert(source, files.new())
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    target = files.new()
    with pytest.raises(OSError, match="has 1,000 bytes left, the checkpoint needs 16,000"):
        checkpoints.convert(source, target)
    assert os.listdir(os.path.dirname(target)) == []


def test_a_disk_that_fills_up_meanwhile(files, monkeypatch):
    """A disk error during writing names the target and leaves no files."""
    source, target = files.write({TABLE: values(1000, 4)}), files.new()

    pwrite = os.pwrite

    def full(descriptor, data, place):
        if len(data) < 1000:
            return pwrite(descriptor, data, place)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left on device .byte 0 of the new") as caught:
        checkpoints.convert(source, target, shards=2)
    assert caught.value.filename == target
    assert os.listdir(os.path.dirname(target)) == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX")
def test_a_directory_that_cannot_be_written(files, tmp_path):
    """The error names a directory that can't be written; as root, one that can't be created."""
    source = files.write({TABLE: values(10, 4)})
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    directory = "/proc/no" if os.geteuid() == 0 else str(closed)
    with pytest.raises(OSError, match=directory):
        checkpoints.convert(source, os.path.join(directory, "model.ckpt"))


def test_reading_where_tensorflow_can(files, same):
    """The source may be on any file system of TensorFlow; here a path with a scheme."""
    table = values(100, 3)
    source = files.write({TABLE: table, "v": np.array([b"x"], object)}, {TABLE: ("mod", 3)})
    target = files.new()
    checkpoints.convert("file://" + source, target, strategy="div", shards=1)
    assert_bits(files.read(target)[TABLE], table)
    assert checkpoints.verify("file://" + source).ok


def test_a_program_without_eager_execution(files, tmp_path):
    """Conversions run in programs that disabled TF2's behaviour."""
    import subprocess
    import sys

    source, target = files.write({TABLE: values(3000, 4)}), files.new()
    code = (
        "import sys, tensorflow as tf\n"
        "tf.compat.v1.disable_v2_behavior()\n"
        "from estimator_spec import checkpoints\n"
        "with tf.Graph().as_default():\n"
        "    checkpoints.convert(sys.argv[1], sys.argv[2], strategy='mod', shards=2,\n"
        f"                        grow={{{TABLE!r}: 3005}})\n"
    )
    subprocess.run([sys.executable, "-c", code, source, target], check=True)
    assert checkpoints.read_table(target, TABLE).shape == (3005, 4)
    assert struct.calcsize("f") * 4 * 3005 == os.path.getsize(target + ".data-00000-of-00001")


def test_checkpoints_of_objects(files, same):
    """A checkpoint of TF2 objects can be resharded or copied, but not renamed."""
    prefix = files.new("objects")
    table = values(9, 2)
    saved = tf.train.Checkpoint(table=tf.Variable(table)).write(prefix)
    name = "table/.ATTRIBUTES/VARIABLE_VALUE"
    with pytest.raises(ValueError, match="checkpoint of TF2 objects"):
        checkpoints.convert(saved, files.new(), rename={name: "other"})
    target = files.new()
    checkpoints.convert(saved, target, tables=[name], shards=3)
    restored = tf.train.Checkpoint(table=tf.Variable(tf.zeros([9, 2])))
    restored.read(target).assert_consumed()
    assert_bits(restored.table.numpy(), table)


def test_tables_are_no_slots(files):
    """A table whose name starts with another table's isn't its slot."""
    tables = {"words": ("mod", 2), "words/more": ("div", 3)}
    source = files.write({name: values(5, 2, i) for i, name in enumerate(tables)}, tables)
    layouts = {n: RowPartition(s, 5, k) for n, (s, k) in tables.items()}
    found = {n: records.TableRecord(layout, 2) for n, layout in layouts.items()}
    records.write(source, records.CheckpointRecord(found))
    target = files.new()
    checkpoints.convert(source, target, strategy="div", shards=1)
    for i, name in enumerate(tables):
        assert_bits(files.read(target)[name], values(5, 2, i))
