# SPDX-License-Identifier: Apache-2.0
"""Reads, writes and compares goldens: what programs did under TensorFlow 2.15.1's Estimator.

A golden is `recorded/NAME.json.xz`: the record of a program, the command and versions that made it,
and a hash of the program's source. `record.py` makes them; the tests compare with them instead of
running the reference, except with TPU_COLUMNS_LIVE=1 and for the programs of `ALWAYS_LIVE`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import lzma
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import forking_python

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "reference"
PROGRAMS = ROOT / "tests" / "programs"
FOLDER = Path(__file__).resolve().parent / "recorded"
RECORD = "tests/goldens/record.py"

# A golden was recorded on another CPU than the one that runs the tests.
TOLERANCE = 1e-4
LIVE = "TPU_COLUMNS_LIVE"
# Cheap programs that run side by side in every run of the tests: a warm start with continuation in
# both directions, a canned model, an unedited program.
ALWAYS_LIVE = ("warm_start", "canned_2_dnn_binary", "program_iris_premade")

Record = dict[str, Any]


class Kind(NamedTuple):
    """Programs that one script of `tests/reference` runs: `SCRIPT OUT NAME... [--donor DIR]`.

    The script leaves a record, OUT/NAME.npz or .json, and the model in OUT/NAME/. A donor has the
    models of the other side, from whose checkpoints a script continues to OUT/NAME-continued.*.

    Attributes:
        script: file in `tests/reference`.
        names: of the programs, as the script takes them.
        prefix: what the names of the goldens have before them.
        sources: other files of `tests/reference` that decide a record; {} is the name.
        files: patterns of the files in OUT/NAME/ that are part of the record.
        close: beginnings of entries equal to the tolerance; others follow from many steps, and are
            equal to ten times it.
        takes_donor: whether our side starts from checkpoints of the reference, too.
        continues: whether the record has the reference's run from its own checkpoint.
    """

    script: str
    names: tuple[str, ...]
    prefix: str = ""
    sources: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    close: tuple[str, ...] = ("losses",)
    takes_donor: bool = False
    continues: bool = False


CANNED_MODELS = (
    "dnn_binary",
    "dnn_classes",
    "dnn_regressor",
    "dnn_estimator",
    "linear_binary",
    "linear_classes",
    "linear_regressor",
    "linear_estimator",
    "combined_binary",
    "combined_regressor",
    "combined_estimator",
    "baseline_binary",
    "baseline_regressor",
    "baseline_estimator",
)
_SIDE = ("side.py", "programs/common.py")

SIDE = Kind(
    "run_side.py",
    # optimizers disables the behaviour of TensorFlow 2 for the rest of its process.
    ("pooled_columns", "shared_dense_features", "sequences", "warm_start", "optimizers"),
    sources=(*_SIDE, "programs/{}.py"),
    files=("model.ckpt-100.index", "model.ckpt-100.data*"),
    close=("losses", "metrics"),
    takes_donor=True,
)
CANNED = Kind(
    "run_canned.py",
    tuple(f"{generation}_{model}" for generation in (1, 2) for model in CANNED_MODELS),
    "canned_",
    sources=("side.py", "programs/canned_models.py"),
    files=("model.ckpt-0.index", "model.ckpt-0.data*"),
    takes_donor=True,
)
KERAS_MODELS = Kind(
    "run_keras_models.py",
    (
        "functional_v2",
        "functional_v1",
        "sequential_v2",
        "sequential_v1",
        "subclassed_v1",
        "trained_v2",
        "trained_v1",
        "tf1_optimizer_v1",
        "new_optimizer_v2",
        "named_optimizer_v2",
    ),
    "keras_",
    files=("checkpoint", "*-20.index", "*-20.data*", "keras/*"),
    takes_donor=True,
    continues=True,
)
NAN_ROWS = Kind(
    "run_nan_rows.py",
    ("adagrad", "adam", "ftrl", "momentum"),
    "nan_rows_",
    sources=(*_SIDE, "run_side.py"),
    close=("",),
)
MIRRORED = Kind("run_mirrored.py", ("mirrored",), sources=("side.py",), close=("",))
TPU_CHECKPOINTS = Kind(
    "write_tpu_checkpoint.py", ("div", "mod"), "tpu_checkpoint_", files=("*",), close=("",)
)
KMEANS = Kind(
    "run_kmeans.py",
    (
        "full_batch",
        "full_batch_cosine",
        "mini_batch",
        "mini_batch_cosine",
        "several_steps",
        "columns",
    ),
    "kmeans_",
    sources=(*_SIDE, "run_side.py"),
    files=("checkpoint", "model.ckpt-*.index", "model.ckpt-*.data*"),
    close=("",),
    takes_donor=True,
    continues=True,
)
SAVED_MODELS = Kind(
    "run_saved_models.py",
    ("classifier", "regressor"),
    "saved_model_",
    sources=(*_SIDE, "run_side.py"),
    files=("saved/*", "saved/assets/*", "saved/variables/*"),
    close=("",),
    takes_donor=True,
)
OP_NAMES = Kind(
    "run_op_names.py",
    ("dnn_regressor", "linear_classes", "combined_binary"),
    "op_names_",
    sources=("side.py", "programs/canned_models.py"),
)
CANNED_VARIABLES = Kind(
    "run_canned_variables.py",
    ("1_few", "2_few", "1_many", "2_many"),
    "canned_variables_",
    sources=("side.py", "programs/canned_models.py"),
)
CONTRIB_LEARN = Kind(
    "run_contrib_learn.py",
    ("deep_classes", "deep_regressor", "linear_binary", "linear_regressor", "combined_binary"),
    "contrib_learn_",
    sources=("side.py",),
    close=("",),
)
KINDS = (
    *(SIDE, CANNED, KERAS_MODELS, NAN_ROWS, MIRRORED, TPU_CHECKPOINTS),
    *(KMEANS, SAVED_MODELS, OP_NAMES, CANNED_VARIABLES, CONTRIB_LEARN),
)
# Answers of the reference's heads, to drawn cases of each head and to fixed ones.
HEADS = Kind(
    "head_process.py",
    (
        "BinaryClassHead",
        "MultiClassHead",
        "MultiLabelHead",
        "RegressionHead",
        "PoissonRegressionHead",
        "LogisticRegressionHead",
        "MultiHead",
        "binary_logistic_head_with_sigmoid_cross_entropy_loss",
        "multi_class_head_with_softmax_cross_entropy_loss",
        "regression_head",
        "fixed",
    ),
    "heads_",
    sources=("head_calls.py", "head_cases.py"),
    close=("",),
)
# Unedited programs that the reference can run, with their command line there.
PROGRAM = "program_"
UNEDITED = {
    "ctr_columns": "--job-dir=OUT",
    "reviews_absl": "--output_dir=OUT",
    "resnet_imagenet": "--model_dir OUT --export_dir OUT/export --nouse_tpu",
    "run_classifier": "--output_dir=OUT",
    "moments_subclass": "OUT",
    "gan": "--model_dir=OUT --nouse_tpu",
    "housing_exporters": "--job-dir OUT",
    "executor_clients": "--job-dir OUT",
    "wide_deep_census": "--model_dir=OUT",
    "iris_premade": "--model_dir OUT",
    "housing_keras": "--output_dir OUT",
    "text_custom_head": "--output_dir=OUT",
    "taxi_metrics": "--job-dir OUT",
    "customer_segments": "--model_dir OUT",
    "churn_workers": "--model_dir=OUT",
    "ads_warm_model": "--model_dir OUT",
}


class Program(NamedTuple):
    """The program of a golden.

    Attributes:
        command: what the reference's python ran, without the paths of this machine.
        sources: files that decide the record.
        close: as in `Kind`.
    """

    command: str
    sources: tuple[Path, ...]
    close: tuple[str, ...]


def _programs() -> Iterator[tuple[str, Program]]:
    for kind in (*KINDS, HEADS):
        for name in kind.names:
            sources = tuple(SCRIPTS / each.format(name) for each in (kind.script, *kind.sources))
            command = f"tests/reference/{kind.script} OUT {name}"
            if kind is HEADS:
                command = f"tests/reference/{kind.script}"
            yield kind.prefix + name, Program(command, sources, kind.close)
    for name, arguments in UNEDITED.items():
        path = PROGRAMS / f"{name}.py"
        command = f"tests/programs/{name}.py {arguments}"
        yield PROGRAM + name, Program(command, (path,), ("results['losses']", "exports"))


ALL = dict(_programs())


class Golden(NamedTuple):
    """A recorded program: what recorded it (`about`), and what it did."""

    about: dict[str, str]
    record: Record


class Outdated(Exception):
    """A golden that can't be compared with, as there is none or it is of another program."""


