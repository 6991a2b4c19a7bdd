# SPDX-License-Identifier: Apache-2.0
"""From an old vocabulary file to a new one: which old row each new row takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def match_vocabularies(old_path: Any, new_path: Any, num_rows: int) -> np.ndarray:
    """For each row of the new table the row of the old one, -1 for a new word.

    Line i of a vocabulary file is the word with id i. Rows behind the old file's last word are
    buckets for unknown words; the new table has as many, and keeps them.

    Args:
        old_path: the vocabulary of the old table.
        new_path: the vocabulary of the new one.
        num_rows: rows of the old table.

    Returns:
        int64, [rows of the new table].

    Raises:
        ValueError: a word stands twice in a file.
        OSError: a file can't be read.
    """
    # Words of lines that no row belongs to (vocabulary_size) are new ones.
    old = _ids(old_path, num_rows)
    new = _ids(new_path, None)
    buckets = np.arange(len(old), num_rows, dtype=np.int64)
    words = np.fromiter((old.get(word, -1) for word in new), np.int64, len(new))
    return np.concatenate([words, buckets])


def check_row_sources(rows: Any, name: str, num_rows: int) -> np.ndarray:
    """A permutation that a program gives.

    Args:
        rows: for each new row the old one, -1 for a new one.
        name: of the table, for messages.
        num_rows: rows of the old table.

    Raises:
        ValueError: not a list of such numbers.
    """
    array = np.asarray(rows)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"The rows of {name!r} must be one integer for each new row (the old row, or -1 for "
            f"a new one), or a pair of vocabulary files; got {array.dtype} of shape "
            f"{list(array.shape)}."
        )
    wrong = array[(array < -1) | (array >= num_rows)]
    if len(wrong):
        raise ValueError(
            f"The rows of {name!r} name the old row {wrong[0]}, which is not in [0, {num_rows})."
        )
    return array.astype(np.int64)


def _ids(path: Any, limit: int | None) -> dict[bytes, int]:
    """Words of a file and their lines, in order."""
    found: dict[bytes, int] = {}
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            for number, line in enumerate(file):
                if number == limit:
                    break
                word = line.rstrip(b"\r\n")
                if found.setdefault(word, number) != number:
                    raise ValueError(
                        f"{path!r}: the word {word.decode(errors='replace')!r} stands in line "
                        f"{found[word] + 1} and in line {number + 1}. A word has one row."
                    )
    except tf.errors.OpError as error:
        raise OSError(f"The vocabulary {path!r} can't be read: {error.message}") from error
    return found
