# SPDX-License-Identifier: Apache-2.0
"""Reads the project's environment variables, for programs that can't be edited."""

from __future__ import annotations

import os

PLAIN = "TPU_COLUMNS_PLAIN"  # 1: TensorFlow's own ops, no optimization
LOCKED_UPDATES = "TPU_COLUMNS_LOCKED_UPDATES"  # 0: processes of a cluster update at once
CPU = "TPU_COLUMNS_CPU"  # 1, auto, replicas: programs written for a TPU run on the host
CACHE = "TPU_COLUMNS_CACHE"  # directory of compiled kernels
RUN = "TPU_COLUMNS_RUN"  # options of `run`, for child processes
_FORMER_NAMES = {CPU: "ESTIMATOR_SPEC_CPU"}


def is_on(name: str, default: bool = True) -> bool:
    """Returns whether a switch is on.

    Args:
        name: the variable: one of this module's constants, or of an `Optimization`.
        default: the result if it is unset or empty.

    Raises:
        ValueError: the value is not 0, 1, false or true.
    """
    value = os.environ.get(name, "").strip().lower() or str(int(default))
    if value not in ("0", "1", "false", "true"):
        raise ValueError(
            f"The environment variable {name}={value!r} must be 0 or 1 (or false or true)."
        )
    return value in ("1", "true")


def read(name: str, default: str) -> str:
    """Returns the value of a variable, or the default if it is unset or empty.

    Args:
        name: the variable, one of this module's constants; its former name is read if unset.
        default: the value to return.
    """
    return os.environ.get(name) or os.environ.get(_FORMER_NAMES.get(name, ""), "") or default


def write(name: str, value: str) -> None:
    """Sets a variable for this process and its children.

    Args:
        name: the variable, one of this module's constants.
        value: its value.
    """
    os.environ[name] = value
