# SPDX-License-Identifier: Apache-2.0
"""Trains, evaluates, saves and serves TensorFlow models with sharded embedding tables.

The package has the names that programs written for `TPUEstimator` use. Its parts:

    core/            trains, evaluates, predicts and exports; needs no other part
    heads/           losses, metrics and predictions of models, from logits
    canned/          canned estimators, and estimators of Keras 2 models
    experimental.py  the names of `tf.estimator.experimental`
    export.py        the names of `tf.estimator.export`
    run_config.py    configurations of runs
    tpu.py           functions of `tf.compat.v1.tpu` that run without a TPU, too
    legacy/          old programs: `run`, `install()`, `doctor`, `migrate`, `tf.contrib`
    checkpoints/     inspects, verifies, compares and converts checkpoints
    saved_models/    reads SavedModels without a program: columns, layers, head
    planning/        memory, shards and lookup devices of tables: `plan`
    compare/         compares two programs, or two checkpoints, number by number
    convert/         moves specs, tables and models to today's systems; `to-keras`
    mid_level/       the mid-level API of TensorFlow 2 on any machine
    __main__.py      command line
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from estimator_spec.core.common import quiet_start
from estimator_spec.core.cores import engines
from tpu_columns import __version__ as __version__  # public here, too
from tpu_columns import lazy_names

importlib.import_module("tpu_columns")  # which filters TensorFlow's log
engines.of_a_tpu = "estimator_spec.convert.tpu_engine.MidLevelEngine"
# Before `absl.app.run`, which makes TensorFlow look for devices.
quiet_start.list_devices()

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.canned import (
        BaselineClassifier as BaselineClassifier,
        BaselineEstimator as BaselineEstimator,
        BaselineRegressor as BaselineRegressor,
        BoostedTreesClassifier as BoostedTreesClassifier,
        BoostedTreesEstimator as BoostedTreesEstimator,
        BoostedTreesRegressor as BoostedTreesRegressor,
        DNNClassifier as DNNClassifier,
        DNNEstimator as DNNEstimator,
        DNNLinearCombinedClassifier as DNNLinearCombinedClassifier,
        DNNLinearCombinedEstimator as DNNLinearCombinedEstimator,
        DNNLinearCombinedRegressor as DNNLinearCombinedRegressor,
        DNNRegressor as DNNRegressor,
        LinearClassifier as LinearClassifier,
        LinearEstimator as LinearEstimator,
        LinearRegressor as LinearRegressor,
    )
    from estimator_spec.core.common.legacy_keras import select_legacy_keras as select_legacy_keras
    from estimator_spec.core.checkpoints.errors import CheckpointError as CheckpointError
    from estimator_spec.core.driver.errors import ModelDirError as ModelDirError
    from estimator_spec.core.driver.estimator import Estimator as Estimator
    from estimator_spec.core.driver.in_memory_evaluation import (
        InMemoryEvaluatorHook as InMemoryEvaluatorHook,
    )
    from estimator_spec.core.driver.tpu_estimator import (
        ExportSavedModelApiVersion as ExportSavedModelApiVersion,
        TPUEstimator as TPUEstimator,
    )
    from estimator_spec.core.driver.early_stopping import (
        make_early_stopping_hook as make_early_stopping_hook,
        make_stop_at_checkpoint_step_hook as make_stop_at_checkpoint_step_hook,
        stop_if_higher_hook as stop_if_higher_hook,
        stop_if_lower_hook as stop_if_lower_hook,
        stop_if_no_decrease_hook as stop_if_no_decrease_hook,
        stop_if_no_increase_hook as stop_if_no_increase_hook,
    )
    from estimator_spec.core.driver.extenders import add_metrics as add_metrics
    from estimator_spec.core.driver.train_and_evaluate import (
        train_and_evaluate as train_and_evaluate,
    )
    from estimator_spec.core.driver.train_spec import EvalSpec as EvalSpec, TrainSpec as TrainSpec
    from estimator_spec.core.embedding.optimizers import (
        AdagradMomentumParameters as AdagradMomentumParameters,
        AdagradParameters as AdagradParameters,
        AdamParameters as AdamParameters,
        FrequencyEstimatorParameters as FrequencyEstimatorParameters,
        FtrlParameters as FtrlParameters,
        MomentumParameters as MomentumParameters,
        OptimizationParameters as OptimizationParameters,
        ProximalAdagradParameters as ProximalAdagradParameters,
        ProximalYogiParameters as ProximalYogiParameters,
        RMSPropParameters as RMSPropParameters,
        StochasticGradientDescentParameters as StochasticGradientDescentParameters,
    )
    from estimator_spec.core.embedding.spec import (
        EmbeddingConfigSpec as EmbeddingConfigSpec,
        FeatureConfig as FeatureConfig,
        TableConfig as TableConfig,
        tables_and_features as tables_and_features,
    )
    from estimator_spec.core.export.export_outputs import (
        ClassificationOutput as ClassificationOutput,
        EvalOutput as EvalOutput,
        ExportOutput as ExportOutput,
        PredictOutput as PredictOutput,
        RegressionOutput as RegressionOutput,
    )
    from estimator_spec.core.export.exporters import (
        BestExporter as BestExporter,
        Exporter as Exporter,
        FinalExporter as FinalExporter,
        LatestExporter as LatestExporter,
    )
    from estimator_spec.core.export.receivers import (
        ServingInputReceiver as ServingInputReceiver,
        SupervisedInputReceiver as SupervisedInputReceiver,
        TensorServingInputReceiver as TensorServingInputReceiver,
        build_parsing_serving_input_receiver_fn as build_parsing_serving_input_receiver_fn,
        build_raw_serving_input_receiver_fn as build_raw_serving_input_receiver_fn,
        build_raw_supervised_input_receiver_fn as build_raw_supervised_input_receiver_fn,
    )
    from estimator_spec.canned.keras_models import model_to_estimator as model_to_estimator
    from estimator_spec.legacy import (
        install as install,
        restored as restored,
        uninstall as uninstall,
    )
    from estimator_spec.planning import plan as plan
    from estimator_spec.core.run_config import (
        InputPipelineConfig as InputPipelineConfig,
        TaskType as TaskType,
        TPUConfig as TPUConfig,
    )
    from estimator_spec.core.run_config.tpu_run_config import RunConfig as RunConfig
    from estimator_spec.core.user_functions.arrays import (
        numpy_input_fn as numpy_input_fn,
        pandas_input_fn as pandas_input_fn,
    )
    from estimator_spec.core.user_functions.example_specs import (
        classifier_parse_example_spec as classifier_parse_example_spec,
        regressor_parse_example_spec as regressor_parse_example_spec,
    )
    from estimator_spec.core.user_functions.logit_fn import call_logit_fn as call_logit_fn
    from estimator_spec.core.user_functions.model_spec import (
        EstimatorSpec as EstimatorSpec,
        ModeKeys as ModeKeys,
        TPUEstimatorSpec as TPUEstimatorSpec,
    )
    from estimator_spec.core.user_functions.warm_start import (
        VocabInfo as VocabInfo,
        WarmStartSettings as WarmStartSettings,
    )
    from tpu_columns import (
        Hardware as Hardware,
        LookupDevice as LookupDevice,
        Mode as Mode,
        embedding_column as embedding_column,
        input_layer as input_layer,
        route as route,
        sequence_input_layer as sequence_input_layer,
        shared_embedding_columns as shared_embedding_columns,
        split_sequence_columns as split_sequence_columns,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(
        __name__,
        # Those that programs import names of.
        *("canned", "checkpoints", "compare", "convert", "experimental", "export", "heads"),
        *("mid_level", "planning", "run_config", "saved_models", "tpu"),
    )
