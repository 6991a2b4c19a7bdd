# SPDX-License-Identifier: Apache-2.0
"""Finds libraries of ops, and checks their files before they are loaded; needs no TensorFlow.

Beside each library is a manifest: a JSON file with its hash, and what it was built of. Libraries
of a wheel are in `OF_THE_WHEEL`, those that the user builds in a directory of their own,

    kernels/ in $TPU_COLUMNS_CACHE, or in $XDG_CACHE_HOME/tpu_columns, or in ~/.cache/tpu_columns

which only they may read and write: a library is code.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from tpu_columns import environment, optimizations
from tpu_columns.optimizations import Optimization

SOURCES = Path(__file__).with_name("cpp")
OF_THE_WHEEL = Path(__file__).with_name("libraries")
COMMAND = "python -m estimator_spec kernels build"
OWN_OPS = "TensorFlow's own ops"
TURNED_OFF = "kernels are turned off"
_AUTHOR = "tpu-columns"


class UnusableError(RuntimeError):
    """A library isn't there, or is refused; the message is one sentence."""


@dataclasses.dataclass(frozen=True)
class Library:
    """A library of ops, as its manifest describes it.

    Attributes:
        path: the file.
        sha256: its hash.
        sources: hash of the C++ sources.
        tensorflow: version of the TensorFlow that it was built for.
        git_version: its `tf.version.GIT_VERSION`; empty: it fits every patch of the version.
        flags: TensorFlow's compiler flags, without directories.
        compiler: the compiler's command and version.
    """

    path: Path
    sha256: str
    sources: str
    tensorflow: str
    git_version: str
    flags: tuple[str, ...]
    compiler: str

    def __str__(self) -> str:
        return f"{self.path}, for TensorFlow {self.tensorflow}, by {self.compiler}"

    def manifest(self) -> bytes:
        """Returns the contents of its manifest."""
        facts = {**dataclasses.asdict(self), "path": self.path.name}
        return (json.dumps({"written by": _AUTHOR, **facts}, indent=1) + "\n").encode()

    def is_whole(self) -> bool:
        """Returns whether the file is there, and what was built."""
        return self.path.is_file() and hash_of(self.path.read_bytes()) == self.sha256


def find(
    version: str, use: Callable[[Library], Any] = lambda library: library
) -> tuple[Any, list[str]]:
    """Looks for the library that a training with a TensorFlow loads.

    Args:
        version: version of TensorFlow.
        use: makes the result of a library; raises `UnusableError` if it can't be used.

    Returns:
        The result of the first that can be used, None if there is none; and a reason for each
        place that has none before it.
    """
    reasons: list[str] = []
    for find_in_place in PLACES:
        try:
            return use(find_in_place(version)), reasons
        except UnusableError as error:
            reasons.append(str(error))
    return None, reasons


def describe_engine(version: str) -> str:
    """Returns a sentence on what looks up and updates tables in a training on a CPU.

    Args:
        version: version of TensorFlow.
    """
    try:
        is_chosen = Optimization.NATIVE_KERNELS in optimizations.choose()
    except ValueError as error:
        return str(error)
    if not is_chosen:
        return f"{OWN_OPS}: {TURNED_OFF} by an environment variable."
    library, reasons = find(version)
    if library is not None:
        return f"kernels: {library}."
    return f"{OWN_OPS}: {'; '.join(reasons)}. To build kernels: {COMMAND}."


def find_in_wheel(version: str) -> Library:
    """Returns the library that this installation has for the minor version of a release.

    Raises:
        UnusableError: there is none, or its file isn't what was built.
    """
    try:
        found = Version(version)
        is_release = not found.is_prerelease and found.local is None
        manifest = OF_THE_WHEEL / f"{minor_version(version)}.json"
    except InvalidVersion:
        is_release = False
    if not is_release or not manifest.exists():
        raise UnusableError(f"this installation has none for TensorFlow {version}")
    return read(manifest, minor_version)


