# SPDX-License-Identifier: Apache-2.0
"""A legacy features dict as today's systems take it."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from estimator_spec.convert import legacy_ids
from estimator_spec.convert.legacy_ids import Ids
from estimator_spec.convert.spec_source import Source
from tpu_columns import categorical


class Inputs(NamedTuple):
    """What a target looks up.

    Attributes:
        inputs: ids by feature key.
        weights: weights by feature key, None for a feature without (but a padded one always has
            some: 0 at padding); None as a whole if no feature has any.
        sequence_lengths: int64 [B] of each sequence, under the key that a legacy model finds it
            by, `<feature>_seq_length_`.
    """

    inputs: dict[str, Any]
    weights: dict[str, Any] | None
    sequence_lengths: dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Intake:
    """How a target takes features; each conversion is one.

    Attributes:
        source: the spec, as it was read.
    """

    source: Source = dataclasses.field(repr=False)

    form: ClassVar[str] = ""  # a key of `_FORMS`; '': it looks nothing up
    drops_negative_weights: ClassVar[bool] = False  # its lookup, unless the combiner is sum

    def takes(self, feature: str) -> bool:
        """Whether the target looks a feature up."""
        return self.source.features[feature].table_id not in self.source.on_tensor_core

    def width(self, feature: str) -> int | None:
        """Ids in a row of a padded feature; None: as many as the batch has."""
        return None

    def finish(self, inputs: Inputs) -> Inputs:
        """What becomes of arranged inputs in the end."""
        return inputs

    def features(self, batch: Any) -> Inputs:
        """A legacy features dict as the target takes it; see `features_for`.

        Args:
            batch: tensors by key.
        """
        return features_for(self, batch)


@tf.autograph.experimental.do_not_convert  # it only costs time: there is nothing to convert
def features_for(target: Any, batch: Any) -> Inputs:
    """Turns a legacy features dict into what a conversion's target takes.

    Works eagerly, in a `tf.function` and in `tf.data.Dataset.map`. Ids and weights are those that
    the legacy lookup would have used (see `legacy_ids`): strings have gone through their
    vocabulary, and ids outside of a table are refused, which not every target does by itself.

    | form      | of                           | features            | sequences of L steps        |
    |-----------|------------------------------|---------------------|-----------------------------|
    | `sparse`  | mid-level, serving, partial  | sparse [B, n]       | sparse [B, L]; with weights |
    |           |                              |                     | [B, L, n]                   |
    | `samples` | `TPUEmbeddingV2`             | sparse [B, n]       | sparse [B·L, n]             |
    | `padded`  | `DistributedEmbedding`       | dense [B, n]        | dense [B, L, n]             |

    Args:
        target: what a conversion returned: an `Intake`, or an object whose attribute
            `conversion` is one.
        batch: tensors by key, as a legacy `input_fn` yields them: dense, sparse or ragged, numbers
            or strings.

    Returns:
        Ids, weights and sequence lengths.

    Raises:
        TypeError: `target` is no conversion, or `batch` no dict.
        ValueError: a feature is missing or can't be read; an id is outside of its table.
        InvalidArgumentError: a negative weight, a step of several ids, or more ids than there is
            room for, where the target can't take them.
    """
    target = getattr(target, "conversion", target)
    if not isinstance(target, Intake) or target.form not in _FORMS:
        raise TypeError(
            f"target must be what a conversion with lookups returned (to_mid_level, to_serving, "
            f"…), got {type(target).__name__}."
        )
    arrange = _FORMS[target.form]
    found = legacy_ids.read(target.source, batch)
    inputs, weights, lengths = {}, {}, {}
    for key, ids in found.items():
        if not target.takes(key):
            continue
        if target.drops_negative_weights and ids.weights is not None:
            ids = _without_negative_weights(target.source, key, ids)
        inputs[key], weights[key] = arrange(key, ids, target.width(key))
        if ids.lengths is not None:
            lengths[categorical.sequence_length_key(key)] = ids.lengths
    if all(weight is None for weight in weights.values()):
        return target.finish(Inputs(inputs, None, lengths))
    return target.finish(Inputs(inputs, weights, lengths))


def _without_negative_weights(source: Source, key: str, ids: Ids) -> Ids:
    """Refuses what a lookup would drop without a word; weights of 0 make no difference."""
    if source.combiner(source.features[key].table_id) == "sum" or ids.weights is None:
        return ids
    check = tf.debugging.assert_non_negative(
        ids.weights.values,
        f"Feature {key!r} has a negative weight. An embedding core counts it, but this target's "
        "lookup on a CPU drops the id (unless the combiner is sum).",
    )
    with tf.control_dependencies([check] if check is not None else []):
        return ids._replace(weights=ids.weights.with_values(tf.identity(ids.weights.values)))


def _sparse(key: str, ids: Ids, width: int | None) -> tuple[Any, Any]:
    if ids.lengths is None or ids.weights is not None:
        return ids.ids, ids.weights
    # An id a step: the last axis goes.
    one = tf.debugging.assert_less_equal(
        ids.ids.dense_shape[2],
        tf.ones([], tf.int64),
        f"Feature {key!r}: a step of a sequence has several ids. TensorFlow combines them for this "
        "target only if they have weights: give the column weights (of 1), or convert with "
        "to_distributed_embedding.",
    )
    with tf.control_dependencies([one] if one is not None else []):
        steps = tf.SparseTensor(ids.ids.indices[:, :2], ids.ids.values, ids.ids.dense_shape[:2])
    if not tf.executing_eagerly():
        steps.set_shape(ids.ids.shape[:2])
    return steps, None


def _samples(key: str, ids: Ids, width: int | None) -> tuple[Any, Any]:
    if ids.lengths is None:
        return ids.ids, ids.weights
    shape = ids.ids.dense_shape
    flat = tf.stack([shape[0] * shape[1], shape[2]])
    weights = None if ids.weights is None else tf.sparse.reshape(ids.weights, flat)
    return tf.sparse.reshape(ids.ids, flat), weights


def _padded(key: str, ids: Ids, width: int | None) -> tuple[Any, Any]:
    """Dense ids, and weights that are 0 at padding.

    Padding repeats an id of the batch: with any other one, optimizers that move each row of a
    gradient, 0 or not, would move a row that nobody looked up.
    """
    shape, rank = ids.ids.dense_shape, 2 if ids.lengths is None else 3
    flat = tf.stack([tf.reduce_prod(shape[:-1]), shape[-1]])
    rows = tf.sparse.reshape(ids.ids, flat)
    values = ids.ids.values
    weights = tf.ones_like(values, tf.float32) if ids.weights is None else ids.weights.values
    filler = tf.concat([values, tf.zeros([1], values.dtype)], 0)[0]
    ragged = tf.RaggedTensor.from_value_rowids(values, rows.indices[:, 0], flat[0])
    if width is not None:
        longest = tf.reduce_max(tf.concat([ragged.row_lengths(), [0]], 0))
        fits = tf.debugging.assert_less_equal(
            longest,
            tf.constant(width, tf.int64),
            f"Feature {key!r} has more than max_ids = {width} ids in a row.",
        )
        with tf.control_dependencies([fits] if fits is not None else []):
            ragged = ragged.with_values(tf.identity(ragged.values))
    dense = ragged.to_tensor(filler, shape=[None, width])
    factors = ragged.with_values(weights).to_tensor(0.0, shape=[None, width])
    if rank == 3:
        back = tf.concat([shape[:-1], tf.shape(dense, tf.int64)[1:]], 0)
        dense, factors = tf.reshape(dense, back), tf.reshape(factors, back)
    static = [*ids.ids.shape[:-1].as_list(), width]
    return tf.ensure_shape(dense, static), tf.ensure_shape(factors, static)


_FORMS = {"sparse": _sparse, "samples": _samples, "padded": _padded}
