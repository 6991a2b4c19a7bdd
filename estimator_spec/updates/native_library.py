# SPDX-License-Identifier: Apache-2.0
"""Compiles `native/` against the installed TensorFlow, once a user and version, and loads it.

TensorFlow has no binary interface that outlives a version, so the library is built where it runs,
in some ten seconds, by the C++ compiler of the machine. It is kept in a cache directory, under a
name made of its source, TensorFlow's version and the compiler's options:

    $TPU_COLUMNS_CACHE, or $XDG_CACHE_HOME/tpu_columns, or ~/.cache/tpu_columns

Without a compiler, TensorFlow's own ops are used.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import tensorflow as tf

from tpu_columns import environment

UNIT = Path(__file__).with_name("native") / "kernels.cc"
"""What is compiled; it includes the headers beside it."""

# No fused multiply-add, and no approximation: a row's result must not depend on its place in a
# vector. Without errno and traps, square roots, and quotients under a condition, are vector
# instructions, which are rounded alike. -w: the warnings are TensorFlow's.
_OPTIONS = (
    *("-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared", "-w"),
)
_COMPILERS = ("c++", "g++", "clang++")
_TIMEOUT_S = 600


@functools.cache
def load() -> Any:
    """Returns the module of the native ops, which it compiles if need be; None: there are none.

    Why there are none is logged, once.
    """
    try:
        compiler = find_compiler()
        if compiler is None:
            tf.compat.v1.logging.info(
                "No native kernels: there is no C++ compiler (%s; or set CXX). TensorFlow's own "
                "ops look up and update tables.",
                ", ".join(_COMPILERS),
            )
            return None
        library = build(compiler, cache_directory())
        try:
            return tf.load_op_library(str(library))
        except tf.errors.OpError:  # damaged, or made where other libraries are
            library.unlink()
            return tf.load_op_library(str(build(compiler, cache_directory())))
    except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:  # ValueError: bad $CXX
        tf.compat.v1.logging.warning(
            "No native kernels: %s TensorFlow's own ops look up and update tables. Set "
            "TPU_COLUMNS_NATIVE_KERNELS=0 to skip this.",
            error,
        )
        return None


def find_compiler() -> list[str] | None:
    """Returns the command of the C++ compiler: $CXX, or the first found of some names; or None."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    if chosen:
        return chosen if shutil.which(chosen[0]) else None
    return next(([found] for name in _COMPILERS if (found := shutil.which(name))), None)


def cache_directory() -> Path:
    """Returns the directory that keeps compiled libraries.

    Raises:
        RuntimeError: its path isn't absolute: libraries are loaded from no working directory.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found = Path(environment.read(environment.CACHE, os.path.join(base, "tpu_columns")))
    if not found.is_absolute():
        raise RuntimeError(
            f"the directory of compiled libraries, {str(found)!r}, must be an absolute path; set "
            f"{environment.CACHE}."
        )
    return found


def build(compiler: list[str], directory: Path, unit: Path = UNIT) -> Path:
    """Returns the path of the compiled library; compiles it unless the directory has it.

    Args:
        compiler: command of a C++ compiler.
        directory: where to keep the library; it is created.
        unit: what to compile.

    Raises:
        OSError: the compiler can't be started.
        RuntimeError: the directory can't be written, or the compiler fails; the message has its
            first errors.
    """
    options = [*compiler, *_OPTIONS, *tf.sysconfig.get_compile_flags()]
    built_with = [tf.version.GIT_VERSION, tf.version.COMPILER_VERSION, platform.machine()]
    sources = sorted([*unit.parent.glob("*.h"), unit])
    key = [path.read_text("utf-8") for path in sources]
    key += [*built_with, *options, *tf.sysconfig.get_link_flags()]
    name = hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
    library = directory / f"kernels-{tf.__version__}-{name}.so"
    if library.exists():
        return library
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Several processes may do this at once: the last one's file, which is the same, stays.
        handle, unfinished = tempfile.mkstemp(".so", library.stem + ".", directory)
    except OSError as error:
        raise RuntimeError(
            f"{directory} can't be written ({error.strerror}): set {environment.CACHE} to a "
            "directory that can."
        ) from error
    os.close(handle)
    tf.compat.v1.logging.info(
        "Compiling native kernels for TensorFlow %s, once: %s", tf.__version__, library
    )
    try:
        command = [*options, str(unit), "-o", unfinished]
        command += tf.sysconfig.get_link_flags()
        # Without a PATH the compiler is found, but doesn't find its linker.
        done = subprocess.run(
            command,
            capture_output=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
            env={"PATH": os.defpath, **os.environ},
        )
        if done.returncode:
            printed = (done.stderr or done.stdout).strip().splitlines()
            lines = [line for line in printed if "error:" in line] or printed
            raise RuntimeError(
                f"{shlex.join(compiler)} failed on {unit}: " + " / ".join(lines[:5]) + "."
            )
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, library)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{shlex.join(compiler)} took more than {_TIMEOUT_S} s.") from None
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return library