def find_built(version: str) -> Library:
    """Returns the library that the user built for a TensorFlow.

    Raises:
        UnusableError: there is none, its file isn't what was built, or others can change it.
    """
    directory = cache_directory()
    absent = UnusableError(f"none is built in {directory}")
    try:
        check_directory(directory)
        manifest = directory / manifest_name(version)
        if not manifest.exists():
            raise absent
        return read(manifest, lambda version: manifest_name(version).removesuffix(".json"))
    except FileNotFoundError:
        raise absent from None
    except OSError as error:
        raise UnusableError(f"{directory} can't be read: {error.strerror}") from None


PLACES: tuple[Callable[[str], Library], ...] = (find_in_wheel, find_built)


def cache_directory() -> Path:
    """Returns the directory of the libraries that the user builds.

    Raises:
        UnusableError: its path isn't absolute: libraries are loaded from no working directory.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    found = Path(environment.read(environment.CACHE, os.path.join(base, "tpu_columns")))
    if not found.is_absolute():
        raise UnusableError(
            f"the directory of libraries, {str(found)!r}, must be an absolute path: set "
            f"{environment.CACHE}"
        )
    return found / "kernels"


def check_directory(directory: Path) -> None:
    """Checks that only this user can change a directory.

    Raises:
        UnusableError: others can.
        OSError: it isn't there, or can't be read.
    """
    status = os.stat(directory)
    if not stat.S_ISDIR(status.st_mode):
        raise UnusableError(
            f"{directory} is a file, and should be the directory of libraries (remedy: move it "
            f"away, or set {environment.CACHE} to another directory)"
        )
    if status.st_uid != os.geteuid():
        raise UnusableError(
            f"{directory} is refused, as it belongs to another user (remedy: set "
            f"{environment.CACHE} to a directory of your own)"
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise UnusableError(
            f"{directory} is refused, as others can use it (remedy: chmod 700 {directory})"
        )


def read(manifest: Path, name: Callable[[str], str]) -> Library:
    """Returns the library that a manifest describes, after checking its file.

    Args:
        manifest: path of the manifest.
        name: returns the name of the manifest for a version of TensorFlow.

    Raises:
        UnusableError: the manifest is damaged, the file isn't what was built, or it was built of
            other sources.
    """
    library = read_manifest(manifest)
    if library is None or name(library.tensorflow) != manifest.stem:
        raise UnusableError(f"{manifest} is refused, as it is no manifest of such a library")
    if library.sources != hash_sources():
        raise UnusableError(f"{library.path} is refused, as it was built of other sources")
    if not library.is_whole():
        raise UnusableError(f"{library.path} is refused, as it isn't what was built")
    return library


def read_manifest(manifest: Path) -> Library | None:
    """Returns what a manifest says, unchecked; None if it isn't one."""
    try:
        facts = json.loads(manifest.read_bytes())
        if facts.pop("written by") != _AUTHOR or facts["path"] != os.path.basename(facts["path"]):
            return None
        facts["path"] = manifest.parent / facts["path"]
        return Library(**{**facts, "flags": tuple(facts["flags"])})
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def manifest_name(version: str) -> str:
    """Returns the name of the manifest of the user's library for a TensorFlow, of these sources.

    >>> manifest_name("2.23.0-dev20261026").startswith("2.23.0.dev20261026-")
    True
    """
    try:
        # The distribution's version may have more parts than that of the module.
        version = re.sub(r"\.post\d+|\+.*", "", str(Version(version)))
    except InvalidVersion:
        version = re.sub(r"[^\w.]", "_", version)
    return f"{version}-{hash_sources()[:16]}.json"


def minor_version(version: str) -> str:
    """Returns major and minor version.

    >>> minor_version("2.21.0")
    '2.21'
    """
    found = Version(version)
    return f"{found.major}.{found.minor}"


@functools.cache
def hash_sources() -> str:
    """Returns the hash of the C++ sources."""
    return hash_of(b"\0".join(path.read_bytes() for path in sorted(SOURCES.glob("*.*"))))


def hash_of(data: bytes) -> str:
    """Returns the SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
