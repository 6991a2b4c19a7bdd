# SPDX-License-Identifier: Apache-2.0
"""Base class of conversions; converts a legacy features dict to a target's input."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from estimator_spec.convert import legacy_ids
from estimator_spec.convert.legacy_ids import Ids
from estimator_spec.convert.report import Report
from estimator_spec.convert.resolved_spec import ResolvedSpec
from tpu_columns import categorical


class LookupInputs(NamedTuple):
    """Input of a target's lookup.

    Attributes:
        inputs: ids by feature key.
        weights: weights by feature key, None for a feature without weights (a padded one always has
            weights: 0 at padding); None instead of a dict if no feature has weights.
        sequence_lengths: int64 [B] of each sequence, under the key that legacy models use,
            `<feature>_seq_length_`.
    """

    inputs: dict[str, Any]
    weights: dict[str, Any] | None
    sequence_lengths: dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """Base class of the result of a conversion: report, and input format of the target.

    Attributes:
        source: the resolved spec.
        report: options that are exact, changed and lost.
    """

    source: ResolvedSpec = dataclasses.field(repr=False)
    report: Report = dataclasses.field(repr=False)

    input_layout: ClassVar[str] = ""  # a key of `_LAYOUTS`; '': no lookups
    drops_negative_weights: ClassVar[bool] = False  # unless the combiner is sum
    takes_all: ClassVar[bool] = False  # features of the tensor core, too

    def takes(self, feature: str) -> bool:
        """Returns whether the target looks up a feature."""
        table = self.source.features[feature].table_id
        return self.takes_all or table not in self.source.on_tensor_core

    def width(self, feature: str) -> int | None:
        """Returns the ids in a row of a padded feature; None: as many as the batch has."""
        return None

    def finish(self, inputs: LookupInputs) -> LookupInputs:
        """Returns the converted inputs after target-specific changes."""
        return inputs

    def features(self, batch: Any) -> LookupInputs:
        """Converts a legacy features dict to the target's input; see `features_for`.

        Args:
            batch: tensors by key.
        """
        return features_for(self, batch)


def attach(made: Any, conversion: Conversion) -> Any:
    """Sets the attribute `conversion` of an object of another library, and returns the object."""
    # Bypasses __setattr__ of Keras and tf.Module, which would track and save the value.
    object.__setattr__(made, "conversion", conversion)
    return made


@tf.autograph.experimental.do_not_convert  # AutoGraph would only cost time
def features_for(target: Any, batch: Any) -> LookupInputs:
    """Converts a legacy features dict to the input of a conversion's target.

    Works eagerly, in a `tf.function` and in `tf.data.Dataset.map`. Ids and weights are those of the
    legacy lookup (see `legacy_ids`): strings are mapped by their vocabulary, and ids outside of a
    table are refused, which not every target does by itself.

    | layout    | targets                      | features            | sequences of L steps        |
    |-----------|------------------------------|---------------------|-----------------------------|
    | `sparse`  | mid-level, serving, partial  | sparse [B, n]       | sparse [B, L]; with weights |
    |           |                              |                     | [B, L, n]                   |
    | `samples` | `TPUEmbeddingV2`             | sparse [B, n]       | sparse [B·L, n]             |
    | `padded`  | `DistributedEmbedding`       | dense [B, n]        | dense [B, L, n]             |

    Args:
        target: the result of a conversion: a `Conversion`, or an object whose attribute
            `conversion` is one.
        batch: tensors by key, as a legacy `input_fn` yields them: dense, sparse or ragged, numbers
            or strings.

    Returns:
        Ids, weights and sequence lengths.

    Raises:
        TypeError: `target` is no conversion, or `batch` no dict.
        ValueError: a feature is missing or can't be parsed; an id is outside of its table.
        InvalidArgumentError: a negative weight, a step with several ids, or more ids than
            `max_ids`, where the target doesn't support them.
    """
    target = getattr(target, "conversion", target)
    if not isinstance(target, Conversion) or target.input_layout not in _LAYOUTS:
        raise TypeError(
            f"target must be what a conversion with lookups returned (to_mid_level, to_serving, "
            f"…), got {type(target).__name__}."
        )
    arrange = _LAYOUTS[target.input_layout]
    found = legacy_ids.read_ids(target.source, batch)
    inputs, weights, lengths = {}, {}, {}
    for key, ids in found.items():
        if not target.takes(key):
            continue
        if target.drops_negative_weights and ids.weights is not None:
            ids = _check_negative_weights(target.source, key, ids)
        inputs[key], weights[key] = arrange(key, ids, target.width(key))
        if ids.lengths is not None:
            lengths[categorical.sequence_length_key(key)] = ids.lengths
    if all(weight is None for weight in weights.values()):
        return target.finish(LookupInputs(inputs, None, lengths))
    return target.finish(LookupInputs(inputs, weights, lengths))


def _check_negative_weights(source: ResolvedSpec, key: str, ids: Ids) -> Ids:
    """Refuses negative weights, whose ids the target's lookup would silently drop."""
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
    # One id a step: drop the last axis.
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
    """Returns dense ids, and weights that are 0 at padding.

    Padding repeats an id of the batch: some optimizers update each row of a gradient even if it is
    0, and would update a row that no example looks up.
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


_LAYOUTS = {"sparse": _sparse, "samples": _samples, "padded": _padded}
