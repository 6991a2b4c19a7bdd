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
import types

_ANY = frozenset({"Exception", "BaseException"})


class Access(enum.Enum):
    """Ways to reach a name; the values are the exceptions that handle its absence."""

    READ = _ANY | {"AttributeError"}
    IMPORT = _ANY | {"ImportError", "ModuleNotFoundError"}
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

    That is a `try` around the current line, in the same function, with an `except` for an
    exception of `how`; or a `with contextlib.suppress` of one.

    Args:
        frame: the frame that reaches the name.
        how: how it does.
    """
    tree = _tree(frame.f_code.co_filename)
    return tree is not None and bool(handled_at(tree, frame.f_lineno) & how.value)


@functools.lru_cache(maxsize=64)
def _tree(path: str) -> ast.Module | None:
    """Returns the parsed source of a file, or None if there is none."""
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return None


def handled_at(tree: ast.Module, line: int) -> frozenset[str]:
    """Returns the names of the exceptions that the function around a line handles there."""
    handled: frozenset[str] = frozenset()
    node: ast.AST | None = tree
    while node is not None:
        parent, node = node, _child_at(node, line)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            handled = frozenset()  # It runs later, outside of the `try`.
        elif isinstance(parent, ast.Try) and node in parent.body:
            handled = handled.union(*(caught(handler.type) for handler in parent.handlers))
        elif isinstance(parent, ast.With) and node in parent.body:
            handled = handled.union(*(suppressed(item.context_expr) for item in parent.items))
    return handled


def _child_at(node: ast.AST, line: int) -> ast.AST | None:
    for child in ast.iter_child_nodes(node):
        first, last = getattr(child, "lineno", None), getattr(child, "end_lineno", None)
        if first is not None and first <= line <= (last or first):
            return child
    return None


def caught(expression: ast.expr | None) -> frozenset[str]:
    """Returns the last names of the exceptions of an `except`."""
    if expression is None:
        return _ANY
    parts = expression.elts if isinstance(expression, ast.Tuple) else [expression]
    return frozenset(ast.unparse(part).rpartition(".")[2] for part in parts)


def suppressed(expression: ast.expr) -> frozenset[str]:
    """Returns the exceptions of a call of `contextlib.suppress`."""
    if isinstance(expression, ast.Call) and ast.unparse(expression.func).endswith("suppress"):
        return frozenset().union(*map(caught, expression.args))
    return frozenset()


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
