# SPDX-License-Identifier: Apache-2.0
"""The training benchmark: its ids, statistics, goals and page, and one small run."""

from __future__ import annotations

import importlib
import json
import logging
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ROOT / "benchmarks" / "training.py"


@pytest.fixture(autouse=True)
def parts_on_the_path(monkeypatch):
    """Makes the command's modules importable."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def part(name):
    """Imports one of the command's modules."""
    return importlib.import_module(f"training_time.{name}")


# The first numbers of the authors' C program.
STREAMS = {
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC],
    1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431],
}


@pytest.mark.parametrize("seed", STREAMS)
def test_the_generator_is_splitmix64(seed):
    """The stream has SplitMix64's published numbers, also from the middle."""
    workloads = part("workloads")
    assert workloads.splitmix64(seed, 4).tolist() == STREAMS[seed]
    assert workloads.splitmix64(seed, 2, start=2).tolist() == STREAMS[seed][2:]


def test_ids_are_the_same_on_every_numpy():
    """The ids are the same in every NumPy."""
    ids = part("workloads").log_uniform_ids(5, 8, 10**6)
    assert ids.tolist() == [217, 32679, 25, 2, 12, 202, 861838, 1214]


def test_ids_are_log_uniform():
    """All octaves have about the same number of ids, and none is outside of the table."""
    rows, count = 2**16 - 1, 64_000
    ids = part("workloads").log_uniform_ids(3, count, rows)
    assert ids.min() == 0 and ids.max() < rows
    octaves = np.bincount(np.floor(np.log2(ids + 1)).astype(int), minlength=16)
    assert octaves.sum() == count
    assert np.abs(octaves / (count / 16) - 1).max() < 0.1


def test_a_batch_has_what_the_features_say():
    """Batches differ, with ids inside of their tables, and weights and lengths."""
    workloads = part("workloads")
    for name in ("weighted", "sequences", "mixed-300", "small-300"):
        workload = workloads.by_name(name)
        first, second = (workloads.batch_of(workload, number, 8) for number in (0, 1))
        for feature in workload.features:
            ids = first[feature.name]
            assert ids.shape == (8, feature.ids) and ids.dtype == np.int64
            assert ids.min() >= 0 and ids.max() < feature.rows
            assert (f"{feature.name}_weight" in first) is feature.weighted
            if feature.sequence:
                lengths = first[f"{feature.name}_length"]
                assert lengths.min() >= 1 and lengths.max() <= feature.ids
        key = workload.features[0].name
        assert not np.array_equal(first[key], second[key])
        assert first["label"].shape == (8, 1) and set(np.unique(first["label"])) <= {0.0, 1.0}


def test_workloads_are_chosen_by_name_and_by_beginning():
    """`grid` selects all of its cells, and an unknown name is refused with the known ones."""
    workloads = part("workloads")
    assert len(workloads.select("grid")) == 12
    assert [w.name for w in workloads.select("grid/10ids-sparse-1e6,census")] == [
        "grid/10ids-sparse-1e6",
        "census",
    ]
    assert len(workloads.select("all")) == len(workloads.WORKLOADS)
    with pytest.raises(ValueError, match="No workload 'gird'; there are grid/1id-dense-1e4"):
        workloads.select("gird")


def test_canned_estimators_have_no_core():
    """Canned workloads run on every side that has estimators, without an embedding core."""
    sides, workload = part("sides").SIDES, part("workloads").by_name("canned/deep")
    assert [name for name, side in sides.items() if side.runs(workload)] == [
        "reference",
        "reference-resource",
        "default-v1",
        "default",
        "older",
        "older-v1",
    ]


def test_workloads_import_numpy_alone():
    """Workloads import nothing but NumPy."""
    code = (
        "import sys, training_time.workloads\n"
        "print([n for n in ('tensorflow', 'keras', 'torch', 'tpu_columns') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "benchmarks"
    )
    assert done.stdout.strip() == "[]", done.stderr


def results_of(*cells):
    """Results of (workload, side, milliseconds of each round)."""
    results = part("results")
    return results.Results(
        results.Run(workload, side, "a", round_, {"ms": [ms, ms, 100.0], "version": "T"})
        for workload, side, rounds in cells
        for round_, ms in enumerate(rounds)
    )