def all_are_live() -> bool:
    """Returns whether all programs are to run under the reference, as they do every night."""
    return os.environ.get(LIVE) == "1"


def is_live(name: str) -> bool:
    """Returns whether a program is to run under the reference in this run of the tests."""
    return all_are_live() or name in ALWAYS_LIVE


def source_hash(sources: Iterable[Path]) -> str:
    """Returns the SHA-256 of files, with their names."""
    found = hashlib.sha256()
    for path in sources:
        content = path.read_bytes()
        found.update(f"{path.name} {len(content)}\n".encode() + content)
    return found.hexdigest()


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """Returns the file of a golden."""
    return folder / f"{name}.json.xz"


def read(name: str, folder: Path = FOLDER, program: Program | None = None) -> Golden:
    """Returns a golden.

    Raises:
        Outdated: if there is none, or its program has been changed since.
    """
    program = program or ALL[name]
    advice = f"Record it anew: python {RECORD} {name} --python REFERENCE_PYTHON"
    path = path_of(name, folder)
    if not path.exists():
        raise Outdated(f"There is no golden of {name}. {advice}")
    content = json.loads(lzma.decompress(path.read_bytes()), object_hook=_decoded)
    golden = Golden(content["about"], content["record"])
    if golden.about["command"] != program.command:
        raise Outdated(f"The golden of {name} is of another command. {advice}")
    if golden.about["sources"] != source_hash(program.sources):
        files = ", ".join(path.name for path in program.sources)
        raise Outdated(f"{name} isn't the program of its golden: {files} have changed. {advice}")
    return golden


