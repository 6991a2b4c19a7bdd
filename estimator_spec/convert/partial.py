# SPDX-License-Identifier: Apache-2.0
"""Defines a layer with small tables as plain embeddings and large ones on the TPU.

For Keras 3 and tf_keras, whichever `tf.keras` is. It replaces
`tfrs.experimental.layers.embedding.PartialTPUEmbedding`, and supports combiner, weights, sparse,
ragged and sequence inputs for both kinds of tables.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

import tensorflow as tf

from estimator_spec.convert import checks, resolved_spec
from estimator_spec.convert.features import LookupInputs, attach
from estimator_spec.convert.keras_initializers import keras_initializer
from estimator_spec.convert.mid_level import MidLevel, build_configurations
from estimator_spec.convert.partial_lookup import look_up, tensorflow_variable
from estimator_spec.convert.tpu_layer import TPUTables, mid_level_optimizer
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.core.common.checks import check_positive_ints
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.checks import is_int
from tpu_columns.placement import Hardware

SIZE_THRESHOLD = 10_000

_Base: Any = object  # replaced by Keras' Layer, see `partial_embedding_class`


class PartialEmbeddingMethods(_Base):
    """Embedding layer with small tables as plain embeddings and large ones on the TPU.

    On a TPU (created and called under a `TPUStrategy`) large tables are on the embedding core and
    trained by `optimizer`. Otherwise they are variables of the layer, as small ones always are: the
    model's optimizer trains them. Weights and checkpoints can be saved; a model with this layer has
    no config, as mid-level configurations have none.

    Args:
        feature_config: `tf.tpu.experimental.embedding.FeatureConfig` by feature name.
        optimizer: optimizer of large tables on a TPU: one of `tf.tpu.experimental.embedding`, one
            of `estimator_spec`'s parameters, a Keras optimizer, 'sgd', 'adagrad', 'adam' or 'ftrl';
            None if each `TableConfig` has its own.
        pipeline_execution_with_tensor_core: whether a step's lookups overlap the previous step;
            faster, but the lookups lack its update.
        batch_size: examples of a step on one replica; None: the input's. Needed if all input
            is sparse.
        size_threshold: tables with more rows than this are large. 0: all are; None: none is.
        plain_features: features whose tables are plain, however large.
        **more: arguments of the Keras layer, such as `name`.

    Raises:
        ValueError: a table is both plain and large, or an optimizer can't be converted.
        TypeError: a configuration has another type.
    """

    def __init__(
        self,
        feature_config: Mapping[str, Any],
        optimizer: Any = None,
        pipeline_execution_with_tensor_core: bool = False,
        batch_size: int | None = None,
        size_threshold: int | None = SIZE_THRESHOLD,
        *,
        plain_features: Collection[str] = (),
        **more: Any,
    ) -> None:
        check_positive_ints(optional=True, batch_size=batch_size)
        plain, large = _split(feature_config, size_threshold, plain_features)
        super().__init__(**more)
        # A namespace, whose values Keras doesn't track.
        self._features = types.SimpleNamespace(value=dict(feature_config))
        layers: dict[int, Any] = {}
        self._keras_embedding_layers = {}
        for name, feature in plain.items():
            if id(feature.table) not in layers:
                layers[id(feature.table)] = _plain_layer(self._keras, feature.table)
            self._keras_embedding_layers[name] = layers[id(feature.table)]
        self._tpu_embedding: Any = None
        if large:
            self._tpu_embedding = _layer_class("TPUEmbedding", TPUTables, self._keras)(
                large,
                mid_level_optimizer(optimizer),
                pipeline_execution_with_tensor_core,
                batch_size,
            )
        # All weights exist; otherwise Keras 3 would trace a call.
        self.built = True

    def call(self, inputs: Mapping[str, Any], weights: Mapping[str, Any] | None = None) -> Any:
        """Looks up features.

        Args:
            inputs: ids by feature name: dense, sparse or ragged.
            weights: weights by feature name; features may have none.

        Returns:
            Embeddings by feature name; see `partial_lookup.look_up` for their shapes.

        Raises:
            ValueError: a feature has no configuration, weights have no ids, or ids aren't
                integers.
        """
        weights = weights or {}
        unknown = sorted(set(inputs) - set(self._features.value))
        if unknown:
            raise ValueError(
                f"Features {unknown} have no configuration; those with one are "
                f"{sorted(self._features.value)}."
            )
        without_ids = sorted(set(weights) - set(inputs))
        if without_ids:
            raise ValueError(
                f"There are weights for {without_ids}, but no ids; those with ids are "
                f"{sorted(inputs)}."
            )
        found, large = {}, {}
        for name, ids in inputs.items():
            layer = self._keras_embedding_layers.get(name)
            if layer is None:
                large[name] = ids
                continue
            table = tensorflow_variable(layer.embeddings)
            found[name] = look_up(name, table, self._features.value[name], ids, weights.get(name))
        if large:
            large_weights = {name: weights[name] for name in large if name in weights}
            found.update(self._tpu_embedding(large, large_weights))
        return found

    @property
    def tpu_embedding(self) -> Any:
        """Returns the layer of the large tables, None if there are none."""
        return self._tpu_embedding

    @property
    def keras_embedding_layers(self) -> dict[str, Any]:
        """Returns Keras `Embedding` layers by feature name; features of a table share one."""
        return dict(self._keras_embedding_layers)


def partial_embedding_class(keras: Any = None) -> Any:
    """Returns the `PartialEmbedding` class for a Keras module.

    Args:
        keras: the module: `tf.keras`, `keras` (3) or `tf_keras`; None: `tf.keras`.

    Raises:
        ValueError: the backend of Keras isn't TensorFlow.
    """
    keras = keras or tf.keras
    _check_backend(keras)
    return _layer_class("PartialEmbedding", PartialEmbeddingMethods, keras)


@functools.cache
def _layer_class(name: str, methods: type, keras: Any) -> Any:
    """Returns the class of a layer for a Keras module."""
    members = {"_keras": keras, "__doc__": methods.__doc__, "__module__": __name__}
    return type(name, (methods, keras.layers.Layer), members)


class PartialConversion(MidLevel):
    """Conversion to a `PartialEmbedding`."""

    takes_all: ClassVar[bool] = True

    def finish(self, inputs: Any) -> Any:
        """Removes weights that are None, which Keras doesn't accept."""
        weights = {k: w for k, w in (inputs.weights or {}).items() if w is not None}
        return LookupInputs(inputs.inputs, weights or None, inputs.sequence_lengths)


