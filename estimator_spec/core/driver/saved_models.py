# SPDX-License-Identifier: Apache-2.0
"""Exports an estimator's checkpoints as SavedModels."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimator_spec.core import updates
from estimator_spec.core._tensorflow import private
from estimator_spec.core.common import own_files
from estimator_spec.core.driver import (
    checkpoint_state,
    graph_builder,
    saving,
    table_restore,
    table_warm_start,
)
from estimator_spec.core.driver.graph_builder import RunSetup
from estimator_spec.core.driver.signatures import build_signatures
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import partition, placement, storage

if TYPE_CHECKING:
    from estimator_spec.core.checkpoints.quantization import QuantizationStats

tf1 = tf.compat.v1

# The first one writes the variables: a training graph has all of them.
_MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
TAGS = {
    ModeKeys.TRAIN: [tf1.saved_model.tag_constants.TRAINING],
    # TensorFlow exports no public constant for this one.
    ModeKeys.EVAL: ["eval"],
    ModeKeys.PREDICT: [tf1.saved_model.tag_constants.SERVING],
}
TRAIN_OP_COLLECTION = "saved_model_train_op"  # the name that TensorFlow's loaders expect
_ATTEMPTS = 10


def export(
    setup: RunSetup,
    export_dir_base: Any,
    input_receiver_fn_map: Mapping[str, Callable[[], Any]],
    assets_extra: Mapping[str, str] | None = None,
    as_text: bool = False,
    checkpoint_path: str | None = None,
    strip_default_attrs: bool = True,
    tables: str = "float32",
    signatures: Callable[[EstimatorSpec, Any], dict[str, Any]] | None = None,
) -> bytes:
    """Writes one SavedModel with a graph for each mode.

    Args:
        setup: starts the graphs and calls the user's `model_fn`.
        export_dir_base: as for `Estimator.export_saved_model`.
        input_receiver_fn_map: receiver functions by mode.
        assets_extra: files to copy, by their destination below `assets.extra`.
        as_text: writes the graph as text.
        checkpoint_path: prefix of the checkpoint; None: the latest, or that of a warm start.
        strip_default_attrs: leaves out attributes that have their default value.
        tables: dtype of the embedding tables.
        signatures: function of the model and the receiver that returns the signatures by name.
            None: those of the model's export outputs.

    Returns:
        The path of the SavedModel, as bytes.
    """
    stored = storage.TableStorage(dtype=tables)
    checkpoint = _find_checkpoint(setup, checkpoint_path)
    modes = _modes_in_order(input_receiver_fn_map)
    if tables != "float32" and modes != [ModeKeys.PREDICT]:
        raise ValueError(
            f"tables={tables!r} is for serving: such tables can't be trained. Export "
            f"{ModeKeys.PREDICT!r} only, not {modes}."
        )
    losses: Mapping[str, Any] = {}
    with (
        saving.explain_write_errors(),
        _export_directory(export_dir_base, assets_extra) as (builder, temporary, final),
        storage.storing(stored),
    ):
        for mode in modes:
            with tf.Graph().as_default() as graph:
                checkpoint_state.record_for_graph(checkpoint)
                receiver, spec = build_model(setup, graph, input_receiver_fn_map[mode], mode)
                if signatures is None:
                    made = build_signatures(spec, receiver, mode)
                else:
                    made = signatures(spec, receiver)
                meta_graph = _meta_graph(spec, made, mode, strip_default_attrs)
                with tf1.Session(config=setup.config.session_config) as session:
                    losses = _restore(meta_graph["saver"], session, checkpoint, mode, tables)
                    if mode == modes[0]:
                        builder.add_meta_graph_and_variables(session, **meta_graph)
                    else:
                        builder.add_meta_graph(**meta_graph)
        builder.save(as_text)
        _report_losses(losses, tables, temporary)
    return tf.compat.as_bytes(final)


def _find_checkpoint(setup: RunSetup, checkpoint_path: str | None) -> str:
    """Returns the prefix of the checkpoint to export."""
    model_dir, settings = setup.model_dir, setup.warm_start
    checkpoint = checkpoint_state.choose_checkpoint(checkpoint_path, model_dir)
    if checkpoint is None and settings:
        checkpoint = table_warm_start.checkpoint_prefix(settings)
    if checkpoint is None:
        raise ValueError(
            f"Couldn't find trained model at {model_dir}. Train first, or give checkpoint_path."
        )
    return checkpoint


def build_model(
    setup: RunSetup, graph: tf.Graph, input_receiver_fn: Callable[[], Any], mode: str
) -> tuple[Any, EstimatorSpec]:
    """Builds the receivers and the model of a mode in the default graph, and returns both.

    Args:
        setup: starts the graph and calls the user's `model_fn`.
        graph: the default graph.
        input_receiver_fn: returns the receivers.
        mode: one of `ModeKeys`.
    """
    graph_builder.start(setup, graph)
    setup.embeddings.before_receivers()
    with graph_builder.user_code(setup, placement.Mode.SERVE):
        receiver = input_receiver_fn()
        labels = getattr(receiver, "labels", None)
        spec = setup.call_model_fn(receiver.features, labels, mode)
    updates.optimize_inference_graph(graph, setup.optimizations)
    return receiver, spec


def _meta_graph(
    spec: EstimatorSpec, signatures: dict[str, Any], mode: str, strip_default_attrs: bool
) -> dict[str, Any]:
    """Returns the arguments of the builder's methods for the default graph."""
    local_init_op = spec.scaffold.local_init_op
    if local_init_op is None:
        local_init_op = tf1.train.Scaffold.default_local_init_op()
    _check_quantized_saver(spec.scaffold.saver)
    saver = spec.scaffold.saver or tf1.train.Saver(sharded=True)
    if isinstance(saver, tf.train.Checkpoint):
        saver = private.saver_of_objects(saver)
    if spec.train_op is not None:
        tf1.add_to_collection(TRAIN_OP_COLLECTION, spec.train_op)
    return {
        "tags": TAGS[mode],
        "signature_def_map": signatures,
        "assets_collection": tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS),
        "main_op": local_init_op,
        "saver": saver,
        "strip_default_attrs": strip_default_attrs,
    }


