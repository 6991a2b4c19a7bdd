# SPDX-License-Identifier: Apache-2.0
"""Runs packages that were written for TensorFlow's Estimator on ours, and lists the outcomes.

    python tests/neighbours/neighbours.py               installs, imports and runs all of them
    python tests/neighbours/neighbours.py deepctr       one of them
    python tests/neighbours/neighbours.py --write       makes the table of docs/neighbours.md anew
    python tests/neighbours/neighbours.py --check       fails if an outcome isn't the page's

Each package gets an environment of its own, with this interpreter's packages below it, and the
newest version that pip finds for this Python; nothing of this interpreter is changed or replaced.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).resolve().parent / "programs"
PAGE = ROOT / "docs" / "neighbours.md"
BEGIN, END = "<!-- neighbours: made by tests/neighbours/neighbours.py -->\n", "<!-- end -->\n"
SECONDS = 600  # until an import or a program counts as failed

_BEAM = (
    *("apache-beam", "beartype", "cloudpickle", "crcmod", "dill", "envoy-data-plane", "fastavro"),
    *("fasteners", "googleapis-common-protos", "hdfs", "httplib2", "jsonpickle", "objsize"),
    *("orjson", "proto-plus", "pyarrow", "pyarrow-hotfix", "pydot", "pymongo", "pyparsing"),
    *("pytz", "PyYAML", "regex", "tensorflow-metadata", "tfx-bsl", "zstandard"),
)
_PROBABILITY = ("tensorflow-probability", "dm-tree", "decorator", "cloudpickle")


class Neighbour(NamedTuple):
    """A package that uses the Estimator.

    Attributes:
        package: what pip installs, or a requirement with a version.
        module: what programs import.
        needs: further packages that it needs; none of them brings a TensorFlow.
        program: file in `programs`, for a package with names of the Estimator; '': none.
        note: what is missing, and why.
    """

    package: str
    module: str
    needs: tuple[str, ...] = ()
    program: str = ""
    note: str = ""


ALL = (
    Neighbour("tensorflow-ranking", "tensorflow_ranking", (), "ranking_groupwise"),
    Neighbour(
        "tensorflow-model-analysis",
        "tensorflow_model_analysis",
        (
            *_BEAM,
            *("cffi", "colorama", "cryptography", "ipywidgets", "lxml", "nltk", "portalocker"),
            *("pycparser", "rouge-score", "sacrebleu", "tabulate", "tensorflow-transform"),
        ),
        program="model_analysis_export",
        note="It has removed `export_eval_savedmodel` and its reader; this project's writes what "
        "it reads today.",
    ),
    Neighbour("tensorflow-hub", "tensorflow_hub", (), "hub_embedding"),
    Neighbour(
        "horovod",
        "horovod.tensorflow",
        note="It has no wheels. `tests/estimator_spec/core/driver/test_horovod.py` trains with a "
        "fake of its interface.",
    ),
    Neighbour(
        "tensorflow-transform",
        "tensorflow_transform",
        _BEAM,
        note="It has no estimators; its outputs are columns and receivers of TensorFlow.",
    ),
    Neighbour(
        "tensor2tensor",
        "tensor2tensor.utils.t2t_model",
        (
            *_PROBABILITY,
            *("future", "gin-config", "gym==0.17.3", "mesh-tensorflow", "mpmath", "scipy"),
            *("sympy", "tensorflow-gan", "tensorflow-hub", "tf-slim", "tqdm"),
            *("dill", "docstring-parser", "etils", "fsspec", "googleapis-common-protos"),
            *("immutabledict", "importlib_resources", "promise", "pyarrow", "simple-parsing"),
            *("tensorflow-datasets", "tensorflow-metadata", "toml", "zipp"),
        ),
        "tensor2tensor_transformer",
    ),
    Neighbour(
        "tensorflow-lattice",
        "tensorflow_lattice",
        note="Its estimators ended with version 2.0.13, the row below; it has Keras layers only.",
    ),
    Neighbour(
        "tensorflow-lattice==2.0.13",
        "tensorflow_lattice",
        (),
        "lattice_classifier",
        note="It calls `numpy.quantile(interpolation=…)`, which NumPy 2.4 has removed. "
        "Take an older NumPy.",
    ),
    Neighbour(
        "tensorflow-privacy",
        "tensorflow_privacy",
        (
            *_PROBABILITY,
            *("attrs", "dp-accounting", "immutabledict", "joblib", "mpmath", "narwhals"),
            *("scikit-learn", "scipy", "threadpoolctl"),
        ),
        "privacy_optimizer",
    ),
    Neighbour("deepctr", "deepctr.estimator", (), "deepctr_deepfm"),
    Neighbour(
        "easy-rec", "easy_rec", note="No registry has it; it is installed from its repository."
    ),
)


class Outcome(NamedTuple):
    """Outcomes of a package: 'works', 'fails: …', or '' for what wasn't tried."""

    neighbour: Neighbour
    version: str
    imported: str
    program: str


