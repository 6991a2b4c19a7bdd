# SPDX-License-Identifier: Apache-2.0
"""Runs the check.py of a written program, in a process that has torch."""

from __future__ import annotations

import json
import os
import subprocess

from estimator_spec.compare.comparison import Item, Outcome
from estimator_spec.compare.stages import Stage

_STAGES = {
    "predictions": Stage.PREDICTIONS,
    "metrics": Stage.METRICS,
    "losses": Stage.LOSSES,
    "trained": Stage.TRAINED_VALUES,
}


def run(python: str, directory: str, scratch: str) -> tuple[Item, ...]:
    """Returns what check.py compares.

    Args:
        python: path of a Python with torch, numpy and pyfarmhash.
        directory: that of the program.
        scratch: directory for temporary files.

    Raises:
        RuntimeError: it fails.
        OSError: there is no such Python.
    """
    path = os.path.join(scratch, "check.json")
    check = os.path.join(directory, "check.py")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-B", check, "--json", path],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or not os.path.exists(path):
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise RuntimeError(
            f"check.py of the written program fails in {python}: {last[0]}. It needs torch, numpy "
            "and pyfarmhash."
        )
    with open(path, encoding="utf-8") as file:
        lines = json.load(file)
    return tuple(
        Item(_STAGES[stage], name, Outcome.DIFFERS if text else Outcome.AGREES, text)
        for stage, name, text, _ in lines
    )
