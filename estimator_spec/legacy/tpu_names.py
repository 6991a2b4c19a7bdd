# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: `TPUEstimator`, TPU embeddings and `tf.contrib.tpu`."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import Group, When

TPU = (
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
EMBEDDINGS = (
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
    # The Estimator's modules imported the parameter classes, and programs took them from there.
    Group(
        "estimator_tpu_py._tpu_estimator_embedding estimator_tpu_py.tpu_estimator",
        "estimator_spec",
        "AdagradParameters AdamParameters StochasticGradientDescentParameters",
    ),
    Group(
        "estimator_tpu_py._tpu_estimator_embedding",
        "estimator_spec",
        "FtrlParameters MomentumParameters ProximalAdagradParameters RMSPropParameters",
    ),
    # TensorFlow's has no CPU kernel; our subclass calls the wrapped optimizer on one replica.
    Group(
        "tf1.tpu tpu_py.tpu_optimizer contrib.tpu",
        "estimator_spec.legacy.tpu_stand_ins",
        "CrossShardOptimizer",
    ),
)

CONTRIB_TPU = (
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

# Replacements of TPU functions when a TPU program runs on the host, as one replica.
ON_HOST = (
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
