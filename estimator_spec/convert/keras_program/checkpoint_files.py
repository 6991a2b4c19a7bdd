# SPDX-License-Identifier: Apache-2.0
"""Gives a checkpoint a name in another directory."""

from __future__ import annotations

import os

import tensorflow as tf

from estimator_spec.core.checkpoints import state_file
from estimator_spec.core.checkpoints.bundle import Checkpoint


def link_checkpoint(checkpoint: str, directory: str) -> str:
    """Links the files of a checkpoint into a directory, or copies them, as its latest one.

    What becomes of either name doesn't change the other: neither is ever written again.

    Args:
        checkpoint: its prefix, or a directory, whose latest one is taken.
        directory: a directory without a checkpoint.

    Returns:
        The prefix in the directory.
    """
    with Checkpoint(checkpoint) as opened:
        prefix = opened.prefix
    for path in tf.io.gfile.glob(f"{prefix}.*"):
        name = os.path.join(directory, os.path.basename(path))
        try:
            os.link(path, name)  # no copy of a large table
        except OSError:
            tf.io.gfile.copy(path, name)
    linked = os.path.join(directory, os.path.basename(prefix))
    state_file.write(directory, [linked])
    return linked
