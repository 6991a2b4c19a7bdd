# SPDX-License-Identifier: Apache-2.0
"""A layer that keeps small tables as plain embeddings and gives large ones to the TPU.

For Keras 3 and for tf_keras, whichever `tf.keras` is. It takes the place of
`tfrs.experimental.layers.embedding.PartialTPUEmbedding`, and honours combiner, weights, sparse,
ragged and sequence inputs on both sides.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.convert import checks, spec_source
from estimator_spec.convert.attached_report import attach
from estimator_spec.convert.features import Inputs
from estimator_spec.convert.keras_initializers import keras_initializer
from estimator_spec.convert.mid_level import MidLevel, configurations
from estimator_spec.convert.partial_lookup import look_up, tensorflow_variable
from estimator_spec.convert.tpu_layer import TPUTables, mid_level_optimizer
from estimator_spec.convert.trained_tables import TrainedTables
from estimator_spec.embedding.spec import EmbeddingConfigSpec
from estimator_spec.validation.checks import check_positive_ints
from tpu_columns import Hardware
from tpu_columns.checks import is_int

SIZE_THRESHOLD = 10_000

_Base: Any = object  # Keras' Layer, see `partial_embedding_class`


class Partial(_Base):
    """Embeddings of features by name: small tables plain, large ones on the TPU.

    On a TPU (created and called under a `TPUStrategy`) a large table is an embedding core's, and
    trained by `optimizer`. Elsewhere it is a variable of the layer, as a small one always is: the
    model's optimizer trains it. Weights and checkpoints can be saved; a whole model with this layer
    can't be written to a config, as mid-level configurations have none.

    Args:
        feature_config: `tf.tpu.experimental.embedding.FeatureConfig` by feature name.
        optimizer: of the large tables on a TPU: one of `tf.tpu.experimental.embedding`, of
            `estimator_spec`'s parameters, a Keras optimizer, 'sgd', 'adagrad', 'adam' or 'ftrl';
            None if each `TableConfig` has its own.
        pipeline_execution_with_tensor_core: whether a step's lookups run beside the step before;
            faster, but they lack its update.
        batch_size: examples of a step on one replica; None: as the input has. Needed if all input
            is sparse.
        size_threshold: tables with more rows than this are large. 0: all are; None: none is.
        plain_features: features whose tables are plain, however large.
        **more: of the Keras layer, such as `name`.

    Raises:
        ValueError: a table is wanted on both sides, or an optimizer can't be translated.
        TypeError: a configuration of another kind.
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
        self._features = _Untracked(dict(feature_config))
        layers: dict[int, Any] = {}
        self._keras_embedding_layers = {}
        for name, feature in plain.items():
            if id(feature.table) not in layers:
                layers[id(feature.table)] = _plain_layer(self._keras, feature.table)
            self._keras_embedding_layers[name] = layers[id(feature.table)]
        self._tpu_embedding: Any = None
        if large:
            self._tpu_embedding = tpu_embedding_class(self._keras)(
                large,
                mid_level_optimizer(optimizer),
                pipeline_execution_with_tensor_core,
                batch_size,
            )
        # All weights are there; Keras 3 would trace a call to see, and look up for nothing.
        self.built = True

    def call(self, inputs: Mapping[str, Any], weights: Mapping[str, Any] | None = None) -> Any:
        """Looks features up.

        Args:
            inputs: ids by feature name: dense, sparse or ragged.
            weights: weights by feature name, for some features or none.

        Returns:
            Embeddings by feature name; see `partial_lookup.look_up` for their shapes.

        Raises:
            ValueError: a feature without a configuration, weights without ids, or ids that aren't
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
        """The layer of the large tables, None if there are none."""
        return self._tpu_embedding

    @property
    def keras_embedding_layers(self) -> dict[str, Any]:
        """Keras `Embedding` layers by feature name; features of one table share theirs."""
        return dict(self._keras_embedding_layers)


class _Untracked:
    """Hides a value from Keras, which would wrap it."""

    def __init__(self, value: Any) -> None:
        self.value = value


def partial_embedding_class(keras: Any = None) -> Any:
    """The `PartialEmbedding` class of one Keras.

    Args:
        keras: the module: `tf.keras`, `keras` (3) or `tf_keras`; None: `tf.keras`.

    Raises:
        ValueError: a Keras whose backend isn't TensorFlow.
    """
    return _partial_embedding_class(keras or tf.keras)


@functools.cache
def _partial_embedding_class(keras: Any) -> Any:
    _check_backend(keras)
    members = {"_keras": keras, "__doc__": Partial.__doc__, "__module__": __name__}
    return type("PartialEmbedding", (Partial, keras.layers.Layer), members)


@functools.cache
def tpu_embedding_class(keras: Any) -> Any:
    """The layer of the large tables, of one Keras.

    Args:
        keras: the module.
    """
    members = {"_keras": keras, "__doc__": TPUTables.__doc__, "__module__": __name__}
    return type("TPUEmbedding", (TPUTables, keras.layers.Layer), members)


class PartialConversion(MidLevel):
    """What belongs to a `PartialEmbedding`: its configurations; all features are looked up."""

    def takes(self, feature: str) -> bool:
        """All of them."""
        return True

    def finish(self, inputs: Any) -> Any:
        """Without weights that are None, which Keras doesn't want."""
        weights = {k: w for k, w in (inputs.weights or {}).items() if w is not None}
        return Inputs(inputs.inputs, weights or None, inputs.sequence_lengths)


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

    Tables of the tensor core are plain, however large.

    Args:
        spec: columns or dictionaries.
        checkpoint: a legacy checkpoint's prefix, or a directory; None: initial values.
        size_threshold: tables with more rows are the TPU's. 0: all; None: none.
        batch_size: examples of a step on one replica, or None.
        step: what `learning_rate_fn`s of large tables read; see `to_mid_level`.
        keras: the Keras that is meant; None: `tf.keras`.
        name: of the layer.
        num_shards: as in `to_serving`.
        variable_names: as in `to_serving`.
        hardware: whose meaning a column's combiner of None has: mean on a CPU, sum on a TPU.
        allow_lossy: convert, and only report what is lost.

    Returns:
        The layer, with a `PartialConversion` as its attribute `conversion`.

    Raises:
        LossyConversionError: something has no counterpart, and `allow_lossy` is False.
        CheckpointError: the checkpoint is missing or damaged, or lacks a table.
        ValueError, TypeError: as `tables_and_features`.
    """
    _check_threshold(size_threshold)
    read = spec_source.read(spec, hardware)
    large = [
        table
        for table, config in sorted(read.tables.items())
        if table not in read.on_tensor_core and is_large(config.vocabulary_size, size_threshold)
    ]
    plain = sorted(set(read.tables) - set(large))
    trained, more = None, []
    if checkpoint is not None:
        trained = TrainedTables(read, checkpoint, num_shards, variable_names)
        more = trained.slot_entries(large, "initial values", "they begin anew")
    made = configurations(
        "PartialEmbedding", read, large, plain, batch_size, step, allow_lossy, more
    )
    layer = partial_embedding_class(keras)(
        made.feature_config,
        None,
        made.pipeline_execution_with_tensor_core,
        batch_size,
        size_threshold,
        plain_features=[key for key in read.features if read.features[key].table_id in plain],
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


def is_large(rows: int, threshold: int | None) -> bool:
    """Whether a table is the TPU's.

    Args:
        rows: of the table.
        threshold: see `PartialEmbedding`.
    """
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
    """The features of plain tables, and those of the TPU's."""
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
        on_tpu = is_large(feature.table.vocabulary_size, threshold) and name not in plain_features
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
