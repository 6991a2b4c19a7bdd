# SPDX-License-Identifier: Apache-2.0
"""Writes a Keras model's initial checkpoint; makes savers in `tf.train.Checkpoint`'s format."""

from __future__ import annotations

import os
import re
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import keras_models, private
from estimator_spec.core.driver import saving
from estimator_spec.core.user_functions.warm_start import WarmStartSettings

tf1 = tf.compat.v1

# Below the model_dir, so that no run takes it for a checkpoint of its own.
_DIRECTORY, _NAME = "keras", "keras_model.ckpt"


def write_initial(
    package: Any, model: Any, custom_objects: Any, model_dir: str, as_objects: bool
) -> WarmStartSettings | None:
    """Writes the model's weights, unless it has none, or the user has left a checkpoint there.

    Args:
        package: the model's Keras.
        model: the model.
        custom_objects: its classes and functions by name.
        model_dir: the estimator's directory; the checkpoint is `keras/keras_model.ckpt` below it.
        as_objects: whether its format is that of `tf.train.Checkpoint`.

    Returns:
        The settings of a warm start from the checkpoint; None if the model isn't built yet, or is
        subclassed.
    """
    if not model.built:
        return None
    if keras_models.is_subclassed(model):
        tf1.logging.warning(
            "The Keras model %s is subclassed, so it can't be copied with its weights: the "
            "estimator starts with newly initialized ones. Load them in a model_fn, or make the "
            "model by the functional API.",
            model.name,
        )
        return None
    prefix = os.path.join(model_dir, _DIRECTORY, _NAME)
    found = tf.train.latest_checkpoint(os.path.dirname(prefix))
    if found is not None and os.path.basename(found) != _NAME:
        return WarmStartSettings(found)
    values = model.get_weights()
    tf.io.gfile.makedirs(os.path.dirname(prefix))
    with tf.Graph().as_default():
        copy = keras_models.clone(package, model, None, custom_objects)
        variables = copy.weights
        if as_objects:
            saver = make_saver(copy, save_relative_paths=True)
        else:
            step = tf1.train.get_or_create_global_step()
            saved = [*variables, step]
            saver = tf1.train.Saver(saved, sharded=True, save_relative_paths=True)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for variable, value in zip(variables, values, strict=True):
                variable.load(value, session)
            with saving.mark_saves(saver):
                saver.save(session, prefix, write_meta_graph=False)
    names = [variable.op.name for variable in variables]
    # By name: the default expression takes trainable variables only, without batch norm's means.
    return WarmStartSettings(prefix, [f"{re.escape(name)}(:0)?$" for name in names])


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
        max_to_keep=config.keep_checkpoint_max and int(config.keep_checkpoint_max),
        keep_checkpoint_every_n_hours=config.keep_checkpoint_every_n_hours,
    )
    return tf1.train.Scaffold(saver=saver)