def to_partial_embedding(
    spec: EmbeddingConfigSpec,
    checkpoint: Any = None,
    *,
    size_threshold: int | None = SIZE_THRESHOLD,
    batch_size: int | None = None,
    step: Any = None,
    keras: Any = None,
    name: str = "partial_embedding",
    num_shards: int | None = None,
    variable_names: Mapping[str, str] | None = None,
    hardware: Hardware | None = None,
    allow_lossy: bool = False,
) -> Any:
    """Returns a `PartialEmbedding` layer for a spec, with trained tables if there is a checkpoint.

    Tables of the tensor core are plain embeddings, whatever their size.

    Args:
        spec: columns or dictionaries.
        checkpoint: a legacy checkpoint's prefix, or a directory; None: initial values.
        size_threshold: tables with more rows are on the TPU. 0: all; None: none.
        batch_size: examples of a step on one replica, or None.
        step: step that `learning_rate_fn`s of large tables read; see `to_mid_level`.
        keras: the Keras module; None: `tf.keras`.
        name: name of the layer.
        num_shards: as in `to_serving`.
        variable_names: as in `to_serving`.
        hardware: the hardware that `combiner=None` of a column refers to: mean on a CPU, sum on a
            TPU.
        allow_lossy: converts in spite of losses, and reports them.

    Returns:
        The layer, with a `PartialConversion` as its attribute `conversion`.

    Raises:
        LossyConversionError: an option has no counterpart, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `tables_and_features`.
    """
    _check_threshold(size_threshold)
    resolved = resolved_spec.resolve(spec, hardware)
    large = [
        table
        for table, config in sorted(resolved.tables.items())
        if table not in resolved.on_tensor_core
        and exceeds_threshold(config.vocabulary_size, size_threshold)
    ]
    plain = sorted(set(resolved.tables) - set(large))
    trained, more = None, []
    if checkpoint is not None:
        trained = TrainedTables(resolved, checkpoint, num_shards, variable_names)
        more = trained.slot_entries(large, "initial values", "not restored")
    made = build_configurations(
        "PartialEmbedding", resolved, large, plain, batch_size, step, allow_lossy, more
    )
    layer = partial_embedding_class(keras)(
        made.feature_config,
        None,
        made.pipeline_execution_with_tensor_core,
        batch_size,
        size_threshold,
        plain_features=[
            key for key in resolved.features if resolved.features[key].table_id in plain
        ],
        name=name,
    )
    if trained is not None:
        for table, config in made.tables.items():
            trained.assign_to(_variable(layer, made, config), table)
    return attach(layer, PartialConversion(**vars(made)))


