# SPDX-License-Identifier: Apache-2.0
"""Programs of TensorFlow 1: what they find under `import tensorflow`.

TensorFlow has kept most of TensorFlow 1 as `tensorflow.compat.v1`. A program that was never
upgraded asks `tensorflow` itself for it. While such a program runs, its own modules get a face of
TensorFlow that answers as TensorFlow 1 did; installed packages, TensorFlow's own files among them,
still get the real one.
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

# Parts of TensorFlow that are no API of a version: the real ones.
_SHARED = ("compat", "core", "lite", "python", "tools", "tsl")
_OURS = ("estimator_spec", "tpu_columns")


class Face(types.ModuleType):
    """`tensorflow`, with the names of TensorFlow 1 first."""

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


def become() -> None:
    """Gives this process' program TensorFlow 1: its names, and its behaviour.

    Raises:
        ValueError: a graph or a session exists already.
    """
    tf1.logging.warning(
        "The program uses names of TensorFlow 1: its `import tensorflow` gives tf.compat.v1, with "
        "v2 behaviour switched off. (`run --no-tf1` does without.)"
    )
    tf1.disable_v2_behavior()
    builtins.__import__ = functools.partial(_import, builtins.__import__, Face())


def _import(
    real_import: Any,
    face: types.ModuleType,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Python's import, but for `tensorflow` in a module of the program."""
    if name == "tensorflow" and level == 0 and _is_programs(globals):
        for part in fromlist or ():
            if part in _SHARED or part == "contrib":
                real_import(f"{name}.{part}")
        return face
    module = real_import(name, globals, locals, fromlist, level)
    if module is sys.modules.get("tensorflow") and level == 0 and _is_programs(globals):
        return face  # import tensorflow.something
    return module


def _is_programs(globals: Mapping[str, Any] | None) -> bool:
    """Whether the importing module is the program's own, and of no package that is installed."""
    module = (globals or {}).get("__name__") or ""
    path = (globals or {}).get("__file__")
    if not path or module.split(".")[0] in _OURS:
        return False
    return not os.path.realpath(path).startswith(_installed())


@functools.cache
def _installed() -> tuple[str, ...]:
    """Where Python's own files are, and installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple(os.path.realpath(sysconfig.get_path(name)) + os.sep for name in names)


def is_written_for(script: str) -> bool:
    """Whether a script asks `tensorflow` for names that only TensorFlow 1 had.

    Its text is read, nothing is run. `tf.flags` says yes, `tf.compat.v1.flags` doesn't, nor does
    any name of `import tensorflow.compat.v1 as tf`.

    Args:
        script: the path of a file; False for what can't be read as Python of today.
    """
    try:
        with open(script, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return False
    return any(_only_in_tf1(name) for name in _names_used(tree))


def _names_used(tree: ast.AST) -> Iterator[str]:
    """Dotted names, without the first `tensorflow`, that a program gets from its import."""
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
    first, *rest = name.split(".")
    if first in (*_SHARED, "contrib", "estimator"):
        return False  # the same either way
    if not hasattr(tf, first):
        return hasattr(tf1, first)
    now, then = vars(tf).get(first), vars(tf1).get(first)
    # Modules that are loaded when they are first used are Keras, which this must not load.
    if not rest or not _is_plain_module(now) or not _is_plain_module(then):
        return False
    return not hasattr(now, rest[0]) and hasattr(then, rest[0])


def _is_plain_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and "LazyLoader" not in type(value).__name__
