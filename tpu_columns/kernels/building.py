# SPDX-License-Identifier: Apache-2.0
"""Compiles the ops for a TensorFlow: the installed one, or one that is unpacked somewhere.

A library's name is made of all that it depends on, so an older one is never taken for it. One
process builds at a time; others wait, and find the library.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tpu_columns.file_locks import fcntl
from tpu_columns.kernels import libraries
from tpu_columns.kernels.libraries import Library, UnusableError

UNIT = "kernels.cc"
TIMEOUT_S = 600
"""Default limit of a compiler's time; ours takes fifteen seconds."""

# No fused multiply-add, and no approximation: a row's result must not depend on its place in a
# vector. Without errno and traps, square roots, and quotients under a condition, are vector
# instructions, which are rounded alike.
_OPTIONS = (
    *("-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fPIC", "-shared"),
)
# Without symbols for debuggers. Linking fails if TensorFlow lacks a function.
_LINUX_OPTIONS = ("-s", "-Wl,-z,defs")
_COMPILERS = ("c++", "g++", "clang++")
# Those of all releases from 2.15 to 2.21.
_FLAGS_OF_RELEASES = ("-D_GLIBCXX_USE_CXX11_ABI=1", "--std=c++17", "-DEIGEN_MAX_ALIGN_BYTES=64")
_DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu", "tf-nightly", "tf-nightly-cpu")
_LOADS = "import sys; from tpu_columns.kernels import loading; loading.open_library(sys.argv[1])"


class BuildError(RuntimeError):
    """A library can't be built; the message is one line."""


class NoCompilerError(BuildError):
    """There is no C++ compiler, and none is named."""


@dataclasses.dataclass(frozen=True)
class Target:
    """A TensorFlow to build for.

    Attributes:
        version: its version.
        git_version: see `Library`.
        compile_flags: flags with which its headers are compiled.
        link_flags: flags that link its library.
    """

    version: str
    git_version: str
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler flags without directories."""
        return tuple(flag for flag in self.compile_flags if not flag.startswith("-I"))

    @property
    def directories(self) -> tuple[str, ...]:
        """Flags that name its headers as the system's, of which the compiler warns of nothing."""
        found = (flag[2:] for flag in self.compile_flags if flag.startswith("-I"))
        return tuple(word for directory in found for word in ("-isystem", directory))


def installed_target() -> Target:
    """Returns the installed TensorFlow."""
    import tensorflow as tf

    sysconfig = tf.sysconfig
    flags = tuple(sysconfig.get_compile_flags()), tuple(sysconfig.get_link_flags())
    return Target(tf.__version__, tf.version.GIT_VERSION, *flags)


def unpacked_target(directory: Path) -> Target:
    """Returns a release that is unpacked in a directory: headers, library and metadata.

    Raises:
        BuildError: there is none.
    """
    found = {
        (each.metadata["Name"] or "").replace("_", "-"): each.version
        for each in importlib.metadata.distributions(path=[str(directory)])
    }
    version = next((found[name] for name in _DISTRIBUTIONS if name in found), None)
    if version is None:
        raise BuildError(f"{directory} has no TensorFlow: expected the contents of its wheel.")
    package = directory / "tensorflow"
    flags = (f"-I{package / 'include'}", *_FLAGS_OF_RELEASES)
    return Target(version, "", flags, (f"-L{package}", "-l:libtensorflow_framework.so.2"))


def find_compiler() -> list[str]:
    """Returns the command of the C++ compiler: $CXX, or the first found of some names.

    Raises:
        NoCompilerError: there is none.
        BuildError: $CXX can't be run.
    """
    text = os.environ.get("CXX", "")
    try:
        chosen = shlex.split(text)
    except ValueError as error:
        raise BuildError(f"CXX={text!r} is no command: {error}.") from None
    if chosen and shutil.which(chosen[0]) is None:
        raise BuildError(f"CXX={text!r} names no program that can be run. Correct or unset it.")
    if chosen:
        return chosen
    for name in _COMPILERS:
        if found := shutil.which(name):
            return [found]
    raise NoCompilerError(
        f"There is no C++ compiler: none of {', '.join(_COMPILERS)} is on PATH, and CXX isn't set."
    )


