# SPDX-License-Identifier: Apache-2.0
"""Files of others with names like this project's: nothing ever removes or changes them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import forking_python
import forks
import interruptions
import leftovers
import table_program
from estimator_spec import __main__ as command_line
from estimator_spec import checkpoints
from estimator_spec.core.checkpoints import records
from estimator_spec.core.common import own_files
from estimator_spec.core.export import listed_files

tf1 = tf.compat.v1

PART = "part-00000-of-00001.data-00000-of-00001"
# Names that end in a slash are of empty directories. The trainings save the steps 0 to 8.
FOREIGN = [
    *("notes.tables.json", "model.ckpt-77.tables.json", "model.ckpt-7.tables.json.4711.tmp"),
    *("run-2_temp/part-0-of-1.csv", "x-3_temp/", "notes-1_temp/mine", "my_temp/notes"),
    *("model.ckpt-1_temp/", "model.ckpt-2_temp/mine", f"model.ckpt-3_temp/{PART}"),
    *("model.ckpt-4_temp", f"model.ckpt-77_temp/{PART}", "model.ckpt-78_temp/sub/mine"),
    *("model.ckpt-79_temp_0123abcd/part-00000-of-00001.index", "model.ckpt-80_temp_0/"),
    *("model.ckpt-0.data-notes", "model.ckpt-2.index.mine", "model.ckpt-2.meta.mine"),
    *("checkpoint.4711.tmp", f"checkpoint.{os.getpid()}.tmp", f"checkpoint.tmp{'a' * 32}"),
    *(f"graph.pbtxt.tmp{'0' * 32}", f"model.ckpt-7.meta.tmp{'1' * 32}", "notes.tmp"),
    *("model.ckpt-7.index.tempstate123", "model.ckpt-8.data-00000-of-00001.tempstate456"),
    *(".training.json", ".training.lock", "checkpoint.unfinished", "model.ckpt-9.unfinished/data"),
    *("temp-1/mine", "temp-2024/", "temp-20240101/sub/mine", "1500000000/saved_model.pb"),
    *("sub/run-1_temp/part-00000-of-00001.index", "sub/model.ckpt-1.tables.json", "sub/temp-3/"),
    *("eval/notes.tables.json", "eval/model.ckpt-1_temp/", "keras/keras_model.ckpt_temp/"),
    *("export/notes.tables.json", "export/temp-2024/", "export/temp-20240101/sub/mine"),
    *("export/temp-5/variables/variables.index", "export/temp-6", "export/1500000000/mine"),
    *(
        "export/latest/1500000000/saved_model.pb",
        "export/latest/2024010100/",
        "export/latest/temp-1/",
    ),
    *("export/best/0123456789/variables/variables.index", "export/best/notes/1500000000/mine"),
    *("new/model.ckpt-8.unfinished/", "new/run-1_temp/mine", "new/temp-7/mine"),
    *("new/model.ckpt-7.unfinished/data", "new/model.ckpt-6.data-00000-of-00001"),
    *("new/model.ckpt-5.tables.json", "new/model.ckpt-4.unfinished"),
]


SPEC = """
import estimator_spec
spec = estimator_spec.EmbeddingConfigSpec(
    feature_to_config_dict={"word": estimator_spec.FeatureConfig("words")},
    table_to_config_dict={"words": estimator_spec.TableConfig(7, 2, combiner="sum")},
    optimization_parameters=estimator_spec.AdagradParameters(0.1),
)
"""
CLUSTER = """
import sys
import estimator_spec, table_program
made = table_program.make(sys.argv[1], "mod", 2)
estimator_spec.train_and_evaluate(
    made,
    estimator_spec.TrainSpec(table_program.input_fn, max_steps=4),
    estimator_spec.EvalSpec(table_program.input_fn, steps=1, start_delay_secs=0, throttle_secs=0),
)
"""


class Foreign:
    """Files of others below a directory, and what they must go on to be."""

    def __init__(self, root):
        self.root = root
        self.contents = {}

    def plant(self, name):
        """Adds a file, or an empty directory."""
        path = self.root / name
        if name.endswith("/"):
            path.mkdir(parents=True)
            self.contents[path] = []
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"mine: {name}")
            self.contents[path] = path.read_bytes()

    def copy(self, source, target):
        """Adds a copy of files of this project."""
        target = self.root / target
        shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
        for path in (target, *target.rglob("*")):
            is_file = path.is_file()
            self.contents[path] = path.read_bytes() if is_file else sorted(os.listdir(path))

    def check(self, after):
        """Fails if one was removed, renamed or changed, or if an empty directory has a file."""
        for path, content in self.contents.items():
            assert path.exists(), f"{path} is gone after: {after}"
            found = path.read_bytes() if path.is_file() else sorted(os.listdir(path))
            assert found == content, f"{path} has changed after: {after}"
        assert not list(self.root.rglob("*.kept-*")), after


class Fail(tf1.train.SessionRunHook):
    """Ends a training by an error."""

    def after_run(self, run_context, run_values):
        raise KeyError("of a test")


def run_command(*arguments):
    """Runs a command in this process; returns its exit status."""
    try:
        return command_line.main([str(each) for each in arguments])
    except SystemExit as end:
        return end.code


def train_in_all_ways(model_dir, foreign):
    """Trains with other layouts, savers and ends; evaluates and predicts."""
    made = table_program.make(model_dir)
    for step in (2, 5):
        made.train(table_program.input_fn, max_steps=step)
        foreign.check(f"training to step {step}")
    foreign.copy(model_dir / "model.ckpt-5.tables.json", "copy.tables.json")
    foreign.copy(model_dir / "model.ckpt-5.tables.json", "model.ckpt-90.tables.json")
    with pytest.raises(KeyError):
        made.train(table_program.input_fn, steps=2, hooks=[Fail()])
    foreign.check("a training that failed")
    table_program.make(model_dir, "mod", 3).train(table_program.input_fn, max_steps=7)
    foreign.check("another layout")
    made.evaluate(table_program.input_fn, steps=1)
    list(made.predict(table_program.input_fn))
    foreign.check("evaluation and prediction")
    saver = tf1.train.CheckpointSaverHook(str(model_dir), save_steps=1)
    made.train(table_program.input_fn, max_steps=8, hooks=[saver])
    foreign.check("a hook of the user's")


def export_in_all_ways(model_dir, foreign):
    """Exports by methods and exporters, with and without an error."""
    made = table_program.make(model_dir)

    def fail():
        raise KeyError("of a test")

    made.export_saved_model(str(model_dir), table_program.receiver_fn)
    with pytest.raises(KeyError):
        made.export_saved_model(str(model_dir / "export"), fail)
    with pytest.raises(tf.errors.NotFoundError):
        made.export_saved_model(
            str(model_dir / "export"), table_program.receiver_fn, {"a": "/no/such/file"}
        )
    foreign.check("exports")
    exporters = [
        es.LatestExporter("latest", table_program.receiver_fn, exports_to_keep=1),
        es.BestExporter("best", table_program.receiver_fn, exports_to_keep=1),
        es.FinalExporter("final", table_program.receiver_fn),
    ]
    es.train_and_evaluate(
        made,
        es.TrainSpec(table_program.input_fn, max_steps=9),
        es.EvalSpec(table_program.input_fn, steps=1, exporters=exporters, throttle_secs=0),
    )
    foreign.check("train_and_evaluate")
    latest = model_dir / "export" / "latest"
    (own,) = [path for path in latest.glob("1*") if (path / own_files.MARKER).exists()]
    foreign.copy(own, "export/latest/1500000001")
    foreign.plant(f"export/latest/{own.name}/assets.extra/warmup")
    exporters[0].export(made, str(latest), None, {}, False)
    foreign.check("an exporter that deletes the oldest")
    assert [p for p in own.rglob("*") if p.is_file()] == [own / "assets.extra" / "warmup"]
    assert len([p for p in latest.glob("1*") if listed_files.has_list(str(p))]) == 1


def call_commands(model_dir, foreign, tmp_path, monkeypatch):
    """Calls the commands that look at directories or write them."""
    new = model_dir / "new"
    for step, status in {9: 0, 8: 0, 7: 2, 6: 2, 5: 2, 4: 2}.items():
        found = run_command("checkpoint", "convert", model_dir, new / f"model.ckpt-{step}")
        assert (step, found) == (step, status)
        foreign.check(f"a conversion to {step}")
    prefix = model_dir / "model.ckpt-9"
    os.remove(records.path_of(str(new / "model.ckpt-8")))
    for arguments in (
        ("inspect", model_dir),
        ("verify", model_dir),
        ("diff", prefix, new / "model.ckpt-9"),
        ("repair", model_dir),
        ("record", new / "model.ckpt-8"),
    ):
        assert run_command("checkpoint", *arguments) == 0
        foreign.check(arguments)
    assert run_command("compare", prefix, new / "model.ckpt-9", "--checkpoints") in (0, 1, 2)
    program = tmp_path / "program.py"
    program.write_text("import tensorflow as tf\ntf.estimator.RunConfig()\n")
    spec = tmp_path / "spec.py"
    spec.write_text(SPEC)
    task = tmp_path / "task.py"
    task.write_text("import os; print(os.environ['TF_CONFIG'])\n")
    monkeypatch.chdir(model_dir)  # where commands could leave files of their own
    for arguments in (
        ("plan", f"{spec}:spec"),
        ("plan", f"{spec}:spec", "--html", new / "plan.html"),
        ("launch", "--host-network", task, "--workers", "1", "--ps", "1", "--evaluator"),
        ("migrate", "--outtree", model_dir, program),
        ("migrate", "--write", program),
        ("doctor", program),
        ("run", "--check", program),
    ):
        status = run_command(*arguments)
        assert status == 0 or arguments[0] in ("migrate", "doctor", "run"), (arguments, status)
        foreign.check(arguments)


@pytest.mark.slow
def test_files_of_others(tmp_path, caplog, monkeypatch):
    """Dozens of files of others are as they were after each way of running; leftovers are gone."""
    assert len(FOREIGN) >= 40
    model_dir = tmp_path / "model"
    foreign = Foreign(model_dir)
    for name in FOREIGN:
        foreign.plant(name)
    own = {
        "model.ckpt-50_temp": own_files.Job.SAVE,
        "temp-1600000000": own_files.Job.EXPORT,
        "export/temp-1600000000": own_files.Job.EXPORT,
        "new/model.ckpt-9.unfinished": own_files.Job.CONVERSION,
    }
    for name, job in own.items():
        leftovers.leave(model_dir / name, job)
    foreign.copy(model_dir / "model.ckpt-50_temp", "model.ckpt-51_temp")
    foreign.copy(model_dir / "temp-1600000000", "export/temp-1600000001")
    renamed = leftovers.leave(model_dir / "model.ckpt-52_temp", own_files.Job.SAVE)
    renamed.rename(model_dir / "rescued_temp")
    foreign.copy(model_dir / "rescued_temp", "rescued-1_temp")
    with_another = leftovers.leave(model_dir / "model.ckpt-53_temp", own_files.Job.SAVE)
    foreign.plant("model.ckpt-53_temp/mine")
    foreign.plant("model.ckpt-53_temp/sub/part-00000-of-00001.index")

    with caplog.at_level("INFO", logger="tensorflow"):
        train_in_all_ways(model_dir, foreign)
        export_in_all_ways(model_dir, foreign)
        call_commands(model_dir, foreign, tmp_path, monkeypatch)
    for name in own:
        assert not (model_dir / name).exists()
        assert f"Removing {model_dir / name}" in caplog.text
    assert (model_dir / "rescued_temp" / leftovers.JOBS[own_files.Job.SAVE][0]).exists()
    assert sorted(os.listdir(with_another)) == ["mine", "sub"]
    assert f"{with_another} stays" in caplog.text


@pytest.mark.slow
@pytest.mark.nightly("several processes; the same trainings in one are with every change")
def test_a_cluster(tmp_path):
    """A cluster that `launch` runs in a directory with files of others leaves them."""
    model_dir = tmp_path / "model"
    foreign = Foreign(model_dir)
    for name in FOREIGN:
        foreign.plant(name)
    program = tmp_path / "program.py"
    program.write_text(CLUSTER)
    command = ["-m", "estimator_spec", "launch", "--host-network", program, "--ps", "2"]
    done = forking_python.run(
        [str(each) for each in [*command, "--evaluator", "--", model_dir]],
        env=interruptions.ENVIRONMENT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert tf.train.latest_checkpoint(str(model_dir)).endswith("-4")
    foreign.check("launch")


def test_a_keras_model(tmp_path):
    """The initial checkpoint of a Keras model leaves a directory of somebody else."""
    keras = pytest.importorskip("tf_keras") if tf.__version__ >= "2.16" else tf.keras
    foreign = Foreign(tmp_path)
    foreign.plant("keras/keras_model.ckpt_temp/")
    foreign.plant("keras/notes.tables.json")
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.compile("sgd", "mse")
    es.model_to_estimator(model, model_dir=str(tmp_path))
    assert (tmp_path / "keras" / "keras_model.ckpt.index").exists()
    foreign.check("model_to_estimator")


def test_a_copied_directory(tmp_path):
    """A run in a copy whose state file has absolute paths leaves the original's checkpoints."""
    first, second = tmp_path / "first", tmp_path / "second"
    table_program.make(first).train(table_program.input_fn, max_steps=2)
    state = (first / "checkpoint").read_text()
    (first / "checkpoint").write_text(state.replace('"model', f'"{first}/model'))
    before = {path: path.read_bytes() for path in first.glob("model.ckpt-*")}
    shutil.copytree(first, second)
    table_program.make(second).train(table_program.input_fn, max_steps=5)
    assert {path: path.read_bytes() for path in first.glob("model.ckpt-*")} == before


