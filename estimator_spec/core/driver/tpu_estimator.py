# SPDX-License-Identifier: Apache-2.0
"""Defines `TPUEstimator`, an `Estimator` with batch sizes, TPU embeddings and replicas."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimator_spec.core.cluster import roles
from estimator_spec.core.common.checks import check_optional_flag
from estimator_spec.core.driver import (
    device_loop,
    embeddings,
    model_calls,
    replica_graphs,
    strategy_graphs,
    tpu_checks,
)
from estimator_spec.core.driver.batch_rows import MODE_NAMES
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.estimator_base import setup_of
from estimator_spec.core.driver.graph_builder import BuiltGraph
from estimator_spec.core.driver.hooks import StepsPerSecond
from estimator_spec.core.driver.run_context import BuildArguments, RunContext
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from estimator_spec.core.run_config import TPURunConfig, get_default_session_config, host_fallback
from estimator_spec.core.run_config.tpu_config import check_positive_integer
from estimator_spec.core.run_config.tpu_context import TPUContext
from estimator_spec.core.user_functions import batches
from estimator_spec.core.user_functions.model_spec import ModeKeys
from estimator_spec.core.user_functions.warm_start import WarmStartSettings
from tpu_columns import optimizations, placement

tf1 = tf.compat.v1

_BATCH_SIZE = "batch_size"
_CONTEXT = "context"
_USE_TPU = "use_tpu"
_RESERVED = [_BATCH_SIZE, _CONTEXT]


class ExportSavedModelApiVersion(enum.Enum):
    """The code that rewrites a graph for serving on a TPU: the export (V1) or `model_fn` (V2)."""

    V1 = 1
    V2 = 2


class TPUEstimator(Estimator):
    """An `Estimator` for programs written for TPUs; with `use_tpu=False` it runs on the CPU.

    `model_fn` and `input_fn` get `params['batch_size']`, the batch size of the mode unless it is
    None, and `model_fn` gets `params['use_tpu']`. In an export there is no batch size.

    Args:
        model_fn: function of `features`, `params`, and any of `labels`, `mode` and `config`; it
            returns a `TPUEstimatorSpec` or an `EstimatorSpec`.
        model_dir: directory of checkpoints and summaries, a string or path. None: that of
            `config`, or else a temporary directory.
        config: a `RunConfig` with a `tpu_config`.
        params: hyperparameters, a dict or an object with `set_hparam` and `add_hparam`.
        use_tpu: whether to run on a TPU. If there is none, training, evaluation and prediction
            raise a RuntimeError.
        train_batch_size: examples in a training step. Required on a TPU.
        eval_batch_size: examples in a batch of evaluation, or None.
        predict_batch_size: examples in a batch of prediction, or None.
        batch_axis: the batch dimension of each input tensor, a tuple or list of ints, by which
            batches are split among the cores of a TPU. No effect on a CPU.
        eval_on_tpu: False evaluates on the CPU, even with `use_tpu=True`.
        export_to_tpu: adds a graph for serving on a TPU to a SavedModel. Skipped without a TPU.
        export_to_cpu: adds a graph for serving on a CPU.
        warm_start_from: `WarmStartSettings`, or the path of a checkpoint or SavedModel that
            initializes the trainable variables of a new model.
        embedding_config_spec: an `EmbeddingConfigSpec`. On a CPU the tables of its columns are
            ordinary variables that the model's optimizer trains. With dictionaries in place of
            columns, lookups run before `model_fn` (see `dict_mode`).
        export_saved_model_api_version: V1 or V2, 1 or 2. No effect on a CPU.
        embedding_core: 'host' trains the tables on the host core, which has the semantics of a
            TPU's embedding core and uses the specification's optimizer, on any machine. None
            (the default): the model's optimizer trains them, as always on a CPU.
        embedding_shards: number of shards of each table of the specification. Its
            `partition_strategy` is their layout; checkpoints store the shards concatenated.
            Checkpoints with another number of shards or another strategy can be restored. None
            (the default): one for each parameter server of a cluster, otherwise 1.
        host_replicas: number of replicas on the host, each on a logical CPU device. Runs are like
            those on a TPU with as many replicas: training makes `iterations_per_loop` steps per
            session call (hooks are called once per session call) and requires `steps` or
            `max_steps`; `TPUConfig` distributes each step's batch among the replicas. Prediction
            and (unless `eval_on_tpu` is False) evaluation also use all replicas, and require their
            batch sizes. None (the default): one replica, one step per session call.
        fast_updates: whether the optimizer's ops that update tables may be replaced by faster ones
            with the same results. None: yes, unless the environment variable
            TPU_COLUMNS_FAST_UPDATES is 0.
        plain: whether all optimizations are off: slower, with the numbers of TensorFlow's own
            columns and estimators, bit for bit. With `embedding_core='host'`, whose semantics
            TensorFlow's own estimator doesn't have on a CPU, the core's ops are TensorFlow's, too.
            None: no, unless the environment variable TPU_COLUMNS_PLAIN is 1.
        invalid_ids: policy of columns without one of their own, and of features of dictionaries,
            for ids that are negative or beyond the vocabulary: 'error', 'drop', 'clip', 'mod', the
            number of a default row, or None; see `tpu_columns.invalid_ids`.
        stacked_tables: whether tables of one width and optimizer may share variables and ops while
            `embedding_core='host'` trains them. Checkpoints have single tables, and numbers are the
            same, but `tf.compat.v1.global_variables()` of the training graph lacks these tables.
            None: yes, unless the environment variable TPU_COLUMNS_STACKED_TABLES is 0.

    Raises:
        ValueError: an argument is invalid; the message names it.
        TypeError: a batch size isn't an int, `params` can't hold the batch size, or the embedding
            specification has another type.
    """

    _adds_params = True
    _config: TPURunConfig

    def __init__(
        self,
        model_fn: Callable[..., Any] | None = None,
        model_dir: Any = None,
        config: TPURunConfig | None = None,
        params: Any = None,
        use_tpu: bool = True,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
        batch_axis: Any = None,
        eval_on_tpu: bool = True,
        export_to_tpu: bool = True,
        export_to_cpu: bool = True,
        warm_start_from: str | WarmStartSettings | None = None,
        embedding_config_spec: EmbeddingConfigSpec | None = None,
        export_saved_model_api_version: Any = ExportSavedModelApiVersion.V1,
        *,
        embedding_core: str | None = None,
        embedding_shards: int | None = None,
        host_replicas: int | None = None,
        fast_updates: bool | None = None,
        plain: bool | None = None,
        invalid_ids: str | int | None = None,
        stacked_tables: bool | None = None,
    ) -> None:
        if not isinstance(config, TPURunConfig):
            raise ValueError(
                "`config` must be provided with type `tpu_config.RunConfig`, that is "
                f"estimator_spec.RunConfig; got {config!r}."
            )
        tpu_checks.check_params(params, _RESERVED)
        tpu_checks.check_batch_axis(batch_axis)
        sizes = {"train": train_batch_size, "eval": eval_batch_size, "predict": predict_batch_size}
        tpu_checks.check_batch_sizes(sizes, use_tpu)
        if use_tpu:
            tpu_checks.check_input_pipeline(config.tpu_config, embedding_config_spec)
        else:
            roles.check_resolver(config)
        if host_replicas is not None:
            replicated = sizes if eval_on_tpu else {**sizes, "eval": None}
            tpu_checks.check_host_replicas(host_replicas, use_tpu, replicated, config.tpu_config)
        in_place_of_tpu = use_tpu and host_fallback.replicas_instead_of_tpu()
        if in_place_of_tpu:
            host_replicas = config.tpu_config.num_shards or 1
            embedding_core = embedding_core or ("host" if embedding_config_spec else None)
        on_host = in_place_of_tpu or not use_tpu
        on_servers = on_host and roles.is_distributed(config)
        self._run_embeddings = embeddings.choose_embeddings(
            embedding_config_spec,
            embedding_core,
            not on_host,
            embedding_shards,
            config.num_ps_replicas if on_servers else None,
            warm_start_from is not None,
        )
        tpu_checks.check_embeddings(config.tpu_config, embedding_config_spec)
        _check_api_version(export_saved_model_api_version)
        super().__init__(
            model_fn,  # type: ignore[arg-type]  # None is refused there
            model_dir,
            _without_tpu(config, use_tpu),
            params,
            warm_start_from,
            fast_updates=fast_updates,
            plain=plain,
            invalid_ids=invalid_ids,
        )
        check_optional_flag("stacked_tables", stacked_tables)
        self._optimizations = optimizations.choose(plain, fast_updates, stacked_tables)
        strategy_graphs.check_no_replicas(self._config)
        self._ctx = RunContext(
            self._config,
            {mode: sizes[name] for mode, name in MODE_NAMES.items()},
            *(use_tpu, eval_on_tpu, embedding_config_spec, host_replicas),
        )
        self._batch_axis = batch_axis
        self._export_to_tpu = export_to_tpu
        self._export_to_cpu = export_to_cpu

    def _assert_members_are_not_overridden(self) -> None:
        """Allows subclasses to override public methods, as programs do."""

    def _check_before_graph(self, mode: str, input_fn: Callable[..., Any]) -> None:
        with self._ctx.with_mode(mode) as ctx:
            system = ctx.system()
            if system is not None and system.checks_as_tpu:
                tpu_checks.check_columns(ctx.embedding_config_spec, mode)
            on_cpu = system is None and not ctx.is_meant_for_tpu()
            if on_cpu and ctx.is_input_slice_broadcast_to_all_cores():
                raise ValueError(
                    "Invalid TPUConfig `eval_training_input_configuration` value. SLICED mode "
                    "only works on use_tpu = True."
                )
        has_replicas = system is not None
        if mode == ModeKeys.TRAIN and has_replicas and roles.is_distributed(self._config):
            raise NotImplementedError(
                "TF_CONFIG describes a cluster of parameter servers, and a training in loops "
                "(host_replicas, or use_tpu=True) runs in one process. Leave host_replicas out, or "
                "unset TF_CONFIG."
            )
        for kind, fn in (("model_fn", self._model_fn), ("input_fn", input_fn)):
            tpu_checks.check_takes_params(kind, fn)
        super()._check_before_graph(mode, input_fn)

    def _call_input_fn(
        self, input_fn: Callable[..., Any], mode: str, input_context: Any = None
    ) -> Any:
        params = self.params
        with self._ctx.with_mode(mode) as ctx:
            _set_param(params, _BATCH_SIZE, ctx.batch_size_for_input_fn)
            if ctx.is_meant_for_tpu() or ctx.system() is not None:
                _set_param(params, _CONTEXT, TPUContext(True, ctx.deployment()))
        with _explaining_missing_size("input_fn", mode, params):
            return batches.call_input_fn(input_fn, mode, params, self.config, input_context)

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        params = self.params
        exporting = _is_exporting()
        with self._ctx.with_mode(mode) as ctx:
            on_cpu = ctx.is_running_on_cpu(is_export_mode=exporting)
            for_tpu = ctx.is_meant_for_tpu() and not exporting
            has_context = not exporting and (for_tpu or ctx.system() is not None)
            context = TPUContext(False, ctx.deployment()) if has_context else None
            if not exporting:
                _set_param(params, _BATCH_SIZE, ctx.batch_size_for_model_fn)
        _set_param(params, _CONTEXT, context)
        _set_param(params, _USE_TPU, not on_cpu)
        tf1.logging.info("Running %s on %s", mode, "CPU/GPU" if on_cpu else "TPU")

        model_embeddings = self._ctx.build.replicas or self._run_embeddings

        def model(features: Any, change: Any = lambda result: result) -> Any:
            return model_calls.call_model_fn(
                self._model_fn, features, labels, mode, params, config, change
            )

        replaced = for_tpu and on_cpu and self._ctx.host_replicas is None
        model_context = self._replacing_tpu(mode) if replaced else contextlib.nullcontext()
        explained: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if not exporting:
            explained = _explaining_missing_size("model_fn", mode, params)
        with explained, model_context:
            return model_embeddings.call_model(model, features, mode, exporting)

    @contextlib.contextmanager
    def _replacing_tpu(self, mode: str) -> Iterator[None]:
        """Enters the context of a `model_fn` that is built on the host instead of a TPU."""
        kind = placement.Mode(mode)
        hardware = self._run_embeddings.hardware(kind)
        with host_fallback.one_replica(), placement.running(kind, hardware, replaces_tpu=True):
            yield

    def _build(
        self, graph: tf.Graph, input_fn: Callable[..., Any], mode: str, one_device: bool = False
    ) -> BuiltGraph:
        with self._ctx.with_mode(mode) as ctx, ctx.building(BuildArguments(one_device=one_device)):
            system = ctx.system()
            if system is None:
                return super()._build(graph, input_fn, mode)
            return replica_graphs.build(
                setup_of(self), graph, input_fn, ctx, system, self._batch_axis
            )

    def _convert_train_steps_to_hooks(self, steps: int | None, max_steps: int | None) -> list[Any]:
        with self._ctx.with_mode(ModeKeys.TRAIN) as ctx:
            system = ctx.system()
        if system is None:
            return super()._convert_train_steps_to_hooks(steps, max_steps)
        for name, count in (("steps", steps), ("max_steps", max_steps)):
            if system.checks_as_tpu and count is not None:
                check_positive_integer(count, f"train {name}")
        limit = device_loop.parse_loop_limit(self._config.tpu_config)
        return [device_loop.LoopLengthHook(limit, steps, max_steps)]

    def _create_global_step(self, graph: tf.Graph) -> Any:
        """Creates the global step as a resource variable, which TPUs require."""
        if tf1.train.get_global_step(graph) is not None:
            raise ValueError('"global_step" already exists.')
        with graph.as_default(), graph.name_scope(None):
            return tf1.get_variable(
                tf1.GraphKeys.GLOBAL_STEP,
                shape=[],
                dtype=tf.int64,
                initializer=tf1.zeros_initializer(),
                trainable=False,
                use_resource=True,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
                collections=[tf1.GraphKeys.GLOBAL_VARIABLES, tf1.GraphKeys.GLOBAL_STEP],
            )

    def _speed_hooks(self) -> list[Any]:
        """Returns the hooks that log steps and examples per second."""
        with self._ctx.with_mode(ModeKeys.TRAIN) as ctx:
            batch_size = ctx.global_batch_size
        if batch_size is None:
            return super()._speed_hooks()
        # A loop length given as a duration is also the logging interval.
        seconds = device_loop.parse_loop_limit(self._config.tpu_config).seconds
        steps = None if seconds else self._config.log_step_count_steps
        if steps is None and seconds is None:
            return []
        output_dir = self._model_dir if self._config.save_summary_steps else None
        return [StepsPerSecond(steps, seconds, output_dir, batch_size)]

    def _export_all_saved_models(self, *args: Any, **kwargs: Any) -> bytes:
        tpu_checks.check_takes_params("model_fn", self._model_fn)
        if not self._export_to_cpu:
            if not self._export_to_tpu:
                raise ValueError("One of export_to_cpu and export_to_tpu must be true.")
            raise RuntimeError(
                "export_to_cpu=False leaves nothing to export: graphs for serving on a TPU can't "
                "be made here. Set export_to_cpu=True."
            )
        if self._export_to_tpu:
            tf1.logging.info(
                "export_to_tpu is skipped: the SavedModel gets the graph for serving on a CPU."
            )
        return super()._export_all_saved_models(*args, **kwargs)


def _check_api_version(version: Any) -> None:
    if version not in (1, 2, *ExportSavedModelApiVersion):
        raise ValueError(f"export_saved_model_api_version should be 1 or 2; got {version}.")


def _without_tpu(config: TPURunConfig, use_tpu: bool) -> TPURunConfig:
    """Returns the configuration of the runs; on the host it has nothing of a TPU system."""
    if use_tpu and not host_fallback.host_instead_of_tpu():
        if config.session_config is not None:
            return config
        # Without device filters: sessions with a TPU need the whole cluster.
        return config.replace(session_config=get_default_session_config())
    if roles.is_distributed(config):
        return config.on_parameter_servers()
    return config.on_host() if use_tpu else config


def _is_exporting() -> bool:
    """Returns whether `model_fn` is called for an export, or by the user's own code."""
    current = placement.current()
    return current is None or current.mode is placement.Mode.SERVE


@contextlib.contextmanager
def _explaining_missing_size(function: str, mode: str, params: Any) -> Iterator[None]:
    """Names the argument that is missing if the user's function reads a batch size that isn't set.

    Args:
        function: 'input_fn' or 'model_fn'.
        mode: one of `ModeKeys`.
        params: the hyperparameters that it gets.

    Raises:
        ValueError: `params` has no batch size, and an error of the block names that.
    """
    try:
        yield
    except (KeyError, AttributeError) as error:
        if _BATCH_SIZE in params or _BATCH_SIZE not in str(error):
            raise
        raise ValueError(
            f"{function} reads params[{_BATCH_SIZE!r}], which isn't set: then "
            f"{MODE_NAMES[mode]}_batch_size in TPUEstimator constructor cannot be `None`."
        ) from error


def _set_param(params: Any, key: str, value: Any) -> None:
    """Sets an entry of the user's params, a dict or an HParams object, unless `value` is None."""
    if value is None:
        return
    if not hasattr(params, "set_hparam"):
        params[key] = value
    elif key in params:
        params.set_hparam(key, value)
    else:
        params.add_hparam(key, value)
