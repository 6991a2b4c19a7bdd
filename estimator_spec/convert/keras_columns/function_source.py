# SPDX-License-Identifier: Apache-2.0
"""Writes functions of a program as functions of their own: what they read becomes constants."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.convert.keras_columns.statements import REGISTERED, function_text

_PLAIN = (bool, int, float, str, bytes, type(None))


def write_function(function: Callable[..., Any], name: str, what: str) -> str:
    """Returns the source of a function under a name.

    Names that the function reads from its module or from functions around it become variables of
    its own, if they are numbers, strings or lists of them, or TensorFlow's; modules become imports.

    Args:
        function: a function, a lambda, one of TensorFlow, or a `functools.partial` of one.
        name: the name.
        what: what it is, for errors.

    Raises:
        ValueError: its source isn't found, it needs further arguments, or it reads something else.
    """
    return _write(function, name, what, (), f"Returns what {what} makes of a feature.")


def write_loss(function: Callable[..., Any], name: str) -> str:
    """Returns the source of a loss function of labels and logits, which Keras can save by name.

    Args:
        function: the function.
        name: as for `write_function`.

    Raises:
        ValueError: as for `write_function`.
    """
    what = f"the loss_fn {getattr(function, '__name__', name)!r}"
    found = _write(function, name, what, ("labels", "logits"), "Returns the losses of examples.")
    return f"{REGISTERED}\n{found}"


def _write(
    function: Callable[..., Any], name: str, what: str, wanted: tuple[str, ...], docstring: str
) -> str:
    """Returns the source of a function of the wanted arguments, in any order; (): of any one."""
    bound: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        if function.args:
            raise ValueError(f"{what} is a functools.partial of positional arguments. Name them.")
        bound = {**function.keywords, **bound}
        function = function.func
    path = _path_in_tensorflow(function)
    if path is not None:
        arguments = list(wanted) or ["value"]
        given = [f"{each}={each}" for each in wanted] or ["value"]
        given += [f"{key}={_plain(value, key, what)!r}" for key, value in bound.items()]
        setup, body = [], [f"return {path.replace('tensorflow', 'tf', 1)}({', '.join(given)})"]
    else:
        node = _find(function, what)
        defaults = _defaults(function)
        free = [name for name in _positional(node) if name not in bound]
        # A normalizer is called with one value, which is the first argument.
        arguments = [name for name in free if name in wanted] if wanted else free[:1]
        if any(name not in defaults for name in free if name not in arguments) or (
            len(arguments) != (len(wanted) or 1)
        ):
            needed = " and ".join(wanted) or "one argument"
            raise ValueError(f"{what} must take {needed}, but takes {free}.")
        bound = {**defaults, **bound}
        bound = {name: value for name, value in bound.items() if name not in arguments}
        setup = [*_rest(node, bound, what), *_setup(function, bound, what)]
        statements = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        names = _NamesOfTensorFlow2(function, what)
        statements = [names.visit(each) for each in statements]
        body = [ast.unparse(each) for each in statements if not _is_docstring(each)]
    signature = f"{name}({', '.join(f'{argument}: Any' for argument in arguments)}) -> Any"
    lines = "\n".join([*setup, *body]).split("\n")
    return function_text(signature, docstring, lines)


def _find(function: Any, what: str) -> Any:
    """Returns the syntax tree of a function: the one lambda of its line, or its definition."""
    if not isinstance(function, types.FunctionType):
        raise ValueError(
            f"{what} is {function!r}, whose source isn't Python. Write it as a function of one "
            "argument in the program."
        )
    try:
        first = function.__code__.co_firstlineno
        file_lines, _ = inspect.findsource(function)
        tree = ast.parse("".join(file_lines))
    except (OSError, TypeError, SyntaxError):
        raise ValueError(f"{what}: the source of {function!r} isn't found.") from None
    kinds = (ast.Lambda,) if function.__name__ == "<lambda>" else (ast.FunctionDef,)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kinds)
        and first in (node.lineno, _first_line(node))
        and tuple(_positional(node)) == names
        and _same_code(node, function)
    ]
    if not found or len({ast.dump(node) for node in found}) > 1:
        raise ValueError(
            f"{what}: which function of line {first} it is can't be told. Write it as a function "
            "with a name."
        )
    return found[0]


def _positional(node: Any) -> list[str]:
    """Returns the names of a function's positional arguments."""
    return [each.arg for each in (*node.args.posonlyargs, *node.args.args)]


