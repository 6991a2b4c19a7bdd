# SPDX-License-Identifier: Apache-2.0
"""Trains, evaluates, saves and serves TensorFlow models with sharded embedding tables.

The package has the names that programs written for `TPUEstimator` use.
"""

from __future__ import annotations

from estimator_spec.driver import (
    CheckpointError,
    Estimator,
    ExportSavedModelApiVersion,
    InMemoryEvaluatorHook,
    ModelDirError,
    TPUEstimator,
)
from estimator_spec.driver.early_stopping import (
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from estimator_spec.driver.train_and_evaluate import train_and_evaluate
from estimator_spec.embedding.optimizers import (
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
from estimator_spec.embedding.spec import (
    EmbeddingConfigSpec,
    FeatureConfig,
    TableConfig,
    tables_and_features,
)
from estimator_spec.evaluation.exporters import (
    BestExporter,
    Exporter,
    FinalExporter,
    LatestExporter,
)
from estimator_spec.evaluation.train_spec import EvalSpec, TrainSpec
from estimator_spec.input_fns.arrays import numpy_input_fn, pandas_input_fn
from estimator_spec.legacy import install, uninstall
from estimator_spec.model.export_outputs import (
    ClassificationOutput,
    EvalOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)
from estimator_spec.model.logit_fn import call_logit_fn
from estimator_spec.model.model_spec import EstimatorSpec, ModeKeys, TPUEstimatorSpec
from estimator_spec.model.receivers import (
    ServingInputReceiver,
    SupervisedInputReceiver,
    TensorServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
    build_raw_supervised_input_receiver_fn,
)
from estimator_spec.model.warm_start import VocabInfo, WarmStartSettings
from estimator_spec.run_config import InputPipelineConfig, TaskType, TPUConfig
from estimator_spec.run_config import TPURunConfig as RunConfig
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
    # logit_fn
    "call_logit_fn",
    # legacy
    "install",
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
