# SPDX-License-Identifier: Apache-2.0
"""Asks the heads of the reference, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from head_calls import encoded

HERE = Path(__file__).resolve().parent


class HeadAsker:
    """The process of the reference's heads, which lives until `close`.

    Args:
        python: the reference.
    """

    def __init__(self, python):
        environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=str(HERE))
        environment.pop("TF_USE_LEGACY_KERAS", None)
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, str(HERE / "head_process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
        )

    def __call__(self, kind, case, meanwhile=None):
        """Returns the answer to a case, and what `meanwhile` returns while the reference works."""
        self._process.stdin.write(json.dumps(encoded({"kind": kind, "case": case})) + "\n")
        self._process.stdin.flush()
        own = meanwhile() if meanwhile is not None else None
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError(f"The reference's process ended:\n{self._log.read()[-4000:]}")
        return json.loads(line), own

    def close(self):
        """Ends the process."""
        self._process.communicate()
        self._log.close()