def build_for_user(
    timeout: float = TIMEOUT_S, begin: Callable[[], None] | None = None
) -> tuple[Library, bool]:
    """Builds the library of the installed TensorFlow, unless the user has it.

    Args:
        timeout: seconds that the compiler may take.
        begin: called before it is started.

    Returns:
        The library, and whether it is new.

    Raises:
        BuildError: it can't be built, or its directory belongs to somebody else.
    """
    target = installed_target()
    with _explaining_errors():
        directory = libraries.cache_directory()
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # a file, too
            directory.mkdir(mode=0o700)
        libraries.check_directory(directory)
    manifest = directory / libraries.manifest_name(target.version)
    return build(target, manifest, timeout, begin, verify=_load_elsewhere)


def build_for_wheel(
    unpacked: Path,
    directory: Path,
    timeout: float = TIMEOUT_S,
    begin: Callable[[], None] | None = None,
) -> tuple[Library, bool]:
    """Builds the library of an unpacked TensorFlow, for the folder `libraries` of a wheel.

    Args:
        unpacked: directory of the unpacked wheel.
        directory: directory of the library.
        timeout: seconds that the compiler may take.
        begin: called before it is started.

    Raises:
        BuildError: it can't be built.
    """
    target = unpacked_target(unpacked)
    directory.mkdir(parents=True, exist_ok=True)
    manifest = directory / f"{libraries.minor_version(target.version)}.json"
    return build(target, manifest, timeout, begin)


def build(
    target: Target,
    manifest: Path,
    timeout: float = TIMEOUT_S,
    begin: Callable[[], None] | None = None,
    verify: Callable[[Path, float], None] | None = None,
) -> tuple[Library, bool]:
    """Builds a library beside its manifest, unless it is there.

    Args:
        target: the TensorFlow to build for.
        manifest: path of the manifest.
        timeout: seconds that the compiler may take.
        begin: called before it is started.
        verify: called with the finished library and the limit; raises if it is no good.

    Returns:
        The library, and whether it is new.

    Raises:
        BuildError: it can't be built. What was there before stays.
    """
    compiler = find_compiler()
    by = f"{shlex.join(compiler)}: {_first_line([*compiler, '--version'], timeout)}"
    parts = [libraries.hash_sources(), *options(target), target.version, target.git_version]
    name = libraries.hash_of("\0".join([*parts, by, platform.machine()]).encode())
    path = manifest.parent / f"kernels-{target.version}-{name[:16]}.so"
    with _locked(manifest.parent / "lock"), tempfile.TemporaryDirectory(prefix="tpu_") as scratch:
        former = libraries.read_manifest(manifest)
        if former is not None and former.path == path and former.is_whole():
            return former, False
        output = Path(scratch, "kernels.so")
        if begin is not None:
            begin()
        compile_unit(compiler, target, libraries.SOURCES / UNIT, output, timeout)
        if verify is not None:
            verify(output, timeout)
        data = output.read_bytes()
        library = Library(
            path,
            libraries.hash_of(data),
            libraries.hash_sources(),
            target.version,
            target.git_version,
            target.flags,
            by,
        )
        _write(path, data)
        _write(manifest, library.manifest())
        if former is not None and former.path != path and former.is_whole():
            former.path.unlink()
    return library, True


def options(target: Target) -> tuple[str, ...]:
    """Returns the compiler's options without directories."""
    return (*_OPTIONS, *(_LINUX_OPTIONS if sys.platform == "linux" else ()), *target.flags)


