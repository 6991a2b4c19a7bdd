# SPDX-License-Identifier: Apache-2.0
"""A TPU's training loop: several steps in one session call, on one or more replicas.

    iterator ─▶ global batch ─┬─▶ part 0 ─▶ core ─▶ model_fn ─┬─▶ mean loss ─▶ update of the tables
                              └─▶ part 1 ─▶ core ─▶ model_fn ─┘
    └────────────────────────── a while loop of n steps ──────────────────────────┘

The model is traced once a replica, under a `tf.distribute` strategy that keeps one copy of each of
its variables on every replica and adds up their gradients. The tables exist once.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec import host_call as host_call_lib
from estimator_spec import legacy_keras
from estimator_spec.driver import inputs
from estimator_spec.driver.embeddings import HostEmbeddings, PlainEmbeddings
from estimator_spec.driver.hooks import IteratorInitializer
from estimator_spec.model_spec import EstimatorSpec, ModeKeys
from estimator_spec.tpu_config import check_positive_integer, parse_iterations_per_loop
from tpu_columns import lookup

tf1 = tf.compat.v1

_LENGTH = "steps_of_this_loop"


def strategy_of(replicas: int) -> Any:
    """The strategy of a number of replicas on the host's logical CPUs; the default one for 1.

    Call it in the graph of the run: outside, TensorFlow looks for the devices of its eager runtime,
    whose number can't be changed any more once it runs. A session makes its own.
    """
    if replicas == 1:
        return tf.distribute.get_strategy()
    return tf1.distribute.MirroredStrategy(
        [f"/cpu:{i}" for i in range(replicas)],
        cross_device_ops=tf.distribute.ReductionToOneDevice(),
    )


def check(replicas: Any, use_tpu: bool, batch_size: int | None, tpu_config: Any, spec: Any) -> None:
    """Refuses what a loop on the host can't do.

    Args:
        replicas: how many.
        use_tpu: whether the program runs on a TPU.
        batch_size: examples in a step of training, or None.
        tpu_config: the `TPUConfig`.
        spec: the `EmbeddingConfigSpec`, or None.

    Raises:
        TypeError: a number of replicas that is none.
        ValueError: the message says what.
    """
    check_positive_integer(replicas, "host_replicas")
    if use_tpu:
        raise ValueError("host_replicas runs a TPU's loop on the host. Set use_tpu=False.")
    if batch_size is not None and batch_size % replicas:
        raise ValueError(
            f"train batch size {batch_size} must be divisible by number of replicas {replicas}."
        )
    if parse_iterations_per_loop(tpu_config.iterations_per_loop).unit != "count":
        raise ValueError(
            "host_replicas needs TPUConfig.iterations_per_loop to be a number of steps, got "
            f"{tpu_config.iterations_per_loop!r}."
        )
    if spec is not None and spec.pipeline_execution_with_tensor_core:
        raise ValueError(
            "host_replicas can't hold an update back from step to step: leave out "
            "pipeline_execution_with_tensor_core, or host_replicas."
        )


def with_devices(config: Any, replicas: int) -> Any:
    """The configuration, with a logical CPU for each replica in its sessions."""
    session_config = tf1.ConfigProto()
    session_config.CopyFrom(config.session_config)
    session_config.device_count["CPU"] = max(replicas, session_config.device_count["CPU"])
    return config.replace(session_config=session_config)


class ReplicaEmbeddings(PlainEmbeddings):
    """What happens around the `model_fn` of one replica: the lookups have been prepared before.

    Args:
        embeddings: those of the estimator.
    """

    def __init__(self, embeddings: PlainEmbeddings) -> None:
        self._whole = embeddings
        self.results: list[Any] = []

    def call_model(self, model: Any, features: Any, mode: str, exporting: bool) -> Any:
        """Builds the model where columns look up as they should."""
        if isinstance(self._whole, HostEmbeddings):
            return self._whole.on_cores(model, features, mode)
        return self._whole.call_model(model, features, mode, exporting)

    def hardware(self, mode: Any) -> Any:
        """The estimator's."""
        return self._whole.hardware(mode)

    def returned(self, result: Any) -> Any:
        """Keeps what is for the host: it is called once for all replicas."""
        self.results.append(result)
        if not hasattr(result, "host_call"):
            return result
        return result._replace(host_call=None, scaffold_fn=None, eval_metrics=None)


