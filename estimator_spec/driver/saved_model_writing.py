# SPDX-License-Identifier: Apache-2.0
"""SavedModels: signatures, variables, assets, and a directory that appears when it is whole."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.driver import checkpoint_state, quantized_export, table_restore
from estimator_spec.model.export_outputs import EvalOutput, TrainOutput, get_export_outputs
from estimator_spec.model.model_spec import ModeKeys

tf1 = tf.compat.v1

# The first one writes the variables: a training graph has all of them.
_MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
_TAGS = {
    ModeKeys.TRAIN: [tf1.saved_model.tag_constants.TRAINING],
    # TensorFlow exports no public constant for this one.
    ModeKeys.EVAL: ["eval"],
    ModeKeys.PREDICT: [tf1.saved_model.tag_constants.SERVING],
}
_TRAIN_OP_COLLECTION = "saved_model_train_op"  # what TensorFlow's own loaders look for
_SIGNATURE = {ModeKeys.TRAIN: "train", ModeKeys.EVAL: "eval"}
_ATTEMPTS = 10
_PART = re.compile(r"/part_\d+$")


class Directories(NamedTuple):
    """Where a SavedModel is written, and where it will be."""

    temporary: str
    final: str


def modes_in_order(receivers: Mapping[str, Callable[[], Any]]) -> list[str]:
    """The modes to export, the one that writes the variables first.

    Raises:
        ValueError: there is none.
    """
    modes = [mode for mode in _MODES if receivers.get(mode)]
    if not modes:
        raise ValueError(
            f"No valid modes for exporting found. Got {list(receivers)}, expected some of "
            f"{list(_MODES)}."
        )
    return modes


@contextlib.contextmanager
def directory(base: Any, assets_extra: Mapping[str, str] | None) -> Iterator[Directories]:
    """A new directory below `base`, named by the seconds since 1970.

    It is written under a name beginning with 'temp-', which servers ignore, and renamed at the
    end; if writing fails it is removed.

    Args:
        base: the directory above.
        assets_extra: files to copy into it, by their place below `assets.extra`.
    """
    base = tf.compat.as_str_any(os.fspath(base))
    final = _unused(base)
    temporary = os.path.join(base, "temp-" + os.path.basename(final))
    try:
        yield Directories(temporary, final)
        for destination, source in (assets_extra or {}).items():
            path = os.path.join(
                temporary, "assets.extra", tf.compat.as_str_any(os.fspath(destination))
            )
            tf.io.gfile.makedirs(os.path.dirname(path))
            tf.io.gfile.copy(source, path)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        raise
    tf.io.gfile.rename(temporary, final)


def _unused(base: str) -> str:
    """Waits for the next second if there is an export of this one."""
    for attempt in range(_ATTEMPTS):
        path = os.path.join(base, str(int(time.time())))
        if not tf.io.gfile.exists(path):
            return path
        tf1.logging.warning(
            "Directory %s already exists; retrying (attempt %d/%d)", path, attempt + 1, _ATTEMPTS
        )
        time.sleep(1)
    raise RuntimeError(
        f"Failed to obtain a unique export directory name below {base!r} after {_ATTEMPTS} "
        "attempts: other exports write there. Give each its own directory."
    )


def warm_start_checkpoint(settings: Any) -> str | None:
    """The checkpoint that an untrained, warm-started model is exported from."""
    path = settings.ckpt_to_initialize_from
    return tf.train.latest_checkpoint(path) if tf.io.gfile.isdir(path) else path


def add_graph(
    builder: Any,
    spec: Any,
    receiver: Any,
    *,
    mode: str,
    session_config: Any,
    checkpoint: str,
    save_variables: bool,
    strip_default_attrs: bool,
) -> Mapping[str, Any]:
    """Adds the current graph to a SavedModel, with the checkpoint's variables.

    Args:
        builder: the `tf.compat.v1.saved_model.Builder`.
        spec: the `EstimatorSpec` of the current graph.
        receiver: what its inputs are.
        mode: one of `ModeKeys`.
        session_config: for the session that restores.
        checkpoint: where the variables come from.
        save_variables: whether they are written; once in a SavedModel.
        strip_default_attrs: leaves out attributes that have their default value.

    Returns:
        What narrow tables lose, by table.

    Raises:
        ValueError: the graph has variables that the checkpoint hasn't.
    """
    signatures = _signatures(
        _outputs(spec, mode),
        receiver.receiver_tensors,
        getattr(receiver, "receiver_tensors_alternatives", None),
        serving=mode == ModeKeys.PREDICT,
    )
    local_init_op = spec.scaffold.local_init_op
    if local_init_op is None:
        local_init_op = tf1.train.Scaffold.default_local_init_op()
    quantized_export.check_saver(spec.scaffold.saver)
    saver = spec.scaffold.saver or tf1.train.Saver(sharded=True)
    if spec.train_op is not None:
        tf1.add_to_collection(_TRAIN_OP_COLLECTION, spec.train_op)
    meta_graph = {
        "tags": _TAGS[mode],
        "signature_def_map": signatures,
        "assets_collection": tf1.get_collection(tf1.GraphKeys.ASSET_FILEPATHS),
        "main_op": local_init_op,
        "saver": saver,
        "strip_default_attrs": strip_default_attrs,
    }
    with tf1.Session(config=session_config) as session:
        try:
            with checkpoint_state.explain_damage(checkpoint):
                losses = table_restore.restore_tables(saver, session, checkpoint)
        except tf.errors.NotFoundError as error:
            saved = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
            # A checkpoint has partitioned variables as a whole.
            names = {_PART.sub("", variable.op.name) for variable in tf1.global_variables()}
            raise ValueError(
                "Could not load all requested variables from checkpoint. Please make sure your "
                "model_fn does not expect variables that were not saved in the checkpoint. In "
                f"mode `{mode}` it has these, which {checkpoint!r} lacks: "
                f"{sorted(names - set(saved))}."
            ) from error
        if save_variables:
            builder.add_meta_graph_and_variables(session, **meta_graph)
        else:
            builder.add_meta_graph(**meta_graph)
    return losses


def _outputs(spec: Any, mode: str) -> dict[str, Any]:
    """What the graph of a mode gives its clients, by signature name."""
    if mode == ModeKeys.PREDICT:
        return get_export_outputs(spec.export_outputs, spec.predictions)
    kind = TrainOutput if mode == ModeKeys.TRAIN else EvalOutput
    output = kind(loss=spec.loss, predictions=spec.predictions, metrics=spec.eval_metric_ops)
    return {_SIGNATURE[mode]: output}


def _signatures(
    outputs: Mapping[str, Any],
    receiver_tensors: Any,
    alternatives: Mapping[str, Any] | None,
    serving: bool,
) -> dict[str, Any]:
    """One signature for each output, and for each way to feed it.

    Outputs that can't be had from an input (they need another placeholder, or the signature's
    kind takes other tensors) are left out, and reported.
    """
    signatures: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for prefix, tensors in [("", receiver_tensors), *_prefixed(alternatives)]:
        inputs = tensors if isinstance(tensors, Mapping) else {"input": tensors}
        for key, output in outputs.items():
            name = f"{prefix}{key or 'None'}"
            try:
                signature = output.as_signature_def(inputs)
                _check_reachable(signature, inputs.values())
            except ValueError as error:
                left_out[name] = str(error)
            else:
                signatures[name] = signature
    if serving:
        valid = tf1.saved_model.is_valid_signature
        signatures = {name: found for name, found in signatures.items() if valid(found)}
    _report(signatures, left_out, serving)
    return signatures


def _prefixed(alternatives: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    return [(f"{name or 'None'}:", tensors) for name, tensors in (alternatives or {}).items()]


def _check_reachable(signature: Any, inputs: Iterable[Any]) -> None:
    """Refuses a signature whose outputs need a placeholder that isn't among its inputs."""
    graph = tf1.get_default_graph()
    fed = {t.name for value in inputs for t in tf.nest.flatten(value, expand_composites=True)}
    todo = [
        graph.get_tensor_by_name(name)
        for info in signature.outputs.values()
        for name in _tensor_names(info)
    ]
    seen = set()
    while todo:
        tensor = todo.pop()
        if tensor.name in fed or tensor.name in seen:
            continue
        seen.add(tensor.name)
        if tensor.op.type == "Placeholder":
            raise ValueError(
                f"The signature's input tensors {sorted(fed)} are insufficient to compute "
                f"{sorted(signature.outputs)}: they depend on the placeholder "
                f"{tensor.op.name!r} too."
            )
        todo.extend(tensor.op.inputs)
        for op in tensor.op.control_inputs:
            todo.extend(op.inputs)


def _tensor_names(info: Any) -> list[str]:
    """The dense tensors behind one output of a signature."""
    if info.WhichOneof("encoding") == "coo_sparse":
        sparse = info.coo_sparse
        return [
            sparse.values_tensor_name,
            sparse.indices_tensor_name,
            sparse.dense_shape_tensor_name,
        ]
    if info.WhichOneof("encoding") == "composite_tensor":
        return [part.name for part in info.composite_tensor.components]
    return [info.name]


def _report(signatures: Mapping[str, Any], left_out: Mapping[str, str], serving: bool) -> None:
    for name, signature in signatures.items():
        method = signature.method_name.rsplit("/", 1)[-1]
        tf1.logging.info("Signature INCLUDED in export: %s (%s)", name, method)
    for name, reason in left_out.items():
        tf1.logging.info(
            "Signature EXCLUDED from export because it cannot be served: %s : %s", name, reason
        )
    if not signatures:
        tf1.logging.warning("Export includes no signatures!")
    elif serving and tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY not in signatures:
        tf1.logging.warning("Export includes no default signature!")
