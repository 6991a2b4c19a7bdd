# SPDX-License-Identifier: Apache-2.0
"""Tests `python -m estimator_spec plan …`: programs, options, exit statuses, output."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import forking_python
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from estimator_spec.planning import cli, command, running

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = '''\
"""A program of the old API: its spec, its input, and a training that must not run."""
from absl import flags
import numpy as np
import tensorflow as tf
from tensorflow.compat.v1.estimator import tpu
import sibling_of_the_plan
import tpu_columns

flags.DEFINE_integer("rows_of_the_plan", 1000, "")
word = tf.feature_column.categorical_column_with_identity("word", sibling_of_the_plan.ROWS)


def make_spec(rows=None):
    rows = rows or flags.FLAGS.rows_of_the_plan
    word = tf.feature_column.categorical_column_with_identity("word", rows)
    return tpu.experimental.EmbeddingConfigSpec(
        feature_columns=[tpu_columns.embedding_column(word, 16)],
        optimization_parameters=tf.compat.v1.tpu.experimental.AdagradParameters(0.1))


spec = make_spec(sibling_of_the_plan.ROWS)


def input_fn(params):
    ids = np.arange(1000).reshape([-1, 1]) % 50 + 1
    return tf.data.Dataset.from_tensor_slices({"word": ids}).batch(params["batch_size"])


if __name__ == "__main__":
    raise RuntimeError("the training began")
'''


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Writes a program and the module beside it; returns the program's path."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "sibling_of_the_plan.py").write_text("ROWS = 500\n")
    path = folder / "train_the_plan.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Restores the paths of imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def run(*arguments, **kwargs):
    """Runs the command in a process of its own."""
    command = ["-m", "estimator_spec", "plan", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return forking_python.run(command, env=env, timeout=300, **kwargs)


@pytest.mark.slow
def test_a_program_of_the_old_api(program, tmp_path):
    """The whole command: old imports, flags of the program, a sample, JSON and a page."""
    page = tmp_path / "plan.html"
    done = run(
        *(f"{program}:make_spec", "--input-batches", 2, "--batch-size", 100, "--json"),
        *("--html", page, "--", "--rows_of_the_plan=200"),
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    (table,) = data["tables"]
    assert (table["rows"], table["slot_bytes"]) == (200, 200 * 16 * 4)
    assert table["training"]["device"] == "tpu_embedding_core"
    assert data["lookup_imbalance"]["div"] > 3 > data["lookup_imbalance"]["mod"]
    assert data["sparse_core"]["tbl_word"]["most_ids"] >= 1
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


PROGRAM_OF_PARAMS = '''\
"""A program whose spec depends on what its main function computes."""
import sys
import numpy as np
import tensorflow as tf
from tensorflow.compat.v1.estimator import tpu
import tpu_columns


def make_columns(params):
    word = tf.feature_column.categorical_column_with_identity("word", params["rows"])
    return [tpu_columns.embedding_column(word, 16)]


def make_spec(params, *, rate):
    return tpu.experimental.EmbeddingConfigSpec(
        feature_columns=make_columns(params),
        optimization_parameters=tf.compat.v1.tpu.experimental.AdagradParameters(rate))


def input_fn(params):
    ids = np.arange(params["rows"]).reshape([-1, 1])
    return tf.data.Dataset.from_tensor_slices({"word": ids}).batch(params["batch_size"])


def main():
    other = tpu.experimental.EmbeddingConfigSpec(
        feature_columns=make_columns({"rows": 7}),
        optimization_parameters=tf.compat.v1.tpu.experimental.AdagradParameters(0.1))
    if len(sys.argv) < 2:
        return
    make_spec({"rows": int(sys.argv[1])}, rate=0.1)
    raise RuntimeError("the training began")


if __name__ == "__main__":
    main()
'''


@pytest.mark.slow
def test_a_function_of_params(tmp_path):
    """The spec of a function that needs arguments is that of the running program."""
    path = tmp_path / "params_of_the_plan.py"
    path.write_text(PROGRAM_OF_PARAMS)
    options = (f"{path}:make_spec", "--input-batches", 2, "--batch-size", 20, "--json")
    done = run(*options, "--", 300)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    (table,) = data["tables"]
    assert table["rows"] == 300
    assert data["sparse_core"]["tbl_word"]["most_ids"] >= 1


def test_a_function_that_is_not_called(tmp_path, capsys, monkeypatch):
    """If the program ends before, the error says what to give it."""
    path = tmp_path / "params_of_the_plan.py"
    path.write_text(PROGRAM_OF_PARAMS)
    monkeypatch.setattr(sys, "argv", ["plan"])
    monkeypatch.setattr(running.run, "run", lambda command: None)
    before = vars(EmbeddingConfigSpec)["__new__"]
    assert cli.main([f"{path}:make_spec"]) == 2
    assert vars(EmbeddingConfigSpec)["__new__"] is before
    assert "make_spec needs arguments, so the program was run, and ended before" in (
        capsys.readouterr().err
    )


@pytest.fixture
def plan(program, capsys):
    """Returns the function that runs the command in this process: (status, output, errors)."""

    def run_here(*arguments, spec="spec"):
        status = cli.main([f"{program}:{spec}", *map(str, arguments)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run_here


@pytest.fixture
def old_spec(monkeypatch, tmp_path):
    """Returns MODULE:NAME of a spec without old imports."""
    (tmp_path / "module_of_the_plan.py").write_text(
        "import estimator_spec as es, tensorflow as tf, tpu_columns\n"
        "import numpy as np\n"
        "def spec(rows=500):\n"
        "    word = tf.feature_column.categorical_column_with_identity('word', rows)\n"
        "    return es.EmbeddingConfigSpec(\n"
        "        [tpu_columns.embedding_column(word, 16)], es.AdamParameters(0.1))\n"
        "large = spec(10 ** 9)\n"
        "def ids(params):\n"
        "    ids = np.arange(1, 65).reshape([-1, 1])\n"
        "    return tf.data.Dataset.from_tensor_slices({'word': ids}).batch(params['batch_size'])\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "module_of_the_plan", raising=False)
    return "module_of_the_plan"


def test_text(old_spec, capsys, monkeypatch):
    """Without --json a readable plan is printed; the exit status is 0, as it fits."""
    monkeypatch.setattr(command.libraries, "describe_engine", lambda version: "kernels: /lib.so.")
    assert cli.main([f"{old_spec}:spec", "--hosts", "2", "--cores", "4"]) == 0
    text = capsys.readouterr().out
    assert "1 table of 500 rows, 31.2 KiB: fits" in text
    assert "2 hosts with 128.0 GiB and 4 cores of 16.0 GiB each" in text
    assert "tbl_word" in text
    assert "tables are trained on a CPU by kernels: /lib.so." in text


def test_what_does_not_fit(old_spec, capsys):
    """A spec that doesn't fit has exit status 1; sizes have units; options change the plan."""
    assert cli.main([f"{old_spec}:large", "--hbm", "24", "--host-memory", "300GB"]) == 1
    text = capsys.readouterr().out
    assert "PROBLEM, core memory" in text
    assert "8 cores of 24.0 GiB" in text
    options = ["--hardware=cpu", "--hosts=4", "--model-slots=0", "--host-memory=300GiB"]
    assert cli.main([f"{old_spec}:large", *options, "--serving-dtype=int8"]) == 0


