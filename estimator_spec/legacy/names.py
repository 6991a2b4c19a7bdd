# SPDX-License-Identifier: Apache-2.0
"""Defines the table of restored names: places and present location of each.

`install()`, docs/legacy_names.md and the tests read it. A row is one name. A `Group` holds rows
with the same places and the same present module.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

from estimator_spec.legacy.module_spellings import spellings


class When(enum.Enum):
    """Condition under which a name is installed.

    ON_HOST: programs written for a TPU run on the host (`run --cpu`).
    WITHOUT_TENSORBOARD: TensorBoard, which some names of TensorFlow need, isn't installed.
    """

    ALWAYS = "always"
    ON_HOST = "on the host"
    WITHOUT_TENSORBOARD = "without TensorBoard"


class Group(NamedTuple):
    """Names with the same places and the same present module.

    Attributes:
        places: the former modules, as in `module_spellings`, separated by spaces.
        home: the module (or class) that has the names now.
        names: the names, separated by spaces; `old=new` if they differ.
        when: condition of the installation.
    """

    places: str
    home: str
    names: str
    when: When = When.ALWAYS


class Row(NamedTuple):
    """One removed name.

    Attributes:
        name: the last part of its dotted name.
        places: its former modules, as in `module_spellings`.
        ours: the full name of its replacement.
        when: condition of the installation.
    """

    name: str
    places: tuple[str, ...]
    ours: str
    when: When

    def modules(self) -> Iterator[str]:
        """Yields every module that had the name."""
        for place in self.places:
            yield from spellings(place)


_ESTIMATOR = (
    Group(
        "estimator estimator_py.estimator_lib estimator_py.estimator",
        "estimator_spec",
        "Estimator VocabInfo WarmStartSettings",
    ),
    Group("estimator_py.estimator", "estimator_spec", "EstimatorV2=Estimator"),
    Group(
        "estimator estimator_py.estimator_lib estimator_py.model_fn",
        "estimator_spec",
        "EstimatorSpec ModeKeys",
    ),
    Group("estimator_py.mode_keys contrib.learn", "estimator_spec", "ModeKeys"),
    Group(
        "estimator.experimental estimator_py.estimator_lib estimator_py.model_fn",
        "estimator_spec",
        "call_logit_fn",
    ),
    Group(
        "estimator estimator_py.estimator_lib estimator_py.run_config",
        "estimator_spec.config.run_config",
        "RunConfig",
    ),
    Group(
        "estimator_py.run_config",
        "estimator_spec.config.run_config",
        "TaskType get_default_session_config path_to_str",
    ),
    Group(
        "estimator estimator_py.estimator_lib estimator_py.training",
        "estimator_spec",
        "EvalSpec TrainSpec train_and_evaluate",
    ),
    Group(
        "estimator estimator_py.estimator_lib estimator_py.exporter",
        "estimator_spec",
        "Exporter FinalExporter LatestExporter",
    ),
    Group("estimator estimator_py.exporter", "estimator_spec", "BestExporter"),
    Group(
        "estimator.inputs estimator_py.inputs.inputs",
        "estimator_spec",
        "numpy_input_fn pandas_input_fn",
    ),
    Group("estimator_py.inputs.numpy_io", "estimator_spec", "numpy_input_fn"),
    Group("estimator_py.inputs.pandas_io", "estimator_spec", "pandas_input_fn"),
    Group("estimator_py.util", "estimator_spec.validation.signatures", "fn_args=argument_names"),
)

_EXPORT = (
    Group(
        "estimator.export estimator_py.export.export estimator_py.export.export_lib",
        "estimator_spec",
        "ServingInputReceiver TensorServingInputReceiver "
        "build_parsing_serving_input_receiver_fn build_raw_serving_input_receiver_fn",
    ),
    Group(
        "estimator_py.export.export estimator_py.export.export_lib",
        "estimator_spec",
        "SupervisedInputReceiver",
    ),
    Group(
        "estimator.experimental estimator_py.export.export estimator_py.export.export_lib "
        "contrib.estimator",
        "estimator_spec",
        "build_raw_supervised_input_receiver_fn",
    ),
    Group(
        "estimator.export estimator_py.export.export_output estimator_py.export.export_lib",
        "estimator_spec",
        "ClassificationOutput EvalOutput ExportOutput PredictOutput RegressionOutput",
    ),
)

_HOOKS = (
    Group(
        "estimator estimator_py.hooks.basic_session_run_hooks",
        "tensorflow.compat.v1.train",
        "CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook "
        "LoggingTensorHook NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer "
        "StepCounterHook StopAtStepHook SummarySaverHook",
    ),
    Group(
        "estimator estimator_py.hooks.session_run_hook",
        "tensorflow.compat.v1.train",
        "SessionRunArgs SessionRunContext SessionRunHook SessionRunValues",
    ),
    Group(
        "estimator.experimental estimator_py.estimator_lib estimator_py.early_stopping "
        "contrib.estimator",
        "estimator_spec",
        "make_early_stopping_hook stop_if_higher_hook stop_if_lower_hook stop_if_no_decrease_hook "
        "stop_if_no_increase_hook",
    ),
    Group(
        "estimator_py.early_stopping contrib.estimator",
        "estimator_spec.driver.early_stopping",
        "read_eval_metrics",
    ),
    Group(
        "estimator.experimental estimator_py.hooks.hooks contrib.estimator",
        "estimator_spec",
        "InMemoryEvaluatorHook make_stop_at_checkpoint_step_hook",
    ),
)

_TPU = (
    Group(
        "estimator.tpu estimator_tpu_py.tpu_config contrib.tpu",
        "estimator_spec",
        "InputPipelineConfig RunConfig TPUConfig",
    ),
    Group(
        "estimator.tpu estimator_tpu_py.tpu_estimator contrib.tpu",
        "estimator_spec",
        "TPUEstimator TPUEstimatorSpec",
    ),
    Group("estimator_py.estimator_lib", "estimator_spec", "TPUEstimator"),
    Group("estimator_tpu_py.tpu_estimator", "estimator_spec", "ExportSavedModelApiVersion"),
    Group("estimator_tpu_py.tpu_context", "estimator_spec.config.tpu_context", "TPUContext"),
    Group(
        "estimator_tpu_py.util",
        "estimator_spec.config.tpu_config",
        "check_positive_integer parse_iterations_per_loop",
    ),
    Group(
        "estimator.tpu.experimental estimator_tpu_py._tpu_estimator_embedding "
        "estimator_tpu_py.tpu_estimator",
        "estimator_spec",
        "EmbeddingConfigSpec",
    ),
)

# TensorFlow still has TPU columns, which only its Estimator could use: ours replace them. It has
# removed the parameter classes.
_EMBEDDINGS = (
    Group(
        "tf1.tpu.experimental tpu_py.feature_column",
        "tpu_columns",
        "embedding_column shared_embedding_columns",
    ),
    Group(
        "tpu_py.feature_column_v2",
        "tpu_columns",
        "embedding_column_v2=embedding_column "
        "shared_embedding_columns_v2=shared_embedding_columns "
        "split_sequence_columns_v2=split_sequence_columns",
    ),
    Group("tpu_py.feature_column", "tpu_columns", "split_sequence_columns"),
    Group(
        "tf1.tpu.experimental tpu_py.tpu_embedding",
        "estimator_spec",
        "AdagradParameters AdamParameters FtrlParameters StochasticGradientDescentParameters",
    ),
    Group(
        "tpu_py.tpu_embedding",
        "estimator_spec",
        "AdagradMomentumParameters FeatureConfig FrequencyEstimatorParameters MomentumParameters "
        "ProximalAdagradParameters ProximalYogiParameters RMSPropParameters TableConfig "
        "_OptimizationParameters=OptimizationParameters",
    ),
    # TensorFlow's has no CPU kernel; our subclass calls the wrapped optimizer on one replica.
    Group(
        "tf1.tpu tpu_py.tpu_optimizer contrib.tpu",
        "estimator_spec.legacy.tpu_stand_ins",
        "CrossShardOptimizer",
    ),
)

_CONTRIB_TPU = (
    Group(
        "contrib.tpu contrib.tpu.python.tpu.tpu",
        "tensorflow.compat.v1.tpu",
        "batch_parallel core initialize_system outside_compilation replicate rewrite shard "
        "shutdown_system",
    ),
    Group(
        "contrib.tpu contrib.tpu.python.tpu.bfloat16", "tensorflow.compat.v1.tpu", "bfloat16_scope"
    ),
    Group(
        "contrib.tpu contrib.tpu.python.ops.tpu_ops",
        "tensorflow.compat.v1.tpu",
        "cross_replica_sum",
    ),
    Group(
        "contrib.tpu contrib.tpu.python.tpu.device_assignment",
        "tensorflow.compat.v1.tpu.experimental",
        "DeviceAssignment",
    ),
    Group(
        "contrib.tpu contrib.tpu.python.tpu.topology",
        "tensorflow.compat.v1.tpu.experimental",
        "Topology",
    ),
    Group(
        "contrib.tpu.python.tpu",
        "estimator_spec._tensorflow.private",
        "tpu_function",
    ),
    Group(
        "contrib.tpu contrib.tpu.python.tpu.training_loop",
        "estimator_spec._tensorflow.private.training_loop",
        "repeat while_loop",
    ),
    Group(
        "contrib.cluster_resolver contrib.cluster_resolver.python.training",
        "tensorflow.compat.v1.distribute.cluster_resolver",
        "ClusterResolver GCEClusterResolver KubernetesClusterResolver SimpleClusterResolver "
        "SlurmClusterResolver TFConfigClusterResolver TPUClusterResolver "
        "UnionClusterResolver=UnionResolver",
    ),
    Group(
        "contrib.cluster_resolver.python.training.tpu_cluster_resolver",
        "tensorflow.compat.v1.distribute.cluster_resolver",
        "TPUClusterResolver",
    ),
)

# Other names of tensorflow.contrib that TPU programs import.
_CONTRIB = (
    Group(
        "contrib.training contrib.training.python.training.hparam",
        "estimator_spec.legacy.hparams",
        "HParams",
    ),
    Group(
        "contrib.training contrib.training.python.training.evaluation",
        "tensorflow.train",
        "checkpoints_iterator",
    ),
    Group(
        "contrib.summary contrib.summary.summary",
        "estimator_spec._tensorflow.private.summary_ops",
        "SummaryWriter all_summary_ops=all_v2_summary_ops always_record_summaries audio "
        "create_file_writer create_summary_file_writer eval_dir flush generic graph histogram "
        "image import_event initialize never_record_summaries "
        "record_summaries_every_n_global_steps scalar should_record_summaries "
        "summary_writer_initializer_op",
    ),
    Group(
        "contrib.data",
        "tensorflow.data.experimental",
        "AUTOTUNE Counter CsvDataset Optional RandomDataset Reducer SqlDataset TFRecordWriter "
        "bucket_by_sequence_length choose_from_datasets copy_to_device dense_to_sparse_batch "
        "enumerate_dataset get_next_as_optional get_single_element group_by_reducer "
        "group_by_window ignore_errors make_batched_features_dataset make_csv_dataset "
        "make_saveable_from_iterator map_and_batch parallel_interleave parse_example_dataset "
        "prefetch_to_device rejection_resample sample_from_datasets scan shuffle_and_repeat "
        "unbatch unique",
    ),
    Group(
        "contrib.data",
        "estimator_spec.legacy.contrib",
        "batch_and_drop_remainder padded_batch_and_drop_remainder sloppy_interleave",
    ),
    Group(
        "contrib.lookup contrib.lookup.lookup_ops",
        "estimator_spec._tensorflow.private.lookup_ops",
        "HashTable=StaticHashTableV1 IdTableWithHashBuckets KeyValueTensorInitializer "
        "MutableHashTable TextFileIdTableInitializer TextFileIndex TextFileInitializer "
        "TextFileStringTableInitializer index_table_from_file index_table_from_tensor "
        "index_to_string_table_from_file index_to_string_table_from_tensor",
    ),
    Group(
        "contrib.framework",
        "tensorflow.compat.v1.train",
        "create_global_step get_global_step get_or_create_global_step init_from_checkpoint "
        "list_variables load_checkpoint load_variable",
    ),
    Group("contrib.framework", "tensorflow", "TensorSpec argsort is_tensor nest sort"),
    Group("contrib.framework", "tensorflow.compat.v1", "py_func"),
    Group(
        "contrib.layers",
        "estimator_spec.legacy.contrib",
        "l1_regularizer l2_regularizer layer_norm variance_scaling_initializer xavier_initializer "
        "xavier_initializer_conv2d=xavier_initializer",
    ),
    Group(
        "contrib.feature_column",
        "tensorflow.feature_column",
        "sequence_categorical_column_with_hash_bucket sequence_categorical_column_with_identity "
        "sequence_categorical_column_with_vocabulary_file "
        "sequence_categorical_column_with_vocabulary_list sequence_numeric_column",
    ),
    Group("contrib.feature_column", "tpu_columns", "sequence_input_layer"),
    Group(
        "contrib.util",
        "tensorflow",
        "constant_value=get_static_value make_ndarray make_tensor_proto",
    ),
)

# Replacements of TPU functions when a TPU program runs on the host, as one replica.
_ON_HOST = (
    Group(
        "tf.distribute.cluster_resolver tf_py.distribute.cluster_resolver "
        "tf_py.distribute.cluster_resolver.tpu_cluster_resolver",
        "estimator_spec.legacy.tpu_stand_ins",
        "TPUClusterResolver",
        when=When.ON_HOST,
    ),
    Group(
        "tf1.tpu tf_py.tpu.tpu",
        "estimator_spec.legacy.tpu_stand_ins",
        "batch_parallel initialize_system replicate rewrite shard shutdown_system",
        when=When.ON_HOST,
    ),
    Group(
        "tf1.tpu tf_py.tpu.tpu tf_py.tpu.tpu_replication",
        "estimator_spec.legacy.tpu_stand_ins",
        "outside_compilation",
        when=When.ON_HOST,
    ),
    Group(
        "tf1.tpu tf_py.tpu.ops.tpu_ops",
        "estimator_spec.legacy.tpu_stand_ins",
        "cross_replica_sum",
        when=When.ON_HOST,
    ),
)

# TensorFlow up to 2.20 installed TensorBoard.
_SUMMARIES = (
    Group(
        "tf2.summary",
        "estimator_spec.legacy.summaries",
        "scalar",
        when=When.WITHOUT_TENSORBOARD,
    ),
)

GROUPS = (
    *_ESTIMATOR,
    *_EXPORT,
    *_HOOKS,
    *_TPU,
    *_EMBEDDINGS,
    *_CONTRIB_TPU,
    *_CONTRIB,
    *_ON_HOST,
    *_SUMMARIES,
)


def rows() -> Iterator[Row]:
    """Every removed name of the table."""
    for group in GROUPS:
        for name in group.names.split():
            old, _, new = name.partition("=")
            yield Row(old, tuple(group.places.split()), f"{group.home}.{new or old}", group.when)