def compile_unit(
    compiler: Sequence[str], target: Target, unit: Path, output: Path, timeout: float
) -> None:
    """Compiles a file of C++ to a library.

    Args:
        compiler: command of the compiler.
        target: the TensorFlow to build for.
        unit: the file.
        output: path of the library.
        timeout: seconds that the compiler may take.

    Raises:
        BuildError: the compiler can't be run, fails, takes too long, or writes nothing.
    """
    command = [*compiler, *options(target), *target.directories, str(unit), "-o", str(output)]
    status, text = _run([*command, *target.link_flags], timeout, TMPDIR=str(output.parent))
    if status:
        printed = text.strip().splitlines()
        lines = [line for line in printed if "error" in line] or printed or [f"status {status}"]
        raise BuildError(f"{shlex.join(compiler)} failed on {unit}: {' / '.join(lines[:5])}.")
    if not output.is_file():
        raise BuildError(f"{shlex.join(compiler)} wrote no library, and reported no error.")


def clean(directory: Path, everything: bool = False) -> list[Path]:
    """Removes the libraries of a directory that were built of other sources than these.

    A library is removed if its manifest has its hash.

    Args:
        directory: the directory.
        everything: whether to remove those of these sources, too.

    Returns:
        What was removed.

    Raises:
        BuildError: the directory can't be read or written, or belongs to somebody else.
    """
    removed: list[Path] = []
    if not directory.exists():
        return removed
    with _explaining_errors(directory):
        libraries.check_directory(directory)
        with _locked(directory / "lock"):
            for manifest in sorted(directory.glob("*.json")):
                library = libraries.read_manifest(manifest)
                is_old = library is not None and library.sources != libraries.hash_sources()
                if library is None or not (is_old or everything):
                    continue
                own = [library.path, manifest] if library.is_whole() else [manifest]
                for path in own:
                    path.unlink()
                removed += own
    return removed


def _load_elsewhere(path: Path, timeout: float) -> None:
    """Loads a library in a process of its own, which a broken library may end."""
    found = os.pathsep.join(sys.path)
    command = [sys.executable, "-c", _LOADS, str(path)]
    status, text = _run(command, max(timeout, 60), PYTHONPATH=found, TF_CPP_MIN_LOG_LEVEL="3")
    if status:
        lines = text.strip().splitlines()[-1:] if status > 0 else []
        reason = lines[0] if lines else f"its process ended with status {status}"
        raise BuildError(f"The compiler wrote a library that doesn't work: {reason}.")


def _first_line(command: Sequence[str], timeout: float) -> str:
    status, text = _run(command, timeout)
    if status:
        said = " ".join(text.split())[:200] or f"status {status}"
        raise BuildError(f"{shlex.join(command)} failed: {said}.")
    return (text.strip().splitlines() or [""])[0]


def _run(command: Sequence[str], timeout: float, **variables: str) -> tuple[int, str]:
    """Runs a command and ends what it started; returns status and the first of its output.

    Raises:
        BuildError: it can't be started, or takes longer than the limit.
    """
    process = None
    with tempfile.TemporaryFile() as output:
        # A signal in the middle of a start would leave a process that nobody ends.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Without a PATH a compiler is found, but doesn't find its linker.
                env={"PATH": os.defpath, **os.environ, "LC_ALL": "C", **variables},
                start_new_session=True,
            )
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            status = process.wait(timeout)
        except OSError as error:
            raise BuildError(f"{shlex.join(command[:1])}: {error.strerror}.") from None
        except subprocess.TimeoutExpired:
            raise BuildError(
                f"{shlex.join(command[:1])} took more than {timeout:g} s, and was ended."
            ) from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            if process is not None:
                # Also children that it left behind.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return status, output.read(1 << 20).decode(errors="replace")


@contextlib.contextmanager
def _explaining_errors(path: Path | None = None) -> Iterator[None]:
    """Raises a `BuildError` for a file or directory that can't be used in the block.

    Args:
        path: what an error is about that names no file.
    """
    try:
        yield
    except UnusableError as error:
        raise BuildError(f"{error}.") from None
    except OSError as error:
        raise BuildError(f"{error.filename or path}: {error.strerror}.") from None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Waits for a lock file, and holds it."""
    with _explaining_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _write(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all; the lock is held."""
    unfinished = path.with_suffix(".unfinished")
    try:
        unfinished.write_bytes(data)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