def _restore(saver: Any, session: Any, checkpoint: str, mode: str, dtype: str) -> Mapping[str, Any]:
    """Restores a checkpoint; returns the errors of quantized tables, by table."""
    try:
        with (
            checkpoint_state.explain_damage(checkpoint),
            table_restore.relayout_on_restore(saver, session.graph, dtype) as losses,
        ):
            saver.restore(session, checkpoint)
            return losses
    except tf.errors.NotFoundError as error:
        saved = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
        # A checkpoint has partitioned variables as a whole.
        names = {partition.unsharded_name(each.op.name) for each in tf1.global_variables()}
        raise ValueError(
            "Could not load all requested variables from checkpoint. Please make sure your "
            "model_fn does not expect variables that were not saved in the checkpoint. In "
            f"mode `{mode}` it has these, which {checkpoint!r} lacks: "
            f"{sorted(names - set(saved))}."
        ) from error


def _modes_in_order(receivers: Mapping[str, Callable[[], Any]]) -> list[str]:
    """Returns the modes to export, the one that writes the variables first."""
    modes = [mode for mode in _MODES if receivers.get(mode)]
    if not modes:
        raise ValueError(
            f"No valid modes for exporting found. Got {list(receivers)}, expected some of "
            f"{list(_MODES)}."
        )
    return modes


