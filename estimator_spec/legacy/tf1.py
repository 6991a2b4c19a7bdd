# SPDX-License-Identifier: Apache-2.0
"""Gives programs written for TensorFlow 1 its API under `import tensorflow`.

Most of that API is `tensorflow.compat.v1` now. While such a program runs, imports of `tensorflow`
in its own modules return a module with TensorFlow 1's names; installed packages, including
TensorFlow, still import the real one.
"""

from __future__ import annotations

import ast
import builtins
import functools
import os
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

# Packages of TensorFlow that don't belong to an API version.
_SHARED = ("compat", "core", "lite", "python", "tools", "tsl")
_OURS = ("estimator_spec", "tpu_columns")


class TF1Module(types.ModuleType):
    """The module `tensorflow` with the names of `tf.compat.v1` first."""

    def __init__(self) -> None:
        super().__init__(tf.__name__, tf.__doc__)
        for name in ("__file__", "__path__", "__spec__", "__version__"):
            setattr(self, name, getattr(tf, name))

    def __getattr__(self, name: str) -> Any:
        if name not in _SHARED:
            try:
                return getattr(tf1, name)
            except AttributeError:
                pass
        return getattr(tf, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(tf), *dir(tf1)})


def enable() -> None:
    """Switches the program in this process to TensorFlow 1's names and behaviour.

    Raises:
        ValueError: a graph or a session exists already.
    """
    tf1.logging.warning(
        "The program uses names of TensorFlow 1: its `import tensorflow` gives tf.compat.v1, with "
        "v2 behaviour switched off. (`run --no-tf1` does without.)"
    )
    tf1.disable_v2_behavior()
    builtins.__import__ = functools.partial(_import, builtins.__import__, TF1Module())


def _import(
    real_import: Any,
    tf1_module: types.ModuleType,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Imports as Python does, except for `tensorflow` in a module of the program."""
    if name == "tensorflow" and level == 0 and _is_own_module(globals):
        for part in fromlist or ():
            if part in _SHARED or part == "contrib":
                real_import(f"{name}.{part}")
        return tf1_module
    module = real_import(name, globals, locals, fromlist, level)
    if module is sys.modules.get("tensorflow") and level == 0 and _is_own_module(globals):
        return tf1_module  # import tensorflow.something
    return module


def _is_own_module(globals: Mapping[str, Any] | None) -> bool:
    """Returns whether the importing module belongs to the program, not to an installed package."""
    module = (globals or {}).get("__name__") or ""
    path = (globals or {}).get("__file__")
    if not path or module.split(".")[0] in _OURS:
        return False
    return not os.path.realpath(path).startswith(_library_directories())


@functools.cache
def _library_directories() -> tuple[str, ...]:
    """Returns the directories of Python's standard library and of installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(os.path.realpath(sysconfig.get_path(name)) + os.sep for name in names)


def uses_tf1_names(script: str) -> bool:
    """Returns whether a script uses names of `tensorflow` that only TensorFlow 1 had.

    The source is parsed, not run. `tf.flags` counts; `tf.compat.v1.flags` and names of
    `import tensorflow.compat.v1 as tf` don't.

    Args:
        script: path of a file. The result is False if it isn't valid Python 3.
    """
    try:
        with open(script, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(_only_in_tf1(name) for name in _names_used(tree))


def _names_used(tree: ast.AST) -> Iterator[str]:
    """Yields the dotted names, relative to `tensorflow`, that a program uses."""
    bound = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "tensorflow" or (
                    alias.name.startswith("tensorflow.") and not alias.asname
                ):
                    bound.add(alias.asname or "tensorflow")
        elif isinstance(node, ast.ImportFrom) and node.module == "tensorflow" and not node.level:
            yield from (alias.name for alias in node.names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            if first in bound:
                yield rest


def _only_in_tf1(name: str) -> bool:
    """Returns whether TensorFlow 1 has a name that TensorFlow 2 lacks."""
    first, *rest = name.split(".")
    if first in (*_SHARED, "contrib", "estimator"):
        return False  # the same in both
    if not hasattr(tf, first):
        return hasattr(tf1, first)
    now, then = vars(tf).get(first), vars(tf1).get(first)
    # Lazily loaded modules are Keras, which must not be loaded here.
    if not rest or not _is_plain_module(now) or not _is_plain_module(then):
        return False
    return not hasattr(now, rest[0]) and hasattr(then, rest[0])


def _is_plain_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and "LazyLoader" not in type(value).__name__