class DeviceLoop:
    """The training of one graph.

    Args:
        strategy: from `strategy_of`.
        embeddings: the estimator's.
        iterations: most steps of one loop.
    """

    def __init__(self, strategy: Any, embeddings: PlainEmbeddings, iterations: int) -> None:
        self._strategy = strategy
        self._embeddings = embeddings
        self._iterations = iterations
        self.replica = ReplicaEmbeddings(embeddings)

    def build(self, result: Any, input_fn: Callable[..., Any], model: Callable[..., Any]) -> Any:
        """Builds the loop in the current graph.

        Args:
            result: what `input_fn` returned: a dataset of global batches.
            input_fn: named in messages.
            model: function of the features and labels of one replica; returns its `EstimatorSpec`.

        Returns:
            The `EstimatorSpec` of a whole loop (its loss is the last step's, the mean over the
            replicas), and the hook that initializes the input.

        Raises:
            ValueError: the input is no dataset, or its batches can't be cut among the replicas.
        """
        iterator = inputs.iterator_of(result, input_fn)
        length = tf1.placeholder_with_default(self._iterations, [], _LENGTH)

        sites: list[Any] = []

        def body(done: Any, loss: Any) -> tuple[Any, Any]:
            del loss
            features, labels = inputs.features_and_labels(iterator.get_next(), input_fn)
            loss, train_op = self._step(features, labels, model)
            sites.extend(tf1.get_collection(lookup.LOOKUP_SITES))
            with tf.control_dependencies([train_op]):
                return done + 1, tf.identity(loss)

        done, loss = tf.while_loop(
            lambda done, loss: done < length,
            body,
            [tf.constant(0), tf.constant(0.0)],
            parallel_iterations=1,
            name="training_loop",
        )
        # A loop's body is a graph of its own; errors are explained by the one around it.
        tf1.get_default_graph().get_collection_ref(lookup.LOOKUP_SITES).extend(sites)
        first = self.replica.results[0]
        scaffold_fn = getattr(first, "scaffold_fn", None)
        hooks = [*first.training_hooks]
        if any(getattr(built, "host_call", None) for built in self.replica.results):
            hooks.append(host_call_lib.HostCallHook(None))
        spec = EstimatorSpec(
            mode=ModeKeys.TRAIN,
            loss=loss,
            train_op=tf.group(done),
            scaffold=scaffold_fn() if scaffold_fn else getattr(first, "scaffold", None),
            training_hooks=hooks,
        )
        return spec, IteratorInitializer(iterator)

    def _step(self, features: Any, labels: Any, model: Callable[..., Any]) -> tuple[Any, Any]:
        """One step of all replicas."""
        count = self._strategy.num_replicas_in_sync
        parts = _cut((features, labels), count)
        core = None
        if isinstance(self._embeddings, HostEmbeddings):
            core = self._embeddings.core(ModeKeys.TRAIN)
            parts = [(self._embeddings.prepare(core, part), own) for part, own in parts]
        built: dict[int, Any] = {}
        # A replica is a thread, which doesn't inherit what this one runs for.
        contexts = [contextvars.copy_context() for _ in parts]

        def replica() -> None:
            number = _replica_id()
            if number:
                legacy_keras.forget_layer_names()
            built[number] = contexts[number].run(model, *parts[number])

        # Variables are made in the graph around the loop, so that is where the strategy must be in
        # force; but only meanwhile, since it would mirror the core's tables too.
        body = tf1.get_default_graph()
        with (
            tf.init_scope(),
            self._strategy.scope(),
            body.as_default(),
            _losses_averaged(self._strategy),
        ):
            self._strategy.extended.call_for_each_replica(_untouched(replica))
        specs = [built[number] for number in range(count)]
        loss = tf.add_n([spec.loss for spec in specs]) / count
        ops = [spec.train_op for spec in specs]
        if core is not None:
            core.attach()
            ops.append(core.update(loss))
        ops.extend(self._host_call(count))
        return loss, tf.group(*ops)

    def _host_call(self, count: int) -> list[Any]:
        """Calls the host's function once a step, on the tensors of all replicas."""
        results = self.replica.results[-count:]
        calls = [result.host_call for result in results if getattr(result, "host_call", None)]
        if not calls:
            return []
        tensors = tf.nest.map_structure(
            lambda *values: tf.concat(values, 0), *[call[1] for call in calls]
        )
        fetches = host_call_lib.run("host_call", (calls[0][0], tensors))
        return [] if fetches is None else tf.nest.flatten(fetches)