@pytest.mark.parametrize("name", ["run*", "run?"])
def test_a_directory_named_like_a_pattern(tmp_path, name):
    """A model_dir that TensorFlow reads as a pattern is refused: it deletes files of others."""
    with pytest.raises(es.ModelDirError, match="delete checkpoints of other direc"):
        table_program.make(tmp_path / name).train(table_program.input_fn, max_steps=1)


@pytest.mark.parametrize("moment", ["before the rename", "after the rename", "while it writes"])
def test_what_a_killed_save_had_put_aside(tmp_path, moment):
    """If a save is killed, the next training gives the directory in its way the name back."""
    path = tmp_path / "model.ckpt-7_temp"
    foreign = Foreign(tmp_path)
    foreign.plant("model.ckpt-7_temp/mine")

    def save_and_be_killed():
        rename = os.rename

        def rename_and_be_killed(source, target):
            if moment == "before the rename":
                os._exit(0)
            rename(source, target)
            if moment == "after the rename":
                os._exit(0)

        os.rename = rename_and_be_killed  # of this process, a fork
        with own_files.in_place_of_others(str(path), own_files.Job.SAVE):
            (path / leftovers.JOBS[own_files.Job.SAVE][0]).write_text("of a killed job")
            os._exit(0)

    forks.run_in_a_fork(save_and_be_killed)
    assert len(os.listdir(tmp_path)) > 1
    own_files.remove_left(str(tmp_path))
    foreign.check("a save that was killed")
    assert os.listdir(tmp_path) == ["model.ckpt-7_temp"]


