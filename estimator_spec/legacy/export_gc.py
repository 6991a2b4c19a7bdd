# SPDX-License-Identifier: Apache-2.0
"""Reimplements `tensorflow_estimator.python.estimator.gc`, which selects versions of exports.

A filter is a function that returns some of a list of `Path`s, sorted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf


class Path(NamedTuple):
    """Path of an export, and its version (or None)."""

    path: str
    export_version: Any


Filter = Callable[[Iterable[Path]], list[Path]]


def largest_export_versions(n: int) -> Filter:
    """Returns a filter that keeps the `n` largest versions; of equal ones, the last."""

    def keep(paths: Iterable[Path]) -> list[Path]:
        versions = [path for path in paths if path.export_version is not None]
        versions.sort(key=lambda path: path.export_version)  # stable
        return sorted(versions[-n:] if n > 0 else [])

    return keep


def one_of_every_n_export_versions(n: int) -> Filter:
    """Returns a filter that keeps the largest version of [0, n], of (n, 2n], and so on."""

    def keep(paths: Iterable[Path]) -> list[Path]:
        largest: dict[int, Path] = {}
        for path in paths:
            if path.export_version is None:
                continue
            interval = max(path.export_version - 1, 0) // n
            if interval not in largest or largest[interval].export_version < path.export_version:
                largest[interval] = path
        return sorted(largest.values())

    return keep


def mod_export_version(n: int) -> Filter:
    """Returns a filter that keeps the versions that `n` divides."""
    return lambda paths: sorted(path for path in paths if path.export_version % n == 0)


def union(first: Filter, second: Filter) -> Filter:
    """Returns a filter that keeps what one of two filters keeps."""
    return lambda paths: sorted({*first(paths), *second(paths)})


def negation(inner: Filter) -> Filter:
    """Returns a filter that keeps what another doesn't keep."""
    return lambda paths: sorted(set(paths) - set(inner(paths)))


def get_paths(base_dir: Any, parser: Callable[[Path], Path | None]) -> list[Path]:
    """Returns the entries of a directory.

    Args:
        base_dir: the directory.
        parser: sets the version of a `Path`, or returns None to leave it out.
    """
    base = tf.compat.as_str_any(base_dir)
    names = (tf.compat.as_str_any(name).rstrip("/") for name in tf.io.gfile.listdir(base))
    parsed = (parser(Path(os.path.join(base, name), None)) for name in names)
    return sorted(path for path in parsed if path)
