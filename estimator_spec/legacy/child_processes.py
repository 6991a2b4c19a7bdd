# SPDX-License-Identifier: Apache-2.0
"""Restores the old names in the processes that a program under `run` starts.

A process of the same Python inherits two environment variables: PYTHONPATH has `startup`, whose
`sitecustomize` Python imports first, and TPU_COLUMNS_RUN the options of `run`. The names are
restored at the process's first import of TensorFlow.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_spec.core.common import legacy_keras
from estimator_spec.legacy import installation, program_api, tf1
from estimator_spec.legacy.program_source import program_files
from tpu_columns import environment

_STARTUP = os.path.join(os.path.dirname(os.path.realpath(__file__)), "startup")


def enable(as_tf1: bool | None, also: Sequence[str]) -> None:
    """Sets the environment variables of this process's children.

    Args:
        as_tf1: whether programs get TensorFlow 1's API; None detects it for each.
        also: installed packages that get it, too.
    """
    python = {"prefix": sys.prefix, "version": sys.version_info[:2]}
    environment.write(environment.RUN, json.dumps({**python, "as_tf1": as_tf1, "also": also}))
    path = os.environ.get("PYTHONPATH", "")
    if _STARTUP not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join([_STARTUP, path] if path else [_STARTUP])


def activate(values: Mapping[str, Any]) -> None:
    """Restores the names in this process, a child.

    Args:
        values: the JSON object of TPU_COLUMNS_RUN.
    """
    legacy_keras.select_legacy_keras()
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    as_tf1 = values["as_tf1"]
    if as_tf1 is None:
        as_tf1 = main is not None and program_api.uses_tf1_names(program_files.StartedProgram(main))
    installation.install(replace=True)
    tf1.enable(as_tf1, tuple(values["also"]))