def test_a_save_that_fails_gives_back_what_it_had_put_aside(tmp_path):
    """Somebody else's directory has its name again after a save, whatever its end."""
    foreign = Foreign(tmp_path)
    foreign.plant("model.ckpt-7_temp/mine")
    path = str(tmp_path / "model.ckpt-7_temp")
    with pytest.raises(KeyError), own_files.in_place_of_others(path, own_files.Job.SAVE):
        own_files.remove_left(str(tmp_path))  # as another process may
        raise KeyError
    foreign.check("a save that failed")
    assert os.listdir(tmp_path) == ["model.ckpt-7_temp"]


@pytest.mark.parametrize("linked", ["", "variables", "variables/variables.index"])
def test_linked_exports(tmp_path, linked):
    """An export that was moved to an archive, with a link in its place, stays in the archive."""
    made = table_program.make(tmp_path / "model")
    made.train(table_program.input_fn, max_steps=1)
    exporter = es.LatestExporter("latest", table_program.receiver_fn, exports_to_keep=1)
    directory, archive = tmp_path / "exports", tmp_path / "archive"
    first = Path(os.fsdecode(exporter.export(made, str(directory), None, {}, False)))
    moved = first / linked if linked else first
    moved.rename(archive)
    moved.symlink_to(archive)
    foreign = Foreign(archive)
    for path in [archive, *archive.rglob("*")]:
        foreign.contents[path] = path.read_bytes() if path.is_file() else sorted(os.listdir(path))
    exporter.export(made, str(directory), None, {}, False)
    foreign.check("a later export")
    assert moved.is_symlink()