class LoopLength(tf1.train.SessionRunHook):
    """Ends the training at a step, and makes the last loop as long as what is left.

    Args:
        iterations: most steps of one loop.
        steps: how many steps to make, or None.
        max_steps: the global step to stop at, or None.

    Raises:
        ValueError: neither is given.
    """

    def __init__(self, iterations: int, steps: int | None, max_steps: int | None) -> None:
        if steps is None and max_steps is None:
            raise ValueError(
                "For TPU training, one of `steps` or `max_steps` must be set. Cannot be both "
                "`None`: a loop must know how many steps it makes."
            )
        self._iterations = iterations
        self._steps = steps
        self._last = max_steps

    def begin(self) -> None:
        """Finds the tensors."""
        self._step = tf1.train.get_global_step()
        self._length = tf1.get_default_graph().get_tensor_by_name(f"{_LENGTH}:0")

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Finds out where the training begins."""
        del coord
        self._now = int(session.run(self._step))
        if self._last is None:
            assert self._steps is not None
            self._last = self._now + self._steps

    def before_run(self, run_context: Any) -> Any:
        """Sets the length of the loop."""
        del run_context
        assert self._last is not None
        length = max(0, min(self._iterations, self._last - self._now))
        return tf1.train.SessionRunArgs(self._step, feed_dict={self._length: length})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops at the last step."""
        del run_values
        self._now = int(run_context.session.run(self._step))
        if self._last is not None and self._now >= self._last:
            run_context.request_stop()


def _untouched(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A strategy would otherwise rewrite the user's Python."""
    return tf.autograph.experimental.do_not_convert(fn)


def _replica_id() -> int:
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    return int(number if isinstance(number, int) else tf.get_static_value(number))


def _losses_averaged(strategy: Any) -> Any:
    """TF1's optimizers divide the loss by the number of replicas, as in legacy Estimators."""
    return strategy._scale_loss_for_estimator_enabled()


def _cut(batch: Any, count: int) -> list[Any]:
    """Cuts every tensor of a batch into `count` parts of the same size.

    Raises:
        ValueError: the size of the batch isn't known, or can't be divided.
    """
    if count == 1:
        return [batch]
    structure, tensors = batch, tf.nest.flatten(batch)
    return [
        tf.nest.pack_sequence_as(structure, [_part(tensor, number, count) for tensor in tensors])
        for number in range(count)
    ]


def _part(tensor: Any, number: int, count: int) -> Any:
    size = tensor.shape[0] if tensor.shape.rank else None
    if size is None or size % count:
        raise ValueError(
            f"train batch size {size} must be divisible by number of replicas {count}, and known "
            f"in the graph; got a tensor of shape {tensor.shape}. Set drop_remainder=True where "
            "the dataset is batched."
        )
    rows = size // count
    if isinstance(tensor, tf.SparseTensor):
        rest = tensor.dense_shape[1:]
        start = tf.concat([[number * rows], tf.zeros_like(rest)], 0)
        part = tf.sparse.slice(tensor, start, tf.concat([[rows], rest], 0))
        return _static(part, rows)
    return tensor[number * rows : (number + 1) * rows]


def _static(part: tf.SparseTensor, rows: int) -> tf.SparseTensor:
    """`part`, whose number of rows the graph knows."""
    shape = tf.stack([tf.constant(rows, tf.int64), *tf.unstack(part.dense_shape)[1:]])
    return tf.SparseTensor(part.indices, part.values, shape)
