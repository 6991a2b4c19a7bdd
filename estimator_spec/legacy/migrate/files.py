# SPDX-License-Identifier: Apache-2.0
"""Finds source files, decodes them, and replaces them atomically."""

from __future__ import annotations

import io
import os
import stat
import tokenize
from collections.abc import Iterable, Iterator, Sequence

from estimator_spec.core.common import own_files

SUFFIXES = (".py", ".ipynb")


class SourceFile:
    """The bytes of a source file, and its text.

    Args:
        path: the file.

    Attributes:
        path: the same.
        text: the text; line ends are as in the file.

    Raises:
        OSError: the file can't be read.
        SyntaxError: its encoding is unknown.
        UnicodeDecodeError: it isn't in its encoding.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            self._bytes = file.read()
        self._mark = b"\xef\xbb\xbf" if self._bytes.startswith(b"\xef\xbb\xbf") else b""
        if path.endswith(".py"):
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self._bytes).readline)
        else:
            encoding = "utf-8"
        self._encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        self.text = self._bytes[len(self._mark) :].decode(self._encoding)

    def encode(self, text: str) -> bytes:
        """Returns the bytes of another text, in the encoding of the file."""
        return self._mark + text.encode(self._encoding)

    def replace(self, text: str) -> None:
        """Replaces the file by another text: a new file with its mode takes its name.

        Raises:
            OSError: the file can't be written, or another process has changed it.
        """
        with open(self.path, "rb") as file:
            if file.read() != self._bytes:
                raise OSError(f"{self.path!r} was changed while it was migrated; run it again")
        write(os.path.realpath(self.path), self.encode(text), like=self.path)


def write(path: str, data: bytes, like: str) -> None:
    """Writes a file atomically, with the mode of another file; makes its directory.

    Raises:
        OSError: it can't be written; an older file is as it was.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    own_files.write_file(path, data, stat.S_IMODE(os.stat(like).st_mode))


def remove_left(paths: Iterable[str]) -> None:
    """Removes what killed runs left in the directories of files to write."""
    for directory in sorted({os.path.dirname(os.path.realpath(path)) for path in paths}):
        own_files.remove_left(directory)


def find(paths: Sequence[str], tree: str | None = None) -> Iterator[tuple[str, str]]:
    """Yields the source files of files and directories, each once.

    Hidden directories, virtual environments and `__pycache__` are left out, and links to
    directories aren't followed.

    Args:
        paths: files, of any suffix, and directories.
        tree: the output tree, which is left out as well.

    Returns:
        Pairs of a file and its place in an output tree: its path from the current directory, or,
        if it isn't below that, from the directory that the given path is in.

    Raises:
        FileNotFoundError: there is no such file or directory.
    """
    seen = set()
    for path in paths:
        if not os.path.exists(path):
            raise FileNotFoundError(f"There is no file or directory {path!r}.")
        start = os.getcwd()
        if not is_below(path, start):
            start = os.path.dirname(os.path.abspath(path))
        for file in _files_in(path, tree) if os.path.isdir(path) else [path]:
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield file, os.path.relpath(file, start)


def is_below(path: str, directory: str) -> bool:
    """Returns whether a path is that of a directory or of something in it."""
    relative = os.path.relpath(os.path.abspath(path), os.path.abspath(directory))
    return relative != os.pardir and not relative.startswith(os.pardir + os.sep)


def _files_in(root: str, tree: str | None) -> Iterator[str]:
    left_out = None if tree is None else os.path.realpath(tree)
    for directory, directories, names in os.walk(root):
        directories[:] = sorted(
            name
            for name in directories
            if not name.startswith(".")
            and name != "__pycache__"
            and not os.path.exists(os.path.join(directory, name, "pyvenv.cfg"))
            and os.path.realpath(os.path.join(directory, name)) != left_out
        )
        for name in sorted(names):
            if name.endswith(SUFFIXES) and not name.startswith("."):
                yield os.path.join(directory, name)


def check_places(found: Sequence[tuple[str, str]], tree: str, overwrites: bool = False) -> None:
    """Checks that files can be written to an output tree.

    Args:
        found: pairs of a file and its place in the tree.
        tree: the tree.
        overwrites: whether files that are there may be replaced.

    Raises:
        ValueError: two files have one place, a file's place is that of a file to migrate, or there
            is a file already.
    """
    sources = {os.path.realpath(file) for file, _ in found}
    by_place: dict[str, str] = {}
    for file, relative in found:
        place = os.path.realpath(os.path.join(tree, relative))
        if place in by_place:
            raise ValueError(
                f"{by_place[place]!r} and {file!r} would both be written to {place!r}: migrate one "
                "after the other, or start from a directory that has both."
            )
        if place in sources:
            raise ValueError(
                f"{file!r} would overwrite {place!r}, a file to migrate: --write changes files "
                "where they are."
            )
        path = os.path.join(tree, relative)
        if not overwrites and os.path.lexists(path):
            raise ValueError(f"{path!r} exists: take a new directory, or --overwrite its files.")
        by_place[place] = file
