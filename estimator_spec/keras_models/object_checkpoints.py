# SPDX-License-Identifier: Apache-2.0
"""Saves a Keras model of a TF1 graph in the format of `tf.train.Checkpoint`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec._tensorflow import private

tf1 = tf.compat.v1


def make_saver(model: Any, **options: Any) -> Any:
    """Returns a saver of a model and the global step; `Checkpoint(root=model)` restores the model.

    Args:
        model: the finished model of the default graph.
        **options: arguments of `tf.compat.v1.train.Saver`.
    """
    # The key of the step in the checkpoints is the attribute's name.
    model.estimator_global_step = tf1.train.get_or_create_global_step()
    return private.saver_of_objects(model, **options)


def make_scaffold(model: Any, config: Any) -> Any:
    """Returns a scaffold that saves and restores object checkpoints.

    Args:
        model: the finished model of the default graph.
        config: the `RunConfig`, which says how many checkpoints are kept.
    """
    saver = make_saver(
        model,
        max_to_keep=config.keep_checkpoint_max,
        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
    )
    return tf1.train.Scaffold(saver=saver)