def run(neighbour: Neighbour, home: Path) -> Outcome:
    """Installs a package in an environment in a directory, imports it and runs its program."""
    python = _environment(home / "venv")
    requirements = [neighbour.package, *neighbour.needs]
    name = neighbour.package.partition("=")[0]
    # A wheel: sources would be compiled, with a second TensorFlow.
    install = [python, "-m", "pip", "install", "-q", "--no-deps", f"--only-binary={name}"]
    failed = _call([*install, *requirements], home)
    if failed:
        return Outcome(neighbour, "none", _verdict(failed), "")
    version = subprocess.run(
        [python, "-c", f"import importlib.metadata as m; print(m.version({name!r}))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    program = home / "import_it.py"
    program.write_text(f"import {neighbour.module}\n")
    run_it = [python, "-m", "estimator_spec", "run"]
    imported = _verdict(_call([*run_it, str(program)], home))
    trained = ""
    if neighbour.program:
        path = str(PROGRAMS / f"{neighbour.program}.py")
        trained = _verdict(_call([*run_it, path, str(home / "model")], home))
    return Outcome(neighbour, version, imported, trained)


def _environment(folder: Path) -> str:
    """Makes an environment that has this interpreter's packages, too; returns its python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "this_interpreter.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return str(folder / "bin" / "python")


def _call(command: Sequence[str], folder: Path) -> str:
    """Runs a command; returns '' or the last line of its error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment.pop("TF_USE_LEGACY_KERAS", None)
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"not done within {SECONDS} seconds"
    if not done.returncode:
        return ""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line.split(":")[0] or line.startswith("ERROR")]
    return (errors or lines or ["no output"])[-1][:120].replace("|", "/")


def _verdict(error: str) -> str:
    return f"fails: `{error}`" if error else "works"


def table(outcomes: Iterable[Outcome]) -> str:
    """Returns outcomes as a table in Markdown."""
    lines = [
        "| package | version | import | a program with its estimators | notes |",
        "|---|---|---|---|---|",
    ]
    for neighbour, version, imported, program in outcomes:
        name = neighbour.package.partition("=")[0]
        cells = (f"`{name}`", version, imported, program or "–", neighbour.note)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def verdicts(text: str) -> list[tuple[str, ...]]:
    """Returns package, import and program of each row, of failures no more than that they are."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()[2:]]
    return [(row[0], *(cell.partition(":")[0] for cell in row[2:4])) for row in rows]


def on_page() -> str:
    """Returns the table of the page."""
    return PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip() + "\n"


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", nargs="*", metavar="PACKAGE")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parsed = parser.parse_args(arguments)
    outcomes = []
    for neighbour in ALL:
        if parsed.packages and neighbour.package.partition("=")[0] not in parsed.packages:
            continue
        with tempfile.TemporaryDirectory(prefix="tpu_columns_") as home:
            outcomes.append(run(neighbour, Path(home)))
        print(table(outcomes[-1:]).splitlines()[-1], flush=True)
    made = table(outcomes)
    if parsed.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", "utf-8")
    if parsed.check:
        known = set(verdicts(on_page()))
        changed = [row for row in verdicts(made) if row not in known]
        for row in changed:
            print(f"{row[0]}: {' and '.join(row[1:])}, which isn't what {PAGE.name} says")
        return bool(changed)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