def write(
    name: str,
    record: Record,
    versions: dict[str, str],
    folder: Path = FOLDER,
    program: Program | None = None,
) -> Path:
    """Writes a golden, whole or not at all; returns its file."""
    program = program or ALL[name]
    about = {"golden": name, **versions, "command": program.command}
    about["sources"] = source_hash(program.sources)
    content = json.dumps({"about": about, "record": record}, default=_encoded)
    path = path_of(name, folder)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(lzma.compress(content.encode(), preset=9))
    os.replace(temporary, path)
    return path


def _encoded(value: Any) -> dict[str, Any]:
    """Returns an array or bytes as what JSON has."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if not isinstance(value, np.ndarray) or value.dtype.kind == "O":
        raise TypeError(f"A golden can't have {value!r}.")
    content = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    return {"base64": content, "dtype": value.dtype.str, "shape": value.shape}


def _decoded(value: dict[str, Any]) -> Any:
    """Returns what `_encoded` had; other dictionaries as they are."""
    if "base64" not in value:
        return value
    content = base64.b64decode(value["base64"])
    if "dtype" not in value:
        return content
    return np.frombuffer(content, value["dtype"]).reshape(value["shape"]).copy()


def differences(
    actual: Any, expected: Any, tolerance: Callable[[str], float], where: str = ""
) -> Iterator[str]:
    """Yields where and how a record differs from the expected one.

    Names, types, dtypes and shapes must be equal, floats up to the tolerance of their entry. Lists
    of numbers are compared as arrays.
    """
    if type(actual) is not type(expected):
        yield f"{where}: {type(actual).__name__}, expected {type(expected).__name__}"
    elif isinstance(expected, dict):
        for key in sorted({*actual, *expected}, key=str):
            at = f"{where}[{key!r}]" if where else str(key)
            if key not in expected:
                yield f"{at}: isn't in the expected record"
            elif key not in actual:
                yield f"{at}: is missing"
            else:
                yield from differences(actual[key], expected[key], tolerance, at)
    elif (wanted := _array(expected)) is not None and (found := _array(actual)) is not None:
        yield from _array_differences(found, wanted, tolerance, where)
    elif isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            yield f"{where}: has {len(actual)} entries, expected {len(expected)}"
            return
        for number, pair in enumerate(zip(actual, expected, strict=True)):
            yield from differences(*pair, tolerance, f"{where}[{number}]")
    elif actual != expected:
        yield f"{where}: {actual!r}, expected {expected!r}"


def _array(value: Any) -> np.ndarray | None:
    """Returns an array, a number or nested lists of numbers as an array; None for what isn't."""
    if isinstance(value, np.ndarray):
        return value
    if not isinstance(value, (list, tuple, float, int, np.generic)):
        return None
    try:
        found = np.asarray(value)
    except ValueError:  # lists of several lengths
        return None
    return found if found.dtype.kind in "biuf" else None


