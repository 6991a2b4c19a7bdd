# SPDX-License-Identifier: Apache-2.0
"""Makes Keras 3 models of feature columns.

`categorical` and `dense` have the tables of columns and layers. A `plan` says how the features are
read (`preprocessing`) and which layers follow; `source` writes a program of it, and `live` runs
that as a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.convert.keras_columns import (
    distributed,
    live,
    planned,
    readings,
    trained_values,
)
from estimator_spec.convert.keras_columns.plan import (
    ColumnConversion,
    Difference,
    ModelPlan,
    Origin,
)
from estimator_spec.convert.keras_columns.readings import Reading
from estimator_spec.convert.optional_packages import check_keras, load_extra


class KerasConversion(ColumnConversion):
    """Record of a conversion to a Keras model; variables by name of the layer."""


def to_keras(
    source: Any,
    checkpoint: Any = None,
    *,
    layer: str | None = None,
    units: int = 1,
    sparse_combiner: str = "sum",
    embeddings: str = distributed.LAYERS,
    variable_names: Mapping[str, str] | None = None,
    reading: str = readings.TENSORFLOW.name,
) -> Any:
    """Returns a Keras 3 model of feature columns, with trained tables if there is a checkpoint.

    The model takes a dict of raw features, dense, sparse or ragged, as the columns do. Its `core`
    is the functional Keras model behind the reading of features, which can be saved.

    Args:
        source: feature columns of `tf.feature_column` or `tpu_columns`; an `EmbeddingConfigSpec`
            of columns; or a canned estimator, whose model is returned with its predictions as
            outputs, and compiled with its loss, metrics and optimizer, so that `fit` goes on from
            the checkpoint. If Keras has no such optimizer it has none: set `optimizer` before.
        checkpoint: prefix of a checkpoint, or a directory, whose latest one is taken. None: the
            estimator's `model_dir`; of columns, tables have initial values.
        layer: 'input_layer' for dense columns, concatenated in the order of their names;
            'linear_model' for logits; 'sequence_input_layer' for sequences and their lengths. None:
            the one that fits the columns, and both if some are sequences.
        units: logits of a linear model.
        sparse_combiner: of a linear model: how the weights of several ids are combined.
        embeddings: 'layers': each embedding column has its own layer. 'distributed': those of
            `tpu_columns` have one `keras_rs.layers.DistributedEmbedding`, which SparseCore trains
            if there is one, with the optimizers of the spec.
        variable_names: names of the checkpoint's variables by name of the layer, where they
            aren't found by the names of the columns.
        reading: 'tensorflow': the model reads features by TensorFlow's ops, under Keras' backend
            of that name. 'numpy': a model over ids, weights and numbers, under any backend, whose
            `preprocess(features)` reads them by NumPy: `model.predict(model.preprocess(features))`,
            `model.fit(model.training_batch(*batch) for batch in batches)`.

    Returns:
        A `keras.Model` with the attributes `conversion` (a `KerasConversion`) and, unless NumPy
        reads, `core`. That of an estimator has `predictions(features)`, with `classes` (where NumPy
        reads, `with_classes(outputs)`), and `training_batch(features, labels)` for the `map` of a
        dataset for `fit` and `evaluate`.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, or that of another model.
        ImportError: Keras 3 or keras_rs isn't installed.
        RuntimeError: Keras has another backend than TensorFlow, or ops don't run eagerly.
        ValueError: a column can't move, two have the same name, or a vocabulary is missing.
    """
    check_keras()
    if not tf.executing_eagerly():
        raise RuntimeError(
            "to_keras makes a Keras 3 model, which needs TensorFlow 2's behaviour: call it outside "
            "of a tf.Graph, and in a program without disable_v2_behavior(). For others there is "
            "`python -m estimator_spec to-keras`."
        )
    if embeddings not in distributed.EMBEDDINGS:
        names = " or ".join(map(repr, distributed.EMBEDDINGS))
        raise ValueError(f"embeddings must be {names}, got {embeddings!r}.")
    if reading not in readings.BY_NAME:
        raise ValueError(f"reading must be 'tensorflow' or 'numpy', got {reading!r}.")
    if reading == readings.NUMPY.name:
        load_extra("farmhash", "without-tensorflow")
    plan = planned.plan_source(source, layer, units, sparse_combiner, embeddings)
    checkpoint = planned.checkpoint_of(source, checkpoint)
    return _make(plan, checkpoint, variable_names, readings.BY_NAME[reading])


def _make(
    plan: ModelPlan, checkpoint: Any, variable_names: Mapping[str, str] | None, reading: Reading
) -> Any:
    found = {}
    if checkpoint is not None:
        found = trained_values.find_variables(plan, checkpoint, variable_names)
    # Random values would take the memory of the table twice more.
    model = live.build_model(plan, reading, "uniform" if checkpoint is None else "zeros")
    if checkpoint is not None:
        trained_values.load(model, checkpoint, found)
        if plan.objectives and plan.optimizer is not None:
            trained_values.load_slots(plan, model, checkpoint, found)
    names = {variable.layer: name for variable, name in found.items()}
    model.conversion = KerasConversion(tuple(plan.origins), tuple(plan.differences), names)
    return model


__all__ = ["Difference", "KerasConversion", "Origin", "to_keras"]
