# SPDX-License-Identifier: Apache-2.0
"""Defines errors about files, and explains TensorFlow's errors about lookups and labels."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import tensorflow as tf

from estimator_spec.core.checkpoints.errors import CheckpointError
from estimator_spec.core.user_functions import batch_errors
from tpu_columns import lookup_errors

__all__ = ["CheckpointError", "ModelDirError", "explain_batch_errors", "first_line"]

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
