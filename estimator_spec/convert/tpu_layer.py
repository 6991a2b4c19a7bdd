# SPDX-License-Identifier: Apache-2.0
"""Defines the Keras layer of a partial embedding's large tables.

Off a TPU its tables are plain weights. On a TPU it enqueues and dequeues, and its gradient function
applies the gradients to the embedding core.
"""

from __future__ import annotations

import numbers
import types
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.convert import report, resolved_spec
from estimator_spec.convert.keras_initializers import keras_initializer
from estimator_spec.convert.mid_level import Optimizers, fix_packing_status
from estimator_spec.convert.partial_lookup import look_up, tensorflow_variable
from estimator_spec.core._tensorflow import private
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec, FeatureConfig, TableConfig

_Base: Any = object  # replaced by Keras' Layer, as in `partial`


class TPUTables(_Base):
    """Embedding layer of the tables on a TPU's embedding core; plain weights without a TPU.

    Args:
        feature_config: `FeatureConfig` by feature name.
        optimizer: mid-level optimizer of tables that have none of their own, or None.
        pipeline_execution_with_tensor_core: see `PartialEmbedding`.
        batch_size: see `PartialEmbedding`.
    """

    def __init__(
        self,
        feature_config: Mapping[str, Any],
        optimizer: Any = None,
        pipeline_execution_with_tensor_core: bool = False,
        batch_size: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self.batch_size = batch_size
        # A namespace, whose values Keras doesn't track.
        held = types.SimpleNamespace(features=dict(feature_config), api=None, calls=0)
        held.tables = list({id(f.table): f.table for f in held.features.values()}.values())
        self._held = held
        strategy = tf.distribute.get_strategy()
        if isinstance(strategy, tf.distribute.TPUStrategy):
            held.api = _on_tpu(held.features, optimizer, pipeline_execution_with_tensor_core)
            # A trainable variable, so that the lookup has a gradient function.
            self._trap = self.add_weight(
                name="tpu_embedding_gradient", shape=(1,), initializer="zeros", trainable=True
            )
            self.built = True
            return
        self._tables = []
        for number, table in enumerate(held.tables):
            weight = self.add_weight(
                name=(table.name or f"table_{number}").replace("/", "_"),
                shape=(table.vocabulary_size, table.dim),
                initializer=keras_initializer(table.initializer, self._keras),
                trainable=True,
            )
            self._tables.append(weight)
        self.built = True

    @property
    def embedding_tables(self) -> dict[Any, Any]:
        """Returns variables by `TableConfig`; on a TPU those that checkpoints save."""
        if self._held.api is not None:
            return self._held.api.embedding_tables
        return {
            table: tensorflow_variable(weight)
            for table, weight in zip(self._held.tables, self._tables, strict=True)
        }

    def call(self, features: Mapping[str, Any], weights: Mapping[str, Any] | None = None) -> Any:
        """Looks up features; see `PartialEmbedding.call`."""
        weights = weights or {}
        held = self._held
        if held.api is not None:
            return self._on_tpu(features, weights)
        tables = self.embedding_tables
        return {
            name: look_up(
                name,
                tables[held.features[name].table],
                held.features[name],
                ids,
                weights.get(name),
            )
            for name, ids in features.items()
        }

    def _on_tpu(self, features: Mapping[str, Any], weights: Mapping[str, Any]) -> Any:
        held = self._held
        missing = sorted(set(held.features) - set(features))
        if missing:
            raise ValueError(f"On a TPU every feature is looked up; {missing} are missing.")
        found = {name: features[name] for name in held.features}
        factors = {name: weights.get(name) for name in held.features} if weights else None
        if isinstance(held.api, tf.tpu.experimental.embedding.TPUEmbedding):
            if self.batch_size is not None:
                held.api.build(per_replica_batch_size=self.batch_size)
            held.calls += 1
            # TensorFlow matches lookups and gradients by this name, and treats a lookup
            # without a name as evaluation.
            name = str(held.calls)
            held.api.enqueue(found, factors, training=True, name=name)
            return self._with_core_gradients(
                lambda: (held.api.dequeue(name=name), {"name": name}),
            )
        if hasattr(held.api, "apply_gradients"):
            return self._with_core_gradients(lambda: _split_outputs(held.api(found, factors)))
        return held.api(found, factors)

    def _with_core_gradients(self, look_up_now: Any) -> Any:
        """Returns activations whose gradient function passes gradients to the embedding core."""
        held = self._held

        @tf.custom_gradient
        def trap(variable: Any) -> Any:
            activations, with_gradients = look_up_now()

            def gradient(*flat: Any) -> Any:
                packed = tf.nest.pack_sequence_as(held.features, flat)
                held.api.apply_gradients(packed, **with_gradients)
                return tf.zeros_like(variable)

            return tf.nest.flatten(activations), gradient

        trapped = trap(tf.convert_to_tensor(self._trap))
        return tf.nest.pack_sequence_as(held.features, trapped)


def _split_outputs(result: Any) -> tuple[Any, dict[str, Any]]:
    activations, preserved = result
    return activations, {"preserved_outputs": preserved}


def _on_tpu(features: dict[str, Any], optimizer: Any, pipelined: bool) -> Any:
    """Creates the embedding object for this TPU's generation."""
    api = tf.tpu.experimental.embedding
    known = tf.tpu.experimental.HardwareFeature.EmbeddingFeature
    for feature in features.values():
        fix_packing_status(feature.table.optimizer)
    generation = tf.distribute.get_strategy().extended.tpu_hardware_feature.embedding_feature
    if generation == known.V1:
        return api.TPUEmbedding(features, optimizer, pipelined)
    if generation == known.V2:
        return api.TPUEmbeddingV2(features, optimizer, pipelined)
    return api.TPUEmbeddingV0(features, optimizer)


_BY_NAME = {"sgd": "SGD", "adagrad": "Adagrad", "adam": "Adam", "ftrl": "FTRL"}
# Keras' optimizers: supported arguments, and arguments that must be unset.
_KERAS = {
    "SGD": ((), ("momentum", "nesterov")),
    "Adagrad": (("initial_accumulator_value",), ()),
    "Adam": (("beta_1", "beta_2", "epsilon"), ("amsgrad",)),
    "Ftrl": (
        (
            *("learning_rate_power", "initial_accumulator_value", "beta"),
            *("l1_regularization_strength", "l2_regularization_strength"),
        ),
        ("l2_shrinkage_regularization_strength",),
    ),
}
_KERAS_LIMITS = ("clipnorm", "global_clipnorm", "use_ema", "decay", "weight_decay")


def mid_level_optimizer(optimizer: Any) -> Any:
    """Converts an optimizer to one of `tf.tpu.experimental.embedding`.

    Args:
        optimizer: such an optimizer, a name, one of our parameter classes, a Keras optimizer, or
            None.

    Raises:
        ValueError: it can't be converted.
        LossyConversionError: a parameter class has no exact counterpart.
    """
    api = tf.tpu.experimental.embedding
    kinds = (api.SGD, api.Adagrad, api.AdagradMomentum, api.Adam, api.FTRL)
    if optimizer is None or isinstance(optimizer, kinds):
        return fix_packing_status(optimizer)
    if isinstance(optimizer, str):
        if optimizer not in _BY_NAME:
            raise ValueError(f"optimizer must be one of {sorted(_BY_NAME)}, got {optimizer!r}.")
        return fix_packing_status(getattr(api, _BY_NAME[optimizer])())
    if isinstance(optimizer, OptimizationParameters):
        return _of_parameters(optimizer)
    return _of_keras(optimizer)


def _of_parameters(parameters: OptimizationParameters) -> Any:
    spec = EmbeddingConfigSpec(
        feature_to_config_dict={"feature": FeatureConfig("table")},
        table_to_config_dict={"table": TableConfig(1, 1)},
        optimization_parameters=parameters,
    )
    resolved = resolved_spec.resolve(spec)
    report.build_report("tf.tpu.experimental.embedding", resolved, [], False, "tpu_embedding")
    return Optimizers("tpu_embedding", resolved, None).for_table("table")


def _of_keras(optimizer: Any) -> Any:
    name = type(optimizer).__name__
    if name not in _KERAS or not hasattr(optimizer, "get_config"):
        raise ValueError(
            f"optimizer {optimizer!r} can't be translated for a TPU: give one of "
            f"tf.tpu.experimental.embedding, or Keras' {', '.join(_KERAS)}."
        )
    config = optimizer.get_config()
    kept, refused = _KERAS[name]
    used = [key for key in (*refused, *_KERAS_LIMITS) if config.get(key)]
    if used:
        raise ValueError(f"{name}'s {used} have no counterpart on a TPU's embedding core.")
    rate: Any = config["learning_rate"]
    if isinstance(rate, numbers.Real):
        rate = float(rate)
    else:

        def rate() -> Any:
            return tf.cast(private.keras_learning_rate(optimizer), tf.float32)

    arguments = {key: config[key] for key in kept if key in config}
    if config.get("clipvalue") is not None:
        arguments["clipvalue"] = config["clipvalue"]
    kind = "FTRL" if name == "Ftrl" else name
    return fix_packing_status(
        getattr(tf.tpu.experimental.embedding, kind)(learning_rate=rate, **arguments)
    )
