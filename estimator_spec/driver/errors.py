# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with files, and how TensorFlow's own errors are put into the user's words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimator_spec.checkpoints.errors import CheckpointError
from tpu_columns import lookup_errors

__all__ = ["CheckpointError", "ModelDirError", "explained"]


class ModelDirError(ValueError):
    """`model_dir` is no directory that can be written.

    Attributes:
        path: the directory.
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


@contextlib.contextmanager
def explained(graph: Any) -> Iterator[None]:
    """Within this context an id outside a table raises an error that names column, id and size.

    Args:
        graph: the graph whose ops run here.
    """
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        better = lookup_errors.explain(error, graph)
        if better is None:
            raise
        raise better from error
