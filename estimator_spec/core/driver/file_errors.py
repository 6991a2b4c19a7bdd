# SPDX-License-Identifier: Apache-2.0
"""Finds the file and the reason in TensorFlow's errors of reading and writing files."""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

import tensorflow as tf

_NUMBERS = {
    os.strerror(number): number
    for number in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EIO,
    )
}
# TensorFlow's messages of failed file operations have a line '<path>; <strerror>', without quotes.
_LINE = re.compile(
    rf"(^.*(\}}\}}|\):) |^)(?P<path>[^\n{{}}]+?); (?P<reason>{'|'.join(map(re.escape, _NUMBERS))})",
    re.MULTILINE,
)


class FileFault(NamedTuple):
    """Why a file can't be read or written.

    Attributes:
        number: the `errno`.
        reason: its text.
        path: the file.
    """

    number: int
    reason: str
    path: str

    def error(self, what_to_do: str) -> OSError:
        """Returns the error that says so.

        Args:
            what_to_do: the rest of the message.
        """
        return OSError(self.number, f"{self.reason}. {what_to_do}", self.path)


def find(error: Exception) -> FileFault | None:
    """Returns the file that an error of TensorFlow is about, and the reason; None without a file.

    Args:
        error: an `OpError`, or an error of another class, as writers of event files raise.
    """
    found = _LINE.search(error.message if isinstance(error, tf.errors.OpError) else str(error))
    return FileFault(_NUMBERS[found["reason"]], found["reason"], found["path"]) if found else None
