# SPDX-License-Identifier: Apache-2.0
"""Table of restored names: `tf.estimator` and its modules, without those for TPUs."""

from __future__ import annotations

from estimator_spec.legacy.name_rows import Group

ESTIMATOR = (
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
        "estimator_spec.run_config",
        "RunConfig",
    ),
    Group(
        "estimator_py.run_config",
        "estimator_spec.run_config",
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

EXPORT = (
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

HOOKS = (
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

# Names with a leading underscore, and of modules that weren't documented, which programs use.
PRIVATE = (
    Group(
        "estimator_py.estimator",
        "estimator_spec.legacy.estimator_parts",
        "_dict_to_str=dict_to_str "
        "_load_global_step_from_checkpoint_dir=load_global_step_from_checkpoint_dir "
        "_verify_model_fn_args=verify_model_fn_args "
        "_write_checkpoint_path_to_summary=write_checkpoint_path_to_summary "
        "_write_dict_to_summary=write_dict_to_summary",
    ),
    Group(
        "estimator_py.estimator",
        "estimator_spec.driver.hooks",
        "_check_hooks_type=check_hooks _check_listeners_type=check_listeners",
    ),
    Group(
        "estimator_py.estimator",
        "estimator_spec.driver.estimator",
        "_assert_members_are_not_overridden=check_overridden_members "
        "maybe_overwrite_model_dir_and_session_config=resolve_config",
    ),
    Group(
        "estimator_py.estimator",
        "estimator_spec.driver.checkpoint_state",
        "_check_checkpoint_available=require_latest",
    ),
    Group(
        "estimator_py.estimator",
        "estimator_spec.model.warm_start",
        "_get_default_warm_start_settings=default_warm_start_settings",
    ),
    Group(
        "estimator_py.model_fn",
        "estimator_spec.legacy.estimator_parts",
        "AVERAGE_LOSS_METRIC_KEY LOSS_METRIC_KEY verify_model_fn_args",
    ),
    Group("estimator_py.model_fn", "estimator_spec", "_TPUEstimatorSpec=TPUEstimatorSpec"),
    Group(
        "estimator_py.util",
        "estimator_spec.legacy.estimator_parts",
        "MAX_DIRECTORY_CREATION_ATTEMPTS parse_input_fn_result parse_iterator_result",
    ),
    Group(
        "estimator_py.util estimator_tpu_py.util",
        "estimator_spec.legacy.estimator_parts",
        "MultiHostDatasetInitializerHook",
    ),
    Group(
        "estimator_py.util",
        "estimator_spec.driver.hooks",
        "_DatasetInitializerHook=IteratorInitializer",
    ),
    Group(
        "estimator_py.gc",
        "estimator_spec.legacy.export_gc",
        "Path _get_paths=get_paths _largest_export_versions=largest_export_versions "
        "_mod_export_version=mod_export_version _negation=negation "
        "_one_of_every_n_export_versions=one_of_every_n_export_versions _union=union",
    ),
    Group(
        "estimator_py.export.export estimator_py.export.export_lib",
        "estimator_spec.model.receivers",
        "UnsupervisedInputReceiver",
    ),
    Group(
        "estimator_py.export.export estimator_py.export.export_lib contrib.estimator",
        "estimator_spec.legacy.estimator_parts",
        "build_supervised_input_receiver_fn_from_input_fn",
    ),
    Group(
        "estimator_py.export.export_output estimator_py.export.export_lib",
        "estimator_spec.model.export_outputs",
        "TrainOutput _SupervisedOutput",
    ),
    Group(
        "estimator_py.export.export estimator_py.export.export_lib",
        "estimator_spec._tensorflow.private.model_utils",
        "build_all_signature_defs get_temp_export_dir get_timestamped_export_dir",
    ),
    Group(
        "estimator_py.export.export_lib",
        "estimator_spec._tensorflow.private.model_utils",
        "EXPORT_TAG_MAP SIGNATURE_KEY_MAP",
    ),
    Group(
        "estimator_py.export.export_lib",
        "estimator_spec.model.export_outputs",
        "get_export_outputs",
    ),
    Group(
        "estimator_py.exporter",
        "estimator_spec.legacy.estimator_parts",
        "_SavedModelExporter=SavedModelExporter",
    ),
    Group("estimator_py.exporter", "estimator_spec.evaluation.exporters", "_loss_smaller"),
    Group(
        "estimator_py.exporter",
        "estimator_spec.evaluation.exporters",
        "_verify_compare_fn_args=_check_compare_fn",
    ),
    Group(
        "estimator_py.training",
        "estimator_spec.legacy.training_parts",
        "_TrainingExecutor=TrainingExecutor _assert_eval_spec=assert_eval_spec",
    ),
    Group(
        "estimator_py.training",
        "estimator_spec.driver.checkpoint_evaluation",
        "_ContinuousEvalListener=EvaluationObserver _EvalResult=EvaluationResult "
        "_EvalStatus=EvaluationStatus",
    ),
    Group(
        "estimator_py.early_stopping",
        "estimator_spec.legacy.training_parts",
        "_CheckForStoppingHook=CheckForStoppingHook _StopOnPredicateHook=StopOnPredicateHook",
    ),
    Group(
        "estimator_py.hooks.hooks",
        "estimator_spec.legacy.training_parts",
        "_StopAtCheckpointStepHook=StopAtCheckpointStepHook",
    ),
    Group(
        "estimator_tpu_py.tpu_estimator tpu_py.tpu_config",
        "estimator_spec.legacy.estimator_parts",
        "BatchConfig _WRAP_INPUT_FN_INTO_WHILE_LOOP=WRAP_INPUT_FN_INTO_WHILE_LOOP",
    ),
)