OUTSIDE = {
    "moved": lambda outside: {
        f"../{outside.name}": own_files.identify(outside.parent, outside.name)
    },
    "moved to a path": lambda outside: {str(outside): own_files.identify("/", str(outside))},
}


@pytest.mark.parametrize("way", OUTSIDE)
def test_a_marker_that_names_files_elsewhere(tmp_path, way):
    """A marker that was edited to name files of another directory removes none of them."""
    outside = tmp_path / "precious"
    outside.write_text("mine")
    model_dir = tmp_path / "model"
    model_dir.mkdir()
    written = own_files.create(str(model_dir / "c-1.unfinished"), own_files.Job.CONVERSION)
    moved = OUTSIDE[way](outside)
    assert all(own_files.is_unchanged(model_dir, name, known) for name, known in moved.items())
    written.note(moved={**moved, "c-1.index": [0, 0, 0]})
    os.close(written._lock)
    own_files.remove_left(str(model_dir))
    assert outside.read_text() == "mine"


def test_a_note_that_names_files_elsewhere(tmp_path):
    """A note that was edited to give a file of another directory a name moves none."""
    outside = tmp_path / "precious"
    outside.write_text("mine")
    model_dir = tmp_path / "model"
    model_dir.mkdir()
    note = model_dir / f".tpu_columns.kept-{'0' * 32}.json"
    with open(note, "wb") as file:
        own_files.write_marker(file.fileno(), original="found", aside="../precious")
    own_files.remove_left(str(model_dir))
    assert outside.read_text() == "mine"


