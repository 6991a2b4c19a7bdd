# SPDX-License-Identifier: Apache-2.0
"""Compares programs of `to-torch` with their estimators, in alternating processes.

    python benchmarks/keras_columns.py --without-tensorflow PYTHON --output docs/FILE.md

PYTHON has torch, NumPy and pyfarmhash. Measured are the reading of features (rows a second of one
core's time), a batch of predictions and a step of training (medians of a process), and a process
that predicts one example. Figures are medians of the rounds, goals are ratios to the estimator's.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch_side
from training_time import clocks

ROOT = Path(__file__).resolve().parent.parent
SIZES = (512, 4096)
STEPS, INTERVAL = 300, 50


class Workload(NamedTuple):
    """A model and its batches.

    Attributes:
        title: what it is.
        batch: examples of a batch.
        batches: number of batches that are predicted and trained.
        threads: of torch in training, beside the process that reads ahead.
    """

    title: str
    batch: int
    batches: int
    threads: int


WORKLOADS = {
    "census": Workload("the wide and deep model of examples/wide_deep", 512, 120, 1),
    "tables": Workload("26 embeddings of 10^5 rows of 16, and their weights", 1024, 60, 2),
}


class Figure(NamedTuple):
    """A figure of the page.

    Attributes:
        name: key of the measurement.
        what: what it is.
        goal: the ratio that is allowed, or the seconds; None: there is none.
        is_rate: whether more is better.
    """

    name: str
    what: str
    goal: float | None
    is_rate: bool = False


FIGURES = (
    *(Figure(str(n), f"reading, batch {n:,}: rows a second", 0.6, True) for n in SIZES),
    Figure("predict", "predictions of a batch: ms", 1.0),
    Figure("predict cpu", "… processor time of all threads: ms", None),
    Figure("train", "training step: ms", 1.5),
    Figure("train cpu", "… processor time, with what reads ahead: ms", None),
    Figure("start", "process that predicts an example: s", 2.5),
)


_NOTES = (
    "Medians of alternating processes; ratios are those of a round, with the smallest and largest. "
    "Reading is measured in time of one core, where TensorFlow {} runs `tf.function(preprocess)`; "
    "predictions and steps, with their reading, in time of the whole machine. Torch predicts "
    "by one thread, and trains as `train.py` does, with a process that reads ahead. All read "
    "arrays in memory. The machine has {} cores; {:.1f} other processes ran "
    "before."
)


def census_arrays() -> tuple[dict[str, Any], Any]:
    """Returns the rows of the Adult data."""
    import tensorflow as tf
    import wide_deep_data as data

    input_fn = data.input_fn_builder(data.DATA_DIR, data.TRAIN_FILE, data.TRAIN_ROWS)
    features, labels = next(iter(input_fn()))
    assert tf.executing_eagerly()
    return {key: value.numpy() for key, value in features.items()}, labels.numpy()


def table_arrays() -> tuple[dict[str, Any], Any]:
    """Returns rows of 26 ids, of which a few are frequent."""
    import numpy as np

    random = np.random.default_rng(0)
    ids = (random.pareto(0.7, (26, 2**15)) * 10).astype(np.int64) % 100_000
    return {f"c{n}": row for n, row in enumerate(ids)}, random.integers(0, 2, (2**15, 1))


def make(name: str, folder: Path) -> tuple[Any, Any]:
    """Returns a workload's estimator and its input_fn, of the arrays in a folder."""
    import tensorflow as tf
    import wide_deep_data as data

    import estimator_spec

    fc = tf.feature_column
    if name == "census":
        wide, deep, units = data.wide_columns(), data.deep_columns(), [100, 50]
    else:
        wide = [fc.categorical_column_with_identity(f"c{n}", 100_000) for n in range(26)]
        deep, units = [fc.embedding_column(column, 16) for column in wide], [64]
    features, labels = torch_side.read_arrays(folder)

    def input_fn() -> Any:
        made = tf.data.Dataset.from_tensor_slices((features, labels))
        return made.batch(WORKLOADS[name].batch, drop_remainder=True).prefetch(4)

    estimator = estimator_spec.DNNLinearCombinedClassifier(
        str(folder / "model"),
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=units,
        config=estimator_spec.RunConfig(
            save_checkpoints_steps=10**6, save_summary_steps=None, log_step_count_steps=INTERVAL
        ),
    )
    return estimator, input_fn


def prepare(name: str, folder: Path) -> None:
    """Trains a workload's estimator, and writes its programs and arrays into a folder."""
    import numpy as np

    from estimator_spec.convert.keras_columns import readings
    from estimator_spec.convert.keras_program import written
    from estimator_spec.convert.keras_program.first_use import EstimatorUse
    from estimator_spec.convert.torch_columns import written as torch_written
    from estimator_spec.convert.torch_program import target
    from estimator_spec.core.user_functions.model_spec import ModeKeys

    features, labels = census_arrays() if name == "census" else table_arrays()
    texts = {key: value.astype("S") for key, value in features.items() if value.dtype == object}
    np.savez(folder / "features.npz", label=labels, **(features | texts))
    estimator, input_fn = make(name, folder)
    estimator.train(lambda: input_fn().repeat(), steps=20)
    use = EstimatorUse(estimator, estimator.canned_model, (), None, input_fn, ModeKeys.TRAIN)
    given = (use, estimator.model_dir, name)
    for kind in ("torch", "keras"):
        (folder / kind).mkdir()
    torch_written.write_program(target.plan_program(*given), str(folder / "torch"))
    by_tensorflow = written.plan_program(*given, "", reading=readings.TENSORFLOW)
    (folder / "keras" / "by_tensorflow.py").write_text(by_tensorflow.texts["model.py"])


