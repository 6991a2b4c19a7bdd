# SPDX-License-Identifier: Apache-2.0
"""Lists the files of a finished directory, such as an export, and removes those that are listed.

The list, a file in the directory, has the size and time of each file. Files that somebody added or
changed stay, and so does the directory then. Names alone never decide, and links aren't followed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import own_files


def list_files(directory: str) -> None:
    """Writes the list of a finished directory's files into it, for `remove_listed`."""
    files = {name: _identify(directory, name) for name in _walk(directory)}
    data = json.dumps(
        {**own_files.AUTHOR, "name": os.path.basename(directory), "files": files}
    ).encode()
    path = os.path.join(directory, own_files.MARKER)
    if "://" not in path:
        own_files.write_file(path, data)
        return
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(data)


def has_list(directory: str) -> bool:
    """Returns whether `list_files` has listed a directory's files, under the name that it has."""
    return _read_list(directory) is not None


def _read_list(directory: str) -> dict[str, Any] | None:
    if os.path.islink(directory):
        return None
    try:
        with tf.io.gfile.GFile(os.path.join(directory, own_files.MARKER), "rb") as file:
            found = own_files.parse_marker(file.read())
    except (OSError, tf.errors.OpError):
        return None
    if found is None or found.get("name") != os.path.basename(directory):
        return None
    files = found.get("files")
    return files if isinstance(files, dict) else None


def remove_listed(directory: str) -> None:
    """Removes the files that `list_files` has listed and nobody has changed since.

    Other files stay, and so does the directory then.

    Raises:
        tf.errors.OpError: a file can't be removed.
    """
    files = _read_list(directory)
    if files is None:
        return
    tf.compat.v1.logging.info("Removing %s.", directory)
    found = set(_walk(directory))
    own = {name for name in found & set(files) if _is_unchanged(directory, name, files[name])}
    others = found - own - {own_files.MARKER}
    for name in sorted(own):
        tf.io.gfile.remove(os.path.join(directory, name))
    tf.io.gfile.remove(os.path.join(directory, own_files.MARKER))
    if others:
        tf.compat.v1.logging.info(
            "%s stays: it has files of others: %s.", directory, ", ".join(sorted(others))
        )
    if "://" in directory:
        if not others:
            tf.io.gfile.rmtree(directory)
        return
    own_files.remove_empty([folder for folder, _, _ in os.walk(directory)])


def _walk(directory: str) -> Iterator[str]:
    """Yields the paths of all files and links below a directory, relative to it."""
    is_remote = "://" in directory
    for folder, folders, names in tf.io.gfile.walk(directory) if is_remote else os.walk(directory):
        links = (
            [] if is_remote else filter(os.path.islink, (f"{folder}/{each}" for each in folders))
        )
        for path in (*(os.path.join(folder, name) for name in names), *links):
            yield os.path.relpath(path, directory)


def _identify(directory: str, name: str) -> list[int]:
    """Returns what tells a file, local or remote, from one that replaces it."""
    if "://" not in directory:
        return own_files.identify(directory, name)
    remote = tf.io.gfile.stat(os.path.join(directory, name))
    return [int(remote.length), int(remote.mtime_nsec), 0]


def _is_unchanged(directory: str, name: str, known: Any) -> bool:
    try:
        return _identify(directory, name) == known
    except (OSError, tf.errors.OpError):
        return False
