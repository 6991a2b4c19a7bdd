# SPDX-License-Identifier: Apache-2.0
"""Gives programs written for TensorFlow 1 its API under `import tensorflow`.

Most of that API is `tensorflow.compat.v1` now. While such a program runs, imports of `tensorflow`
in its own modules return a module with TensorFlow 1's names; installed packages, including
TensorFlow, still import the real one.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.legacy.program_api import SHARED
from estimator_spec.legacy.program_source import program_files

tf1 = tf.compat.v1

_OURS = ("estimator_spec", "tpu_columns")


class TF1Module(types.ModuleType):
    """The module `tensorflow` with the names of `tf.compat.v1` first."""

    def __init__(self) -> None:
        super().__init__(tf.__name__, tf.__doc__)
        for name in ("__file__", "__path__", "__spec__", "__version__"):
            setattr(self, name, getattr(tf, name))
        self.__all__ = [name for name in dir(self) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name not in SHARED:
            try:
                return getattr(tf1, name)
            except AttributeError:
                pass
        return getattr(tf, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(tf), *dir(tf1)})


def enable(program: bool, also: Sequence[str] = ()) -> None:
    """Switches a process to TensorFlow 1's names and behaviour; does nothing for no module.

    Args:
        program: whether the program's own modules get TensorFlow 1's names.
        also: installed packages that get them.

    Raises:
        ValueError: a graph or a session exists already.
    """
    if (not program and not also) or isinstance(builtins.__import__, _ImportOfTF1):
        return
    who = [*(["The program"] if program else []), *also]
    tf1.logging.warning(
        "%s uses names of TensorFlow 1: its `import tensorflow` gives tf.compat.v1, with v2 "
        "behaviour switched off. (`run --no-tf1` does without.)",
        ", ".join(who),
    )
    tf1.disable_v2_behavior()
    builtins.__import__ = _ImportOfTF1(builtins.__import__, program, also)


def restore_v2_names_and_switches() -> None:
    """Undoes what `enable`, or `tf.compat.v1.disable_v2_behavior`, has done, but for eager mode.

    TensorFlow switches eager mode on at a program's start only: `private.eager_mode` has a block.
    """
    if isinstance(builtins.__import__, _ImportOfTF1):
        builtins.__import__ = builtins.__import__.real
    tf1.enable_v2_tensorshape()
    tf1.enable_resource_variables()
    tf1.enable_tensor_equality()
    tf1.enable_control_flow_v2()


class _ImportOfTF1:
    """Replacement of `__import__`: some modules get TensorFlow 1's names as `tensorflow`.

    Args:
        real: Python's `__import__`.
        program: whether modules of the program get them.
        also: installed packages whose modules get them.
    """

    def __init__(self, real: Any, program: bool, also: Sequence[str]) -> None:
        self.real = real
        self._program = program
        self._also = frozenset(also)
        self._tensorflow = TF1Module()

    def __call__(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        """Imports as Python does, except for `tensorflow` in one of these modules."""
        if name == "tensorflow" and level == 0 and self._is_of_tf1(globals):
            for part in fromlist or ():
                if part in SHARED or part == "contrib":
                    self.real(f"{name}.{part}")
            return self._tensorflow
        module = self.real(name, globals, locals, fromlist, level)
        if module is sys.modules.get("tensorflow") and level == 0 and self._is_of_tf1(globals):
            return self._tensorflow  # import tensorflow.something
        return module

    def _is_of_tf1(self, globals: Mapping[str, Any] | None) -> bool:
        """Returns whether the importing module gets TensorFlow 1's names."""
        package = str((globals or {}).get("__name__") or "").split(".")[0]
        path = (globals or {}).get("__file__")
        if package in self._also:
            return True
        if not self._program or not path or package in _OURS:
            return False
        return program_files.is_own(path)