def _array_differences(
    found: np.ndarray, wanted: np.ndarray, tolerance: Callable[[str], float], where: str
) -> Iterator[str]:
    are_words = found.dtype.kind == wanted.dtype.kind and found.dtype.kind in "OSU"
    if not (are_words or found.dtype == wanted.dtype) or found.shape != wanted.shape:
        yield f"{where}: {found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}"
        return
    if wanted.dtype.kind == "f":
        rtol = tolerance(where)
        # Relative to the largest entry: a small one is a difference of large ones.
        finite = wanted[np.isfinite(wanted)]
        atol = rtol * max(1e-2, float(np.abs(finite).max(initial=0.0)))
        wrong = ~np.isclose(found, wanted, rtol, atol, equal_nan=True)
    else:
        wrong = np.asarray(found != wanted)
    if wrong.any():
        at = tuple(int(index[0]) for index in np.nonzero(np.atleast_1d(wrong)))
        pair = [np.atleast_1d(array)[at] for array in (found, wanted)]
        count = f"{np.count_nonzero(wrong)} of {wrong.size}"
        yield f"{where}: {pair[0]!r}, expected {pair[1]!r} at {list(at)}; {count} differ"


def record_differences(
    name: str, actual: Record, expected: Record, tolerance: float = TOLERANCE
) -> Iterator[str]:
    """Yields how records of a program differ, with the golden's name and the entry's."""
    close = ALL[name].close

    def tolerance_of(entry: str) -> float:
        return tolerance if entry.startswith(close) else 10 * tolerance

    for words in differences(actual, expected, tolerance_of):
        yield f"{name}: {words}"


def group(record: Record, name: str) -> Record:
    """Returns the entry of a name, and those of its group, `name:...`."""
    return {key: record[key] for key in record if key == name or key.startswith(name + ":")}


def assert_same(
    name: str, actual: Record, expected: Record, *groups: str, tolerance: float = TOLERANCE
) -> None:
    """Asserts that some groups of a program's records are the same, and not empty."""
    for each in groups:
        parts = group(actual, each), group(expected, each)
        assert parts[1], f"{name} has no {each}"
        found = list(record_differences(name, *parts, tolerance))
        assert not found, "\n".join(found[:20])


def start(side: str, python: str, script: str, *arguments: object, timeout: float = 1200) -> None:
    """Runs a script of `tests/reference` on one side; a failure shows the end of its output."""
    dropped = ("TF_USE_LEGACY_KERAS", "TPU_COLUMNS_CPU", "TF_CONFIG")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment.update(
        SIDE=side,
        TF_CPP_MIN_LOG_LEVEL="2",
        PYTHONPATH=os.pathsep.join([str(SCRIPTS)] + ([str(ROOT)] if side == "ours" else [])),
    )
    command = [str(SCRIPTS / script), *map(str, arguments)]
    done = forking_python.run(command, executable=python, env=environment, timeout=timeout)
    if done.returncode:
        command = " ".join(command)
        raise RuntimeError(f"{side} of {command} failed:\n{done.stderr[-6000:]}")


def load(out: Path, name: str) -> Record:
    """Returns the record that a script left in a directory."""
    path = out / f"{name}.json"
    if path.exists():
        return json.loads(path.read_text())
    with np.load(out / f"{name}.npz") as record:
        return dict(record)


def recorded(kind: Kind, out: Path, name: str) -> Record:
    """Returns what becomes a golden of what a script of the reference left in a directory."""
    record = load(out, name)
    if kind.continues:
        record["continued"] = load(out, f"{name}-continued")
    model = out / name
    paths = sorted(path for pattern in kind.files for path in model.glob(pattern) if path.is_file())
    if paths:
        # `checkpoint` may name its directory, which won't be there.
        here = f"{model}/".encode()
        record["files"] = {
            str(path.relative_to(model)): path.read_bytes().replace(here, b"") for path in paths
        }
    return record


def lay_out(golden: Golden, directory: Path) -> None:
    """Writes the files of a golden, as the reference left them in its model's directory."""
    for name, content in golden.record.get("files", {}).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
