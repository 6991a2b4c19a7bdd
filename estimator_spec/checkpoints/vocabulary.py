# SPDX-License-Identifier: Apache-2.0
"""Maps the rows of a table from an old vocabulary file to a new one."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def match_vocabularies(old_path: Any, new_path: Any, num_rows: int) -> np.ndarray:
    """Returns the old row of each new row, -1 for a new word.

    Line i of a vocabulary file is the word with id i. Rows after the old file's last word are
    buckets for unknown words; the new table gets the same number, with their values.

    Args:
        old_path: vocabulary file of the old table.
        new_path: vocabulary file of the new table.
        num_rows: number of rows of the old table.

    Returns:
        int64, [rows of the new table].

    Raises:
        ValueError: a file contains a word twice.
        OSError: a file can't be read.
    """
    # Words beyond the table's rows (vocabulary_size) count as new.
    old = _ids(old_path, num_rows)
    new = _ids(new_path, None)
    buckets = np.arange(len(old), num_rows, dtype=np.int64)
    words = np.fromiter((old.get(word, -1) for word in new), np.int64, len(new))
    return np.concatenate([words, buckets])


def check_row_sources(rows: Any, name: str, num_rows: int) -> np.ndarray:
    """Validates the old rows that a program gives for new rows.

    Args:
        rows: old row of each new row, -1 for a new one.
        name: name of the table, for messages.
        num_rows: number of rows of the old table.

    Returns:
        The rows as int64.

    Raises:
        ValueError: `rows` isn't a list of integers in [-1, num_rows).
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
    """Returns the words of a file with their line numbers from 0, in order."""
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
