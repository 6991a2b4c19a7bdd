# SPDX-License-Identifier: Apache-2.0
"""The names of `tf.estimator.export`."""

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.core.export.export_outputs import (
        ClassificationOutput as ClassificationOutput,
        EvalOutput as EvalOutput,
        ExportOutput as ExportOutput,
        PredictOutput as PredictOutput,
        RegressionOutput as RegressionOutput,
    )
    from estimator_spec.core.export.receivers import (
        ServingInputReceiver as ServingInputReceiver,
        SupervisedInputReceiver as SupervisedInputReceiver,
        TensorServingInputReceiver as TensorServingInputReceiver,
        build_parsing_serving_input_receiver_fn as build_parsing_serving_input_receiver_fn,
        build_raw_serving_input_receiver_fn as build_raw_serving_input_receiver_fn,
        build_raw_supervised_input_receiver_fn as build_raw_supervised_input_receiver_fn,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
