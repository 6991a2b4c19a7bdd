# SPDX-License-Identifier: Apache-2.0
"""Makes a source tree unreadable for every Python process of an environment.

`nox -s dist` puts this module and a .pth file that calls `hide` into the environment with the
wheel, so that nothing that runs there can take a file from the source tree instead.
"""

from __future__ import annotations

import os
import sys
from typing import Any

_READS = frozenset({"open", "os.listdir", "os.scandir"})


def hide(root: str) -> None:
    """Refuses to open files and list directories below `root` for the rest of this process."""
    below = os.path.join(root, "")

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _READS and isinstance(arguments[0], str):
            path = os.path.abspath(arguments[0])
            if path == root or path.startswith(below):
                raise PermissionError(f"{path} belongs to the source tree, which isn't for use.")

    sys.addaudithook(check)
