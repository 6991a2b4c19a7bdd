# SPDX-License-Identifier: Apache-2.0
"""Finds the names of TensorFlow that the source of a program uses, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from estimator_spec.common import program_files
from estimator_spec.legacy import call_sites, tensorflow_names

_ROOTS = ("tensorflow", "tensorflow_estimator")
_ERRORS = call_sites.Access.IMPORT.value | call_sites.Access.READ.value


class Use(NamedTuple):
    """A place where a program imports or uses a name.

    Attributes:
        line: its line.
        name: the full dotted name.
        is_import: whether the line only imports it, or assigns it to another name.
        from_tensorflow: whether it is reached from the module `tensorflow`, which `run --tf1`
            replaces, rather than from an imported part, such as `tensorflow.compat.v1`.
    """

    line: int
    name: str
    is_import: bool = False
    from_tensorflow: bool = False


def uses(tree: ast.Module) -> Iterator[Use]:
    """Yields the names of TensorFlow that a program imports, and those that it uses.

    Names are followed through imports, `as` and assignments such as `slim = tf.contrib.slim`.
    """
    bound: dict[str, tuple[str, bool]] = {}  # full name, and `from_tensorflow`
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_known(alias.name):
                    yield Use(node.lineno, alias.name, True)
                    name = alias.name if alias.asname else alias.name.split(".")[0]
                    bound[alias.asname or name] = (name, name == "tensorflow")
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_known(node.module):
            for alias in node.names:
                full = f"{node.module}.{alias.name}".removesuffix(".*")
                yield Use(node.lineno, full, True, node.module == "tensorflow")
                bound[alias.asname or alias.name] = (full, node.module == "tensorflow")
    assigned = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found = _full_name(node.value, bound)
            if found is not None:
                bound.setdefault(node.targets[0].id, found)
                assigned.add(id(node.value))
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            found = None if id(node) in inner else _full_name(node, bound)
            if found is not None and found[0] not in _ROOTS:
                yield Use(node.lineno, found[0], id(node) in assigned, found[1])


def uses_tf1_names(program: program_files.Program) -> bool:
    """Returns whether a program uses names of `tensorflow` that only TensorFlow 1 had.

    Its files are those that it imports, from its main one on; they are parsed, not run. `tf.flags`
    counts; `tf.compat.v1.flags`, names of `import tensorflow.compat.v1 as tf` and names whose
    absence the program handles don't. A file that isn't valid Python 3 uses none.
    """
    version = tensorflow_names.recorded(tensorflow_names.installed())
    return any(
        use.from_tensorflow
        and tensorflow_names.is_only_in_tf1(use.name.partition(".")[2], version)
        and not call_sites.handled_at(source.tree, use.line) & _ERRORS
        for source in program_files.find_files(program).read
        for use in uses(source.tree)
    )


def _is_known(module: str | None) -> bool:
    return str(module).split(".")[0] in _ROOTS


def _full_name(node: ast.AST, bound: Mapping[str, tuple[str, bool]]) -> tuple[str, bool] | None:
    """Returns the full name of an expression such as `tf.contrib.slim`, as `bound` has it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in bound:
        return None
    first, from_tensorflow = bound[node.id]
    return ".".join([first, *reversed(parts)]), from_tensorflow