def _rest(node: Any, bound: dict[str, Any], what: str) -> list[str]:
    """Returns statements that define `*arguments` and `**options`; takes the latter of `bound`."""
    known = {*_positional(node), *(each.arg for each in node.args.kwonlyargs)}
    lines = [] if node.args.vararg is None else [f"{node.args.vararg.arg} = ()"]
    if node.args.kwarg is not None:
        rest = {name: _plain(bound.pop(name), name, what) for name in [*bound] if name not in known}
        lines.append(f"{node.args.kwarg.arg} = {rest!r}")
    return lines


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


def _setup(function: Any, bound: dict[str, Any], what: str) -> list[str]:
    """Returns statements that define the names that a function reads, but for its arguments."""
    lines: list[str] = []
    read = {**bound, **inspect.getclosurevars(function).nonlocals}
    for name in dict.fromkeys(_globals_of(function.__code__)):
        if name in function.__globals__:
            read[name] = function.__globals__[name]
        elif not hasattr(builtins, name):
            raise ValueError(_unreadable(what, name))
    for name, value in read.items():
        path = _path_in_tensorflow(value)
        if path == "tensorflow":
            lines += [] if name == "tf" else [f"import tensorflow as {name}"]
        elif path is not None:
            lines += ["import tensorflow", f"{name} = {path}"]
        elif isinstance(value, types.ModuleType):
            module = value.__name__
            lines.append(f"import {module} as {name}" if module != name else f"import {name}")
        else:
            lines.append(f"{name} = {_plain(value, name, what)!r}")
    return list(dict.fromkeys(lines))


def _globals_of(code: types.CodeType) -> Iterator[str]:
    """Yields the global names that code reads, and that of functions within it."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


class _NamesOfTensorFlow2(ast.NodeTransformer):
    """Gives what code reads from the program's `tf` the names that TensorFlow 2 has for it.

    Under `run` that module has names of TensorFlow 1, too, such as `tf.log`.
    """

    def __init__(self, function: Any, what: str) -> None:
        read = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
        self._modules = {name: value for name, value in read.items() if _is_tensorflow(value)}
        self._what = what

    def visit_Import(self, node: ast.Import) -> ast.AST:
        """Adds the names of `import tensorflow` in a function."""
        for alias in node.names:
            if alias.name == "tensorflow":
                self._modules[alias.asname or alias.name] = sys.modules["tensorflow"]
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replaces a name that TensorFlow 2 lacks, or has for something else."""
        self.generic_visit(node)
        root, *path = ast.unparse(node).split(".")
        if root not in self._modules:
            return node
        old, new = _look_up(self._modules[root], path), _look_up(tf.compat.v2, path)
        if old is None or isinstance(old, types.ModuleType) or old is new:
            return node
        found = _path_in_tensorflow(old)
        if found is None and (callable(old) or new is None):
            raise ValueError(
                f"{self._what} uses {ast.unparse(node)!r}, which TensorFlow 2 doesn't have. Use "
                "functions of TensorFlow 2."
            )
        if found is None:
            return node
        return ast.parse(found.replace("tensorflow", root, 1), mode="eval").body


def _look_up(module: Any, path: list[str]) -> Any:
    """Returns what has a name in a module, or in one of its modules; None: nothing has."""
    found = module
    for name in path:
        if not isinstance(found, types.ModuleType):
            return None
        found = getattr(found, name, None)
    return found


def _is_tensorflow(value: Any) -> bool:
    """Returns whether a value is the public module, by whatever name its parts have."""
    return isinstance(value, types.ModuleType) and value.__name__ in _PUBLIC_TENSORFLOW


_PUBLIC_TENSORFLOW = ("tensorflow", "tensorflow._api.v2.v2")


def _path_in_tensorflow(value: Any) -> str | None:
    """Returns the path of a function, or module, of TensorFlow, such as `tensorflow.math.log1p`."""
    if _is_tensorflow(value):
        return "tensorflow"
    if not callable(value) and not isinstance(value, (types.ModuleType, tf.DType)):
        return None
    # `tf` itself may have more names, of TensorFlow 1, that `run` gives it.
    todo = [("tensorflow", tf.compat.v2), ("tensorflow.compat.v1", tf.compat.v1)]
    found = [path for path, module in todo if module is value]
    seen = {id(module) for _, module in todo}
    for path, module in todo:
        for name, child in list(vars(module).items()):
            if name.startswith("_"):
                continue
            if child is value:
                found.append(f"{path}.{name}")
            if isinstance(child, types.ModuleType) and id(child) not in seen:
                seen.add(id(child))
                # TF1's `tf.keras` has no name where Keras is 3.
                if getattr(child, "__name__", "").startswith("tensorflow."):
                    todo.append((f"{path}.{name}", child))
    return min(found, key=lambda path: (".compat." in path, path.count("."), path), default=None)


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
