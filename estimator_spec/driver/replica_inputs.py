# SPDX-License-Identifier: Apache-2.0
"""Who calls `input_fn` on a system of several replicas, and which replica gets what.

| `TPUConfig` says | calls of `input_fn` | `params['batch_size']` | each replica gets |
|---|---|---|---|
| PER_HOST_V1 | one a host | a host's part of the batch | its part of its host's batch |
| PER_HOST_V2 | one a host | a replica's part | the next batch of its host |
| PER_SHARD_V1, training | one a replica | a replica's part | its own call's batch |
| BROADCAST | one | the whole batch | all of it |
| SLICED, not training | one | the whole batch | its part of it |

An `input_fn` that returns tensors instead of a dataset is read by a thread, one batch a step.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.config.run_config import InputPipelineConfig
from estimator_spec.driver import input_pipeline
from estimator_spec.driver.hooks import IteratorInitializer
from estimator_spec.model.model_spec import ModeKeys

tf1 = tf.compat.v1

NAMES = {ModeKeys.TRAIN: "train", ModeKeys.EVAL: "eval", ModeKeys.PREDICT: "predict"}


class Sharing(enum.Enum):
    """How the batches of `input_fn` become those of the replicas."""

    HOST_BATCH_CUT = "PER_HOST_V1"
    HOST_BATCHES_DEALT = "PER_HOST_V2"
    OWN_CALL = "PER_SHARD_V1"
    SAME_BATCH = "BROADCAST"
    WHOLE_BATCH_CUT = "SLICED"


class Call(NamedTuple):
    """One call of `input_fn`.

    Attributes:
        number: which.
        host: index of the host that it runs on.
        replicas: who is fed by it.
    """

    number: int
    host: int
    replicas: range


class Part(NamedTuple):
    """What one replica gets in one step.

    Attributes:
        features: as `input_fn` gave them.
        labels: the same, or None.
        examples: how many of the batch are no padding, a scalar; None: all.
    """

    features: Any
    labels: Any
    examples: Any


def sharing(mode: str, tpu_config: Any) -> Sharing:
    """What a configuration says about a mode.

    Args:
        mode: one of `ModeKeys`.
        tpu_config: the `TPUConfig`.
    """
    sliced = tpu_config.eval_training_input_configuration == InputPipelineConfig.SLICED
    if mode != ModeKeys.TRAIN and sliced:
        return Sharing.WHOLE_BATCH_CUT
    chosen = tpu_config.per_host_input_for_training
    if chosen == InputPipelineConfig.BROADCAST:
        return Sharing.SAME_BATCH
    if chosen == InputPipelineConfig.PER_HOST_V2:
        return Sharing.HOST_BATCHES_DEALT
    if chosen == InputPipelineConfig.PER_SHARD_V1 and mode == ModeKeys.TRAIN:
        return Sharing.OWN_CALL
    return Sharing.HOST_BATCH_CUT


def calls(kind: Sharing, num_replicas: int, num_hosts: int) -> list[Call]:
    """The calls of `input_fn`, in the order of the replicas they feed.

    >>> [call.replicas for call in calls(Sharing.HOST_BATCH_CUT, 8, 2)]
    [range(0, 4), range(4, 8)]
    """
    each = num_replicas // num_hosts
    if kind is Sharing.OWN_CALL:
        return [Call(i, i // each, range(i, i + 1)) for i in range(num_replicas)]
    if kind in (Sharing.SAME_BATCH, Sharing.WHOLE_BATCH_CUT):
        return [Call(0, 0, range(num_replicas))]
    return [Call(i, i, range(i * each, (i + 1) * each)) for i in range(num_hosts)]


def batch_size(kind: Sharing, whole: int, num_replicas: int, num_hosts: int) -> int:
    """What `params['batch_size']` is in `input_fn`.

    >>> batch_size(Sharing.HOST_BATCHES_DEALT, 64, 8, 2)
    8
    """
    if kind in (Sharing.SAME_BATCH, Sharing.WHOLE_BATCH_CUT):
        return whole
    if kind is Sharing.HOST_BATCH_CUT:
        return whole // num_hosts
    return whole // num_replicas


class ReplicaInputs:
    """The inputs of all replicas, within one graph.

    Args:
        kind: who gets what.
        sources: for each call, what it is and what it returned.
        input_fn: named in messages.
        mode: one of `ModeKeys`; predictions pad the last batch.
        size: what `params['batch_size']` was, for the padding; None if nothing.
        host_device: index of a host -> its device.
        batch_axis: the batch dimension of each tensor, or None.
    """

    def __init__(
        self,
        kind: Sharing,
        sources: list[tuple[Call, Any]],
        input_fn: Callable[..., Any],
        mode: str,
        size: int | None,
        host_device: Callable[[int], str],
        batch_axis: Sequence[int] | None = None,
    ) -> None:
        self._axes = batch_axis
        self._kind = kind
        self._input_fn = input_fn
        self._mode = mode
        self._size = size
        self._host_device = host_device
        self.hooks: list[Any] = []
        self._sources = []
        for call, result in sources:
            with tf.device(host_device(call.host)):
                self._sources.append((call, self._opened(result)))

    def next(self) -> list[Part]:
        """The tensors of the next step, by replica.

        Raises:
            ValueError: the batches can't be cut among the replicas.
        """
        parts: list[Part] = []
        for call, source in self._sources:
            with tf.device(self._host_device(call.host)):
                if self._kind is Sharing.HOST_BATCHES_DEALT:
                    parts += self._dealt(source, len(call.replicas))
                else:
                    parts += self._shared(source, len(call.replicas))
        return parts

    def _opened(self, result: Any) -> Any:
        """An iterator, or what stands for one."""
        if result is None:
            input_pipeline.split_labels(result, self._input_fn)
        if isinstance(result, tf.data.Dataset):
            iterator = input_pipeline.make_iterator(result, self._input_fn)
            self.hooks.append(IteratorInitializer(iterator))
            return iterator
        if self._mode == ModeKeys.PREDICT or self._kind is Sharing.HOST_BATCHES_DEALT:
            raise TypeError(
                f"input_fn {input_pipeline.describe(self._input_fn)} must return a tf.data.Dataset "
                f"in prediction and with PER_HOST_V2, but returned {type(result).__name__}."
            )
        input_pipeline.split_labels(result, self._input_fn)
        return _Queued(result)

    def _shared(self, source: Any, count: int) -> list[Part]:
        """One batch, for `count` replicas."""
        batch = input_pipeline.split_labels(source.get_next(), self._input_fn)
        examples = None
        if self._mode == ModeKeys.PREDICT and self._size is not None:
            batch, examples = _padded(batch, self._size)
        if self._kind is Sharing.SAME_BATCH:
            return [
                Part(batch[0], batch[1], examples if number == 0 else _none(examples))
                for number in range(count)
            ]
        parts = cut(batch, count, self._mode, self._axes)
        if examples is None:
            return [Part(features, labels, None) for features, labels in parts]
        assert self._size is not None
        each = self._size // count
        return [
            Part(features, labels, tf.clip_by_value(examples - number * each, 0, each))
            for number, (features, labels) in enumerate(parts)
        ]

    def _dealt(self, source: Any, count: int) -> list[Part]:
        """A batch for each of `count` replicas, in the order of the dataset."""
        predicting = self._mode == ModeKeys.PREDICT and self._size is not None
        parts: list[Part] = []
        first: Any = None
        for number in range(count):
            with tf.control_dependencies(_tensors(parts[-1:])):
                if not predicting or number == 0:
                    element = source.get_next()
                    first = element if first is None else first
                    present = tf.constant(True)
                else:
                    element, present = _next_or(source, first)
            batch = input_pipeline.split_labels(element, self._input_fn)
            examples = None
            if predicting:
                assert self._size is not None
                batch, examples = _padded(batch, self._size)
                examples = tf.where(present, examples, tf.zeros_like(examples))
            else:
                batch = cut(batch, 1)[0]
            parts.append(Part(batch[0], batch[1], examples))
        return parts


class _Queued:
    """Tensors of an `input_fn` of old, as an iterator: a thread runs them again for each step.

    Within a loop the tensors themselves would be those of its first step in all others.
    """

    def __init__(self, result: Any) -> None:
        self._structure = result
        present = [tensor for tensor in tf.nest.flatten(result) if tensor is not None]
        tensors = [tf.convert_to_tensor(t) if not _composite(t) else t for t in present]
        self._like = tensors
        flat = tf.nest.flatten(tensors, expand_composites=True)
        self._shapes = [tensor.shape for tensor in flat]
        self._queue = tf.queue.FIFOQueue(2, [tensor.dtype for tensor in flat], name="input_queue")
        runner = tf1.train.QueueRunner(self._queue, [self._queue.enqueue(flat)])
        tf1.train.add_queue_runner(runner)

    def get_next(self) -> Any:
        flat = self._queue.dequeue()
        flat = list(flat) if isinstance(flat, (list, tuple)) else [flat]
        for tensor, shape in zip(flat, self._shapes, strict=True):
            tensor.set_shape(shape)
        found = iter(tf.nest.pack_sequence_as(self._like, flat, expand_composites=True))
        whole = tf.nest.flatten(self._structure)
        return tf.nest.pack_sequence_as(
            self._structure, [None if tensor is None else next(found) for tensor in whole]
        )


def cut(
    batch: Any, count: int, mode: str = ModeKeys.TRAIN, axes: Sequence[int] | None = None
) -> list[Any]:
    """Cuts every tensor of a batch into `count` parts of the same size.

    Args:
        batch: tensors in any structure.
        count: how many parts.
        mode: one of `ModeKeys`, for messages.
        axes: the batch dimension of each tensor; None: the first of each.

    Raises:
        ValueError: the size of the batch isn't known, or can't be divided; or `axes` are for
            another number of tensors.
    """
    if count == 1:
        return [batch]
    tensors = tf.nest.flatten(batch)
    present = [tensor for tensor in tensors if tensor is not None]
    if axes is not None and len(axes) != len(present):
        raise ValueError(
            f"batch_axis has {len(axes)} dimensions, but input_fn gives {len(present)} tensors."
        )
    found = iter(axes or [0] * len(present))
    where = [0 if tensor is None else next(found) for tensor in tensors]
    return [
        tf.nest.pack_sequence_as(
            batch,
            [_part(t, number, count, mode, axis) for t, axis in zip(tensors, where, strict=True)],
        )
        for number in range(count)
    ]


def _part(tensor: Any, number: int, count: int, mode: str, axis: int) -> Any:
    if tensor is None:
        return None
    size = tensor.shape.as_list()[axis] if axis < (tensor.shape.rank or 0) else None
    if size is None or size % count:
        raise ValueError(
            f"{NAMES[mode]} batch size {size} must be divisible by number of replicas {count}, and "
            f"known in the graph; got a tensor of shape {tensor.shape}. Set drop_remainder=True "
            "where the dataset is batched."
        )
    rows = size // count
    if axis:
        return tf.split(tensor, count, axis)[number]
    if isinstance(tensor, tf.SparseTensor):
        rest = tensor.dense_shape[1:]
        start = tf.concat([[number * rows], tf.zeros_like(rest)], 0)
        part = tf.sparse.slice(tensor, start, tf.concat([[rows], rest], 0))
        return _with_rows(part, rows)
    return tensor[number * rows : (number + 1) * rows]


def _with_rows(tensor: tf.SparseTensor, rows: int) -> tf.SparseTensor:
    """The tensor, whose number of rows the graph knows."""
    shape = tf.stack([tf.constant(rows, tf.int64), *tf.unstack(tensor.dense_shape)[1:]])
    return tf.SparseTensor(tensor.indices, tensor.values, shape)


def _padded(batch: Any, size: int) -> tuple[Any, Any]:
    """Fills a batch up to `size` rows of zeros; also returns how many it had."""
    tensors = tf.nest.flatten(batch)
    examples = next(_rows(tensor) for tensor in tensors if tensor is not None)
    padded = [None if tensor is None else _filled(tensor, size) for tensor in tensors]
    return tf.nest.pack_sequence_as(batch, padded), examples


def _rows(tensor: Any) -> Any:
    if isinstance(tensor, tf.SparseTensor):
        return tf.cast(tensor.dense_shape[0], tf.int32)
    if isinstance(tensor, tf.RaggedTensor):
        return tf.cast(tensor.nrows(), tf.int32)
    return tf.shape(tensor)[0]


def _filled(tensor: Any, size: int) -> Any:
    if isinstance(tensor, tf.RaggedTensor):
        tensor = tensor.to_sparse()
    if isinstance(tensor, tf.SparseTensor):
        return _with_rows(tensor, size)
    if tensor.shape[0] == size:
        return tensor
    missing = tf.concat([[size - tf.shape(tensor)[0]], tf.shape(tensor)[1:]], 0)
    zeros = tf.fill(missing, tf.constant("" if tensor.dtype == tf.string else 0, tensor.dtype))
    return tf.ensure_shape(tf.concat([tensor, zeros], 0), [size, *tensor.shape[1:]])


def _next_or(iterator: Any, other: Any) -> tuple[Any, Any]:
    """The next element, or `other` after the last; and whether there was one."""
    optional = tf1.data.experimental.get_next_as_optional(iterator)
    present = optional.has_value()
    return tf.cond(present, optional.get_value, lambda: other), present


def _composite(value: Any) -> bool:
    return isinstance(value, (tf.SparseTensor, tf.RaggedTensor))


def _none(examples: Any) -> Any:
    return None if examples is None else tf.zeros_like(examples)


def _tensors(parts: list[Part]) -> list[Any]:
    flat = tf.nest.flatten([(part.features, part.labels) for part in parts], expand_composites=True)
    return [tensor for tensor in flat if tensor is not None]
