# SPDX-License-Identifier: Apache-2.0
"""Old programs, each in the style of another era, run unedited: `tests/programs/`.

Every program trains, evaluates, predicts and exports, and writes what it saw to `results.json`.
It is run by `python -m estimator_spec run`, in a process of its own. Whatever the reference
(TensorFlow 2.15.1 with tensorflow-estimator) can run is also run there, as the same file, by plain
`python`, and both must say the same. What it can't run:

| program             | why not                                                                |
|---------------------|------------------------------------------------------------------------|
| mnist_contrib       | `tf.contrib` ended with 1.15: compared with what TF 1.15.5 itself said |
| word2vec_shards     | the same                                                               |
| slots_predictor     | the same                                                               |
| tfrecord_hosts      | `params['context']` and CrossShardOptimizer work on a TPU only         |
| dlrm_dict_mode      | tables in dictionaries are looked up on a TPU only                     |
| tagger_contrib      | `tf.contrib` ended with TensorFlow 1.15                                |
| wide_n_deep_contrib | as tagger_contrib; its models are in tests/reference                   |
| iris_contrib        | the same                                                               |
| census_experiment   | the same                                                               |

Each program also runs by plain `python` after `estimator_spec migrate` has rewritten it, and must
say what it said unedited.

Four of the others run with `use_tpu=True` here and with `use_tpu=False` there, where
CrossShardOptimizer fails without a TPU.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import goldens
from goldens import PROGRAMS, ROOT, UNEDITED
from unedited import Run, read_run, run_program, start

TF1_RESULTS = ROOT / "tests" / "data" / "tf1_15_programs"

pytestmark = pytest.mark.slow


class Program(NamedTuple):
    """Command line of a program; OUT is replaced by the directory of its results.

    Attributes:
        name: of its file.
        arguments: its command line here; that under the reference is in `goldens`.
        run: the options of `estimator_spec run`.
    """

    name: str
    arguments: str
    run: tuple[str, ...] = ()


ALL = {
    program.name: program
    for program in (
        Program("mnist_contrib", "--model_dir=OUT", ("--cpu",)),
        Program("word2vec_shards", "--model_dir OUT --master grpc://10.2.3.4:8470", ("--cpu",)),
        Program("tfrecord_hosts", "--model_dir=OUT --data_dir=OUT/data --tpu=pod", ("--cpu",)),
        Program("dlrm_dict_mode", "--model_dir=OUT", ("--cpu",)),
        Program("ctr_columns", "--job-dir=OUT --use-tpu --tpu grpc://10.2.3.4:8470", ("--cpu",)),
        Program("reviews_absl", UNEDITED["reviews_absl"]),
        Program(
            "resnet_imagenet",
            "--model_dir OUT --export_dir OUT/export --tpu=my-tpu",
            ("--cpu", "auto"),
        ),
        Program("run_classifier", "--output_dir=OUT --use_tpu=true --tpu_name=my-tpu", ("--cpu",)),
        Program("moments_subclass", UNEDITED["moments_subclass"]),
        Program("gan", "--model_dir=OUT --use_tpu", ("--cpu",)),
        Program("housing_exporters", UNEDITED["housing_exporters"]),
        Program("executor_clients", UNEDITED["executor_clients"]),
        Program("tagger_contrib", "--model_dir OUT"),
        Program("slots_predictor", "--model_dir OUT"),
        Program("wide_n_deep_contrib", "--model_dir OUT"),
        Program("iris_contrib", "--model_dir OUT"),
        Program("census_experiment", "--job-dir OUT"),
        Program("wide_deep_census", UNEDITED["wide_deep_census"]),
        Program("iris_premade", UNEDITED["iris_premade"]),
        Program("housing_keras", UNEDITED["housing_keras"]),
        Program("text_custom_head", UNEDITED["text_custom_head"]),
        Program("taxi_metrics", UNEDITED["taxi_metrics"]),
        Program("customer_segments", UNEDITED["customer_segments"]),
        Program("churn_workers", UNEDITED["churn_workers"]),
        Program("ads_warm_model", UNEDITED["ads_warm_model"]),
    )
}

every_program = pytest.mark.parametrize("name", ALL)
some_programs = pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("run_classifier", "tagger_contrib", "wide_deep_census")
        else pytest.param(name, marks=pytest.mark.nightly("rewrites and runs each program again"))
        for name in ALL
    ],
)
every_program_of_the_reference = pytest.mark.parametrize("name", UNEDITED)
every_program_of_tf1 = pytest.mark.parametrize(
    "name", ["mnist_contrib", "word2vec_shards", "slots_predictor"]
)


class Runs:
    """Runs each program once for all processes of pytest.

    Args:
        side: name of the side, part of the directories' names.
        run: runs a program in a directory.
        run_once: the fixture.
    """

    def __init__(
        self,
        side: str,
        run: Callable[[str, Path], Run],
        run_once: Callable[..., Path],
    ) -> None:
        self.run, self._side, self._run_once = run, side, run_once
        self._done: dict[str, Run] = {}

    def __call__(self, name: str) -> Run:
        """Returns the run of a program."""
        if name not in self._done:
            out = self._run_once(f"{self._side}_{name}", lambda out: self.run(name, out))
            self._done[name] = read_run(out)
        return self._done[name]


@pytest.fixture(scope="session")
def ours(run_once: Callable[..., Path]) -> Runs:
    """Returns a function that runs a program under `estimator_spec run`."""

    def run(name: str, out: Path) -> Run:
        program = ALL[name]
        command = [sys.executable, "-m", "estimator_spec", "run", *program.run]
        return run_program(
            [*command, str(PROGRAMS / f"{name}.py")], program.arguments, out, str(ROOT)
        )

    return Runs("ours", run, run_once)


@pytest.fixture(scope="session")
def migrated(run_once: Callable[..., Path]) -> Runs:
    """Returns a function that rewrites a program and runs it, without `estimator_spec run`."""

    def run(name: str, out: Path) -> Run:
        program = ALL[name]
        command = [sys.executable, "-m", "estimator_spec", "migrate", str(PROGRAMS / f"{name}.py")]
        done = start([*command, "--outtree", str(out)], out, str(ROOT))
        assert done.returncode == (1 if name == "tagger_contrib" else 0), done.stderr
        source = (out / f"{name}.py").read_text()
        assert "estimator_spec" in source
        assert "install()" not in source
        variables = {"TPU_COLUMNS_CPU": "1"} if "--cpu" in program.run else {}
        command = [sys.executable, str(out / f"{name}.py")]
        return run_program(command, program.arguments, out, str(ROOT), **variables)

    return Runs("migrated", run, run_once)


class Reference:
    """The reference's records of programs, `{"results": ..., "exports": ...}`: goldens, or live.

    Args:
        python: the reference, or None.
        run_once: the fixture.
        tolerance: of numbers of both sides.
    """

    def __init__(self, python: str | None, run_once: Callable[..., Path], tolerance: float) -> None:
        self._python, self._tolerance = python, tolerance
        self._live = Runs("reference", self.run, run_once)

    def run(self, name: str, out: Path) -> Run:
        """Runs a program under the reference."""
        assert self._python is not None
        command = [self._python, str(PROGRAMS / f"{name}.py")]
        return run_program(command, UNEDITED[name], out, "")

    def is_live(self, name: str) -> bool:
        """Returns whether a program's record is of this run."""
        return self._python is not None and goldens.is_live(goldens.PROGRAM + name)

    def __call__(self, name: str) -> goldens.Record:
        """Returns the record of a program."""
        if not self.is_live(name):
            return goldens.read(goldens.PROGRAM + name).record
        return record_of(self._live(name))

    def assert_same(self, name: str, found: Run, expected: goldens.Record, part: str) -> None:
        """Asserts that a part of the records is the same."""
        near = self._tolerance if self.is_live(name) else max(self._tolerance, goldens.TOLERANCE)
        goldens.assert_same(
            goldens.PROGRAM + name, record_of(found), expected, part, tolerance=near
        )


