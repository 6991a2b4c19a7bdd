# SPDX-License-Identifier: Apache-2.0
"""Calls `input_fn` for a system of several replicas and distributes its batches.

| `TPUConfig` | calls of `input_fn` | `params['batch_size']` | batch of a replica |
|---|---|---|---|
| PER_HOST_V1 | one per host | batch size of a host | its part of its host's batch |
| PER_HOST_V2 | one per host | batch size of a replica | the next batch of its host |
| PER_SHARD_V1, training | one per replica | batch size of a replica | the batch of its call |
| BROADCAST | one | global batch size | the whole batch |
| SLICED, not training | one | global batch size | its part of the batch |

If `input_fn` returns tensors instead of a dataset, a queue runner evaluates them once per step.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.driver import batch_rows
from estimator_spec.core.driver.hooks import IteratorInitializer
from estimator_spec.core.run_config import InputPipelineConfig
from estimator_spec.core.run_config.tpu_config import TPUConfig
from estimator_spec.core.user_functions import batches
from estimator_spec.core.user_functions.model_spec import ModeKeys

tf1 = tf.compat.v1

_LATER_BATCH = "batch_of_a_later_replica"


class InputSharing(enum.Enum):
    """Ways to distribute the batches of `input_fn` among the replicas; see the module."""

    SPLIT_HOST_BATCH = "PER_HOST_V1"
    BATCH_PER_REPLICA = "PER_HOST_V2"
    CALL_PER_REPLICA = "PER_SHARD_V1"
    BROADCAST = "BROADCAST"
    SPLIT_GLOBAL_BATCH = "SLICED"


class InputCall(NamedTuple):
    """One call of `input_fn`.

    Attributes:
        number: index of the call.
        host: index of the host that the call runs on.
        replicas: indices of the replicas that get its batches.
    """

    number: int
    host: int
    replicas: range


class ReplicaBatch(NamedTuple):
    """The input of one replica in one step.

    Attributes:
        features: features in the structure that `input_fn` returned.
        labels: labels in the structure that `input_fn` returned, or None.
        examples: number of examples that aren't padding, a scalar tensor; None: all.
        weight: weight of the replica's loss in the loss of an evaluation, a scalar tensor; None:
            that of the others. It is 0 if no batch is left for the replica: its input then is a
            copy of the first replica's, which mustn't count.
    """

    features: Any
    labels: Any
    examples: Any = None
    weight: Any = None

    @property
    def tensors(self) -> list[Any]:
        """The dense tensors of features and labels."""
        flat = tf.nest.flatten((self.features, self.labels), expand_composites=True)
        return [tensor for tensor in flat if tensor is not None]


def input_sharing(mode: str, tpu_config: TPUConfig) -> InputSharing:
    """Returns how a mode distributes batches among the replicas."""
    sliced = tpu_config.eval_training_input_configuration == InputPipelineConfig.SLICED
    if mode != ModeKeys.TRAIN and sliced:
        return InputSharing.SPLIT_GLOBAL_BATCH
    chosen = tpu_config.per_host_input_for_training
    if chosen == InputPipelineConfig.BROADCAST:
        return InputSharing.BROADCAST
    if chosen == InputPipelineConfig.PER_HOST_V2:
        return InputSharing.BATCH_PER_REPLICA
    if chosen == InputPipelineConfig.PER_SHARD_V1 and mode == ModeKeys.TRAIN:
        return InputSharing.CALL_PER_REPLICA
    return InputSharing.SPLIT_HOST_BATCH


def input_calls(kind: InputSharing, num_replicas: int, num_hosts: int) -> list[InputCall]:
    """Returns the calls of `input_fn`, ordered by replica.

    >>> [call.replicas for call in input_calls(InputSharing.SPLIT_HOST_BATCH, 8, 2)]
    [range(0, 4), range(4, 8)]
    """
    each = num_replicas // num_hosts
    if kind is InputSharing.CALL_PER_REPLICA:
        return [InputCall(i, i // each, range(i, i + 1)) for i in range(num_replicas)]
    if kind in (InputSharing.BROADCAST, InputSharing.SPLIT_GLOBAL_BATCH):
        return [InputCall(0, 0, range(num_replicas))]
    return [InputCall(i, i, range(i * each, (i + 1) * each)) for i in range(num_hosts)]


def input_batch_size(kind: InputSharing, whole: int, num_replicas: int, num_hosts: int) -> int:
    """Returns the value of `params['batch_size']` in `input_fn`.

    >>> input_batch_size(InputSharing.BATCH_PER_REPLICA, 64, 8, 2)
    8
    """
    parts = {
        InputSharing.BROADCAST: 1,
        InputSharing.SPLIT_GLOBAL_BATCH: 1,
        InputSharing.SPLIT_HOST_BATCH: num_hosts,
    }
    return whole // parts.get(kind, num_replicas)


@dataclasses.dataclass(eq=False)
class ReplicaInputs:
    """The inputs of all replicas in one graph.

    Args:
        kind: how batches are distributed among the replicas.
        sources: the calls of `input_fn` with their results.
        input_fn: the user's function, for error messages.
        mode: one of `ModeKeys`; in prediction the last batch is padded.
        size: the value of `params['batch_size']` in `input_fn`, or None.
        host_device: returns the device of a host, given its index.
        batch_axis: the batch dimension of each tensor, or None.
        static_sizes: whether the replicas take only batches whose size is known in the graph.
    """

    kind: InputSharing
    sources: list[tuple[InputCall, Any]]
    input_fn: Callable[..., Any]
    mode: str
    size: int | None
    host_device: Callable[[int], str]
    batch_axis: Sequence[int] | None = None
    static_sizes: bool = False

    def __post_init__(self) -> None:
        self.hooks: list[Any] = []
        self._iterators = []
        for call, result in self.sources:
            with tf.device(self.host_device(call.host)):
                self._iterators.append((call, self._make_iterator(result)))

    def next(self) -> list[ReplicaBatch]:
        """Returns the tensors of the next step, by replica.

        Raises:
            ValueError: the batches can't be split among the replicas.
        """
        parts: list[ReplicaBatch] = []
        for call, iterator in self._iterators:
            with tf.device(self.host_device(call.host)):
                if self.kind is InputSharing.BATCH_PER_REPLICA:
                    parts += self._next_batches(iterator, len(call.replicas))
                else:
                    parts += self._next_shared_batch(iterator, len(call.replicas))
        return parts

    def _make_iterator(self, result: Any) -> Any:
        """Makes an iterator of the result of a call, a dataset or tensors."""
        if result is None:
            batches.split_labels(result, self.input_fn)
        if isinstance(result, tf.data.Dataset):
            iterator = batches.initializable_iterator(result, self.input_fn)
            self.hooks.append(IteratorInitializer(iterator))
            return iterator
        if self.mode == ModeKeys.PREDICT or self.kind is InputSharing.BATCH_PER_REPLICA:
            raise TypeError(
                f"input_fn {batches.describe(self.input_fn)} must return a tf.data.Dataset "
                f"in prediction and with PER_HOST_V2, but returned {type(result).__name__}."
            )
        batches.split_labels(result, self.input_fn)
        return _QueueIterator(result)

    def _next_shared_batch(self, source: Any, count: int) -> list[ReplicaBatch]:
        """Distributes the next batch among `count` replicas."""
        batch = batches.split_labels(source.get_next(), self.input_fn)
        examples = None
        if self.mode == ModeKeys.PREDICT and self.size is not None:
            batch, examples = batch_rows.pad_batch(batch, self.size)
        elif self.mode == ModeKeys.EVAL and self._can_split_unevenly(batch, count):
            uneven = batch_rows.split_unevenly(batch, count)
            return [ReplicaBatch(part[0], part[1], None, weight) for part, weight in uneven]
        counts: list[Any] = [None] * count
        if self.kind is InputSharing.BROADCAST:
            parts = [batch] * count
            if examples is not None:  # All replicas predict the same; the first one's are kept.
                counts = [examples, *(tf.zeros_like(examples) for _ in range(1, count))]
        else:
            parts = batch_rows.split_evenly(batch, count, self.mode, self.batch_axis)
            if examples is not None:
                assert self.size is not None
                each = self.size // count
                counts = [
                    tf.clip_by_value(examples - number * each, 0, each) for number in range(count)
                ]
        return [
            ReplicaBatch(features, labels, examples)
            for (features, labels), examples in zip(parts, counts, strict=True)
        ]

    def _can_split_unevenly(self, batch: Any, count: int) -> bool:
        """Returns whether a batch is split by a number of rows that only a run of the graph tells.

        A TPU takes only batches whose size is known in the graph.
        """
        if self.kind is InputSharing.BROADCAST or self.static_sizes or count == 1:
            return False
        shapes = [tensor.shape for tensor in tf.nest.flatten(batch) if tensor is not None]
        if any(self.batch_axis or ()) or any(shape.rank == 0 for shape in shapes):
            return False
        return any(shape.rank is None or shape[0] is None for shape in shapes)

    def _next_batches(self, source: Any, count: int) -> list[ReplicaBatch]:
        """Takes a batch for each of `count` replicas, in the order of the dataset.

        In a training step, each replica needs one. In others the first does: the rest get copies of
        the first one's, which don't count, after the last batch.
        """
        parts: list[ReplicaBatch] = []
        first: Any = None
        for number in range(count):
            with tf.control_dependencies(parts[-1].tensors if parts else []):
                if self.mode == ModeKeys.TRAIN or number == 0:
                    element = source.get_next(_LATER_BATCH if number else None)
                    first = element if first is None else first
                    present = tf.constant(True)
                else:
                    element, present = _next_or_default(source, first)
            batch = batches.split_labels(element, self.input_fn)
            examples = None
            if self.mode == ModeKeys.PREDICT:
                batch, examples = batch_rows.pad_batch(batch, self.size)
                examples = tf.where(present, examples, tf.zeros_like(examples))
            weight = tf.cast(present, tf.float32) if self.mode == ModeKeys.EVAL else None
            parts.append(ReplicaBatch(*batch, examples, weight))
        return parts


class _QueueIterator:
    """An iterator over the tensors that an `input_fn` returned.

    A queue runner evaluates the tensors once per step: used directly in the training loop, they
    would have the values of its first step in all steps.

    Args:
        result: the tensors, in any structure.
    """

    def __init__(self, result: Any) -> None:
        self._structure = result
        present = [tensor for tensor in tf.nest.flatten(result) if tensor is not None]
        composite = (tf.SparseTensor, tf.RaggedTensor)
        tensors = [t if isinstance(t, composite) else tf.convert_to_tensor(t) for t in present]
        self._like = tensors
        flat = tf.nest.flatten(tensors, expand_composites=True)
        self._shapes = [tensor.shape for tensor in flat]
        self._queue = tf.queue.FIFOQueue(2, [tensor.dtype for tensor in flat], name="input_queue")
        runner = tf1.train.QueueRunner(self._queue, [self._queue.enqueue(flat)])
        tf1.train.add_queue_runner(runner)

    def get_next(self) -> Any:
        """Returns the tensors of the next step."""
        flat = self._queue.dequeue()
        flat = list(flat) if isinstance(flat, (list, tuple)) else [flat]
        for tensor, shape in zip(flat, self._shapes, strict=True):
            tensor.set_shape(shape)
        tensors = tf.nest.pack_sequence_as(self._like, flat, expand_composites=True)
        return batch_rows.pack_present(self._structure, tensors)


def has_too_few_batches(end: Exception) -> bool:
    """Returns whether the input of a step ended, but had a batch for the first of the replicas.

    Args:
        end: the error of the step.
    """
    name: str = getattr(getattr(end, "op", None), "name", "")
    return name.rpartition("/")[2].startswith(_LATER_BATCH)


def _next_or_default(iterator: Any, default: Any) -> tuple[Any, Any]:
    """Returns the next element, or `default` after the last one; and whether there was one."""
    optional = tf1.data.experimental.get_next_as_optional(iterator)
    present = optional.has_value()
    return tf.cond(present, optional.get_value, lambda: default), present