def test_json_has_the_sums(old_spec, capsys):
    """The numbers of --json are bytes, and its places add up."""
    assert cli.main([f"{old_spec}:spec", "--json", "--reserved=0.5", "--sparse-cores=2"]) == 0
    data = json.loads(capsys.readouterr().out)
    size = 500 * 16 * 4
    assert data["memory"]["cores"]["total"] == 3 * size
    assert sum(g["devices"] for g in data["memory"]["cores"]["groups"]) == 8
    assert data["memory"]["serving"]["largest"] == size
    assert data["memory"]["cores"]["usable"] == 8 << 30
    assert (data["system"]["sparse_cores"], data["system"]["hardware"]) == (2, "tpu")
    assert data["fits"] is True


def test_the_sample(old_spec, capsys):
    """--input-batches samples the ids of the function that --input-fn names."""
    options = ["--input-batches=2", "--input-fn=ids", "--batch-size=16", "--json"]
    assert cli.main([f"{old_spec}:spec", *options]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["lookup_imbalance"] == {"div": 8.0, "mod": 1.0}


def test_the_page(old_spec, tmp_path, capsys):
    """--html writes a page and nothing else; --dry-run writes nothing."""
    before = set(tmp_path.iterdir())
    page = tmp_path / "plan.html"
    assert cli.main([f"{old_spec}:spec", "--html", str(page), "--dry-run"]) == 0
    assert "would be written" in capsys.readouterr().err
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "__pycache__"}
    assert cli.main([f"{old_spec}:spec", "--html", str(page)]) == 0
    assert "tbl_word" in page.read_text(encoding="utf-8")
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "__pycache__", page}


def test_old_imports_leave_nothing_behind(plan):
    """A script with old imports is planned in this process, and the old names go again."""

    def old_names():
        return [name for name in sys.modules if "estimator" in name and "tensorflow" in name]

    before = old_names(), sorted(vars(tf)), sorted(vars(tf.compat.v1))
    status, text, _ = plan()
    assert status == 0
    assert "1 table of 500 rows" in text
    assert (old_names(), sorted(vars(tf)), sorted(vars(tf.compat.v1))) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such_module_of_the_plan:spec"], "plan no_such_module_of_the_plan:spec: "),
        (["missing.py:spec"], "there is no file 'missing.py'"),
        (["module_of_the_plan"], "give MODULE:NAME"),
        (["module_of_the_plan:es"], "it is a module, no EmbeddingConfigSpec"),
        (["module_of_the_plan:spec", "--hosts=0"], "hosts must be a positive int"),
        (["module_of_the_plan:spec", "--input-batches=1"], "--input-fn"),
        (
            ["module_of_the_plan:spec", "--input-batches=1", "--input-fn=large"],
            "input_fn must be callable",
        ),
        (["module_of_the_plan:spec", "--html=missing/plan.html"], "No such file"),
    ],
)
def test_errors(old_spec, capsys, arguments, words):
    """Each error is one line on standard error, with exit status 2."""
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert words in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("size", ["16XB", "much", "-1", "1e3"])
def test_sizes(old_spec, capsys, size):
    """A size that is none is refused with the units that there are."""
    with pytest.raises(SystemExit):
        cli.main([f"{old_spec}:spec", f"--hbm={size}"])
    assert "is no size: a number, alone or with GiB, GB" in capsys.readouterr().err
