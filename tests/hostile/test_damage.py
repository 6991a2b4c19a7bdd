# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints: an error that names the file, or the right numbers; never anything else."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import table_program
from estimator_spec import checkpoints
from estimator_spec.core.checkpoints import crc32c, index_file, records
from estimator_spec.core.driver.errors import CheckpointError

STEP = 2
TABLE = table_program.TABLE
BASE = f"model.ckpt-{STEP}"
# Every file that the tools or a run read.
FILES = {
    "index": f"{BASE}.index",
    "data": f"{BASE}.data-00000-of-00001",
    "record": f"{BASE}.tables.json",
    "state": "checkpoint",
    "meta": f"{BASE}.meta",
}
NIGHTLY = pytest.mark.nightly("many more changes of the same kinds")
# Nothing of TensorFlow's inside, such as the names of nodes.
INTERNAL = re.compile(r"\n|\{\{node|\[\[|Graph execution|Original stack|Traceback")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns a directory with checkpoints of a table in three mod shards, and the table."""
    directory = tmp_path_factory.mktemp("trained") / "model"
    estimator = table_program.make(directory, "mod", 3)
    estimator.train(table_program.input_fn, max_steps=STEP)
    return directory, estimator.get_variable_value(TABLE)


@pytest.fixture
def copied(trained, tmp_path):
    """Returns a copy of the directory for each call."""
    copies = iter(range(10**6))

    def copy():
        target = tmp_path / str(next(copies)) / "model"
        shutil.copytree(trained[0], target)
        return target

    return copy


def flip(data, rng):
    """Flips one to three bits."""
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def truncate(data, rng):
    """Cuts the end off."""
    return data[: rng.randrange(1, len(data))]


def swap(data, rng):
    """Exchanges two ranges of bytes."""
    size = rng.randint(1, max(1, len(data) // 4))
    first, second = rng.randrange(len(data) - size), rng.randrange(len(data) - size)
    data[first : first + size], data[second : second + size] = (
        data[second : second + size],
        data[first : first + size],
    )
    return data


def scribble(data, rng):
    """Overwrites a range with random bytes."""
    start = rng.randrange(len(data))
    part = rng.randbytes(rng.randint(1, len(data) - start))
    data[start : start + len(part)] = part
    return data


def replace(data, rng):
    """Replaces everything by random bytes, or by nothing."""
    return rng.randbytes(rng.choice([0, 1, 48, len(data), 5000]))


def insert(data, rng):
    """Inserts random bytes."""
    start = rng.randrange(len(data))
    return data[:start] + rng.randbytes(rng.randint(1, 9)) + data[start:]


def forge(data, rng):
    """Changes one field of an index entry, or its bytes, and writes a valid index."""
    entries = index_file.read(bytes(data), "")
    key = rng.choice(sorted(entries))
    entry = (index_file.header if key == b"" else index_file.entry)(entries[key])
    number = rng.choice([-1, 0, 1, 2, 3, 7, 77, 2**31 - 1, -(2**31)])
    large = rng.choice([number, 2**40, 2**62, -(2**63)])
    if key == b"":
        choice = rng.randrange(3)
        if choice == 0:
            entry.num_shards = number
        elif choice == 1:
            entry.endianness = 1
        else:
            entries[key] = rng.randbytes(6)
            return index_file.write(entries)
    else:
        choice = rng.randrange(10)
        if choice == 0:
            entry.dtype = rng.choice([0, 1, 2, 3, 7, 20, 21, 23, 101, 77])
        elif choice == 1:
            entry.offset = large
        elif choice == 2:
            entry.size = large
        elif choice == 3:
            entry.shard_id = number
        elif choice == 4 and entry.shape.dim:
            rng.choice(entry.shape.dim).size = large
        elif choice == 5:
            entry.shape.dim.add(size=large)
        elif choice == 6 and entry.slices:
            extent = rng.choice(rng.choice(entry.slices).extent)
            extent.start = large
        elif choice == 7:
            entry.shape.unknown_rank = True
        elif choice == 8:
            entries[rng.choice([b"\xff\xfe", b"\0\xff", b"x" * 300])] = entries.pop(key)
            return index_file.write(entries)
        else:
            entries[key] = rng.randbytes(rng.randint(1, 40))
            return index_file.write(entries)
    entries[key] = entry.SerializeToString()
    return index_file.write(entries)


def forge_record(data, rng):
    """Changes one field of a record, with or without a fitting checksum."""
    content = json.loads(data)
    del content["checksum"]
    table = content["tables"][TABLE]
    value = rng.choice([-1, 0, 2, 8, 10**9, 2**70, None, "3", 1.5, [], {}, True])
    field = rng.choice(["rows", "width", "shards", "strategy", "name", "tables", "format"])
    if field == "name":
        content["tables"] = {rng.choice(["kernel", "global_step", "no/such"]): table}
    elif field in ("tables", "format"):
        content[field] = value
    elif (field == "shards" and value in (2, 8, True)) or (field == "strategy" and value == "3"):
        table["shards"] = 10**9  # other shards would be a true record of another layout
    else:
        table[field] = value
    return json.dumps(content).encode()


def forge_state(data, rng):
    """Writes another state file that is valid text."""
    name = rng.choice(["model.ckpt-99", "/nowhere/model.ckpt-2", "", "checkpoint", "ü", "a" * 300])
    return f'model_checkpoint_path: "{name}"\n'.encode()


CHANGES = [
    *((kind, change) for kind in FILES for change in (flip, truncate, swap, scribble)),
    *((kind, change) for kind in FILES for change in (replace, insert)),
    *(("index", forge) for _ in range(6)),
    *(("record", forge_record) for _ in range(3)),
    ("state", forge_state),
]
CASES = [(kind, change, number) for number, (kind, change) in enumerate(CHANGES)]
FORGERIES = (forge, forge_record, forge_state)


def damage(directory, kind, change, seed):
    """Changes one file of a directory."""
    path = Path(directory, FILES[kind])
    path.write_bytes(bytes(change(bytearray(path.read_bytes()), random.Random(seed))))


def assert_clean(error, directory):
    """An error names a file of the directory in one line, and shows nothing of TensorFlow's."""
    text = str(error)
    assert str(directory) in text, text
    assert not INTERNAL.search(text), text
    assert error.__cause__ is None or not isinstance(error.__cause__, tf.errors.OpError)
    assert len(text.replace(str(directory), "")) < 1000, text


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 16), marks=NIGHTLY)])
@pytest.mark.parametrize("kind, change, number", CASES)
def test_tools(copied, trained, kind, change, number, seeds):
    """Each tool refuses a damaged checkpoint by naming the file, or returns the right numbers."""
    whole, table = trained
    directory = copied()
    good = Path(directory, FILES[kind]).read_bytes()
    prefix = str(directory / BASE)
    for seed in seeds:
        Path(directory, FILES[kind]).write_bytes(good)
        damage(directory, kind, change, f"{number} {seed}")
        target = str(directory / "new" / "model.ckpt-5")

        def convert(target=target):
            checkpoints.convert(prefix, target, strategy="div", shards=1)
            return checkpoints.read_table(target, TABLE)

        found = {}
        for name, run in (
            ("read", lambda: checkpoints.read_table(prefix, TABLE)),
            ("latest", lambda: checkpoints.read_table(str(directory), TABLE)),
            ("inspect", lambda: checkpoints.inspect(str(directory))),
            ("diff", lambda: checkpoints.diff(prefix, str(whole))),
            ("convert", convert),
        ):
            try:
                found[name] = run()
            except (checkpoints.CheckpointError, OSError) as error:
                assert_clean(error, directory)
        for name in ("read", "latest", "convert"):
            if name in found:
                np.testing.assert_array_equal(found[name], table)
        if "diff" in found and change is not forge:  # a forged name or dtype is a difference
            assert not found["diff"]
        try:
            fine = checkpoints.verify(prefix).ok
        except checkpoints.CheckpointError as error:
            assert_clean(error, directory)
            fine = False
        # Reading a table reads no other; a conversion reads every byte.
        assert "read" in found if fine else "convert" not in found
        shutil.rmtree(directory / "new", ignore_errors=True)
        # An earlier checkpoint is there, so that this always finds one.
        latest = checkpoints.repair(directory).latest
        assert checkpoints.verify(latest).ok
        assert latest == (prefix if fine else str(directory / f"model.ckpt-{STEP - 1}"))
        shutil.copyfile(whole / "checkpoint", directory / "checkpoint")