def record_of(run: Run) -> goldens.Record:
    """Returns what is compared of a run."""
    return {"results": run.results, "exports": run.exports}


@pytest.fixture(scope="session")
def reference(
    request: pytest.FixtureRequest,
    found_reference_python: str | None,
    run_once: Callable[..., Path],
    tolerance: float,
) -> Reference:
    """Returns the reference's records."""
    if os.environ.get(goldens.LIVE) == "1":
        request.getfixturevalue("reference_python")
    return Reference(found_reference_python, run_once, tolerance)


def assert_same(actual: dict[str, Any], expected: dict[str, Any], rtol: float) -> None:
    """Asserts that two reports have the same keys, and numbers equal up to rounding."""
    # One step's rounding moves the next ones: what comes of them is less exact.
    found = goldens.differences(
        actual, expected, lambda entry: rtol if entry.startswith("losses") else 10 * rtol
    )
    words = list(found)
    assert not words, "\n".join(words[:20])


@every_program
def test_program_runs_unedited(ours: Runs, name: str) -> None:
    """A program trains (its loss falls) and exports a model that can be served."""
    run = ours(name)
    losses = run.results["losses"]
    quarter = len(losses) // 4
    assert quarter > 1
    if name != "gan":  # there, what one player wins the other loses
        assert np.mean(losses[-quarter:]) < 0.9 * np.mean(losses[:quarter])
    assert "global_step" in run.results["variables"]
    assert run.exports
    # A regressor whose receiver doesn't take one string has no default signature.
    served = {"serving_default", "predict"}
    assert all(served & set(signatures) for signatures in run.exports.values())


