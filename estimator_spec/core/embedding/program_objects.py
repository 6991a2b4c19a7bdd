# SPDX-License-Identifier: Apache-2.0
"""Loads objects of a user's program that a command line names as MODULE:NAME or SCRIPT.py:NAME."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
from typing import Any

from estimator_spec.core.embedding.spec import EmbeddingConfigSpec


def load_object(name: str, argument: str) -> Any:
    """Imports a module or script, and returns one of its objects.

    A module is found from the current directory, too, a script's imports from its own directory.
    The part of a script below `if __name__ == '__main__'` doesn't run.

    Args:
        name: MODULE:NAME or SCRIPT.py:NAME; NAME may have dots.
        argument: the argument of the command line, for messages.

    Raises:
        ValueError: the name has another form, or the program raised an error. The message is one
            line.
    """
    place, separator, attribute = name.rpartition(":")
    if not separator:
        raise ValueError(f"{argument} {name}: give MODULE:NAME.")
    try:
        if place.endswith(".py"):
            module = _import_script(place)
            return pkgutil.resolve_name(f"{module}:{attribute}")
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return pkgutil.resolve_name(name)
    except (Exception, SystemExit) as error:  # whatever the user's module raises
        raise _program_error(name, argument, error) from error


def load_spec(name: str, argument: str) -> EmbeddingConfigSpec:
    """Imports a module or script, and returns one of its specs.

    Args:
        name: as for `load_object`; a function without arguments that returns the spec, too.
        argument: the argument of the command line, for messages.

    Raises:
        ValueError: as `load_object`, or it is no spec.
    """
    return make_spec(load_object(name, argument), name, argument)


def make_spec(found: Any, name: str, argument: str) -> EmbeddingConfigSpec:
    """Returns a loaded spec, or the spec that a loaded function returns.

    Args:
        found: the result of `load_object`.
        name: its name on the command line, for messages.
        argument: the argument of the command line, for messages.

    Raises:
        ValueError: the function raised an error, or it is no spec.
    """
    if callable(found):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise _program_error(name, argument, error) from error
    if not isinstance(found, EmbeddingConfigSpec):
        raise ValueError(
            f"{argument} {name}: it is a {type(found).__name__}, no EmbeddingConfigSpec."
        )
    return found


def _import_script(path: str) -> str:
    """Imports a script as a module, and returns the module's name."""
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path!r}")
    directory, file = os.path.split(os.path.realpath(path))
    if directory not in sys.path:
        sys.path.insert(0, directory)
    name = file.removesuffix(".py")
    known = getattr(sys.modules.get(name), "__file__", None)
    if known is not None and os.path.realpath(known) == os.path.join(directory, file):
        return name
    if name in sys.modules:
        name = f"{name}_script"  # such as a script that is called like an imported module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None  # a file that ends with .py has a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # functions and classes are pickled by their module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return name


def _program_error(name: str, argument: str, error: BaseException) -> ValueError:
    first_line = f"{argument} {name}: {type(error).__name__}: {error}".split("\n", 1)[0]
    return ValueError(first_line)
