# SPDX-License-Identifier: Apache-2.0
"""Imports TensorFlow without its start-up messages that nobody can act on.

C++ code writes them to standard error, where Python's logging doesn't see them.
TF_CPP_MIN_LOG_LEVEL=0 prints all of them.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_UNWANTED = (
    "All log messages before absl::InitializeLog|oneDNN custom operations are on"
    "|This TensorFlow binary is optimized|To enable the following instructions"
    "|Unable to register cu(DNN|FFT|BLAS) factory|TF-TRT Warning: Could not find TensorRT"
    "|computation_placer already registered"
)
# A message to those who have a GPU.
_UNWANTED_ON_CPUS = f"{_UNWANTED}|Could not find cuda drivers"
# A program that copies lines of standard input to standard error.
_COPY_LINES = """
import re, sys
unwanted = re.compile(sys.argv[1].encode())
for line in sys.stdin.buffer:
    if not unwanted.search(line):
        sys.stderr.buffer.write(line)
        sys.stderr.buffer.flush()
"""
_NO_CUDA = "failed call to cuInit"
_NVIDIA = "0x10de"  # its number among the vendors of PCI devices


def import_tensorflow() -> None:
    """Imports TensorFlow for a command; does nothing if it is imported already.

    With TF_CPP_MIN_LOG_LEVEL in the environment, all is printed that this level lets through.
    """
    if "tensorflow" in sys.modules:
        return
    if _LEVEL in os.environ or not sys.executable:
        __import__("tensorflow")
    elif _has_accelerator():
        with _filtered_by_process(_UNWANTED):
            __import__("tensorflow")
    else:
        os.environ[_LEVEL] = "1"  # is read once: C++ code prints no INFO lines in this process
        try:
            with _filtered_by_process(_UNWANTED_ON_CPUS):
                __import__("tensorflow")
        finally:
            del os.environ[_LEVEL]


def is_unwanted(line: str, level: str | None) -> bool:
    """Returns whether a line that a process has printed is one of the start.

    Args:
        line: the line.
        level: the process's TF_CPP_MIN_LOG_LEVEL; None: it has none.
    """
    return level is None and _pattern().search(line) is not None


@functools.cache
def _pattern() -> re.Pattern[str]:
    return re.compile(_UNWANTED if _has_accelerator() else f"{_UNWANTED_ON_CPUS}|{_NO_CUDA}")


def list_devices() -> None:
    """Makes TensorFlow look for devices, as it does once in a process, if it is imported.

    Without a GPU it reports as an error that CUDA doesn't start. Nothing happens on a machine with
    an accelerator, or at level 0. (JAX, which TensorFlow imports if it is installed, sets level 1.)
    """
    tensorflow = sys.modules.get("tensorflow")
    config = getattr(tensorflow, "config", None)  # TensorFlow may be half imported
    if config is None or os.environ.get(_LEVEL) == "0" or _has_accelerator():
        return
    with _without_lines(_NO_CUDA.encode()):
        config.list_physical_devices()


def _has_accelerator() -> bool:
    """Returns whether the machine has a GPU of NVIDIA's, another accelerator, or a TPU.

    Asks no driver: the message may be about a driver that is missing.
    """
    if any(map(glob.glob, ("/dev/nvidia*", "/dev/kfd", "/dev/accel*", "/dev/vfio/*"))):
        return True
    for vendor in glob.glob("/sys/bus/pci/devices/*/vendor"):
        with contextlib.suppress(OSError), open(vendor, encoding="ascii") as file:
            if file.read().strip() == _NVIDIA:
                return True
    return False


@contextlib.contextmanager
def _filtered_by_process(unwanted: str) -> Iterator[None]:
    """Leaves lines out of standard error by a second process, so that a crash loses nothing.

    Args:
        unwanted: pattern of what these lines contain.
    """
    if sys.stderr is None:  # it is closed; its number may be another file's
        yield
        return
    sys.stderr.flush()
    command = [sys.executable, "-I", "-S", "-c", _COPY_LINES, unwanted]
    try:
        stderr = os.dup(2)
        # In a session of its own: an interrupt ends this process, whose last lines are copied.
        copier = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    except OSError:  # there can be no more processes
        yield
        return
    with copier:
        assert copier.stdin is not None
        os.dup2(copier.stdin.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)


@contextlib.contextmanager
def _without_lines(unwanted: bytes) -> Iterator[None]:
    """Prints standard error when the block ends, without some lines.

    It starts no process: forking a program that has threads is unsafe.
    """
    if sys.stderr is None:  # it is closed; its number may be another file's
        yield
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            written.seek(0)
            for line in written:
                if unwanted not in line:
                    os.write(stderr, line)
            os.close(stderr)
