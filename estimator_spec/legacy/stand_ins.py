# SPDX-License-Identifier: Apache-2.0
"""Replaces what isn't restored, so that an import which is never used doesn't stop a program.

A stand-in can be imported, read, passed on, subclassed and used in an annotation. Calling it,
constructing a subclass, comparing it with a string or a number, and other uses of its value raise
an error with advice and the program's line.

A program that looks for a name finds none: `hasattr` is false, and so is an import or a read in a
`try` that handles the failure, whose fallback then runs.
"""

from __future__ import annotations

import numbers
import sys
import types
from typing import Any, NoReturn

from estimator_spec.legacy import call_sites, unsupported_names
from estimator_spec.legacy.call_sites import Access


class LegacyAttributeError(AttributeError):
    """A removed name that isn't supported was read from a legacy module."""


class LegacyImportError(ModuleNotFoundError):
    """A removed name that isn't supported was imported."""


class StandIn(types.ModuleType):
    """Replacement of a module, class or function that isn't restored.

    Args:
        name: its full name, in the program's spelling.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name, f"Stand-in for {name}, which estimator_spec doesn't restore.")
        # A package without files: imports of submodules reach our finder.
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return missing(self.__name__, name, call_sites.caller(), self)

    def __mro_entries__(self, bases: Any) -> tuple[type]:
        """Returns the base class of a subclass, whose construction raises."""
        del bases

        def construct(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
            del cls, args, kwargs
            self._refuse()

        return (type(self.__name__.rpartition(".")[2], (), {"__new__": construct}),)

    def __instancecheck__(self, instance: Any) -> bool:
        """Returns False: nothing can be an instance, or a subclass."""
        del instance
        return False

    __subclasscheck__ = __instancecheck__

    def __eq__(self, other: object) -> bool:
        # Not for all objects: libraries compare modules, and `typing` compares annotations.
        if isinstance(other, (str, bytes, numbers.Number)):
            self._refuse()
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        if not self._is_imported():
            self._refuse()
        return True

    def __copy__(self) -> StandIn:
        return self

    def __deepcopy__(self, memo: Any) -> StandIn:
        del memo
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Does nothing: `__enter__` has raised."""

    def _is_imported(self) -> bool:
        """Returns whether this is in `sys.modules`, whose modules libraries test for truth."""
        return sys.modules.get(self.__name__) is self

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises `LegacyAttributeError`, whatever the use."""
        del args, kwargs
        module, _, name = self.__name__.rpartition(".")
        line = call_sites.program_line(call_sites.caller())
        raise LegacyAttributeError(f"{_message(module, name)} (Used in {line}.)", name=name)

    __call__ = __iter__ = __getitem__ = __enter__ = _refuse


def _message(module: str, name: str) -> str:
    """Returns the message of both errors: advice on a name that a module lacks."""
    advice = unsupported_names.advice(module, name)
    return f"{module}.{name} isn't among the removed names that estimator_spec puts back. {advice}"


def missing(module: str, name: str, frame: types.FrameType, owner: types.ModuleType) -> StandIn:
    """Returns the stand-in for a name of the module `owner`, which lacks it, that `frame` reads.

    Raises:
        LegacyAttributeError: the program asks whether the module has the name, or handles that it
            hasn't.
        LegacyImportError: the same for an import.
    """
    how = Access.QUERY if name.startswith("__") else call_sites.access(frame)
    if how is Access.QUERY or call_sites.handles_failure(frame, how):
        text = _message(module, name)
        if how is Access.IMPORT:
            raise LegacyImportError(text, name=f"{module}.{name}")
        raise LegacyAttributeError(text, name=name, obj=owner)
    return StandIn(f"{module}.{name}")


def missing_module(module: str, name: str, restored: bool) -> StandIn | None:
    """Returns the stand-in for a submodule that is being imported; None if there is none.

    Args:
        module: the parent's full name.
        name: the submodule's.
        restored: whether the parent is one of our modules, rather than TensorFlow's.

    Raises:
        LegacyImportError: the program handles that the import fails.
    """
    frame, functions = call_sites.importer(call_sites.caller())
    if "_find_and_load" not in functions:
        return None  # importlib.util.find_spec only asks
    if "_handle_fromlist" in functions and restored:
        return None  # `from module import name` reads the name from the module next
    if frame is not None and call_sites.handles_failure(frame, Access.IMPORT):
        # Named after the parent: `from parent import name` swallows errors named after both.
        raise LegacyImportError(_message(module, name), name=module)
    return StandIn(f"{module}.{name}")


def remove_all() -> None:
    """Removes stand-ins from `sys.modules` and from the modules that an import set them in."""
    for full, module in list(sys.modules.items()):
        if isinstance(module, StandIn):
            del sys.modules[full]
            parent, _, name = full.rpartition(".")
            if vars(sys.modules.get(parent, module)).get(name) is module:
                delattr(sys.modules[parent], name)