def test_data_files_of_others_beside_a_checkpoint(tmp_path):
    """A checkpoint's data files are deleted with it, and others' of its name aren't."""
    foreign = Foreign(tmp_path)
    made = table_program.make(tmp_path)
    for step in range(1, 8):
        made.train(table_program.input_fn, max_steps=step)
        foreign.plant(f"model.ckpt-{step}.data-00000-of-00002")
        foreign.plant(f"model.ckpt-{step}.data-00001-of-00009")
        foreign.check(f"step {step}")
    assert not (tmp_path / "model.ckpt-2.data-00000-of-00001").exists()
    assert not (tmp_path / "model.ckpt-2.index").exists()


@pytest.mark.parametrize("moved", [["data"], ["data", ".tables.json", ".index"]])
def test_a_conversion_killed_while_it_moves_its_files(tmp_path, moved):
    """The next one removes what was moved, unless all was, or somebody else replaced a file."""
    directory = leftovers.leave(tmp_path / "c-1.unfinished", own_files.Job.CONVERSION)
    shutil.rmtree(directory)
    written = own_files.create(str(directory), own_files.Job.CONVERSION)
    targets = {"data": "c-1.data-0-of-1", ".tables.json": "c-1.tables.json", ".index": "c-1.index"}
    for name in targets:
        (directory / name).write_text("of a killed job")
    written.note(
        moved={target: own_files.identify(str(directory), name) for name, target in targets.items()}
    )
    for name in moved:
        (directory / name).rename(tmp_path / targets[name])
    if ".tables.json" not in moved:
        (tmp_path / "c-1.tables.json").write_text("mine")
    os.close(written._lock)
    own_files.remove_left(str(tmp_path))
    left = [targets[name] for name in moved] if len(moved) > 1 else ["c-1.tables.json"]
    assert sorted(os.listdir(tmp_path)) == sorted(left)


def test_the_table_is_right_beside_them(tmp_path):
    """A save into a name that somebody else's directory has is whole."""
    foreign = Foreign(tmp_path)
    foreign.plant(f"model.ckpt-1_temp/{PART}")
    made = table_program.make(tmp_path)
    made.train(table_program.input_fn, max_steps=1)
    assert checkpoints.verify(str(tmp_path)).ok
    assert np.isfinite(checkpoints.read_table(str(tmp_path), table_program.TABLE)).all()
    foreign.check("training")
    assert Path(tmp_path / "model.ckpt-1_temp" / PART).exists()
