# SPDX-License-Identifier: Apache-2.0
"""Switches in the environment, for programs that can't be edited."""

from __future__ import annotations

import os


def is_on(name: str) -> bool:
    """Whether a switch is on; without a word of the environment it is.

    Args:
      name: of the environment variable.

    Raises:
      ValueError: it says something else than yes or no.
    """
    value = os.environ.get(name, "1").strip().lower()
    if value not in ("0", "1", "false", "true"):
        raise ValueError(f"The environment's {name}={value!r} must be 0 or 1.")
    return value in ("1", "true")