def tasks(estimator, base):
    """Returns the ways to read a checkpoint with an estimator, by name."""
    receiver = table_program.receiver_fn
    return {
        "train": lambda: estimator.train(table_program.input_fn, max_steps=STEP + 1),
        "evaluate": lambda: estimator.evaluate(table_program.input_fn, steps=1),
        "predict": lambda: next(estimator.predict(table_program.input_fn)),
        "export": lambda: estimator.export_saved_model(str(base / "export"), receiver),
        "value": lambda: estimator.get_variable_value(TABLE),
    }


# `test_tools` makes all changes; each file is scribbled over and forged for runs, too.
RUNS = [
    pytest.param(*case, marks=() if case[1] in (scribble, *FORGERIES) else NIGHTLY)
    for case in CASES
    if case[0] != "meta"
]


@pytest.mark.parametrize("kind, change, number", RUNS)
def test_runs(copied, trained, tmp_path, kind, change, number):
    """Runs refuse a damaged checkpoint by naming the file, and leave it, or have its numbers."""
    table = trained[1]
    # Most are refused before there is a graph; damaged data only by restoring it.
    for seed in range(1 if kind == "data" else 2):
        directory = copied()
        damage(directory, kind, change, f"{number} {seed}")
        before = {name: (directory / name).read_bytes() for name in FILES.values()}
        # In the checkpoint's shards, and in others.
        shards = (("mod", 3), ("div", 1))[(number + seed) % 2]
        estimator = table_program.make(directory, *shards)
        name = ("train", "evaluate", "predict", "export", "value")[(number + seed // 2) % 5]
        try:
            tasks(estimator, tmp_path)[name]()
        except (CheckpointError, OSError) as error:
            assert_clean(error, directory)
            after = {name: (directory / name).read_bytes() for name in FILES.values()}
            assert after == before
        else:
            np.testing.assert_array_equal(
                checkpoints.read_table(str(directory / BASE), TABLE), table
            )


def test_a_record_with_countless_shards(copied):
    """A record of 10⁹ shards is refused at once, by the tools and by training."""
    directory = copied()
    path = records.path_of(str(directory / BASE))
    content = json.loads(Path(path).read_text())
    del content["checksum"]
    content["tables"][TABLE]["shards"] = 10**9
    Path(path).write_text(json.dumps(content))
    estimator = table_program.make(directory, "mod", 3)
    for run in (
        lambda: checkpoints.inspect(str(directory)),
        lambda: estimator.train(table_program.input_fn, max_steps=STEP + 1),
    ):
        with pytest.raises(
            CheckpointError, match="must be at most 65536, got 1000000000"
        ) as caught:
            run()
        assert_clean(caught.value, directory)


@pytest.mark.parametrize("shards", [65_537, 300_000, 10**9])
def test_countless_shards_are_refused(copied, tmp_path, shards):
    """Tools and estimators refuse a number of shards far above the rows at once."""
    directory = str(copied())
    with pytest.raises(ValueError, match="num_shards must be at most 65536"):
        checkpoints.convert(directory, str(tmp_path / "new"), shards=shards)
    with pytest.raises(ValueError, match="num_shards must be at most 65536"):
        table_program.make(tmp_path, "mod", shards)


def test_many_shards_of_few_rows(copied, tmp_path):
    """The largest number of shards is quick, most of which have no row."""
    directory = str(copied())
    for number, strategy in enumerate(("div", "mod")):
        target = str(tmp_path / f"model.ckpt-{number}")
        checkpoints.convert(directory, target, strategy=strategy, shards=65_536)
        np.testing.assert_array_equal(
            checkpoints.read_table(target, TABLE), checkpoints.read_table(directory, TABLE)
        )


def test_a_record_of_another_variable(copied):
    """A record that names another variable is refused, not taken for one without the table."""
    directory = copied()
    prefix = str(directory / BASE)
    found = records.read(prefix)
    records.write(prefix, records.CheckpointRecord({"other": found.tables[TABLE]}, found.spec))
    estimator = table_program.make(directory, "mod", 3)
    for run in (*tasks(estimator, directory).values(), lambda: checkpoints.inspect(prefix)):
        with pytest.raises(CheckpointError, match=r"is no record of .*'other'.* isn't in it"):
            run()


@pytest.mark.parametrize("content", [b"\xff\xfe\x80", b"model_checkpoint_path: '\xc3'", b""])
def test_a_state_file_that_is_no_text(copied, content):
    """A state file that isn't UTF-8 is named, in runs and in tools, with the cure; which works."""
    directory = copied()
    (directory / "checkpoint").write_bytes(content)
    estimator = table_program.make(directory, "mod", 3)
    for run in (*tasks(estimator, directory).values(), lambda: checkpoints.inspect(directory)):
        with pytest.raises(CheckpointError, match=f"checkpoint repair {directory}") as caught:
            run()
        assert caught.value.path == str(directory / "checkpoint")
    assert checkpoints.repair(directory).is_needed
    estimator.train(table_program.input_fn, max_steps=STEP + 1)
    assert estimator.get_variable_value("global_step") == STEP + 1


def test_no_state_file(copied):
    """A directory with checkpoints and without a state file isn't a new one; repair writes it."""
    directory = copied()
    (directory / "checkpoint").unlink()
    before = sorted(os.listdir(directory))
    estimator = table_program.make(directory, "mod", 3)
    for run in tasks(estimator, directory).values():
        with pytest.raises(CheckpointError, match=f"`python -m .* checkpoint repair {directory}`"):
            run()
    tried = checkpoints.repair(directory, dry_run=True)
    assert {*os.listdir(directory)} - {*before} <= {".training.lock", "eval"}
    done = checkpoints.repair(directory)
    assert (tried.latest, tried.prefixes) == (done.latest, done.prefixes)
    assert [os.path.basename(prefix) for prefix in done.prefixes] == ["model.ckpt-1", BASE]
    assert tf.train.latest_checkpoint(str(directory)) == str(directory / BASE)
    assert not checkpoints.repair(directory).is_needed
    estimator.train(table_program.input_fn, max_steps=STEP + 1)
    assert estimator.get_variable_value("global_step") == STEP + 1


def test_restored_data_with_a_wrong_bit(copied):
    """Training names the damaged file and variable in one line, without TensorFlow's stack."""
    directory = copied()
    path = directory / FILES["data"]
    with checkpoints.Checkpoint(str(directory)) as opened:
        piece = opened.variables["kernel"].pieces[0]
    data = bytearray(path.read_bytes())
    data[piece.offset] ^= 1
    path.write_bytes(data)
    with pytest.raises(es.CheckpointError, match=f"{path}.*'kernel'") as caught:
        table_program.make(directory, "mod", 3).evaluate(table_program.input_fn, steps=1)
    assert_clean(caught.value, directory)
    assert caught.value.__suppress_context__


def test_garbage_with_a_right_checksum(copied):
    """Strings with impossible lengths and a checksum that fits are damage."""
    directory = copied()
    prefix = str(directory / BASE)
    entries = index_file.read(Path(prefix + ".index").read_bytes(), "")
    entry = index_file.entry(entries[b"kernel"])
    data = Path(prefix + ".data-00000-of-00001").read_bytes()[entry.offset :][: entry.size]
    entry.dtype = 7  # string
    entry.crc32c = crc32c.mask(crc32c.extend(0, data))
    entries[b"kernel"] = entry.SerializeToString()
    Path(prefix + ".index").write_bytes(index_file.write(entries))
    assert not checkpoints.verify(prefix).ok
