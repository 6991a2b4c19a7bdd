# SPDX-License-Identifier: Apache-2.0
"""The census example after `migrate --to mid-level` and `--to keras-rs`, with training loops."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import tensorflow as tf

import forking_python
from estimator_spec.compare import Stage, Tolerance, Tolerances, compare_checkpoints

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "census"
TARGETS = ["mid-level", "keras-rs"]
MOVED_AT, STEPS = 100, 200
OPTIONS = [f"--train_steps={STEPS}", "--learning_rate=0.003", "--dropout=0"]

every_target = pytest.mark.parametrize("target", TARGETS)
needs_keras_3 = pytest.mark.skipif(
    tf.__version__ < "2.20", reason="the training loops need Keras 3, and keras_rs TensorFlow 2.20"
)


def run(program: str, *arguments: str) -> str:
    """Runs a program of the example in a process of its own; returns its output."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [str(EXAMPLE / program), *arguments]
    done = forking_python.run(command, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout


@every_target
def test_the_rewritten_files_are_up_to_date(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`migrate` writes the model's file again as it is here, and leaves the data's file alone."""
    from estimator_spec.legacy.migrate import cli

    monkeypatch.chdir(EXAMPLE)  # from where paths in the tree count
    files = ["census_model.py", "census_data.py"]
    assert cli.main(["--to", target, "--outtree", str(tmp_path), *files]) == 1
    there = EXAMPLE / f"to_{target.replace('-', '_')}" / "census_model.py"
    assert (tmp_path / "census_model.py").read_text() == there.read_text()
    data = (tmp_path / "census_data.py").read_text()
    assert data == (EXAMPLE / "census_data.py").read_text()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """Trains the estimator; returns its model_dir, and the AUC after the last step."""
    model_dir = tmp_path_factory.mktemp("census")
    arguments = (f"--model_dir={model_dir}", f"--save_checkpoints_steps={MOVED_AT}")
    output = run("census.py", *arguments, "--embedding_core=host", *OPTIONS)
    auc = re.search(r"test AUC.*\n.*\n(\S+)", output)
    assert auc is not None
    return model_dir, float(auc[1])


@pytest.mark.nightly("trains the example three times")
@pytest.mark.slow
@needs_keras_3
@every_target
def test_it_trains_on_to_the_same_auc(
    trained: tuple[Path, float], target: str, tmp_path: Path
) -> None:
    """From a checkpoint of the estimator the rewritten program reaches what the estimator does."""
    if target == "keras-rs":
        pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    model_dir, expected = trained
    start, output = model_dir / f"model.ckpt-{MOVED_AT}", tmp_path / "ckpt"
    name = f"train_{target.replace('-', '_')}.py"
    said = run(name, f"--checkpoint={start}", f"--output={output}", *OPTIONS)
    auc = re.search(r"test AUC (\S+)", said)
    assert auc is not None
    assert abs(float(auc[1]) - expected) < 0.005
    # Rounding grows over the steps.
    rule = (f"{Stage.TRAINED_VALUES.value}/*", Tolerance(1e-3, 5e-3))
    last = model_dir / f"model.ckpt-{STEPS}"
    result = compare_checkpoints(str(last), str(output), tolerances=Tolerances(rule))
    assert result.items
    assert [item.name for item in result.items if not item.agrees] == []
