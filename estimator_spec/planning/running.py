# SPDX-License-Identifier: Apache-2.0
"""Runs a program until it has made its spec, if that takes arguments only the program has."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from estimator_spec.legacy import run
from estimator_spec.legacy.program_source import program_files


class RunningSpec(NamedTuple):
    """The spec of a running program.

    Attributes:
        spec: the spec.
        names: names of the module that made it.
        params: the `params` of the function that made it; None if it has none.
    """

    spec: EmbeddingConfigSpec
    names: Mapping[str, Any]
    params: Mapping[str, Any] | None


class _SpecFound(BaseException):
    """Ends the program; no `except Exception` of the program stops it."""

    def __init__(self, found: RunningSpec) -> None:
        super().__init__("spec found")
        self.found = found


def needs_arguments(name: str) -> bool:
    """Returns whether MODULE:NAME or SCRIPT.py:NAME is a function that needs arguments.

    It reads the source: a program that is run must not be imported before.
    """
    place, _, function = name.rpartition(":")
    file = program_files.StartedProgram(place, not place.endswith(".py")).file()
    if file is None:
        return False
    try:
        body = program_files.parse(file).body
    except (OSError, SyntaxError):
        return False  # the import has the error
    return any(
        len(each.args.posonlyargs + each.args.args) > len(each.args.defaults)
        or None in each.args.kw_defaults
        for each in body
        if isinstance(each, ast.FunctionDef) and each.name == function
    )


def find_spec(name: str, arguments: Sequence[str]) -> RunningSpec:
    """Runs a program until a function of it has made a spec.

    Args:
        name: MODULE:FUNCTION or SCRIPT.py:FUNCTION.
        arguments: the program's own.

    Raises:
        ValueError: the program ended before.
    """
    place, _, function = name.rpartition(":")
    is_script = place.endswith(".py")
    command = run.Command(place, list(arguments), is_module=not is_script)
    make = vars(EmbeddingConfigSpec)["__new__"]

    def stop(cls: Any, *args: Any, **kwargs: Any) -> Any:
        spec = make.__get__(None, cls)(cls, *args, **kwargs)
        frame: types.FrameType | None = inspect.currentframe()
        while frame is not None and frame.f_code.co_name != function:
            frame = frame.f_back
        if frame is None:
            return spec
        params = frame.f_locals.get("params")
        params = params if isinstance(params, Mapping) else None
        raise _SpecFound(RunningSpec(spec, frame.f_globals, params))

    # This process only plans: the program is at its end when this returns.
    type.__setattr__(EmbeddingConfigSpec, "__new__", stop)
    try:
        run.run(command)
        ended = "ended"
    except _SpecFound as stopped:
        return stopped.found
    except SystemExit as end:
        ended = f"ended with {end.code!r}" if end.code else "ended"
    finally:
        type.__setattr__(EmbeddingConfigSpec, "__new__", make)
    raise ValueError(
        f"plan {name}: {function} needs arguments, so the program was run, and {ended} before "
        f"{function} made an EmbeddingConfigSpec. Give it the arguments with which it trains, "
        "after --."
    )
