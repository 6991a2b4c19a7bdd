# SPDX-License-Identifier: Apache-2.0
"""Compares initializers and functions, and writes them to configs and back."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
from typing import Any

import tensorflow as tf


def equality_key(thing: Any) -> Any:
    """Returns a hashable key by which callables compare equal.

    The key of an initializer with `get_config` is its class and config; the key of any other
    callable is the callable itself.

    Args:
        thing: an initializer, a function or None.
    """
    get_config = getattr(thing, "get_config", None)
    if get_config is None or isinstance(thing, type):
        return thing
    return (type(thing), json.dumps(get_config(), sort_keys=True, default=repr))


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
