# SPDX-License-Identifier: Apache-2.0
"""Builds the signatures of an exported graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.export.export_outputs import EvalOutput, TrainOutput, get_export_outputs
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from tpu_columns import graphs

tf1 = tf.compat.v1

_TRAINING_SIGNATURES = {ModeKeys.TRAIN: ("train", TrainOutput), ModeKeys.EVAL: ("eval", EvalOutput)}


def build_signatures(spec: EstimatorSpec, receiver: Any, mode: str) -> dict[str, Any]:
    """Returns one signature for each output and each set of input tensors, by name.

    Outputs that can't be computed from a set of inputs (they depend on another placeholder, or the
    signature's kind takes other tensors) are left out, which is logged.

    Args:
        spec: the `EstimatorSpec` of the default graph.
        receiver: the input receiver: its `receiver_tensors`, and its
            `receiver_tensors_alternatives` if it has any, are the sets of inputs.
        mode: one of `ModeKeys`.
    """
    outputs = _outputs(spec, mode)
    alternatives = getattr(receiver, "receiver_tensors_alternatives", None) or {}
    inputs_by_prefix = {
        "": receiver.receiver_tensors,
        **{f"{name or 'None'}:": tensors for name, tensors in alternatives.items()},
    }
    signatures: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    for prefix, tensors in inputs_by_prefix.items():
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
    serving = mode == ModeKeys.PREDICT
    if serving:
        valid = tf1.saved_model.is_valid_signature
        signatures = {name: found for name, found in signatures.items() if valid(found)}
    _log_signatures(signatures, left_out, serving)
    return signatures


def _outputs(spec: EstimatorSpec, mode: str) -> dict[str, Any]:
    """Returns the export outputs of a mode, by signature name."""
    if mode == ModeKeys.PREDICT:
        return get_export_outputs(spec.export_outputs, spec.predictions)
    name, kind = _TRAINING_SIGNATURES[mode]
    return {name: kind(loss=spec.loss, predictions=spec.predictions, metrics=spec.eval_metric_ops)}


def _check_reachable(signature: Any, inputs: Iterable[Any]) -> None:
    """Checks that the outputs of a signature depend on no placeholder but its inputs."""
    graph = tf1.get_default_graph()
    fed = {t.name for value in inputs for t in tf.nest.flatten(value, expand_composites=True)}
    outputs = [name for info in signature.outputs.values() for name in _tensor_names(info)]

    def read_for(name: str) -> list[str]:
        op = graph.get_tensor_by_name(name).op
        ops = [op, *op.control_inputs] if name not in fed else []
        return [value.name for each in ops for value in each.inputs]

    for name in graphs.walk(outputs, read_for):
        op = graph.get_tensor_by_name(name).op
        if op.type == "Placeholder" and name not in fed:
            raise ValueError(
                f"The signature's input tensors {sorted(fed)} are insufficient to compute "
                f"{sorted(signature.outputs)}: they depend on the placeholder {op.name!r} too."
            )


def _tensor_names(info: Any) -> list[str]:
    """Returns the names of the dense tensors of one output of a signature."""
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


def _log_signatures(
    signatures: Mapping[str, Any], left_out: Mapping[str, str], serving: bool
) -> None:
    """Logs the signatures of a graph, and those that were left out with their reasons."""
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
