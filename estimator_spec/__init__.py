# SPDX-License-Identifier: Apache-2.0
"""From an embedding specification to a running, saved and served model.

The names that programs written for `TPUEstimator` use, sorted by the room they live in.
"""

from __future__ import annotations

from estimator_spec.driver import (
    CheckpointError,
    Estimator,
    ExportSavedModelApiVersion,
    ModelDirError,
    TPUEstimator,
)
from estimator_spec.export_outputs import (
    ClassificationOutput,
    EvalOutput,
    ExportOutput,
    PredictOutput,
    RegressionOutput,
)
from estimator_spec.model_spec import EstimatorSpec, ModeKeys, TPUEstimatorSpec
from estimator_spec.optimizers import (
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
from estimator_spec.receivers import (
    ServingInputReceiver,
    SupervisedInputReceiver,
    TensorServingInputReceiver,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
    build_raw_supervised_input_receiver_fn,
)
from estimator_spec.run_config import InputPipelineConfig, TaskType, TPUConfig
from estimator_spec.run_config import TPURunConfig as RunConfig
from estimator_spec.spec import (
    EmbeddingConfigSpec,
    FeatureConfig,
    TableConfig,
    tables_and_features,
)
from estimator_spec.warm_start import VocabInfo, WarmStartSettings
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
    # driver
    "CheckpointError",
    "Estimator",
    "ExportSavedModelApiVersion",
    "ModelDirError",
    "TPUEstimator",
]
