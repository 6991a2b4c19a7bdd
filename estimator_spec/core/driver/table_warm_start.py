# SPDX-License-Identifier: Apache-2.0
"""Warm-starts tables whose layout or name in the checkpoint differs from the graph's."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.driver import checkpoint_state, shared_tables, table_restore
from estimator_spec.core.user_functions.warm_start import WarmStartSettings
from tpu_columns import storage

tf1 = tf.compat.v1


def checkpoint_prefix(settings: WarmStartSettings) -> Any:
    """Returns the checkpoint to start from: of a directory the latest one, None without any."""
    path = settings.ckpt_to_initialize_from
    if tf.io.gfile.isdir(path):
        return checkpoint_state.find_latest(path)
    if table_restore.is_checkpoint(path):
        checkpoint_state.check_files(path)
    return path


def start(settings: WarmStartSettings) -> None:
    """Warm-starts the variables of the default graph.

    Args:
        settings: settings that name any checkpoint.

    Raises:
        ValueError: a vocabulary is remapped over rows that mod sharding permuted.
    """
    tf1.train.warm_start(*relayout_checkpoint(_with_former_names(settings)))


def _with_former_names(settings: WarmStartSettings) -> WarmStartSettings:
    """Returns settings that find shared tables by the names that former releases gave them."""
    prefix = checkpoint_prefix(settings)
    has_tables = shared_tables.are_in(tf1.get_default_graph())
    if not has_tables or not prefix or not table_restore.is_checkpoint(prefix):
        return settings
    names = private.variables_by_saved_name(_chosen_variables(settings.vars_to_warm_start))
    saved = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    previous = shared_tables.former_names(names, saved)
    previous.update(settings.var_name_to_prev_var_name or {})
    return settings._replace(var_name_to_prev_var_name=previous)


def _chosen_variables(chosen: Any) -> list[Any]:
    """Returns the variables that `tf.compat.v1.train.warm_start` chooses by this argument."""
    if chosen is None or isinstance(chosen, str):
        return tf1.get_collection(tf1.GraphKeys.TRAINABLE_VARIABLES, scope=chosen)
    variables = []
    for each in chosen:
        if isinstance(each, str):
            variables += tf1.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES, scope=each)
        else:
            variables.append(each)
    return list({id(each): each for each in variables}.values())


def relayout_checkpoint(settings: WarmStartSettings) -> WarmStartSettings:
    """Returns settings whose checkpoint has the layouts of the default graph's tables.

    A copy of the checkpoint is deleted with the graph.

    Args:
        settings: settings that name any checkpoint.

    Raises:
        ValueError: a vocabulary is remapped over rows that mod sharding permuted.
    """
    graph = tf1.get_default_graph()
    layouts = storage.layouts(graph)
    prefix = checkpoint_prefix(settings)
    if not prefix or not table_restore.is_checkpoint(prefix):
        return settings
    previous = settings.var_name_to_prev_var_name or {}
    wanted = table_restore.recorded_layouts_in_row_order(prefix)
    wanted.update({previous.get(name, name): layout for name, layout in layouts.items()})
    if not wanted:
        return settings
    for name in settings.var_name_to_vocab_info or {}:
        if name in layouts and not layouts[name].in_row_order:
            raise ValueError(
                f"{name!r} is sharded by {layouts[name].strategy!r} on {layouts[name].num_shards} "
                "shards, so its vocabulary can't be remapped in a warm start. Permute the rows "
                "first: `python -m estimator_spec checkpoint convert --vocabulary`."
            )
    # Imported when used: this loads most of the checkpoint tools.
    from estimator_spec.core.checkpoints import relayout

    with relayout.adapt_checkpoint(prefix, wanted) as found:
        if found.prefix == prefix:
            return settings
        directory = tempfile.mkdtemp(prefix="warm-start-")
        weakref.finalize(graph, shutil.rmtree, directory, ignore_errors=True)
        kept = os.path.join(directory, "tables")
        shutil.move(os.path.dirname(found.prefix), kept)
        os.makedirs(os.path.dirname(found.prefix))  # `adapt_checkpoint` deletes it at the end
        return settings._replace(
            ckpt_to_initialize_from=os.path.join(kept, os.path.basename(prefix))
        )
