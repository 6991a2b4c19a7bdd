# SPDX-License-Identifier: Apache-2.0
"""`python -m estimator_spec compare`: exit statuses, pages, errors."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import __main__ as command_line
from estimator_spec import compare
from estimator_spec.compare import cli, page, text
from estimator_spec.compare.comparison import Comparison, Item, Outcome, Side
from estimator_spec.compare.gaps import measure
from estimator_spec.compare.stages import Stage


@pytest.fixture
def checkpoints(tmp_path):
    """Returns the prefixes of two checkpoints of one variable that differs."""
    prefixes = []
    for name, value in (("old", 1.0), ("new", 1.5)):
        (tmp_path / name).mkdir()
        prefixes.append(str(tmp_path / name / "model.ckpt-1"))
        tf.raw_ops.SaveV2(
            prefix=prefixes[-1],
            tensor_names=["<bias>"],
            shape_and_slices=[""],
            tensors=[np.float32(value)],
        )
    return prefixes


def test_checkpoints_that_agree(checkpoints, capsys):
    """The first line says that they agree, and the status is 0."""
    assert command_line.main(["compare", checkpoints[0], checkpoints[0]]) == 0
    assert capsys.readouterr().out.startswith("The two agree in all 2 items.")


def test_checkpoints_that_differ(checkpoints, capsys):
    """The first line says where they part, and the status is 1; a tolerance makes them agree."""
    assert cli.main(checkpoints) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("The two differ, first in trained values: <bias>: 1 and 1.5\n")
    assert cli.main([*checkpoints, "--tolerance", "trained-values/*=0.4"]) == 0
    capsys.readouterr()
    assert cli.main([*checkpoints, "--tolerance", "trained-values/bais=0.4"]) == 2
    assert "'trained-values/<bias>'" in capsys.readouterr().err


def test_json(checkpoints, capsys):
    """JSON has the verdict, every item, and the number of the first that differs."""
    assert cli.main([*checkpoints, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["agrees"] is False
    item = data["items"][data["first_difference"]]
    assert (item["stage"], item["name"], item["outcome"]) == ("trained-values", "<bias>", "differs")
    assert item["gap"]["absolute"] == 0.5
    assert len(item["gap"]["histogram"]) == len(data["histogram_bins"])


def test_the_html_page_is_whole_and_loads_nothing(checkpoints, tmp_path, capsys):
    """One file with the verdict and a picture; names are escaped; nothing unfinished is left."""
    path = tmp_path / "page.html"
    assert cli.main([*checkpoints, "--html", str(path)]) == 1
    html = path.read_text(encoding="utf-8")
    assert "first in trained values: &lt;bias&gt;" in html
    assert 'class="chart"' in html and "<script" not in html and "http-equiv" not in html
    assert "src=" not in html
    assert sorted(os.listdir(tmp_path)) == ["new", "old", "page.html"]


def test_a_dry_run_runs_and_writes_nothing(tmp_path, capsys):
    """It prints both commands and what would be written."""
    script = tmp_path / "old.py"
    script.write_text("raise SystemError")
    html = str(tmp_path / "page.html")
    arguments = [str(script), str(script), "--new-args=--fast", "--html", html, "--dry-run"]
    arguments += ["--steps=all"]
    assert cli.main([*arguments, "--", "--steps=3"]) == 0
    shown = capsys.readouterr().out
    assert f"{script} --steps=3\n" in shown
    assert f"{script} --steps=3 --fast\n" in shown
    assert "steps=None" in shown
    assert f"would write: {html}" in shown
    assert os.listdir(tmp_path) == ["old.py"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["old.py"], "compared with nothing"),
        (["model.ckpt-1"], "compared with nothing: give a second checkpoint"),
        (["old.py", "model.ckpt-1"], "'model.ckpt-1' isn't the file of a program"),
        (["gone.py", "gone.py"], "old program, .*gone.py', isn't a file"),
        (["old.py", "old.py", "--steps=0"], "steps is 0; it must be positive"),
        (["old.py", "old.py", "--tolerance=x"], "PATTERN=RELATIVE"),
        (["old.py", "old.py", "--checkpoint=c", "--same-start"], "a checkpoint or same_start"),
        (["-m", "gone", "here", "there"], "old program, 'gone', isn't a module in '.*here'"),
        (["-m", "gone"], "gone is compared with nothing: give a second directory"),
        (["gone/model.ckpt-1", "gone/model.ckpt-2"], "gone/model.ckpt-1"),
    ],
)
def test_errors_have_status_2(arguments, message, capsys):
    """A wrong command line is one line on standard error that names the argument."""
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert re.search(message, captured.err)


LOSSES = np.array([3.0, 2.0, 1.0]), np.array([3.0, 2.5, np.nan])
RESULT = Comparison(
    Side("old.py", "TensorFlow 2.15.1"),
    Side("new.py", "TensorFlow 2.21.0"),
    (
        Item(Stage.VARIABLES, "train 1: a", Outcome.AGREES),
        Item(Stage.VARIABLES, "train 1: b", Outcome.ONLY_NEW),
        Item(
            Stage.LOSSES,
            "train 1",
            Outcome.DIFFERS,
            "from step 2 of 3 on",
            measure(*LOSSES),
            compare.Tolerance(0.1),
            tuple(map(tuple, LOSSES)),
        ),
    ),
    ("A note.",),
)


def test_the_text_page_has_all_parts():
    """Verdict, sides, stages, differences and notes; a lone item stands for itself."""
    shown = text.format_text(RESULT)
    assert shown.startswith("The two differ, first in variables: train 1: b: only in the new\n")
    assert "old  old.py (TensorFlow 2.15.1)" in shown
    assert [line for line in shown.splitlines() if line.startswith("variables ")]
    assert "from step 2 of 3 on" in shown
    assert shown.endswith("note: A note.")


def test_plain_data_is_json():
    """Infinite differences are text: JSON has no such number."""
    data = json.loads(json.dumps(text.plain_data(RESULT), allow_nan=False))
    assert data["items"][2]["gap"]["absolute"] == "inf"


def test_losses_are_drawn():
    """The page has the curves of both sides; NaN leaves a gap, and breaks nothing."""
    html = page.make_page(RESULT).render()
    drawings = [part.split("</svg>")[0] for part in html.split("<svg")[1:]]
    assert len(drawings) == 2  # the losses, their differences
    for drawing in drawings:
        ElementTree.fromstring(f"<svg{drawing}</svg>")
    points = [part.split('"')[0].split() for part in drawings[0].split('points="')[1:]]
    assert [len(each) for each in points] == [3, 2]


def test_what_agrees_is_folded():
    """The page shows what differs; what agrees is below a line that has its number."""
    agreeing = tuple(Item(Stage.VARIABLES, f"a/{n}", Outcome.AGREES) for n in range(156))
    result = dataclasses.replace(RESULT, items=(*RESULT.items, *agreeing))
    html = page.make_page(result).render()
    shown, folded = html.split("<details><summary>157 items agree</summary>")
    folded, rest = folded.split("</details>")
    assert "train 1: b" in shown
    assert "a/155" in folded
    assert "a/" not in shown.partition("<body>")[2].replace("</a", "")
    assert "<details" not in rest  # of the losses, none agrees
