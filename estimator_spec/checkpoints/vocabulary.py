# SPDX-License-Identifier: Apache-2.0
"""Maps the rows of a table from an old vocabulary file to a new one."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def match_vocabularies(old_path: Any, new_path: Any, num_rows: int) -> tuple[np.ndarray, int]:
    """Returns the old row of each new row, -1 for a new word, and the number of buckets.

    Line i of a vocabulary file is the word with id i. Rows after the old file's last word are
    buckets for unknown words; the new table gets the same number, with their values.

    Args:
        old_path: vocabulary file of the old table.
        new_path: vocabulary file of the new table.
        num_rows: number of rows of the old table.

    Returns:
        (int64, [rows of the new table]; the number of rows for unknown words at its end).

    Raises:
        ValueError: a file has no words or one of them twice, or the old one has more words than the
            table has rows.
        OSError: a file can't be read.
    """
    old, new = _ids(old_path), _ids(new_path)
    if len(old) > num_rows:
        raise ValueError(
            f"The vocabulary {old_path!r} has {len(old)} words, its table only {num_rows} rows. "
            "Give the file that the table was trained with; if its column has a vocabulary_size, "
            f"cut the file to so many lines: head -n {num_rows} {old_path}."
        )
    buckets = np.arange(len(old), num_rows, dtype=np.int64)
    words = np.fromiter((old.get(word, -1) for word in new), np.int64, len(new))
    return np.concatenate([words, buckets]), len(buckets)


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


def _ids(path: Any) -> dict[bytes, int]:
    """Returns the words of a file with their line numbers from 0, in order."""
    found: dict[bytes, int] = {}
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            for number, line in enumerate(file):
                word = line.rstrip(b"\r\n")
                if found.setdefault(word, number) != number:
                    raise ValueError(
                        f"{path!r}: the word {word.decode(errors='replace')!r} stands in line "
                        f"{found[word] + 1} and in line {number + 1}. A word has one row."
                    )
    except tf.errors.OpError as error:
        raise OSError(f"The vocabulary {path!r} can't be read: {error.message}") from error
    if not found:
        raise ValueError(f"The vocabulary {path!r} has no words.")
    return found
