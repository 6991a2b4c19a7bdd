# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: `tf.contrib.learn`, and the feature columns of `tf.contrib.layers`."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import parse_rows

CONTRIB_LEARN = parse_rows(
    """
    [estimator_spec.legacy.contrib.learn.columns]
    layers layers.feature_column:
      SPARSE_FEATURE_CROSS_DEFAULT_HASH_KEY bucketized_column crossed_column embedding_column
      one_hot_column real_valued_column scattered_embedding_column shared_embedding_columns
      sparse_column_with_hash_bucket sparse_column_with_integerized_feature sparse_column_with_keys
      sparse_column_with_vocabulary_file weighted_sparse_column

    [estimator_spec.legacy.contrib.learn.column_types]
    layers.feature_column:
      _BucketizedColumn=BucketizedColumn _CrossedColumn=CrossedColumn
      _EmbeddingColumn=EmbeddingColumn _FeatureColumn=FeatureColumn _OneHotColumn=OneHotColumn
      _RealValuedColumn=RealValuedColumn _SparseColumn=SparseColumn
      _WeightedSparseColumn=WeightedSparseColumn

    [estimator_spec.legacy.contrib.learn.column_layers]
    layers layers_py.feature_column_ops:
      infer_real_valued_columns input_from_feature_columns parse_feature_columns_from_examples
      weighted_sum_from_feature_columns
    learn learn_py.estimators learn_py.estimators.estimator:
      infer_real_valued_columns_from_input infer_real_valued_columns_from_input_fn
    layers layers_py.feature_column:
      create_feature_spec_for_parsing make_place_holder_tensors_for_base_features

    [estimator_spec.legacy.contrib.learn.canned]
    learn learn_py.estimators learn_py.estimators.dnn: DNNClassifier DNNEstimator DNNRegressor
    learn learn_py.estimators learn_py.estimators.linear:
      LinearClassifier LinearEstimator LinearRegressor
    learn learn_py.estimators learn_py.estimators.dnn_linear_combined:
      DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor

    [estimator_spec.legacy.contrib.learn.estimator]
    learn learn_py.estimators learn_py.estimators.estimator: Estimator
    contrib.learn learn_py.estimators learn_py.estimators.estimator: BaseEstimator=Estimator

    [estimator_spec.legacy.contrib.learn.core]
    contrib.learn learn_py.estimators: NotFittedError

    [tensorflow.compat.v1.train]
    learn learn_py.monitors: NanLossDuringTrainingError

    [estimator_spec.legacy.contrib.learn.sklearn_compat]
    learn learn_py.estimators learn_py.estimators.estimator: SKCompat

    [estimator_spec.legacy.contrib.learn.model_fn_ops]
    learn learn_py.estimators learn_py.estimators.model_fn: ModeKeys ModelFnOps
    learn learn_py.estimators learn_py.estimators.prediction_key: PredictionKey
    learn_py.estimators learn_py.estimators.metric_key: MetricKey
    contrib.learn learn_py.estimators.constants: ProblemType
    learn learn.utils.input_fn_utils: InputFnOps

    [estimator_spec.legacy.contrib.learn.metric_spec]
    learn learn_py.metric_spec: MetricSpec

    [estimator_spec.legacy.contrib.learn.heads]
    learn learn_py.estimators.head: Head multi_class_head no_op_train_fn regression_head

    [estimator_spec.legacy.contrib.learn.run_config]
    learn learn_py.estimators learn_py.estimators.run_config: RunConfig
    learn_py.estimators.run_config: Environment

    [estimator_spec.run_config]
    contrib.learn learn_py.estimators.run_config: TaskType

    [estimator_spec.legacy.contrib.learn.experiment]
    learn learn_py.experiment: Experiment

    [estimator_spec.legacy.contrib.learn.learn_runner]
    learn.learn_runner: run tune

    [estimator_spec.legacy.contrib.learn.exports]
    learn learn_py.export_strategy: ExportStrategy
    contrib.learn learn.utils learn.utils.saved_model_export_utils:
      make_export_strategy make_parsing_export_strategy
    learn.utils.saved_model_export_utils:
      build_standardized_signature_def garbage_collect_exports get_input_alternatives
      get_output_alternatives
    contrib.learn learn.utils learn.utils.input_fn_utils: build_parsing_serving_input_fn
    learn.utils.input_fn_utils: build_default_serving_input_fn

    [estimator_spec.legacy.contrib.learn.monitors]
    learn.monitors:
      BaseMonitor CaptureVariable CheckpointSaver EveryN LoggingTrainable NanLoss PrintTensor
      StepCounter StopAtStep SummarySaver ValidationMonitor

    [estimator_spec.legacy.contrib.learn.monitor_hooks]
    learn.monitors: RunHookAdapterForMonitors replace_monitors_with_hooks

    [estimator_spec.legacy.contrib.learn.reading]
    learn learn_py.learn_io contrib.learn.io learn_py.learn_io.graph_io:
      read_batch_examples read_batch_features read_batch_record_features read_keyed_batch_examples

    [estimator_spec.legacy.contrib.learn.arrays]
    contrib.learn.io learn_py.learn_io learn_py.learn_io.numpy_io: numpy_input_fn
    contrib.learn.io learn_py.learn_io learn_py.learn_io.pandas_io: pandas_input_fn

    [estimator_spec.legacy.contrib.learn.reading]
    learn.datasets.base:
      Dataset Datasets load_csv_with_header load_csv_without_header maybe_download

    [estimator_spec.legacy.contrib.learn.predictor]
    contrib.predictor contrib.predictor.predictor_factories: from_contrib_estimator
    contrib.predictor.contrib_estimator_predictor: ContribEstimatorPredictor
    """
)
