# SPDX-License-Identifier: Apache-2.0
"""The census example: training, evaluation, prediction, export and serving."""

from __future__ import annotations

import gzip
import importlib.util
import os
import re
from pathlib import Path

import pytest

import forking_python
from estimator_spec import checkpoints

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "census"
BRIEF = ("--train_steps=300", "--learning_rate=0.003")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Runs the program briefly in a process of its own; returns its model_dir, output and log."""
    model_dir = tmp_path_factory.mktemp("census")
    log = []
    output = run("census.py", f"--model_dir={model_dir}", *BRIEF, log=log)
    return model_dir, output, "".join(log)


def test_it_learns(finished):
    """A short training has an AUC well above chance."""
    auc = re.search(r"test AUC.*\n.*\n(\S+)", finished[1])
    assert auc is not None
    assert float(auc[1]) > 0.89


def test_its_log_asks_for_nothing(finished):
    """The log has no notice of what an Estimator is made of, on which nobody can act."""
    assert "Saving checkpoints for 300" in finished[2]
    assert [line for line in finished[2].splitlines() if "deprecated" in line] == []


def test_another_process_serves_the_same(finished):
    """The program compares served and predicted probabilities, and prints the number of rows."""
    assert "serves the same 512 probabilities" in finished[1]
    assert (finished[0] / "served.json").exists()


def test_it_ends_with_a_row_for_each_column(finished):
    """The table names each column's table, shape and lookup devices."""
    rows = [line.split("  ") for line in finished[1].splitlines()]
    cells = {row[0].strip(): [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}
    for key in ("gain_bucket", "loss_bucket"):
        assert cells[key] == ["tbl_dollars", "70 x 8", "cpu", "cpu"]
    assert cells["profile"] == ["tbl_profile", "99 x 16", "cpu", "cpu"]
    assert cells["age_knots"][1:] == ["16 x 8", "cpu", "cpu"]
    assert cells["occupation"] == ["tbl_occupation", "14 x 8", "cpu", "cpu"]


@pytest.mark.nightly("six processes; cluster/test_models.py has smaller ones")
def test_a_cluster_learns_as_one_process(finished, tmp_path):
    """A chief, two workers, two servers and an evaluator reach the AUC of one process."""
    launch = ("-m", "estimator_spec", "launch", "--host-network")
    size = (*launch, "--workers=2", "--ps=2", "--evaluator")
    options = (f"--model_dir={tmp_path}", *BRIEF)
    output = run(
        "census_cluster.py",
        "--",
        *options,
        before=size,
    )
    found = re.search(r"^evaluator 0: test AUC (\S+) at step", output, re.MULTILINE)
    alone = re.search(r"test AUC.*\n.*\n(\S+)", finished[1])
    assert abs(float(found[1]) - float(alone[1])) < 0.005
    assert checkpoints.inspect(str(tmp_path)).global_step >= 300


def run(program, *arguments, before=(), log=None):
    """Runs a program of the example in a process of its own; returns its output."""
    command = [*before, str(EXAMPLE / program), *arguments]
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    environment["PYTHONPATH"] = str(ROOT)
    done = forking_python.run(command, env=environment, timeout=800)
    assert done.returncode == 0, done.stderr[-6000:]
    if log is not None:
        log.append(done.stderr)
    return done.stdout


def check_moved(output, tables_with_slots):
    """Each system predicts the estimator's probabilities, and Keras continues training."""
    found = dict(re.findall(r"^  (\w+) +(\d\.\de-\d\d)$", output, re.MULTILINE))
    systems = {"TPUEmbedding", "TPUEmbeddingForServing", "PartialEmbedding"}
    if importlib.util.find_spec("keras_rs") is not None:
        systems.add("DistributedEmbedding")
        trained = re.search(r"Trained on in Keras, with the slots of (\d+) .*AUC (\S+)", output)
        assert int(trained[1]) == tables_with_slots
        assert float(trained[2]) > 0.85
    assert set(found) == systems
    assert max(map(float, found.values())) < 1e-5


def test_the_checkpoint_moves_on(finished):
    """Tables trained by the model give the same probabilities in each of today's systems."""
    check_moved(run("moving_on.py", f"--model_dir={finished[0]}"), 0)


@pytest.mark.nightly("the example again, on the host core")
def test_the_checkpoint_of_a_core_moves_on(tmp_path):
    """Core-trained tables give the same probabilities, and Keras loads their slots."""
    arguments = (f"--model_dir={tmp_path}", "--embedding_core=host")
    run("census.py", *arguments, "--train_steps=100", "--learning_rate=0.003")
    check_moved(run("moving_on.py", *arguments), 9)


def test_the_host_call_writes_summaries(finished):
    """The legacy summary writer on the host writes an event file."""
    (events,) = (finished[0] / "host_call").iterdir()
    assert events.stat().st_size > 100


@pytest.mark.parametrize(("name", "rows"), [("adult.data.gz", 32561), ("adult.test.gz", 16281)])
def test_the_data_is_whole(name, rows):
    """The shipped files have every row of the data set and no timestamp."""
    path = EXAMPLE / "data" / name
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        assert sum(1 for _ in lines) == rows + 1
    assert path.read_bytes()[4:8] == bytes(4)  # gzip's timestamp
