# SPDX-License-Identifier: Apache-2.0
"""Plans the models of canned estimators: hidden layers, linear sums, baselines, and their heads."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns import assembly, distributed, head_outputs, optimizers
from estimator_spec.convert.keras_columns.expressions import Name, call
from estimator_spec.convert.keras_columns.plan import FEATURES, Input, ModelPlan
from estimator_spec.heads.canned_model import CannedModel, ModelPart
from estimator_spec.heads.description import describe

_BATCH_NORM = {"momentum": 0.999, "epsilon": 0.001}
_ACTIVATIONS = {
    tf.nn.relu: "relu",
    tf.nn.relu6: "relu6",
    tf.nn.tanh: "tanh",
    tf.nn.sigmoid: "sigmoid",
    tf.nn.elu: "elu",
    tf.nn.selu: "selu",
    tf.nn.softplus: "softplus",
    tf.nn.softsign: "softsign",
    tf.nn.silu: "silu",
    tf.nn.swish: "silu",
    tf.nn.gelu: "gelu",
    tf.nn.leaky_relu: "leaky_relu",
    tf.math.tanh: "tanh",
    tf.math.sigmoid: "sigmoid",
    tf.math.softplus: "softplus",
    tf.exp: "exponential",
    tf.identity: "linear",
}

_BY_NAME = {function.__name__: name for function, name in _ACTIVATIONS.items()}
_OTHERS = ("exp", "identity")  # not in tf.nn

_DEEP_SCOPE = "dnn/input_from_feature_columns/input_layer"


def add_canned_model(
    plan: ModelPlan, model: CannedModel, embeddings: str = distributed.LAYERS
) -> None:
    """Plans the model of a canned estimator.

    Args:
        plan: an empty plan.
        model: the model.
        embeddings: one of `distributed.EMBEDDINGS`, for the hidden layers' columns.

    Raises:
        ValueError: a column, the head or an activation has no counterpart.
    """
    heads = describe(model.head)
    dimension = sum(head.logits_dimension for head in heads)
    if embeddings == distributed.DISTRIBUTED:
        plan.scope, plan.part = _DEEP_SCOPE, "dnn"
        deep = [column for part in model.parts if part.scope == "dnn" for column in part.columns]
        distributed.add_embeddings(plan, deep)
        plan.scope = ""
    logits = []
    for part in model.parts:
        plan.part = part.scope
        logits.append(_PARTS[part.scope](plan, part, dimension))
    total = logits[0]
    if len(logits) > 1:
        total = plan.layer("summed_logits", call("Sum", name="summed_logits"), logits)
    head_outputs.add_heads(plan, heads, total, model.generation)
    optimizers.add_optimizers(plan, model)


def _add_linear(plan: ModelPlan, part: ModelPart, units: int) -> Name:
    plan.scope = "linear/linear_model"
    logits = assembly.add_linear_model(plan, part.columns, units, part.sparse_combiner)
    plan.scope = ""
    return logits


def _add_deep(plan: ModelPlan, part: ModelPart, units: int) -> Name:
    plan.scope = _DEEP_SCOPE
    tensor = assembly.add_input_layer(plan, part.columns)
    plan.scope = ""
    activation = _activation(part.layers.activation_fn)
    for index, width in enumerate(part.layers.units):
        name = f"hiddenlayer_{index}"
        tensor = _add_dense(plan, tensor, name, width, activation)
        if part.layers.dropout is not None:
            layer = call("keras.layers.Dropout", part.layers.dropout)
            tensor = plan.layer(f"dropout_{index}", layer, tensor)
        if part.layers.batch_norm:
            tensor = _add_batch_norm(plan, tensor, f"dnn/{name}", f"batchnorm_{index}")
    return _add_dense(plan, tensor, "logits", units, None)


def _add_dense(
    plan: ModelPlan, inputs: Name, name: str, units: int, activation: str | None
) -> Name:
    options = {} if activation is None else {"activation": activation}
    label = "logits_layer" if name == "logits" else name
    dense = call("keras.layers.Dense", units, **options, name=label)
    outputs = plan.layer("deep_logits" if name == "logits" else name, dense, inputs)
    for attribute, shape in (("kernel", (None, units)), ("bias", (units,))):
        source = f"dnn/{name}/{attribute}"
        plan.variable(label, attribute, shape, (source,))
    return outputs


def _add_batch_norm(plan: ModelPlan, inputs: Name, scope: str, name: str) -> Name:
    layer = call("keras.layers.BatchNormalization", **_BATCH_NORM, name=name)
    for attribute in ("gamma", "beta", "moving_mean", "moving_variance"):
        sources = (f"{scope}/{name}/{attribute}",)
        trains = not attribute.startswith("moving")
        plan.variable(name, attribute, (None,), sources, trainable=trains)
    return plan.layer(f"{name}_outputs", layer, inputs)


def _add_baseline(plan: ModelPlan, part: ModelPart, units: int) -> Name:
    del part
    zeros = {"zeros": call("zeros_for", FEATURES, units)}
    plan.read("numeric", zeros, {"zeros": Input((units,), "float32")})
    return assembly.add_bias(plan, Name("zeros"), units, "baseline", ("baseline/bias",))


def _activation(function: Any) -> str | None:
    """Returns Keras' name of an activation function.

    Raises:
        ValueError: it has none.
    """
    if function is None:
        return None
    if isinstance(function, str):
        return function
    known = _ACTIVATIONS.get(function)
    package = str(getattr(function, "__module__", "")).partition(".")[0]
    if known is None and package in ("keras", "tf_keras") and hasattr(function, "__name__"):
        known = function.__name__
    if known is None and package == "tensorflow":
        # TensorFlow 1's tf.nn.tanh is another object than TensorFlow 2's.
        known = _BY_NAME.get(getattr(function, "__name__", ""))
    if known is None:
        names = ", ".join(f"tf.nn.{name}" for name in _BY_NAME if name not in _OTHERS)
        raise ValueError(
            f"activation_fn {function!r} has no counterpart. Those of {names} have one. Pass "
            "one of these, or write the hidden layers of the new model yourself."
        )
    return known


_PARTS = {"linear": _add_linear, "dnn": _add_deep, "baseline": _add_baseline}
