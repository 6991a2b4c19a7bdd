# SPDX-License-Identifier: Apache-2.0
"""Finds the builtins of Python 2 that a module uses, and that Python 3 lacks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from estimator_spec.legacy.handling import Handling, span_in_lines
from estimator_spec.legacy.program_source.scopes import names_bound_by

# What to use instead.
_NOW = {
    "apply": "f(*arguments)",
    "basestring": "str",
    "cmp": "(a > b) - (a < b)",
    "execfile": "exec(open(file).read())",
    "file": "open",
    "long": "int",
    "raw_input": "input",
    "reduce": "functools.reduce",
    "reload": "importlib.reload",
    "unichr": "chr",
    "unicode": "str",
    "xrange": "range",
}
_OF_VERSION = re.compile(r"PY2|PY3|version_info|python_version|version\b")
_ERRORS = frozenset({"NameError", "Exception", "BaseException"})


def find(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yields line and name of each use, and what to use instead.

    Not those in a branch for a version of Python or in a `try` that handles the failure, nor names
    that the module binds somewhere, or may import by `*`.
    """
    everywhere = list(ast.walk(tree))
    if any(isinstance(node, ast.alias) and node.name == "*" for node in everywhere):
        return
    bound = {name for node in everywhere for name in names_bound_by(node)}
    nodes = [node for node in _run_by_python3(tree) if isinstance(node, ast.Name)]
    nodes = [node for node in nodes if node.id in _NOW and node.id not in bound]
    if not nodes:
        return
    handling = Handling(tree)
    for node in nodes:
        if not handling.handles("", span_in_lines(node)[0], _ERRORS):
            yield node.lineno, node.id, f"Python 3 doesn't have it: use {_NOW[node.id]}."


def _run_by_python3(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes outside of branches that ask for a version."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If | ast.IfExp) and _OF_VERSION.search(ast.unparse(child.test)):
            continue
        yield child
        yield from _run_by_python3(child)