def _variable(layer: Any, made: MidLevel, table: Any) -> Any:
    for name, plain in layer.keras_embedding_layers.items():
        if made.feature_config[name].table is table:
            return tensorflow_variable(plain.embeddings)
    return layer.tpu_embedding.embedding_tables[table]


def exceeds_threshold(rows: int, threshold: int | None) -> bool:
    """Returns whether a table is large; see `size_threshold` of `PartialEmbedding`."""
    return threshold is not None and rows > threshold


def _check_threshold(threshold: Any) -> None:
    if threshold is None:
        return
    if not is_int(threshold) or threshold < 0:
        raise ValueError(
            "size_threshold must be a number of rows (tables with more are the TPU's), 0 (all are)"
            f" or None (none is), got {threshold!r}."
        )


def _split(
    features: Mapping[str, Any], threshold: int | None, plain_features: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits features into those of plain tables and those of large ones."""
    if not isinstance(features, Mapping):
        raise TypeError(
            f"feature_config must be a dict of FeatureConfig by name, got {type(features)}."
        )
    _check_threshold(threshold)
    checks.known("plain_features", "feature", plain_features, features)
    plain: dict[str, Any] = {}
    large: dict[str, Any] = {}
    for name, feature in features.items():
        if not isinstance(feature, tf.tpu.experimental.embedding.FeatureConfig):
            raise TypeError(
                f"The configuration of feature {name!r} must be a "
                f"tf.tpu.experimental.embedding.FeatureConfig, got {type(feature)}."
            )
        on_tpu = (
            exceeds_threshold(feature.table.vocabulary_size, threshold)
            and name not in plain_features
        )
        (large if on_tpu else plain)[name] = feature
    both = {id(f.table) for f in plain.values()} & {id(f.table) for f in large.values()}
    if both:
        names = sorted(n for n, f in features.items() if id(f.table) in both)
        raise ValueError(
            f"Features {names} share a table, but only some of them are in plain_features."
        )
    return plain, large


def _plain_layer(keras: Any, table: Any) -> Any:
    layer = keras.layers.Embedding(
        table.vocabulary_size,
        table.dim,
        embeddings_initializer=keras_initializer(table.initializer, keras),
        name=None if table.name is None else table.name.replace("/", "_"),
    )
    layer.build((None,))
    return layer


def _check_backend(keras: Any) -> None:
    backend: Any = getattr(keras, "backend", None)
    name = backend.backend() if hasattr(backend, "backend") else "tensorflow"
    if name != "tensorflow":
        raise ValueError(
            f"PartialEmbedding needs TensorFlow, but Keras' backend is {name!r}: set "
            "KERAS_BACKEND=tensorflow."
        )