def read_by_tensorflow(folder: Path) -> dict[str, float]:
    """Returns how many rows a second TensorFlow's ops read on one core."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    sys.path.insert(0, str(folder / "keras"))
    import by_tensorflow

    features, labels = torch_side.read_arrays(folder)
    read, found = tf.function(by_tensorflow.preprocess), {}
    for size in SIZES:
        given = [
            {
                key: tf.constant(value.tolist() if value.dtype == object else value)
                for key, value in each.items()
            }
            for each, _ in torch_side.batches(features, labels, size)
        ]
        found[str(size)] = torch_side.rows_a_second(read, given, size)
    return found


def run_estimator(name: str, folder: Path) -> dict[str, float]:
    """Returns milliseconds of a batch of predictions, and of a step of training."""
    estimator, input_fn = make(name, folder)
    times = []
    number = WORKLOADS[name].batches

    def features() -> Any:
        return input_fn().map(lambda x, y: x).repeat().take(number)

    start, cpu = time.perf_counter(), time.process_time()
    for _ in estimator.predict(features, yield_single_examples=False):
        times.append((time.perf_counter() - start, time.process_time() - cpu))
        start, cpu = time.perf_counter(), time.process_time()
    log = clocks.SpeedLog()
    logger = logging.getLogger("tensorflow")
    logger.setLevel(logging.INFO)
    logger.addHandler(log)
    estimator.train(lambda: input_fn().repeat(), steps=STEPS)
    steps = (log.milliseconds(), log.cpu_milliseconds(INTERVAL))
    wall, cpu = map(statistics.median, steps)
    return torch_side.medians("predict", times) | {"train": wall, "train cpu": cpu}


def predict_once(name: str, folder: Path) -> dict[str, float]:
    """Predicts a batch with the estimator: what a process with TensorFlow does."""
    estimator, input_fn = make(name, folder)
    predictions = estimator.predict(lambda: input_fn().map(lambda x, y: x))
    next(iter(predictions))
    return {}


def run_process(*command: str) -> dict[str, float]:
    """Returns the figures that a process prints, and the seconds that it took."""
    start = time.perf_counter()
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    whole = time.perf_counter() - start
    return {"start": whole, **json.loads(done.stdout.splitlines()[-1])}


def measure(name: str, folder: Path, python: str, rounds: int) -> list[dict[str, list[float]]]:
    """Returns the figures of the estimator and of its program without TensorFlow, by name."""
    program = [python, str(Path(torch_side.__file__))]
    own = [sys.executable, __file__]
    run_process(*own, "prepare", str(folder), name)
    count = [str(each) for each in WORKLOADS[name][1:]]
    found: list[dict[str, list[float]]] = [{}, {}]
    for _ in range(rounds):
        for what in ("reading", "model", "start"):
            for side, command in ((0, [*own, what, str(folder), name]), (1, program)):
                if side:
                    command = [*program, what, str(folder), *count]
                figures = run_process(*command)
                for key in figures if what == "start" else figures.keys() - {"start"}:
                    found[side].setdefault(key, []).append(figures[key])
    return found


def page(results: dict[str, list[dict[str, list[float]]]], command: str, load: float) -> str:
    """Returns the page of the figures.

    Args:
        results: figures of both sides by workload.
        command: what measured them.
        load: number of processes that ran before.
    """
    import tensorflow as tf

    from estimator_spec.core.common import terminal

    rows = []
    for name, (old, new) in results.items():
        for figure in FIGURES:
            before, after = (statistics.median(side[figure.name]) for side in (old, new))
            ratios = [b / a for a, b in zip(old[figure.name], new[figure.name], strict=True)]
            ratio = statistics.median(ratios)
            sign = "≥" if figure.is_rate else "≤"
            if figure.goal is None:
                goal, met = "", None
            elif figure.name == "start":
                goal, met = f"{sign} {figure.goal} s", after <= figure.goal
            else:
                goal = f"{sign} {figure.goal}"
                met = ratio >= figure.goal if figure.is_rate else ratio <= figure.goal
            digits = ",.0f" if figure.is_rate else ".2f"
            shown = f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            cells = (
                f"{before:{digits}}",
                f"{after:{digits}}",
                shown,
                goal,
                {None: "", True: "yes", False: "no"}[met],
            )
            rows.append([f"`{name}`", figure.what, *cells])
    header = ["model", "figure", "TensorFlow", "without", "ratio", "goal", "met"]
    titles = "\n".join(
        f"- `{name}`: {each.title}, batch {each.batch:,}; `train.py --threads {each.threads}`."
        for name, each in WORKLOADS.items()
    )
    return f"""# Measurements of programs without TensorFlow

    {command}

{titles}

{terminal.markdown_table(header, rows)}

{textwrap.fill(_NOTES.format(tf.__version__, os.cpu_count(), load), 160)}
"""


def report(python: str, rounds: int, output: str | None) -> None:
    """Measures all workloads, and prints their page, or writes it."""
    results, load = {}, os.getloadavg()[0]
    for name in WORKLOADS:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = measure(name, Path(folder), python, rounds)
    options = f"--without-tensorflow PYTHON --rounds {rounds}"
    text = page(results, f"python benchmarks/keras_columns.py {options} --output {output}", load)
    if output is None:
        print(text)
    else:
        Path(output).write_text(text, encoding="utf-8")


def main(what: str, folder: str, name: str) -> None:
    """Does a process' part, and prints its figures."""
    sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "wide_deep")]
    path = Path(folder)
    if what == "prepare":
        prepare(name, path)
        found: dict[str, float] = {}
    elif what == "reading":
        found = read_by_tensorflow(path)
    else:
        found = (run_estimator if what == "model" else predict_once)(name, path)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
