# SPDX-License-Identifier: Apache-2.0
"""Loads the library of ops for the installed TensorFlow, if there is one."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import tensorflow as tf

from tpu_columns.kernels import libraries
from tpu_columns.kernels.libraries import Library, UnusableError
from tpu_columns.optimizations import Optimization

PREFIX = "TpuColumns"
"""With it the types of our ops begin."""

OPS = (
    "tpu_columns_look_up_tables",
    "tpu_columns_resource_update",
    "tpu_columns_row_gradients",
    "tpu_columns_update",
    "tpu_columns_update_tables",
    "tpu_columns_use_huge_pages",
)
"""What a library must have; see `cpp/`."""


@functools.cache
def load() -> Any:
    """Returns the module of the ops; None: there is none, which a warning says, once."""
    module, reasons = libraries.find(tf.__version__, _open_checked)
    if module is None:
        tf.compat.v1.logging.warning(
            "TensorFlow's own ops look up and update tables, more slowly than the kernels of "
            "tpu_columns: %s. To build them: %s. Set %s=0 to do without.",
            "; ".join(reasons),
            libraries.COMMAND,
            Optimization.NATIVE_KERNELS.value,
        )
    return module


def _open_checked(library: Library) -> Any:
    check_tensorflow(library)
    return open_library(library.path)


def compile_flags() -> tuple[str, ...]:
    """Returns the compiler flags of the installed TensorFlow, without directories."""
    return tuple(flag for flag in tf.sysconfig.get_compile_flags() if not flag.startswith("-I"))


def check_tensorflow(library: Library) -> None:
    """Checks that a library was built for the installed TensorFlow, before it is loaded.

    Raises:
        UnusableError: it was built for another one.
    """
    is_for_all = not library.git_version
    if library.flags != compile_flags() or not (
        is_for_all or library.git_version == tf.version.GIT_VERSION
    ):
        raise UnusableError(
            f"{library.path} is refused, as it was built for another TensorFlow "
            f"{library.tensorflow} than this {tf.version.GIT_VERSION}"
        )


def open_library(path: Path | str) -> Any:
    """Returns the module of the ops in a library.

    Raises:
        UnusableError: it can't be loaded, or lacks an op.
    """
    try:
        module = tf.load_op_library(str(path))
    except (tf.errors.OpError, OSError, RuntimeError) as error:
        text = " ".join(str(getattr(error, "message", error)).split())
        raise UnusableError(f"{path} can't be loaded: {text}") from None
    missing = [op for op in OPS if not hasattr(module, op)]
    if missing:
        raise UnusableError(f"{path} is refused, as it has no op {missing[0]}")
    return module
