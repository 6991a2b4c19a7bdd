# SPDX-License-Identifier: Apache-2.0
"""Compares initializers and functions, and writes them to configs and back."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import reprlib
from collections.abc import Hashable
from typing import Any

import numpy as np
import tensorflow as tf


def equality_key(thing: Any) -> Any:
    """Returns a hashable key by which callables compare equal.

    The key of an initializer with `get_config` is its class and config, of arrays the dtype, shape
    and bytes; if its class takes arguments of which its `get_config` can't know, the attributes,
    too. The key of any other callable is the callable itself.

    Args:
        thing: an initializer, a function or None.
    """
    get_config = getattr(thing, "get_config", None)
    if get_config is None or isinstance(thing, type):
        return _by_own_equality(thing)
    attributes = vars(thing) if _config_lacks_arguments(type(thing)) else None
    return (type(thing), _value_key(get_config()), _value_key(attributes))


def describe(thing: Any) -> str:
    """Describes an initializer or function in a line, for error messages.

    Arrays are described by their shape, functions of Python by where they are.

    >>> describe(tf.compat.v1.constant_initializer([1.0, 2.0]))
    "Constant(value=[1.0, 2.0], dtype='float32')"

    Args:
        thing: an initializer, a function or None.
    """
    get_config = getattr(thing, "get_config", None)
    if inspect.isfunction(thing):
        line = thing.__code__.co_firstlineno
        return f"{thing.__module__}.{thing.__qualname__} (line {line})"
    if get_config is None or isinstance(thing, type):
        return repr(thing)
    shown = (f"{name}={_short(value)}" for name, value in get_config().items())
    return f"{type(thing).__name__}({', '.join(shown)})"


def _config_lacks_arguments(kind: type) -> bool:
    """Returns whether a class has an `__init__` of its own, but inherits `get_config`."""
    for base in kind.__mro__:
        if "get_config" in vars(base):
            return False
        if "__init__" in vars(base):
            return True
    return False


def _value_key(value: Any) -> Any:
    """Returns a hashable key by which values of a config compare equal."""
    if isinstance(value, dict):
        return ("dict", frozenset((key, _value_key(each)) for key, each in value.items()))
    if isinstance(value, set):
        return ("set", frozenset(map(_value_key, value)))
    if isinstance(value, list | tuple):
        return ("list", *map(_value_key, value))
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy"):
        return ("tensor", _value_key(value.numpy()))
    if isinstance(value, tf.Tensor | tf.Variable):
        return value.ref()
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.hasobject:
            return (array.dtype.str, array.shape, _value_key(array.tolist()))
        # A digest: the key must not hold the table a second time.
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        return (str(array.dtype), array.shape, hashlib.sha256(data).hexdigest())
    if isinstance(value, float):
        return ("float", value.hex())  # NaN equals itself
    if hasattr(value, "get_config"):
        return equality_key(value)
    return (type(value), _by_own_equality(value))


def _by_own_equality(value: Any) -> Any:
    return value if isinstance(value, Hashable) else _Same(value)


class _Same:
    """Key of an object that has no hash: equal only to the key of the same object."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Same) and self._thing is other._thing

    def __hash__(self) -> int:
        return id(self._thing)


def _short(value: Any) -> str:
    shape = getattr(value, "shape", ())
    if len(shape):
        return f"<{type(value).__name__} of {value.dtype}, shape {tuple(shape)}>"
    return reprlib.repr(value)


def to_config(thing: Any, where: str) -> dict[str, Any] | None:
    """Returns a config from which `from_config` makes an equal callable.

    Args:
        thing: an initializer with `get_config`, a class or function that can be imported by name,
            or None.
        where: argument and column of the callable, for error messages.

    Returns:
        A dict that JSON can hold, or None.

    Raises:
        ValueError: `thing` is a lambda or an inner function, which can't be imported by name.
    """
    if thing is None:
        return None
    if hasattr(thing, "get_config") and not isinstance(thing, type):
        name = type(thing).__name__
        known = _initializers().get(name)
        module = "tf.compat.v1" if known is type(thing) else type(thing).__module__
        return {"class_name": name, "module": module, "config": thing.get_config()}
    name = getattr(thing, "__qualname__", "")
    if not name or "<" in name:
        raise ValueError(
            f"{where}: {thing!r} can't be written to a config, because it has no name to import "
            "it by. Define it at the top of a module, or pickle the column with cloudpickle."
        )
    return {"function": name, "module": thing.__module__}


def from_config(config: dict[str, Any] | None, custom_objects: dict[str, Any] | None = None) -> Any:
    """Returns the callable of a config.

    Of an imported module only classes with `get_config` are called, and only Python functions and
    such classes are returned.

    Args:
        config: result of `to_config`, or TensorFlow's config of an initializer.
        custom_objects: classes or functions by name; they take precedence over imports.

    Raises:
        ValueError: the name can't be imported, or isn't such a class or function.
    """
    if config is None:
        return None
    name = config.get("class_name") or config["function"]
    module = config.get("module", "tf.compat.v1")
    if custom_objects and name in custom_objects:
        thing = custom_objects[name]
    elif module == "tf.compat.v1" and name in _initializers():
        thing = _initializers()[name]
    else:
        thing = _import(module, name)
        is_class = isinstance(thing, type) and hasattr(thing, "get_config")
        is_function = "class_name" not in config and inspect.isfunction(inspect.unwrap(thing))
        if not is_class and not is_function:
            raise ValueError(
                f"Column config names {name!r} of module {module!r}, which is no class with "
                "get_config and no Python function. If you trust the config, pass it in "
                "custom_objects."
            )
    if "class_name" not in config:
        return thing
    make = getattr(thing, "from_config", None)
    return make(dict(config["config"])) if make else thing(**config["config"])


def _import(module: str, name: str) -> Any:
    try:
        return functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"Column config names {name!r} of module {module!r}, which can't be imported. Pass it "
            "in custom_objects."
        ) from error


@functools.cache
def _initializers() -> dict[str, type]:
    """Returns TF1's initializer classes by class name; their modules vary between versions."""
    found = vars(tf.compat.v1.initializers).values()
    return {thing.__name__: thing for thing in found if isinstance(thing, type)}