@contextlib.contextmanager
def _export_directory(
    base: Any, assets_extra: Mapping[str, str] | None
) -> Iterator[tuple[Any, str, str]]:
    """Yields the builder, the temporary and the final path of a SavedModel.

    The final name is the seconds since 1970. The temporary one begins with 'temp-', which servers
    ignore. The directory is renamed on exit, and removed if the block raises an exception. What
    killed exports left beside it is removed first.

    Args:
        base: the parent directory.
        assets_extra: files to copy, by their destination below `assets.extra`.
    """
    base = tf.compat.as_str_any(os.fspath(base))
    if "://" not in base:
        own_files.remove_left(base)
    builder, temporary, final = _new_directory(base)
    written = None
    try:
        with contextlib.suppress(OSError):  # remote, or without locks
            written = own_files.mark(temporary, own_files.Job.EXPORT)
        yield builder, temporary, final
        for destination, source in (assets_extra or {}).items():
            path = os.path.join(
                temporary, "assets.extra", tf.compat.as_str_any(os.fspath(destination))
            )
            tf.io.gfile.makedirs(os.path.dirname(path))
            tf.io.gfile.copy(source, path)
        if written is None:
            tf.io.gfile.rename(temporary, final)
        else:
            written.finish(final)
    except BaseException:
        if written is not None:
            written.remove()
        elif tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        raise


def _new_directory(base: str) -> tuple[Any, str, str]:
    """Returns a builder in a new directory, that directory, and its name when it is finished.

    The name is the current second; if it is taken, this function waits for the next.
    """
    is_remote = "://" in base
    tf.io.gfile.makedirs(base)
    for attempt in range(_ATTEMPTS):
        final = os.path.join(base, str(int(time.time())))
        temporary = os.path.join(base, "temp-" + os.path.basename(final))
        taken = next((path for path in (final, temporary) if tf.io.gfile.exists(path)), None)
        if taken is None:
            taken = temporary
            with contextlib.suppress(FileExistsError):
                if not is_remote:
                    os.mkdir(temporary)
                # Not where it is used: it refuses a directory that has a file.
                return tf1.saved_model.Builder(temporary), temporary, final
        tf1.logging.warning(
            "Directory %s already exists; retrying (attempt %d/%d)", taken, attempt + 1, _ATTEMPTS
        )
        time.sleep(1)
    raise RuntimeError(
        f"Failed to obtain a unique export directory name below {base!r} after {_ATTEMPTS} "
        "attempts: other exports write there. Give each its own directory."
    )


def _check_quantized_saver(saver: tf1.train.Saver) -> None:
    """Checks that quantized tables exist, and that TensorFlow's default saver restores them.

    Args:
        saver: the saver of the model's scaffold, or None.

    Raises:
        ValueError: says what to do.
    """
    graph = tf1.get_default_graph()
    dtype = storage.current().dtype
    if dtype == "float32":
        return
    if not storage.layouts(graph):
        raise ValueError(
            f"tables={dtype!r}, but the model makes no table of a TPU embedding column. Use "
            "tpu_columns.embedding_column, or leave `tables` out."
        )
    if saver is not None:
        raise ValueError(
            f"tables={dtype!r} needs TensorFlow's own saver, but the model's scaffold has one "
            "(for moving averages?), which could fill tables from other variables. Leave `tables` "
            "out, or copy the averages into a checkpoint of their own before."
        )


def _report_losses(losses: Mapping[str, QuantizationStats], dtype: str, directory: str) -> None:
    """Logs what quantized tables lose, and writes it to `assets.extra/tables.json`.

    Args:
        losses: losses by table.
        dtype: dtype of the exported tables.
        directory: directory of the SavedModel.
    """
    if not losses:
        return
    report = {}
    for name, loss in sorted(losses.items()):
        tf1.logging.info("Table %s is stored as %s: %s.", name, dtype, loss)
        report[name] = {
            "dtype": dtype,
            "largest_error": loss.largest,
            "rms_error": loss.rms,
            "rms_of_table": loss.table_rms,
        }
    path = os.path.join(directory, "assets.extra", "tables.json")
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(report, indent=1) + "\n")
