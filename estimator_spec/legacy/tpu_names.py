# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: `TPUEstimator`, TPU embeddings and `tf.contrib.tpu`."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import When, parse_rows

TPU = parse_rows(
    """
    [estimator_spec]
    estimator.tpu estimator_tpu_py.tpu_config contrib.tpu: InputPipelineConfig RunConfig TPUConfig
    estimator.tpu estimator_tpu_py.tpu_estimator contrib.tpu: TPUEstimator TPUEstimatorSpec
    estimator_py.estimator_lib: TPUEstimator
    estimator_tpu_py.tpu_estimator: ExportSavedModelApiVersion
    estimator.tpu.experimental estimator_tpu_py._tpu_estimator_embedding \
      estimator_tpu_py.tpu_estimator:
      EmbeddingConfigSpec

    [estimator_spec.core.run_config.tpu_context]
    estimator_tpu_py.tpu_context: TPUContext

    [estimator_spec.core.run_config.tpu_config]
    estimator_tpu_py.util: check_positive_integer parse_iterations_per_loop

    # TensorFlow still has TPU columns, which only its Estimator could use: ours replace them. It
    # has removed the parameter classes.
    [tpu_columns]
    tf1.tpu.experimental tpu_py.feature_column: embedding_column shared_embedding_columns
    tpu_py.feature_column_v2:
      embedding_column_v2=embedding_column shared_embedding_columns_v2=shared_embedding_columns
      split_sequence_columns_v2=split_sequence_columns
    tpu_py.feature_column: split_sequence_columns

    [estimator_spec]
    tf1.tpu.experimental tpu_py.tpu_embedding:
      AdagradParameters AdamParameters FtrlParameters StochasticGradientDescentParameters
    tpu_py.tpu_embedding:
      AdagradMomentumParameters FeatureConfig FrequencyEstimatorParameters MomentumParameters
      ProximalAdagradParameters ProximalYogiParameters RMSPropParameters TableConfig
      _OptimizationParameters=OptimizationParameters
    # The Estimator's modules imported the classes, and programs took them from there.
    estimator_tpu_py._tpu_estimator_embedding estimator_tpu_py.tpu_estimator:
      AdagradParameters AdamParameters StochasticGradientDescentParameters
    estimator_tpu_py._tpu_estimator_embedding:
      FtrlParameters MomentumParameters ProximalAdagradParameters RMSPropParameters

    # TensorFlow's has no CPU kernel; our subclass calls the wrapped optimizer on one replica.
    [estimator_spec.legacy.tpu_stand_ins]
    tf1.tpu tpu_py.tpu_optimizer contrib.tpu: CrossShardOptimizer

    # TensorFlow's train on a TPU only; our subclass is TensorFlow's there.
    [estimator_spec.mid_level]
    tf2.tpu.experimental.embedding tpu_py.tpu_embedding_v2: TPUEmbedding

    [tensorflow.compat.v1.tpu]
    contrib.tpu contrib.tpu.python.tpu.tpu:
      batch_parallel core initialize_system outside_compilation replicate rewrite shard
      shutdown_system
    contrib.tpu contrib.tpu.python.tpu.bfloat16: bfloat16_scope
    contrib.tpu contrib.tpu.python.ops.tpu_ops: cross_replica_sum

    [tensorflow.compat.v1.tpu.experimental]
    contrib.tpu contrib.tpu.python.tpu.device_assignment: DeviceAssignment
    contrib.tpu contrib.tpu.python.tpu.topology: Topology

    [estimator_spec.core._tensorflow.private]
    contrib.tpu.python.tpu: tpu_function

    [estimator_spec.core._tensorflow.private.training_loop]
    contrib.tpu contrib.tpu.python.tpu.training_loop: repeat while_loop

    [tensorflow.compat.v1.distribute.cluster_resolver]
    contrib.cluster_resolver contrib.cluster_resolver.python.training:
      ClusterResolver GCEClusterResolver KubernetesClusterResolver SimpleClusterResolver
      SlurmClusterResolver TFConfigClusterResolver TPUClusterResolver
      UnionClusterResolver=UnionResolver
    contrib.cluster_resolver.python.training.tpu_cluster_resolver: TPUClusterResolver
    """
)

# Replacements of TPU functions when a TPU program runs on the host, as one replica.
ON_HOST = parse_rows(
    """
    [estimator_spec.legacy.tpu_stand_ins]
    tf.distribute.cluster_resolver tf_py.distribute.cluster_resolver \
      tf_py.distribute.cluster_resolver.tpu_cluster_resolver:
      TPUClusterResolver
    tf1.tpu tf_py.tpu.tpu: batch_parallel initialize_system replicate rewrite shard shutdown_system
    tf1.tpu tf_py.tpu.tpu tf_py.tpu.tpu_replication: outside_compilation
    tf1.tpu tf_py.tpu.ops.tpu_ops: cross_replica_sum
    """,
    When.ON_HOST,
)

SPARSE_CORE = parse_rows(
    """
    [estimator_spec.mid_level]
    tf2.tpu.experimental.embedding tpu_py.tpu_embedding_v3: TPUEmbeddingV2
    """,
    When.WITH_SPARSE_CORE,
)
