# SPDX-License-Identifier: Apache-2.0
"""Evaluates expressions that depend on TensorFlow's version, for all versions of today.

`if LooseVersion(tf.__version__) < "2":` is false with each of them: what is in its branch isn't
run, whatever names it has.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

# One for each minor version that the project runs on.
VERSIONS = ("2.15.1", "2.16.2", "2.17.1", "2.18.1", "2.19.1", "2.20.0", "2.21.0")
VERSION_NAMES = ("__version__", "VERSION", "version.VERSION")
_MODULES = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
# Names that all of these modules have.
_ALWAYS = ("compat", "compat.v1", "compat.v2")


class UnknownValueError(Exception):
    """An expression has no value that is known without running the program."""


class Constant(tuple[Any, ...]):
    """The values of an expression, one for each of `VERSIONS`."""

    def truth(self) -> bool | None:
        """Returns whether the values are true; None if they differ in that."""
        found = {bool(value) for value in self}
        return found.pop() if len(found) == 1 else None


# Returns what an expression `name.attribute…` or `function()` is: a constant, the full names that
# it may have, or None.
Lookup = Callable[[ast.expr], "Constant | Sequence[str] | None"]


def evaluate(node: ast.expr, look_up: Lookup) -> Constant | None:
    """Returns the values of an expression, if they depend on TensorFlow's version alone.

    Args:
        node: the expression.
        look_up: says what names are.
    """
    is_used = False

    def look_up_used(name: ast.expr) -> Any:
        nonlocal is_used
        found = look_up(name)
        is_used |= isinstance(found, Constant) or (found is not None and _is_version(found))
        return found

    def exists(of: ast.expr, name: str) -> bool:
        nonlocal is_used
        found = look_up(of)
        if not found or isinstance(found, Constant):
            raise UnknownValueError
        if all(_is_there(f"{full}.{name}") for full in found):
            is_used = True
            return True
        raise UnknownValueError

    try:
        values = [
            _Expression(number, look_up_used, exists).value(node)
            for number, _ in enumerate(VERSIONS)
        ]
    except UnknownValueError:
        return None
    return Constant(values) if is_used else None


def _is_version(names: Sequence[str]) -> bool:
    ends = {f"{module}.{name}" for module in _MODULES for name in VERSION_NAMES}
    return bool(names) and ends.issuperset(names)


def _is_there(name: str) -> bool:
    return any(name == f"{module}.{end}" for module in _MODULES for end in _ALWAYS)


@functools.total_ordering
class _Version:
    """A version; it compares as numbers, to text as well."""

    def __init__(self, text: object) -> None:
        if not isinstance(text, (str, _Version)):
            raise UnknownValueError
        self.version: tuple[int, ...] = (
            text.version if isinstance(text, _Version) else _numbers(text)
        )
        self.release = self.version

    @property
    def major(self) -> int:
        return self.version[0]

    @property
    def minor(self) -> int:
        return self.version[1] if len(self.version) > 1 else 0

    def __eq__(self, other: object) -> bool:
        return self._key() == _Version(other)._key()

    def __lt__(self, other: object) -> bool:
        return self._key() < _Version(other)._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, ...]:
        return (*self.version, 0, 0, 0, 0)[:4]


def _numbers(text: str) -> tuple[int, ...]:
    found = re.match(r"\s*v?(\d+(?:\.\d+)*)", text)
    if found is None:
        raise UnknownValueError
    return tuple(map(int, found[1].split(".")))


_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, values: value in values,
    ast.NotIn: lambda value, values: value not in values,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("LooseVersion", "StrictVersion", "Version", "NumpyVersion"), _Version),
    **dict.fromkeys(("parse", "parse_version", "LegacyVersion"), _Version),
    **{each.__name__: each for each in (bool, float, int, len, list, str, tuple)},
}
_METHODS = frozenset({"split", "rsplit", "startswith", "endswith", "partition", "strip", "replace"})
_ATTRIBUTES = frozenset({"major", "minor", "release", "version"})


class _Expression:
    """Values of expressions with one version."""

    def __init__(self, number: int, look_up: Lookup, exists: Callable[..., bool]) -> None:
        self._number = number
        self._look_up = look_up
        self._exists = exists
        self._variables: dict[str, Any] = {}

    def value(self, node: ast.expr) -> Any:
        """Returns the value.

        Raises:
            UnknownValueError: it isn't known.
        """
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnknownValueError
        try:
            return method(node)
        except (TypeError, ValueError, LookupError, AttributeError):
            raise UnknownValueError from None

    def _constant(self, node: ast.Constant) -> Any:
        return node.value

    def _tuple(self, node: ast.Tuple) -> Any:
        return tuple(map(self.value, node.elts))

    def _list(self, node: ast.List) -> Any:
        return list(map(self.value, node.elts))

    def _name(self, node: ast.Name) -> Any:
        if node.id in self._variables:
            return self._variables[node.id]
        return self._looked_up(node)

    def _attribute(self, node: ast.Attribute) -> Any:
        try:
            return self._looked_up(node)
        except UnknownValueError:
            value = self.value(node.value)
            if node.attr in _ATTRIBUTES and isinstance(value, _Version):
                return getattr(value, node.attr)
            raise

    def _looked_up(self, node: ast.expr) -> Any:
        found = self._look_up(node)
        if isinstance(found, Constant):
            return found[self._number]
        if found is not None and _is_version(found):
            return VERSIONS[self._number]
        raise UnknownValueError

    def _compare(self, node: ast.Compare) -> bool:
        left = self.value(node.left)
        for operation, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node)
            if not _COMPARISONS[type(operation)](left, right):
                return False
            left = right
        return True

    def _boolop(self, node: ast.BoolOp) -> Any:
        """Returns the value if one side decides, or all sides are known."""
        stops = isinstance(node.op, ast.Or)
        value: Any = None
        is_known = True
        for each in node.values:
            try:
                value = self.value(each)
            except UnknownValueError:
                is_known = False
                continue
            if bool(value) is stops:
                return value if is_known else stops
        if not is_known:
            raise UnknownValueError
        return value

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return not self.value(node.operand)
        raise UnknownValueError

    def _ifexp(self, node: ast.IfExp) -> Any:
        return self.value(node.body if self.value(node.test) else node.orelse)

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            return value[slice(*(None if part is None else self.value(part) for part in parts))]
        return value[self.value(node.slice)]

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> list[Any]:
        (generator,) = node.generators
        if generator.ifs or not isinstance(generator.target, ast.Name):
            raise UnknownValueError
        found = []
        for each in self.value(generator.iter):
            self._variables[generator.target.id] = each
            found.append(self.value(node.elt))
        del self._variables[generator.target.id]
        return found

    _generatorexp = _listcomp

    def _call(self, node: ast.Call) -> Any:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if node.keywords:
            raise UnknownValueError
        if name == "hasattr":
            of, text = node.args
            return self._exists(of, self.value(text))
        if name == "map" and isinstance(node.args[0], ast.Name):
            return list(map(_FUNCTIONS[node.args[0].id], self.value(node.args[1])))
        if isinstance(node.func, ast.Attribute) and name in _METHODS:
            return getattr(str(self.value(node.func.value)), name)(*map(self.value, node.args))
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*map(self.value, node.args))
        if node.args:
            raise UnknownValueError
        return self._looked_up(node)  # a function of the program that tests the version