def test_ratios_are_taken_within_a_round():
    """Ratios by round don't change on a machine that is slower in one round."""
    found = results_of(("w", "reference", [2.0, 20.0, 4.0]), ("w", "default", [1.0, 10.0, 3.0]))
    ratio = found.ratio("w", "default", "reference")
    assert (ratio.median, ratio.low, ratio.high) == (0.5, 0.5, 0.75)
    assert str(ratio) == "0.50 (0.50–0.75)"
    assert found.median("w", "default") == 3.0
    assert found.ratio("w", "default", "keras_rs") is None


def test_the_newest_batch_counts(tmp_path):
    """Results are read back from the file, and a later batch replaces earlier runs."""
    results = part("results")
    found = results_of(("w", "reference", [2.0]), ("w", "default", [1.0]))
    found.add(results.Run("w", "default", "b", 0, {"ms": [4.0]}))
    results.write(found.newest_only(), tmp_path / "r.json")
    again = results.read(tmp_path / "r.json")
    assert len(again.runs) == 2
    assert again.median("w", "default") == 4.0
    # Without a reference in its round: the medians are compared.
    assert again.ratio("w", "default", "reference").median == 2.0


def test_a_ratio_is_to_the_reference_of_its_own_batch(tmp_path):
    """A newer reference, of a machine that is slower now, doesn't change older sides' ratios."""
    results = part("results")
    found = results_of(("w", "reference", [2.0]), ("w", "default", [1.0]), ("w", "host", [1.0]))
    found.add(results.Run("w", "reference", "b", 0, {"ms": [8.0]}))
    found.add(results.Run("w", "host", "b", 0, {"ms": [2.0]}))
    results.write(found.newest_only(), tmp_path / "r.json")
    again = results.read(tmp_path / "r.json")
    assert again.median("w", "reference") == 8.0
    assert again.ratio("w", "default", "reference").median == 0.5
    assert again.ratio("w", "host", "reference").median == 0.25


def test_a_stopped_run_goes_on_where_it_stopped():
    """A workload is complete if one batch has all rounds of all sides that can run it."""
    command, sides = importlib.import_module("training"), part("sides")
    workload = part("workloads").by_name("census")
    who = sides.select("reference,default,keras_rs")  # keras_rs can't run census
    rounds = [1.0, 1.0]
    found = results_of(("census", "reference", rounds), ("census", "default", rounds))
    assert command.complete(found, workload, who, 2)
    assert not command.complete(found, workload, who, 3)
    half = results_of(("census", "reference", rounds), ("census", "default", [1.0]))
    assert not command.complete(half, workload, who, 2)
    assert not command.complete(results_of(), workload, who, 1)


def test_more_rounds_belong_to_those_before():
    """More rounds continue the batch that all sides share, or start a new one."""
    command, sides = importlib.import_module("training"), part("sides")
    workload, who = part("workloads").by_name("census"), sides.select("reference,default,keras_rs")
    found = results_of(("census", "reference", [1.0, 1.0, 1.0]), ("census", "default", [1.0]))
    assert command.batch_of(found, workload, who) == ("a", [3, 1])
    assert command.batch_of(results_of(), workload, who) == ("", [])
    assert command.batch_of(found, workload, sides.select("reference,host")) == ("", [])
    found.add(part("results").Run("census", "default", "b", 0, {"ms": [4.0]}))
    assert command.batch_of(found, workload, who) == ("", [])


def test_goals_say_what_was_missed():
    """A goal is met, missed by a count of cells, or not measured."""
    cells = [(f"grid/1id-dense-1e{p}", "reference", [10.0]) for p in (4, 5)]
    cells += [("grid/1id-dense-1e4", "default", [5.0]), ("grid/1id-dense-1e5", "default", [7.0])]
    cells += [("evaluate/1id", "reference", [3.0]), ("evaluate/1id", "host", [1.0])]
    goals = {goal.text[:2]: goal for goal in part("goals").goals(results_of(*cells))}
    assert goals["1a"].verdict == "**no**, 1 of 2 miss it"
    assert goals["6a"].verdict == "yes (3 not measured)"
    assert goals["4."].verdict == "not measured"


def test_every_goal_speaks_of_workloads_that_exist():
    """Every cell of a goal is a workload of the command."""
    names = part("workloads").WORKLOADS
    for goal in part("goals").goals(results_of()):
        for check in goal.checks:
            name = check.where.split(" ")[0]
            assert name in names or any(n.startswith(name) for n in names) or "column" in name


