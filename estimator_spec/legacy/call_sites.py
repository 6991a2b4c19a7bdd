# SPDX-License-Identifier: Apache-2.0
"""Finds out how a program reaches a name: by a read, by an import, or by a test of its existence.

`hasattr(tf.contrib, 'slim')` and `slim = tf.contrib.slim` call the same method of the module. They
differ in the instruction that runs, and in whether a `try` around it handles the failure.
"""

from __future__ import annotations

import ast
import dis
import enum
import functools
import inspect
import linecache
import os
import sys
import types

from estimator_spec.legacy import handling


class Access(enum.Enum):
    """Ways to reach a name; the values are the exceptions that handle its absence."""

    READ = handling.READ_ERRORS
    IMPORT = handling.IMPORT_ERRORS
    QUERY = frozenset[str]()


def access(frame: types.FrameType) -> Access:
    """Returns how the current instruction of a frame reaches an attribute of a module.

    Args:
        frame: the caller of a module's `__getattr__`.

    Returns:
        READ for `module.name`, IMPORT for `from module import name`, else QUERY: `hasattr`,
        `getattr` and other functions.
    """
    code, at = frame.f_code.co_code, frame.f_lasti
    while at > 0 and dis.opname[code[at]] == "CACHE":
        at -= 2
    instruction = dis.opname[code[at]]
    if instruction == "IMPORT_FROM":
        return Access.IMPORT
    return Access.READ if instruction in ("LOAD_ATTR", "LOAD_METHOD") else Access.QUERY


def importer(frame: types.FrameType | None) -> tuple[types.FrameType | None, set[str]]:
    """Returns the frame of the program that imports a module.

    Args:
        frame: a frame of the import system.

    Returns:
        The frame, and the names of the import system's functions that it called.
    """
    functions = set()
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if not module.startswith(("importlib", "estimator_spec.")) and module != "runpy":
            break
        functions.add(frame.f_code.co_name)
        frame = frame.f_back
    return frame, functions


def handles_failure(frame: types.FrameType, how: Access) -> bool:
    """Returns whether a program has code for the case that the name is missing.

    Args:
        frame: the frame that reaches the name.
        how: how it does.
    """
    found = _handling(frame.f_code.co_filename)
    return found is not None and found.handles("", _place(frame, found), how.value)


@functools.lru_cache(maxsize=64)
def _handling(path: str) -> handling.Handling | None:
    """Returns what a file handles, or None if it can't be read."""
    try:
        return handling.Handling(ast.parse("".join(linecache.getlines(path))))
    except (SyntaxError, ValueError):
        return None


def _place(frame: types.FrameType, found: handling.Handling) -> tuple[int, int]:
    """Returns line and column of a frame's current instruction."""
    if sys.version_info >= (3, 11):
        positions = list(frame.f_code.co_positions())
        line, _, column, _ = positions[frame.f_lasti // 2]
        if line is not None and column is not None:
            return line, column
    return found.first_place(frame.f_lineno)


def program_line(frame: types.FrameType | None) -> str:
    """Returns file and line of the first frame outside of this package, for error messages."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("estimator_spec."):
        frame = frame.f_back
    if frame is None:
        return "an unknown line"
    return f"{os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno}"


def caller() -> types.FrameType:
    """Returns the frame that called the function which calls this one.

    Raises:
        RuntimeError: there is none.
    """
    frame = inspect.currentframe()
    for _ in range(2):
        frame = None if frame is None else frame.f_back
    if frame is None:
        raise RuntimeError("This Python has no frames, or the caller has no caller.")
    return frame
