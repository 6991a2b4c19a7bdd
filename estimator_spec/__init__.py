# SPDX-License-Identifier: Apache-2.0
"""Trains, evaluates, saves and serves TensorFlow models with sharded embedding tables.

The package has the names that programs written for `TPUEstimator` use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from estimator_spec.core.common import quiet_start
from tpu_columns import __version__ as __version__  # public here, too
from tpu_columns import lazy_names

if TYPE_CHECKING:
    from estimator_spec.canned import (
        BaselineClassifier,
        BaselineEstimator,
        BaselineRegressor,
        BoostedTreesClassifier,
        BoostedTreesEstimator,
        BoostedTreesRegressor,
        DNNClassifier,
        DNNEstimator,
        DNNLinearCombinedClassifier,
        DNNLinearCombinedEstimator,
        DNNLinearCombinedRegressor,
        DNNRegressor,
        LinearClassifier,
        LinearEstimator,
        LinearRegressor,
    )
    from estimator_spec.canned.keras_models import model_to_estimator
    from estimator_spec.core.common.legacy_keras import select_legacy_keras
    from estimator_spec.core.driver import (
        CheckpointError,
        Estimator,
        ExportSavedModelApiVersion,
        InMemoryEvaluatorHook,
        ModelDirError,
        TPUEstimator,
    )
    from estimator_spec.core.driver.early_stopping import (
        make_early_stopping_hook,
        make_stop_at_checkpoint_step_hook,
        stop_if_higher_hook,
        stop_if_lower_hook,
        stop_if_no_decrease_hook,
        stop_if_no_increase_hook,
    )
    from estimator_spec.core.driver.extenders import add_metrics
    from estimator_spec.core.driver.train_and_evaluate import train_and_evaluate
    from estimator_spec.core.driver.train_spec import EvalSpec, TrainSpec
    from estimator_spec.core.embedding.optimizers import (
        AdagradMomentumParameters,
        AdagradParameters,
        AdamParameters,
        FrequencyEstimatorParameters,
        FtrlParameters,
        MomentumParameters,
        OptimizationParameters,
        ProximalAdagradParameters,
        ProximalYogiParameters,
        RMSPropParameters,
        StochasticGradientDescentParameters,
    )
    from estimator_spec.core.embedding.spec import (
        EmbeddingConfigSpec,
        FeatureConfig,
        TableConfig,
        tables_and_features,
    )
    from estimator_spec.core.export.export_outputs import (
        ClassificationOutput,
        EvalOutput,
        ExportOutput,
        PredictOutput,
        RegressionOutput,
    )
    from estimator_spec.core.export.exporters import (
        BestExporter,
        Exporter,
        FinalExporter,
        LatestExporter,
    )
    from estimator_spec.core.export.receivers import (
        ServingInputReceiver,
        SupervisedInputReceiver,
        TensorServingInputReceiver,
        build_parsing_serving_input_receiver_fn,
        build_raw_serving_input_receiver_fn,
        build_raw_supervised_input_receiver_fn,
    )
    from estimator_spec.core.run_config import InputPipelineConfig, TaskType, TPUConfig
    from estimator_spec.core.run_config import TPURunConfig as RunConfig
    from estimator_spec.core.user_functions.arrays import numpy_input_fn, pandas_input_fn
    from estimator_spec.core.user_functions.example_specs import (
        classifier_parse_example_spec,
        regressor_parse_example_spec,
    )
    from estimator_spec.core.user_functions.logit_fn import call_logit_fn
    from estimator_spec.core.user_functions.model_spec import (
        EstimatorSpec,
        ModeKeys,
        TPUEstimatorSpec,
    )
    from estimator_spec.core.user_functions.warm_start import VocabInfo, WarmStartSettings
    from estimator_spec.legacy import install, restored, uninstall
    from estimator_spec.planning import plan
    from tpu_columns import (
        Hardware,
        LookupDevice,
        Mode,
        embedding_column,
        input_layer,
        route,
        sequence_input_layer,
        shared_embedding_columns,
        split_sequence_columns,
    )

__all__ = [
    # tpu_columns
    "Hardware",
    "LookupDevice",
    "Mode",
    "embedding_column",
    "input_layer",
    "route",
    "sequence_input_layer",
    "shared_embedding_columns",
    "split_sequence_columns",
    # optimizers
    "AdagradMomentumParameters",
    "AdagradParameters",
    "AdamParameters",
    "FrequencyEstimatorParameters",
    "FtrlParameters",
    "MomentumParameters",
    "OptimizationParameters",
    "ProximalAdagradParameters",
    "ProximalYogiParameters",
    "RMSPropParameters",
    "StochasticGradientDescentParameters",
    # spec
    "EmbeddingConfigSpec",
    "FeatureConfig",
    "TableConfig",
    "tables_and_features",
    # run_config
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TaskType",
    # model_spec
    "EstimatorSpec",
    "ModeKeys",
    "TPUEstimatorSpec",
    # warm_start
    "VocabInfo",
    "WarmStartSettings",
    # export_outputs
    "ClassificationOutput",
    "EvalOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
    # receivers
    "ServingInputReceiver",
    "SupervisedInputReceiver",
    "TensorServingInputReceiver",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
    "build_raw_supervised_input_receiver_fn",
    # train_spec
    "EvalSpec",
    "TrainSpec",
    # exporters
    "BestExporter",
    "Exporter",
    "FinalExporter",
    "LatestExporter",
    # inputs
    "numpy_input_fn",
    "pandas_input_fn",
    # early_stopping
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
    # canned
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "BoostedTreesClassifier",
    "BoostedTreesEstimator",
    "BoostedTreesRegressor",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    # logit_fn
    "call_logit_fn",
    # example_specs
    "classifier_parse_example_spec",
    "regressor_parse_example_spec",
    # keras_models
    "model_to_estimator",
    # extenders
    "add_metrics",
    # planning
    "plan",
    # legacy
    "install",
    "restored",
    "select_legacy_keras",
    "uninstall",
    # driver
    "CheckpointError",
    "Estimator",
    "ExportSavedModelApiVersion",
    "InMemoryEvaluatorHook",
    "ModelDirError",
    "TPUEstimator",
    "train_and_evaluate",
]

# The module that defines each name, `name=its name there` if they differ. Names are imported at
# their first use: tools on the command line start without TensorFlow.
_HOMES = {
    "estimator_spec.canned": (
        "BaselineClassifier BaselineEstimator BaselineRegressor BoostedTreesClassifier "
        "BoostedTreesEstimator BoostedTreesRegressor DNNClassifier DNNEstimator "
        "DNNLinearCombinedClassifier DNNLinearCombinedEstimator DNNLinearCombinedRegressor "
        "DNNRegressor LinearClassifier LinearEstimator LinearRegressor"
    ),
    "estimator_spec.core.common.legacy_keras": "select_legacy_keras",
    "estimator_spec.core.driver": (
        "CheckpointError Estimator ExportSavedModelApiVersion InMemoryEvaluatorHook "
        "ModelDirError TPUEstimator"
    ),
    "estimator_spec.core.driver.early_stopping": (
        "make_early_stopping_hook make_stop_at_checkpoint_step_hook stop_if_higher_hook "
        "stop_if_lower_hook stop_if_no_decrease_hook stop_if_no_increase_hook"
    ),
    "estimator_spec.core.driver.extenders": "add_metrics",
    "estimator_spec.core.driver.train_and_evaluate": "train_and_evaluate",
    "estimator_spec.core.driver.train_spec": "EvalSpec TrainSpec",
    "estimator_spec.core.embedding.optimizers": (
        "AdagradMomentumParameters AdagradParameters AdamParameters "
        "FrequencyEstimatorParameters FtrlParameters MomentumParameters "
        "OptimizationParameters ProximalAdagradParameters ProximalYogiParameters "
        "RMSPropParameters StochasticGradientDescentParameters"
    ),
    "estimator_spec.core.embedding.spec": (
        "EmbeddingConfigSpec FeatureConfig TableConfig tables_and_features"
    ),
    "estimator_spec.core.export.export_outputs": (
        "ClassificationOutput EvalOutput ExportOutput PredictOutput RegressionOutput"
    ),
    "estimator_spec.core.export.exporters": "BestExporter Exporter FinalExporter LatestExporter",
    "estimator_spec.core.export.receivers": (
        "ServingInputReceiver SupervisedInputReceiver TensorServingInputReceiver "
        "build_parsing_serving_input_receiver_fn build_raw_serving_input_receiver_fn "
        "build_raw_supervised_input_receiver_fn"
    ),
    "estimator_spec.canned.keras_models": "model_to_estimator",
    "estimator_spec.legacy": "install restored uninstall",
    "estimator_spec.planning": "plan",
    "estimator_spec.run_config": "InputPipelineConfig TaskType TPUConfig RunConfig=TPURunConfig",
    "estimator_spec.core.user_functions.arrays": "numpy_input_fn pandas_input_fn",
    "estimator_spec.core.user_functions.example_specs": (
        "classifier_parse_example_spec regressor_parse_example_spec"
    ),
    "estimator_spec.core.user_functions.logit_fn": "call_logit_fn",
    "estimator_spec.core.user_functions.model_spec": "EstimatorSpec ModeKeys TPUEstimatorSpec",
    "estimator_spec.core.user_functions.warm_start": "VocabInfo WarmStartSettings",
    "tpu_columns": (
        "Hardware LookupDevice Mode embedding_column input_layer route sequence_input_layer "
        "shared_embedding_columns split_sequence_columns"
    ),
}

importlib.import_module("tpu_columns")  # which filters TensorFlow's log
# Before `absl.app.run`, which makes TensorFlow look for devices.
quiet_start.list_devices()

# Those that programs import names of.
_MODULES = (
    *("canned", "checkpoints", "compare", "convert", "experimental", "export", "heads"),
    *("mid_level", "planning", "run_config", "tpu"),
)

if not TYPE_CHECKING:  # with it, type checkers would accept any name
    __getattr__ = lazy_names.make_getattr(__name__, _HOMES)
    __dir__ = lazy_names.make_dir(__name__, *__all__, *_MODULES)