def test_the_table_shows_times_and_ratios():
    """The table has a row a workload and a column a side; failed and absent cells differ."""
    results, pages = part("results"), part("pages")
    sides, workloads = part("sides").SIDES, part("workloads").WORKLOADS
    name = "grid/1id-dense-1e4"
    found = results_of((name, "reference", [2.0, 4.0]), (name, "default", [1.0, 3.0]))
    found.add(results.Run(name, "host", "a", 0, {}, "no memory"))
    text = pages.table(found, [workloads[name]], list(sides.values()))
    assert text.splitlines() == [
        "| workload | TF 2.15.1 | ours, resource variables | ours, host core |",
        "|---|---:|---:|---:|",
        "| grid/1id-dense-1e4 | 3.00 | 2.00 · 0.62 (0.50–0.75) | failed |",
    ]


def test_the_page_names_goals_and_command():
    """The page is written from results alone, and begins with the plot and three sentences."""
    name = "grid/1id-dense-1e4"
    found = results_of((name, "reference", [2.0]), (name, "default", [1.0]))
    text = part("pages").page(found, "benchmarks.svg", "python run.py")
    picture, sentences = text.split("\n\n")[1:3]
    assert picture.endswith("](benchmarks.svg)") and "a training step takes 0.50" in sentences
    assert "python run.py" in text
    assert "| 1a. Default, one id: ≤ 0.55 × reference | 0.50 | yes (11 not measured) |" in text


def test_the_plot_is_a_picture(tmp_path):
    """The plot is an SVG with a bar's number in it."""
    pytest.importorskip("matplotlib", reason="the plot needs the extra `benchmarks`")
    found = results_of(*((f"grid/1id-dense-1e{p}", "default", [1.25]) for p in (4, 5, 6)))
    part("pages").plot(found, tmp_path / "p.svg")
    assert "<svg" in (tmp_path / "p.svg").read_text(encoding="utf-8")


def test_speed_is_read_off_the_log():
    """Each log line counts for the steps since the one before; the first is the warm-up."""
    log = part("clocks").SpeedLog()
    for text in ("global_step/sec: 20", "examples/sec: 1", "global_step/sec: 250.5"):
        log.emit(logging.makeLogRecord({"msg": text}))
    assert log.rates == [20.0, 250.5]
    assert math.isclose(log.milliseconds()[0], 1000 / 250.5)


def test_evaluation_is_timed_by_its_progress():
    """Milliseconds a step are measured between two progress lines."""
    clocks = part("clocks")
    log = clocks.EvaluationLog()
    log.emit(logging.makeLogRecord({"msg": "Evaluation [10/100]"}))
    assert [step for step, _ in log.marks] == [10]
    assert clocks.milliseconds([(0, 0.0), (10, 1.0), (20, 1.5)]) == [50.0]


def test_an_environment_that_cannot_be_is_refused():
    """A missing interpreter is refused with the name of its option."""
    with pytest.raises(RuntimeError, match="--keras-python /nowhere/python isn't an executable"):
        part("environments").python_of("keras", "/nowhere/python")


@pytest.mark.slow
@pytest.mark.timing(reason="measures, with time limits for each process, whatever else runs")
def test_the_command_runs_a_tiny_workload(tmp_path):
    """One round of a small workload on both cores, and without lookups, writes results."""
    path = tmp_path / "results.json"
    # One try: the machine is busy, and the results aren't used.
    options = ["--workloads=tiny", "--sides=default,host,no-lookups", "--quick", "--tries=1"]
    options.append(f"--results={path}")
    done = subprocess.run([sys.executable, str(COMMAND), *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
    assert {run["side"] for run in runs} == {"default", "host", "no-lookups"}
    assert [run["error"] for run in runs] == [None] * 3
    assert all(run["figures"]["ms"][0] > 0 for run in runs)
    assert "| tiny |" in done.stdout


def test_the_command_refuses_unknown_sides():
    """An unknown side is refused with the known names."""
    options = ["--workloads=tiny", "--sides=ours"]
    done = subprocess.run([sys.executable, str(COMMAND), *options], capture_output=True, text=True)
    assert done.returncode == 2
    assert "No side 'ours'; there are reference," in done.stderr
