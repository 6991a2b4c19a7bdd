# SPDX-License-Identifier: Apache-2.0
"""Defines errors about files, and explains TensorFlow's errors about lookups and labels."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from estimator_spec.core.checkpoints.errors import CheckpointError
from estimator_spec.core.user_functions import batch_errors
from tpu_columns import lookup_errors

__all__ = ["CheckpointError"]

_STACK = re.compile(r"\nNode: '[^\n]*'\n")  # of the op, before what it reports
_HEADING = "Graph execution error:"  # of all messages that name no op of this graph
# Names of nodes, and the rule above the errors of several tasks.
_NODES = re.compile(r"\{\{node [^}]*\}\}\s*|\s*\[\[.*|^=+$")


class ModelDirError(ValueError):
    """Error of a `model_dir` that is not a writable directory.

    Attributes:
        path: the directory.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


@contextlib.contextmanager
def explain_batch_errors(graph: tf.Graph) -> Iterator[None]:
    """Replaces errors about a column's ids or a head's labels by errors that say what is wrong.

    Args:
        graph: the graph whose ops run in the block.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        explained = lookup_errors.explain(error, graph) or batch_errors.explain(error)
        if explained is None:
            raise
        raise explained from error


def first_line(error: tf.errors.OpError) -> str:
    """Returns what an op reported: the first line of the message, without nodes and stacks.

    A line that ends in a colon is a heading: it comes with the next one.
    """
    text = _STACK.split(error.message)[-1].strip().removeprefix(_HEADING).strip()
    lines = []
    for line in text.split("\n"):
        lines.append(_NODES.sub("", line).strip())
        if lines[-1] and not lines[-1].endswith(":"):
            break
    return " ".join(filter(None, lines)).removesuffix(".")


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
    """A file that can't be read or written, and why.

    Attributes:
        number: the `errno`.
        reason: its text.
        path: the file.
    """

    number: int
    reason: str
    path: str

    def error(self, what_to_do: str) -> OSError:
        """Returns the fault as an `OSError`.

        Args:
            what_to_do: the rest of the message.
        """
        return OSError(self.number, f"{self.reason}. {what_to_do}", self.path)


def find_file_fault(error: Exception) -> FileFault | None:
    """Returns the file that an error of TensorFlow is about, and the reason; None without a file.

    Args:
        error: an `OpError`, or an error of another class, as writers of event files raise.
    """
    found = _LINE.search(error.message if isinstance(error, tf.errors.OpError) else str(error))
    return FileFault(_NUMBERS[found["reason"]], found["reason"], found["path"]) if found else None
