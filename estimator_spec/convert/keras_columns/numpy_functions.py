# SPDX-License-Identifier: Apache-2.0
"""Writes functions of a program with NumPy's arithmetic for TensorFlow's."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

import tensorflow as tf

# NumPy's names of functions that do the same to each number, by TensorFlow's, without `math`.
_SAME = (
    *("abs", "add", "ceil", "cos", "divide", "equal", "exp", "expm1", "floor", "greater", "less"),
    *("greater_equal", "less_equal", "log", "log1p", "logical_and", "logical_not", "logical_or"),
    *("maximum", "minimum", "multiply", "negative", "not_equal", "ones_like", "reciprocal"),
    *("sign", "sin", "sqrt", "square", "subtract", "tan", "tanh", "where", "zeros_like"),
    *("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"),
)
_NAMES = {name: name for name in _SAME}
_NAMES |= dict.fromkeys(("cast", "constant", "convert_to_tensor", "identity"), "asarray")
_NAMES |= {"clip_by_value": "clip", "is_finite": "isfinite", "is_inf": "isinf", "is_nan": "isnan"}
_NAMES |= {"floormod": "mod", "mod": "mod", "floordiv": "floor_divide", "truediv": "true_divide"}
_NAMES |= {"pow": "power", "bool": "bool_"}
_SPARSE = ("SparseTensor", "sparse.SparseTensor")  # those of sequences


def in_numpy(text: str, what: str) -> str:
    """Returns the source of a function of TensorFlow's arithmetic as one of NumPy's.

    Args:
        text: what `function_source.write_function` returns.
        what: what it is, for errors.

    Raises:
        ValueError: it uses something of TensorFlow that isn't arithmetic.
    """
    tree = _InNumpy(what).visit(ast.parse(text))
    return ast.unparse(ast.fix_missing_locations(tree))


class _InNumpy(ast.NodeTransformer):
    """Replaces what code reads of TensorFlow."""

    def __init__(self, what: str) -> None:
        self._paths = {"tf": "tensorflow"}  # what names are bound to
        self._what = what

    def visit_Import(self, node: ast.Import) -> ast.AST | None:
        """Leaves an import of TensorFlow out, and remembers its name."""
        (alias,) = node.names
        if alias.name != "tensorflow":
            return node
        self._paths[alias.asname or alias.name] = alias.name
        return None

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """Leaves a name for something of TensorFlow out, and remembers it."""
        path = self._path(node.value)
        if path is None:
            return self.generic_visit(node)
        self._paths[ast.unparse(node.targets[0])] = path
        return None

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Gives the arguments of a function of TensorFlow by their order."""
        path = self._path(node.func)
        if path is not None:
            function = _find(path)
            given = {each.arg: each.value for each in node.keywords if each.arg != "name"}
            if given and callable(function):
                order = list(inspect.signature(function).parameters)[len(node.args) :]
                named = [name for name in order if name in given]
                if named != order[: len(given)]:
                    raise self._refused(ast.unparse(node))
                node.args += [given[name] for name in named]
            node.keywords = []
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replaces a name of TensorFlow."""
        return self._replaced(node) or self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replaces a name that is bound to something of TensorFlow."""
        return self._replaced(node) or node

    def _replaced(self, node: Any) -> ast.AST | None:
        path = self._path(node)
        if path is None:
            return None
        name = re.sub(r"^tensorflow\.(compat\.v1\.)?(math\.)?", "", path)
        if name in _SPARSE:
            return ast.Name("Sparse", ast.Load())
        if name not in _NAMES:
            raise self._refused(path.replace("tensorflow", "tf", 1))
        return ast.parse(f"np.{_NAMES[name]}", mode="eval").body

    def _path(self, node: Any) -> str | None:
        """Returns the path in TensorFlow of a name, or of an attribute of one."""
        root, *rest = ast.unparse(node).split(".")
        return ".".join([self._paths[root], *rest]) if root in self._paths else None

    def _refused(self, name: str) -> ValueError:
        return ValueError(
            f"{self._what} uses {name!r}, which isn't arithmetic that NumPy has. Use functions of "
            "tf.math that do the same to each number, or to-keras without --without-tensorflow."
        )


def _find(path: str) -> Any:
    found: Any = tf
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
    return found
