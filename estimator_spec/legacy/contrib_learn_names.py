# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: `tf.contrib.learn`, and the feature columns of `tf.contrib.layers`."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import parse_rows

CONTRIB_LEARN = parse_rows(
    """
    [estimator_spec.legacy.contrib.learn.columns]
    contrib.layers contrib.layers.feature_column contrib.layers.python.layers \
      contrib.layers.python.layers.feature_column:
      SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY bucketized_column crossed_column embedding_column
      one_hot_column real_valued_column scattered_embedding_column shared_embedding_columns
      sparse_column_with_hash_bucket sparse_column_with_integerized_feature sparse_column_with_keys
      sparse_column_with_vocabulary_file weighted_sparse_column

    [estimator_spec.legacy.contrib.learn.column_types]
    contrib.layers.feature_column contrib.layers.python.layers.feature_column:
      _BucketizedColumn=BucketizedColumn _CrossedColumn=CrossedColumn
      _EmbeddingColumn=EmbeddingColumn _FeatureColumn=FeatureColumn _OneHotColumn=OneHotColumn
      _RealValuedColumn=RealValuedColumn _SparseColumn=SparseColumn
      _WeightedSparseColumn=WeightedSparseColumn

    [estimator_spec.legacy.contrib.learn.column_layers]
    contrib.layers contrib.layers.python.layers contrib.layers.python.layers.feature_column_ops:
      infer_real_valued_columns input_from_feature_columns parse_feature_columns_from_examples
      weighted_sum_from_feature_columns
    contrib.layers contrib.layers.python.layers contrib.layers.python.layers.feature_column:
      create_feature_spec_for_parsing make_place_holder_tensors_for_base_features

    [estimator_spec.legacy.contrib.learn.canned]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.dnn:
      DNNClassifier DNNEstimator DNNRegressor
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.linear:
      LinearClassifier LinearEstimator LinearRegressor
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.dnn_linear_combined:
      DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor

    [estimator_spec.legacy.contrib.learn.estimator]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.estimator:
      Estimator
    contrib.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.estimator:
      BaseEstimator=Estimator

    [estimator_spec.legacy.contrib.learn.core]
    contrib.learn contrib.learn.python.learn.estimators: NotFittedError

    [tensorflow.compat.v1.train]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.monitors:
      NanLossDuringTrainingError

    [estimator_spec.legacy.contrib.learn.sklearn_compat]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.estimator:
      SKCompat

    [estimator_spec.legacy.contrib.learn.model_fn_ops]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.model_fn:
      ModeKeys ModelFnOps
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.prediction_key:
      PredictionKey
    contrib.learn.python.learn.estimators contrib.learn.python.learn.estimators.metric_key:
      MetricKey
    contrib.learn contrib.learn.python.learn.estimators.constants: ProblemType
    contrib.learn contrib.learn.python.learn contrib.learn.utils.input_fn_utils \
      contrib.learn.python.learn.utils.input_fn_utils:
      InputFnOps

    [estimator_spec.legacy.contrib.learn.metric_spec]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.metric_spec: MetricSpec

    [estimator_spec.legacy.contrib.learn.heads]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators.head:
      Head multi_class_head no_op_train_fn regression_head

    [estimator_spec.legacy.contrib.learn.run_config]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.run_config:
      RunConfig
    contrib.learn.python.learn.estimators.run_config: Environment

    [estimator_spec.run_config]
    contrib.learn contrib.learn.python.learn.estimators.run_config: TaskType

    [estimator_spec.legacy.contrib.learn.experiment]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.experiment: Experiment

    [estimator_spec.legacy.contrib.learn.learn_runner]
    contrib.learn.learn_runner contrib.learn.python.learn.learn_runner: run tune

    [estimator_spec.legacy.contrib.learn.exports]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.export_strategy:
      ExportStrategy
    contrib.learn contrib.learn.utils contrib.learn.python.learn.utils \
      contrib.learn.utils.saved_model_export_utils \
      contrib.learn.python.learn.utils.saved_model_export_utils:
      make_export_strategy make_parsing_export_strategy
    contrib.learn.utils.saved_model_export_utils \
      contrib.learn.python.learn.utils.saved_model_export_utils:
      build_standardized_signature_def garbage_collect_exports get_input_alternatives
      get_output_alternatives
    contrib.learn contrib.learn.utils contrib.learn.python.learn.utils \
      contrib.learn.utils.input_fn_utils contrib.learn.python.learn.utils.input_fn_utils:
      build_parsing_serving_input_fn
    contrib.learn.utils.input_fn_utils contrib.learn.python.learn.utils.input_fn_utils:
      build_default_serving_input_fn

    [estimator_spec.legacy.contrib.learn.monitors]
    contrib.learn.monitors contrib.learn.python.learn.monitors:
      BaseMonitor CaptureVariable CheckpointSaver EveryN LoggingTrainable NanLoss PrintTensor
      StepCounter StopAtStep SummarySaver ValidationMonitor

    [estimator_spec.legacy.contrib.learn.monitor_hooks]
    contrib.learn.monitors contrib.learn.python.learn.monitors:
      RunHookAdapterForMonitors replace_monitors_with_hooks

    [estimator_spec.legacy.contrib.learn.inference]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.estimators \
      contrib.learn.python.learn.estimators.estimator:
      infer_real_valued_columns_from_input infer_real_valued_columns_from_input_fn

    [estimator_spec.legacy.contrib.learn.reading]
    contrib.learn contrib.learn.python.learn contrib.learn.python.learn.learn_io \
      contrib.learn.io contrib.learn.python.learn.learn_io.graph_io:
      read_batch_examples read_batch_features read_batch_record_features read_keyed_batch_examples

    [estimator_spec.legacy.contrib.learn.arrays]
    contrib.learn.io contrib.learn.python.learn.learn_io \
      contrib.learn.python.learn.learn_io.numpy_io:
      numpy_input_fn
    contrib.learn.io contrib.learn.python.learn.learn_io \
      contrib.learn.python.learn.learn_io.pandas_io:
      pandas_input_fn

    [estimator_spec.legacy.contrib.learn.reading]
    contrib.learn.datasets.base contrib.learn.python.learn.datasets.base:
      Dataset Datasets load_csv_with_header load_csv_without_header maybe_download

    [estimator_spec.legacy.contrib.learn.predictor]
    contrib.predictor contrib.predictor.predictor_factories: from_contrib_estimator
    contrib.predictor.contrib_estimator_predictor: ContribEstimatorPredictor
    """
)
