# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: `tf.estimator` and its modules, but for models and TPUs."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import parse_rows

ESTIMATOR = parse_rows(
    """
    [estimator_spec]
    estimator estimator_py.estimator_lib estimator_py.estimator:
      Estimator VocabInfo WarmStartSettings
    estimator_py.estimator: EstimatorV2=Estimator
    estimator estimator_py.estimator_lib estimator_py.model_fn: EstimatorSpec ModeKeys
    estimator_py.mode_keys: ModeKeys
    estimator.experimental estimator_py.estimator_lib estimator_py.model_fn: call_logit_fn
    estimator estimator_py.estimator_lib estimator_py.training:
      EvalSpec TrainSpec train_and_evaluate
    estimator estimator_py.estimator_lib estimator_py.exporter:
      Exporter FinalExporter LatestExporter
    estimator estimator_py.exporter: BestExporter
    estimator.inputs estimator_py.inputs.inputs: numpy_input_fn pandas_input_fn
    estimator_py.inputs.numpy_io: numpy_input_fn
    estimator_py.inputs.pandas_io: pandas_input_fn

    [estimator_spec.run_config]
    estimator estimator_py.estimator_lib estimator_py.run_config: RunConfig
    estimator_py.run_config: TaskType get_default_session_config path_to_str

    [estimator_spec.core.common.signatures]
    estimator_py.util: fn_args=argument_names

    [estimator_spec]
    estimator.export estimator_py.export.export estimator_py.export.export_lib:
      ServingInputReceiver TensorServingInputReceiver build_parsing_serving_input_receiver_fn
      build_raw_serving_input_receiver_fn
    estimator_py.export.export estimator_py.export.export_lib: SupervisedInputReceiver
    estimator.experimental estimator_py.export.export estimator_py.export.export_lib \
      contrib.estimator:
      build_raw_supervised_input_receiver_fn
    estimator.export estimator_py.export.export_output estimator_py.export.export_lib:
      ClassificationOutput EvalOutput ExportOutput PredictOutput RegressionOutput

    [tensorflow.compat.v1.train]
    estimator estimator_py.hooks.basic_session_run_hooks:
      CheckpointSaverHook CheckpointSaverListener FeedFnHook FinalOpsHook GlobalStepWaiterHook
      LoggingTensorHook NanLossDuringTrainingError NanTensorHook ProfilerHook SecondOrStepTimer
      StepCounterHook StopAtStepHook SummarySaverHook
    estimator estimator_py.hooks.session_run_hook:
      SessionRunArgs SessionRunContext SessionRunHook SessionRunValues

    [estimator_spec]
    estimator.experimental estimator_py.estimator_lib estimator_py.early_stopping contrib.estimator:
      make_early_stopping_hook stop_if_higher_hook stop_if_lower_hook stop_if_no_decrease_hook
      stop_if_no_increase_hook
    estimator.experimental estimator_py.hooks.hooks contrib.estimator:
      InMemoryEvaluatorHook make_stop_at_checkpoint_step_hook

    [estimator_spec.core.driver.early_stopping]
    estimator_py.early_stopping contrib.estimator: read_eval_metrics

    # Functions that make or extend estimators, and parsing specs.
    [estimator_spec]
    estimator estimator_py.estimator_lib estimator_py.extenders contrib.estimator \
      contrib.estimator.python.estimator.extenders:
      add_metrics
    contrib.estimator: call_logit_fn
    estimator estimator_py.estimator_lib estimator_py.canned.parsing_utils:
      classifier_parse_example_spec regressor_parse_example_spec
    estimator_py.canned.parsing_utils:
      classifier_parse_example_spec_v2=classifier_parse_example_spec
      regressor_parse_example_spec_v2=regressor_parse_example_spec
    # tf_keras' `tf.keras.estimator.model_to_estimator`, of both versions, calls this one.
    estimator_py.estimator_lib: model_to_estimator

    [estimator_spec.legacy.contrib.estimator]
    contrib.estimator contrib.estimator.python.estimator.extenders:
      clip_gradients_by_norm forward_features
    contrib.estimator contrib.estimator.python.estimator.export:
      export_all_saved_models export_saved_model_for_mode

    [estimator_spec.legacy.estimator_parts]
    estimator_py.keras_lib: model_to_estimator

    # Names with a leading underscore, and of modules that weren't documented, which programs use.
    [estimator_spec.legacy.estimator_parts]
    estimator_py.estimator_export: estimator_export
    estimator_py.estimator:
      _load_global_step_from_checkpoint_dir=load_global_step_from_checkpoint_dir
      _write_dict_to_summary=write_dict_to_summary
    estimator_py.model_fn: AVERAGE_LOSS_METRIC_KEY LOSS_METRIC_KEY
    estimator_py.util: MAX_DIRECTORY_CREATION_ATTEMPTS parse_input_fn_result parse_iterator_result
    estimator_py.util estimator_tpu_py.util: MultiHostDatasetInitializerHook
    estimator_py.export.export estimator_py.export.export_lib contrib.estimator:
      build_supervised_input_receiver_fn_from_input_fn
    estimator_py.exporter: _SavedModelExporter=SavedModelExporter
    estimator_tpu_py.tpu_estimator tpu_py.tpu_config:
      BatchConfig _WRAP_INPUT_FN_INTO_WHILE_LOOP=WRAP_INPUT_FN_INTO_WHILE_LOOP

    [estimator_spec.core.driver.evaluation]
    estimator_py.estimator:
      _dict_to_str=as_text _write_checkpoint_path_to_summary=write_checkpoint_path

    [estimator_spec.core.driver.model_calls]
    estimator_py.estimator: _verify_model_fn_args=check_arguments
    estimator_py.model_fn: verify_model_fn_args=check_arguments

    [estimator_spec.core.driver.hooks]
    estimator_py.estimator: _check_hooks_type=check_hooks _check_listeners_type=check_listeners
    estimator_py.util: _DatasetInitializerHook=IteratorInitializer

    [estimator_spec.core.driver.estimator_base]
    estimator_py.estimator:
      _assert_members_are_not_overridden=check_overridden_members
      maybe_overwrite_model_dir_and_session_config=resolve_config

    [estimator_spec.core.driver.checkpoint_state]
    estimator_py.estimator: _check_checkpoint_available=require_latest

    [estimator_spec.core.user_functions.warm_start]
    estimator_py.estimator: _get_default_warm_start_settings=default_warm_start_settings

    [estimator_spec]
    estimator_py.model_fn: _TPUEstimatorSpec=TPUEstimatorSpec

    [estimator_spec.legacy.export_gc]
    estimator_py.gc:
      Path _get_paths=get_paths _largest_export_versions=largest_export_versions
      _mod_export_version=mod_export_version _negation=negation
      _one_of_every_n_export_versions=one_of_every_n_export_versions _union=union

    [estimator_spec.core.export.receivers]
    estimator_py.export.export estimator_py.export.export_lib: UnsupervisedInputReceiver

    [estimator_spec.core.export.export_outputs]
    estimator_py.export.export_output estimator_py.export.export_lib: TrainOutput _SupervisedOutput
    estimator_py.export.export_lib: get_export_outputs

    [estimator_spec.core._tensorflow.private.model_utils]
    estimator_py.export.export estimator_py.export.export_lib:
      build_all_signature_defs get_temp_export_dir get_timestamped_export_dir
    estimator_py.export.export_lib: EXPORT_TAG_MAP SIGNATURE_KEY_MAP

    [estimator_spec.core.export.exporters]
    estimator_py.exporter: _loss_smaller
    estimator_py.exporter: _verify_compare_fn_args=_check_compare_fn

    [estimator_spec.legacy.training_parts]
    estimator_py.training: _TrainingExecutor=TrainingExecutor _assert_eval_spec=assert_eval_spec
    estimator_py.early_stopping:
      _CheckForStoppingHook=CheckForStoppingHook _StopOnPredicateHook=StopOnPredicateHook
    estimator_py.hooks.hooks: _StopAtCheckpointStepHook=StopAtCheckpointStepHook

    [estimator_spec.core.driver.checkpoint_evaluation]
    estimator_py.training:
      _ContinuousEvalListener=EvaluationObserver _EvalResult=EvaluationResult
      _EvalStatus=EvaluationStatus

    [estimator_spec.legacy.strategy_coordinator]
    tf_py.distribute.estimator_training:
      _get_global_id=get_global_id estimator_evaluate estimator_train init_run_config
      should_run_distribute_coordinator train_and_evaluate

    [estimator_spec.run_config.TaskType]
    tf_py.distribute.estimator_training: CHIEF EVALUATOR PS WORKER

    [estimator_spec.legacy.eager_profiler]
    tf_py.eager.profiler:
      Profiler ProfilerAlreadyRunningError ProfilerNotRunningError maybe_create_event_file save
      start start_profiler_server stop
    """
)
