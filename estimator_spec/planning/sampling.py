# SPDX-License-Identifier: Apache-2.0
"""Reads a sample of ids from a program's `input_fn`; builds no model and no table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.checkpoints import spec_tables
from estimator_spec.core.common.checks import check_callable, check_positive_ints
from estimator_spec.core.cores import enqueue
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from estimator_spec.core.embedding.table_config import FeatureConfig
from estimator_spec.core.run_config import TPURunConfig
from estimator_spec.core.user_functions import batches
from estimator_spec.planning.samples import FeatureIds, IdSample, SampledBatch
from tpu_columns import categorical
from tpu_columns.column_types import TPUEmbeddingColumn
from tpu_columns.placement import Mode


def sample_ids(
    spec: EmbeddingConfigSpec,
    input_fn: Callable[..., Any],
    num_batches: int = 8,
    *,
    batch_size: int = 1024,
    params: Mapping[str, Any] | None = None,
) -> IdSample:
    """Reads the ids of a few training batches.

    Builds the graph of `input_fn` and runs it on this host. Integer ids are taken as a TPU takes
    them (dense ids of 0 are padding, unless the table has no combiner); strings are mapped by the
    vocabulary of their column.

    Args:
        spec: columns or dictionaries, which name the features.
        input_fn: as for `TPUEstimator.train`.
        num_batches: maximum number of batches.
        batch_size: `params['batch_size']` of `input_fn`. A batch stands for all examples of a
            training step, on all cores.
        params: more parameters of `input_fn`.

    Raises:
        ValueError: an argument is out of range, the input has no batch, or a feature of the spec is
            missing or has ids that can't be looked up.
        TypeError: `input_fn` isn't callable, or the features are no dict.
    """
    check_callable("input_fn", input_fn)
    check_positive_ints(num_batches=num_batches, batch_size=batch_size)
    given = {**(params or {}), "batch_size": batch_size, "use_tpu": False}
    with tf.Graph().as_default():
        result = batches.call_input_fn(input_fn, Mode.TRAIN.value, given, TPURunConfig())
        start = []
        if isinstance(result, tf.data.Dataset):
            iterator = batches.initializable_iterator(result, input_fn)
            start.append(iterator.initializer)
            result = iterator.get_next()
        features, _ = batches.split_labels(result, input_fn)
        if not isinstance(features, Mapping):
            raise TypeError(
                "Features must be a dict of tensors by key, but input_fn "
                f"{batches.describe(input_fn)} returned {type(features).__name__}."
            )
        ids = _feature_ids(spec, features)
        found = tuple(map(_sampled_batch, _run(ids, start, num_batches)))
    if not found:
        raise ValueError(
            f"input_fn {batches.describe(input_fn)} yields no batch of {batch_size} examples. "
            "Check its files and filters, and that drop_remainder leaves a batch."
        )
    return IdSample(found)


def _feature_ids(spec: EmbeddingConfigSpec, features: Mapping[str, Any]) -> dict[str, Any]:
    """Returns example, id, step and number of examples of each feature of a spec, as tensors."""
    found = {}
    for column in spec_tables.embedding_columns(spec):
        key = column.get_feature_key_name()
        length = column.get_max_sequence_length()
        if getattr(features.get(key), "dtype", None) == tf.string:
            found[key] = _parts(_vocabulary_ids(column, features), length)
            continue
        feature = FeatureConfig("", length, column.get_weight_key_name())
        taken = enqueue.take(key, feature, column, dict(features))
        found[key] = _parts(taken.ids, length)
    tables = spec.table_to_config_dict or {}
    for key, feature in (spec.feature_to_config_dict or {}).items():
        table = tables[feature.table_id]
        taken = enqueue.take(key, feature, table, dict(features))
        found[key] = _parts(taken.ids, feature.max_sequence_length)
    return found


def _vocabulary_ids(column: TPUEmbeddingColumn, features: Mapping[str, Any]) -> tf.SparseTensor:
    """Returns the ids of strings by the vocabulary of a column."""
    sparse = {
        key: value.to_sparse() if isinstance(value, tf.RaggedTensor) else value
        for key, value in features.items()
    }
    cache = private.feature_transformation_cache(sparse)
    ids, _ = categorical.ids_and_weights(column.categorical_column, cache, None)
    return ids


def _parts(ids: tf.SparseTensor, max_sequence_length: int) -> tuple[Any, ...]:
    """Returns the example, the id and the step of each id, and the number of examples."""
    indices, values = ids.indices, tf.cast(ids.values, tf.int64)
    kept = values >= 0
    steps = tf.zeros_like(values)
    if max_sequence_length:
        steps = indices[:, 1]
        kept &= steps < max_sequence_length
    parts = (tf.boolean_mask(each, kept) for each in (indices[:, 0], values, steps))
    return *parts, ids.dense_shape[0]


def _run(ids: dict[str, Any], start: list[Any], num_batches: int) -> Iterator[dict[str, Any]]:
    """Yields the values of tensors, until the input or the number of batches ends."""
    with tf.compat.v1.train.SingularMonitoredSession() as session:  # it ends with the input
        session.raw_session().run(start)  # now that there are vocabularies: a dataset may use them
        for _ in range(num_batches):
            yield session.run(ids)


def _sampled_batch(values: dict[str, Any]) -> SampledBatch:
    features = {key: FeatureIds(*map(np.asarray, parts)) for key, (*parts, _) in values.items()}
    return SampledBatch(max((int(size) for *_, size in values.values()), default=0), features)
