# SPDX-License-Identifier: Apache-2.0
"""Takes a SavedModel in place of a program: its model, and batches of features for the proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec import saved_models
from estimator_spec.convert.keras_program.batches import Batch, innermost, nested
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.user_functions.model_spec import ModeKeys
from estimator_spec.heads.canned_model import CannedModel
from estimator_spec.saved_models.execution import ExportedModel

tf1 = tf.compat.v1

_ROWS = 100
_WIDTH = 4  # values of an example, at most
_LARGEST = 10**9
_WORDS = 1000  # of a vocabulary file


def find_use(path: str, tag: str | None) -> EstimatorUse:
    """Returns the use of the estimator that a SavedModel was exported from.

    Args:
        path: directory of the SavedModel.
        tag: of its graph. None: 'serve', or the only one there is.

    Raises:
        SavedModelError: there is none, or its variables are missing.
        UnknownPartError: something of it wasn't recovered.
    """
    legacy_keras.select_legacy_keras()  # as `python -m estimator_spec run` does
    model = saved_models.read(path, tag)
    exported = ExportedModel(path, tag, model)
    canned = exported.canned_model

    def make_batches(number: int) -> list[Batch]:
        return [_make_batch(model, canned, seed) for seed in range(number)]

    return EstimatorUse(exported, canned, (), None, None, ModeKeys.PREDICT, make_batches)


class _KeyHints(NamedTuple):
    """Values of a feature that its columns know.

    Attributes:
        words: values that columns know.
        limit: ids must be below it; None: any.
        ids: key of the ids whose weights the feature holds, or None.
    """

    words: Sequence[Any] = ()
    limit: int | None = None
    ids: str | None = None


def _make_batch(model: saved_models.RecoveredModel, canned: CannedModel, seed: int) -> Batch:
    """Returns features with random values, and those that the columns know."""
    rng = np.random.RandomState(seed)
    sources = {key: feature.fed_as for key, feature in model.features.items()}
    hints = _read_hints([column for part in canned.parts for column in part.columns], sources)
    made: dict[str, Any] = {}
    lengths = {name: rng.randint(0, _WIDTH + 1, _ROWS) for name in sorted(set(sources.values()))}
    for _, feature in sorted(model.features.items()):
        name = feature.fed_as
        hint = hints.get(name, _KeyHints())
        if not feature.is_sparse:
            shape = (_ROWS, *(feature.shape or (1,)))
            made[name] = _values(rng, feature.dtype, hint, int(np.prod(shape))).reshape(shape)
            continue
        counts = lengths[hint.ids or name]
        places = [(row, place) for row in range(_ROWS) for place in range(counts[row])]
        indices = np.array(places, np.int64).reshape(-1, 2)
        values = _values(rng, feature.dtype, hint, len(indices))
        dense_shape = np.array([_ROWS, max(1, counts.max())], np.int64)
        made[name] = tf1.SparseTensorValue(indices, values, dense_shape)
    features = {key: made[name] for key, name in sources.items()}
    return Batch(f"made batch {seed + 1}", features, None)


def _values(rng: np.random.RandomState, dtype: Any, hint: _KeyHints, number: int) -> np.ndarray:
    """Returns values of a feature: half of them are known to columns, or near those."""
    known = np.array([tf.compat.as_bytes(w) if dtype == tf.string else w for w in hint.words])
    if dtype == tf.string:
        words = [b"word %d" % value for value in rng.randint(0, 10**4, number)]
        values = np.array(words, object)
        known = known.astype(object)
    elif dtype.is_integer:
        limit = min(hint.limit or _LARGEST, np.iinfo(dtype.as_numpy_dtype).max)
        values = rng.randint(0, limit, number).astype(dtype.as_numpy_dtype)
        known = known[(known >= 0) & (known < limit)] if hint.limit else known
    else:
        scale = max(np.abs(known).max(initial=0) * 1.5, 1.0)
        low = 0.1 if hint.ids is not None else -scale
        values = rng.uniform(low, scale, number).astype(dtype.as_numpy_dtype)
    if len(known):
        chosen = rng.rand(number) < 0.5
        values[chosen] = known[rng.randint(0, len(known), int(chosen.sum()))]
    return values


def _read_hints(columns: Iterable[Any], sources: Mapping[str, str]) -> dict[str, _KeyHints]:
    """Returns what columns know of their features, by the names of these in the SavedModel."""
    found: dict[str, _KeyHints] = {}
    for column in columns:
        for each in nested(column):
            if hasattr(each, "weight_feature_key"):
                key = next(innermost(each.categorical_column)).key
                weights = sources.get(each.weight_feature_key, each.weight_feature_key)
                found[weights] = _KeyHints(ids=sources.get(key, key))
                continue
            source = getattr(each, "source_column", each)  # of buckets
            if not hasattr(source, "key"):
                continue
            name = sources.get(source.key, source.key)
            old = found.get(name, _KeyHints())
            limits = [] if old.limit is None else [old.limit]
            if hasattr(each, "number_buckets") and each.default_value is None:
                limits.append(int(each.number_buckets))
            words = [*old.words, *_known(each)]
            found[name] = old._replace(words=words, limit=min(limits, default=None))
    return found


def _known(column: Any) -> list[Any]:
    if hasattr(column, "boundaries"):
        return list(column.boundaries)
    if hasattr(column, "vocabulary_list"):
        return list(column.vocabulary_list)
    if hasattr(column, "vocabulary_file"):
        with tf.io.gfile.GFile(column.vocabulary_file, "rb") as file:
            lines = file.read().split(b"\n")[:_WORDS]
        return [int(word) if column.dtype.is_integer else word for word in lines if word]
    if hasattr(column, "number_buckets") and column.default_value is not None:
        size = int(column.number_buckets)
        return [-1, 0, size - 1, size, size + 7]
    return []
