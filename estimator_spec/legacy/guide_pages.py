# SPDX-License-Identifier: Apache-2.0
"""Finds the pages of the documentation: in the source tree, or where the wheel has put them."""

from __future__ import annotations

import functools
import importlib.metadata
import os

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_DISTRIBUTION = "tpu-columns"
# Where the wheel's files have the pages, below the environment's directory; as setup.cfg says.
_SHARED = f"share/doc/{_DISTRIBUTION}"


@functools.cache
def find_page(name: str) -> str:
    """Returns the path of a page, or its name if it isn't on this machine.

    Args:
        name: its path in the source tree, such as 'migration_guide.md' or 'docs/plan.md'.
    """
    in_tree = os.path.join(_ROOT, name)
    if os.path.exists(in_tree):
        return in_tree
    try:
        files = importlib.metadata.files(_DISTRIBUTION) or ()
    except importlib.metadata.PackageNotFoundError:
        return name
    for file in files:
        if file.as_posix().endswith(f"{_SHARED}/{name}") and os.path.exists(file.locate()):
            return os.path.normpath(file.locate())
    return name
