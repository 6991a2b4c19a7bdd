# SPDX-License-Identifier: Apache-2.0
"""Writes functions of a program as functions of their own: what they read becomes constants."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

_PLAIN = (bool, int, float, str, bytes, type(None))


class FunctionSource(NamedTuple):
    """The source of a function.

    Attributes:
        imports: import statements that it needs.
        text: its definition.
    """

    imports: tuple[str, ...]
    text: str


def write_function(function: Callable[..., Any], name: str, what: str) -> FunctionSource:
    """Returns the source of a function under a name.

    Names that the function reads from its module or from functions around it become constants, if
    they are numbers, strings or lists of them; modules become imports.

    Args:
        function: a function, a lambda, or a `functools.partial` of one.
        name: the name.
        what: what it is, for errors.

    Raises:
        ValueError: its source isn't found, or it reads something else.
    """
    return _write(function, name, what, (), f"Returns what {what} makes of a feature.")


def write_loss(function: Callable[..., Any], name: str) -> FunctionSource:
    """Returns the source of a loss function of labels and logits, which Keras can save by name.

    Args:
        function: the function.
        name: as for `write_function`.

    Raises:
        ValueError: as for `write_function`.
    """
    what = f"the loss_fn {getattr(function, '__name__', name)!r}"
    found = _write(function, name, what, ("labels", "logits"), "Returns the losses of examples.")
    decorator = '@keras.saving.register_keras_serializable("columns")'
    return found._replace(text=f"{decorator}\n{found.text}")


def _write(
    function: Callable[..., Any], name: str, what: str, wanted: tuple[str, ...], docstring: str
) -> FunctionSource:
    """Returns the source of a function of the wanted arguments, in any order; (): of any one."""
    bound: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        if function.args:
            raise ValueError(f"{what} is a functools.partial of positional arguments. Name them.")
        bound = {**function.keywords, **bound}
        function = function.func
    node = _find(function, what)
    arguments = [argument.arg for argument in node.args.args if argument.arg not in bound]
    if wanted and sorted(arguments) != sorted(wanted):
        raise ValueError(f"{what} must take {' and '.join(wanted)}, but takes {arguments}.")
    if not wanted and len(arguments) != 1:
        raise ValueError(f"{what} must take one argument, but takes {arguments}.")
    values, imports = _read_names(node, function, bound, what)
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [ast.Return(node.body)]
    else:
        body = node.body
    statements = [statement for statement in body if not _is_docstring(statement)]
    lines = [f"def {name}({', '.join(f'{argument}: Any' for argument in arguments)}) -> Any:"]
    lines.append(f'    """{docstring}"""')
    lines += [f"    {key} = {value!r}" for key, value in values.items()]
    lines += [textwrap.indent(ast.unparse(statement), "    ") for statement in statements]
    return FunctionSource(tuple(imports), "\n".join(lines))


def _find(function: Any, what: str) -> Any:
    """Returns the syntax tree of a function: the one lambda of its line, or its definition."""
    if not isinstance(function, types.FunctionType):
        raise ValueError(
            f"{what} is {function!r}, whose source isn't Python. Write it as a function of one "
            "argument in the program."
        )
    try:
        lines, _ = inspect.getsourcelines(function)
        first = function.__code__.co_firstlineno
        file_lines, _ = inspect.findsource(function)
        tree = ast.parse("".join(file_lines))
    except (OSError, TypeError, SyntaxError):
        raise ValueError(f"{what}: the source of {function!r} isn't found.") from None
    del lines
    kinds = (ast.Lambda,) if function.__name__ == "<lambda>" else (ast.FunctionDef,)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kinds)
        and _first_line(node) <= first <= (node.end_lineno or first)
        and (node.lineno == first or _first_line(node) == first)
        and tuple(argument.arg for argument in node.args.args) == names
        and _same_code(node, function)
    ]
    if not found or len({ast.dump(node) for node in found}) > 1:
        raise ValueError(
            f"{what}: which function of line {first} it is can't be told. Write it as a function "
            "with a name."
        )
    return found[0]


def _first_line(node: Any) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _same_code(node: Any, function: Any) -> bool:
    """Returns whether a lambda compiles to a function's code; definitions differ by their lines."""
    if not isinstance(node, ast.Lambda):
        return bool(node.name == function.__name__)
    code = compile(ast.Expression(node), "<lambda>", "eval").co_consts[0]
    mine, theirs = (
        (c.co_names, [k for k in c.co_consts if not isinstance(k, types.CodeType)])
        for c in (code, function.__code__)
    )
    # A name from a function around it is a free variable there, and a global one here.
    free = set(function.__code__.co_freevars)
    return set(mine[0]) == set(theirs[0]) | free and mine[1] == theirs[1]


def _read_names(
    node: Any, function: Any, bound: dict[str, Any], what: str
) -> tuple[dict[str, Any], list[str]]:
    """Returns the plain values, and the imports, of the names that a function reads."""
    closure = inspect.getclosurevars(function)
    defaults = _defaults(function)
    values: dict[str, Any] = {key: _plain(value, key, what) for key, value in bound.items()}
    values.update({k: _plain(v, k, what) for k, v in defaults.items() if k not in values})
    imports = []
    for name, value in {**closure.globals, **closure.nonlocals}.items():
        if isinstance(value, types.ModuleType) or _is_api(value):
            module = value.__name__
            module = _PUBLIC.get(module.partition(".")[0], module)
            if module == "tensorflow" and value.__name__ not in _PUBLIC_TENSORFLOW:
                raise ValueError(_unreadable(what, name))
            imports.append(f"import {module} as {name}" if module != name else f"import {name}")
        else:
            values[name] = _plain(value, name, what)
    del node
    return values, imports


# `import tensorflow as tf` is the public module, by whatever name its parts have.
_PUBLIC = {"tensorflow": "tensorflow", "keras": "keras"}
_PUBLIC_TENSORFLOW = ("tensorflow", "tensorflow._api.v2.v2")


def _is_api(value: Any) -> bool:
    """Returns whether a value stands for TensorFlow in an old program (`run` puts it there)."""
    return isinstance(value, types.ModuleType)


def _defaults(function: Any) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _plain(value: Any, name: str, what: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    is_list = isinstance(value, (list, tuple))
    if isinstance(value, _PLAIN) or (is_list and all(isinstance(v, _PLAIN) for v in value)):
        return value
    raise ValueError(_unreadable(what, name))


def _unreadable(what: str, name: str) -> str:
    return (
        f"{what} uses {name!r}, which is no number, text or module, so that the function can't be "
        "written by itself. Let it use TensorFlow's functions and numbers only."
    )


def _is_docstring(statement: Any) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def functions_of(nodes: Any) -> Iterator[str]:
    """Yields the names that code reads, for the closure of functions that call each other."""
    for node in ast.walk(nodes):
        if isinstance(node, ast.Name):
            yield node.id