@every_program
def test_program_knows_nothing_of_this_project(name: str) -> None:
    """The programs are unedited: none names this project."""
    source = (PROGRAMS / f"{name}.py").read_text()
    assert not re.search(r"\b(estimator_spec|tpu_columns)\b", source)


def test_every_program_is_run() -> None:
    """Every file of tests/programs is run."""
    assert sorted(path.stem for path in PROGRAMS.glob("*.py")) == sorted(ALL)


@some_programs
def test_same_after_migration(ours: Runs, migrated: Runs, name: str) -> None:
    """A rewritten program says what it said unedited, without `run` and without `install()`."""
    found, expected = migrated(name), ours(name)
    assert_same(without_places(found.results), without_places(expected.results), 1e-5)
    assert found.exports == expected.exports


def without_places(results: dict[str, Any]) -> dict[str, Any]:
    """Returns results without the line numbers and the spellings of modules in messages."""
    text = re.sub(r"(\.py, line )\d+", r"\1N", json.dumps(results))
    return json.loads(text.replace("tensorflow.compat.v1.contrib", "tensorflow.contrib"))


@pytest.mark.reference
@every_program_of_the_reference
def test_same_as_the_reference(
    ours: Runs, reference: Reference, name: str, tmp_path_factory: Any
) -> None:
    """Losses, metrics, predictions and variable names are those of TensorFlow's own Estimator."""
    found, expected = ours(name), reference(name)
    for _ in range(4 if reference.is_live(name) else 0):
        if len(found.results["losses"]) == len(expected["results"]["losses"]):
            break
        # TensorFlow's hooks read the step counter while it is counted up. There an early stop may
        # come a step sooner or later; then nothing after it can be compared.
        expected = record_of(reference.run(name, tmp_path_factory.mktemp(name)))
    reference.assert_same(name, found, expected, "results")


@pytest.mark.reference
@every_program_of_the_reference
def test_same_exports_as_the_reference(ours: Runs, reference: Reference, name: str) -> None:
    """Exported models have the same paths and signatures."""
    reference.assert_same(name, ours(name), reference(name), "exports")


@every_program_of_tf1
def test_same_as_tensorflow_1(ours: Runs, name: str) -> None:
    """Programs that import `tensorflow.contrib` say what TensorFlow 1.15.5 said.

    With `use_tpu=False` there: `python3.7 mnist_contrib.py --model_dir OUT --tpu= --nouse_tpu`,
    `python3.7 word2vec_shards.py --model_dir OUT --nouse_tpu`, and without an option
    `python3.7 slots_predictor.py --model_dir OUT`.
    """
    expected = json.loads((TF1_RESULTS / f"{name}.json").read_text())
    assert_same(ours(name).results, expected, 1e-4)


def names_in(report: Any) -> Any:
    """Returns a report with its keys and words, without its numbers."""
    if isinstance(report, dict):
        return {key: names_in(value) for key, value in report.items()}
    if isinstance(report, list) and any(isinstance(value, str) for value in report):
        return report
    return None


@pytest.mark.parametrize("name", ["census_experiment", "iris_contrib", "wide_n_deep_contrib"])
def test_same_names_as_tensorflow_1(ours: Runs, name: str) -> None:
    """Programs of `tf.contrib.learn` have TensorFlow 1.15.5's variables, metrics and outputs.

    Their initial values, which depend on the number of ops, and so the numbers are others. There:
    `python3.7 iris_contrib.py --model_dir OUT`; `--job-dir` for `census_experiment.py`.
    """
    expected = json.loads((TF1_RESULTS / "contrib_learn_names.json").read_text())
    assert names_in(ours(name).results) == expected[name]


def test_hosts_and_replicas(ours: Runs) -> None:
    """`params['context']` tells every input_fn that it feeds one replica on one host."""
    contexts = ours("tfrecord_hosts").results["contexts"]
    alone = {
        "current_host": 0,
        "num_hosts": 1,
        "num_replicas": 1,
        "deployment": [0, 1, 1],
        "batch_size": 16,
    }
    assert contexts == [alone] * 3  # train, evaluate, predict


def test_all_records_are_read(ours: Runs) -> None:
    """One host reads all files, and the fit recovers the numbers that generated the records."""
    results = ours("tfrecord_hosts").results
    random = np.random.RandomState(0)
    np.testing.assert_allclose(results["weights"], random.normal(size=(6, 2)), atol=0.1)
    assert len(results["predictions"]) == 4 * 16
    assert results["metrics"]["rmse"] == pytest.approx(0.1, rel=0.5)


def test_tables_of_dictionaries(ours: Runs) -> None:
    """Tables named in dictionaries are trained, saved under their names, and served."""
    results = ours("dlrm_dict_mode").results
    assert results["tables"] == {
        "publisher": [17, 8],
        "device": [5, 8],
        "banner": [3, 8],
        "words": [30, 8],
    }
    assert results["metrics"]["auc"] > 0.9
    np.testing.assert_allclose(results["served"], results["predictions"], rtol=1e-5)
    assert {"publisher/Adagrad", "words/Adagrad"} <= set(results["variables"])


def test_one_warning_that_the_host_takes_the_tpus_place(ours: Runs) -> None:
    """`--cpu` warns once that `use_tpu=True` runs on the host."""
    # absl's handler repeats each message of TensorFlow's in its own form.
    lines = ours("dlrm_dict_mode").log.splitlines()
    warnings = [line for line in lines if line.startswith("WARNING:tensorflow:use_tpu=True")]
    assert len(warnings) == 1, warnings
    assert "use_tpu=True" not in ours("housing_exporters").log


def test_imports_that_are_never_used(ours: Runs) -> None:
    """Unsupported imports don't stop a program; their use says what to do, and in which line."""
    results = ours("tagger_contrib").results
    assert results["fallback"], "an import in a `try` must fail"
    assert results["found"] == [True, False, False]
    for advice in results["advice"]:
        assert "isn't among the removed names" in advice
        assert "(Used in tagger_contrib.py, line " in advice
    assert results["metrics"]["accuracy"] > 0.95
    assert results["predictions"] == results["expected"]


@pytest.mark.parametrize("name", ["word2vec_shards", "moments_subclass"])
def test_as_a_module(ours: Runs, name: str, tmp_path: Path) -> None:
    """`-m` runs a program as its path does, with the same detection of TensorFlow 1."""
    program = ALL[name]
    command = [sys.executable, "-m", "estimator_spec", "run", *program.run, "-m", name]
    path = os.pathsep.join([str(ROOT), str(PROGRAMS)])
    found = run_program(command, program.arguments, tmp_path, path)
    assert_same(found.results, ours(name).results, 1e-5)


STARTER = """
import multiprocessing, runpy, subprocess, sys


def run(arguments):
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    how, *arguments = sys.argv[1:]
    if how == "subprocess":
        sys.exit(subprocess.run([sys.executable, *arguments]).returncode)
    process = multiprocessing.get_context("spawn").Process(target=run, args=(arguments,))
    process.start()
    process.join()
    sys.exit(process.exitcode)
"""


@pytest.mark.nightly("runs two programs again")
@pytest.mark.parametrize(
    ("name", "how"), [("word2vec_shards", "subprocess"), ("mnist_contrib", "spawn")]
)
def test_in_a_child_process(ours: Runs, name: str, how: str, tmp_path: Path) -> None:
    """A program that another one starts has the old names, and the choice of `--cpu`."""
    program = ALL[name]
    starter = tmp_path / "starter.py"
    starter.write_text(STARTER)
    command = [sys.executable, "-m", "estimator_spec", "run", *program.run, str(starter), how]
    command.append(str(PROGRAMS / f"{name}.py"))
    found = run_program(command, program.arguments, tmp_path, str(ROOT))
    assert_same(found.results, ours(name).results, 1e-5)


def test_without_the_option_a_tpu_is_needed(tmp_path: Path) -> None:
    """Without `--cpu` a program with `use_tpu=True` ends with the reference's error."""
    command = [sys.executable, "-m", "estimator_spec", "run", str(PROGRAMS / "dlrm_dict_mode.py")]
    done = start([*command, f"--model_dir={tmp_path}"], tmp_path, str(ROOT))
    assert done.returncode == 1
    assert "Cannot find any TPU cores in the system" in done.stderr
    assert not (tmp_path / "results.json").exists()
