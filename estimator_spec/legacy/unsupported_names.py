# SPDX-License-Identifier: Apache-2.0
"""Removed names that are not put back, and what to use instead.

A program that reaches one of them gets an error with the advice, not a bare "no attribute".
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from estimator_spec.legacy.module_spellings import spellings


class Missing(NamedTuple):
    """Names that aren't put back.

    Attributes:
        places: where they were, see `places`; separated by spaces.
        names: separated by spaces; `*` is every name of those modules that the table hasn't.
        advice: what to use instead: a sentence.
    """

    places: str
    names: str
    advice: str


_OWN_MODEL_FN = (
    "Canned estimators and heads aren't part of estimator_spec. Write the layers and the loss in a "
    "model_fn for estimator_spec.Estimator, or build the model in Keras."
)
_KERAS = "Use tf.keras.Model.fit, or call the model in a model_fn for estimator_spec.Estimator."
_TF_SLIM = "Install tf_slim, which has what tensorflow.contrib.{0} had, and import tf_slim."
_ADDONS = "Copy the function from TensorFlow 1.15's sources; TensorFlow Addons had some of them."
_MID_LEVEL = "Use tf.tpu.experimental.embedding.TPUEmbedding, the API that came after it."
_SYSTEM = "It drives a TPU system, which estimator_spec leaves to TensorFlow. Leave it out."

MISSING = (
    Missing(
        "estimator estimator_py.estimator_lib",
        "BaselineClassifier BaselineEstimator BaselineRegressor BinaryClassHead DNNClassifier "
        "DNNEstimator DNNLinearCombinedClassifier DNNLinearCombinedEstimator "
        "DNNLinearCombinedRegressor DNNRegressor Head KMeansClustering LinearClassifier "
        "LinearEstimator LinearRegressor LogisticRegressionHead MultiClassHead MultiHead "
        "MultiLabelHead PoissonRegressionHead RegressionHead RNNClassifier RNNEstimator "
        "dnn_logit_fn_builder linear_logit_fn_builder",
        _OWN_MODEL_FN,
    ),
    Missing(
        "estimator.experimental",
        "KMeans LinearSDCA RNNClassifier RNNEstimator dnn_logit_fn_builder linear_logit_fn_builder",
        _OWN_MODEL_FN,
    ),
    Missing("estimator_py.canned estimator_py.head", "*", _OWN_MODEL_FN),
    Missing(
        "estimator estimator_py.estimator_lib estimator_py.extenders contrib.estimator",
        "add_metrics",
        "Return the metrics in the model_fn's EstimatorSpec(eval_metric_ops=...).",
    ),
    Missing(
        "estimator estimator_py.estimator_lib",
        "classifier_parse_example_spec regressor_parse_example_spec",
        "Use tf.feature_column.make_parse_example_spec, and add the label's feature to it.",
    ),
    Missing("estimator_py.estimator_lib estimator_py.keras_lib", "model_to_estimator", _KERAS),
    Missing(
        "contrib.estimator",
        "export_all_saved_models export_saved_model_for_mode",
        "Use Estimator.experimental_export_all_saved_models or Estimator.export_saved_model.",
    ),
    Missing("contrib.estimator", "*", _OWN_MODEL_FN),
    Missing(
        "tpu_py.tpu_embedding",
        "EnqueueData RaggedEnqueueData TPUEmbedding TPUEmbeddingConfiguration VariablesAndOps",
        _MID_LEVEL,
    ),
    Missing("contrib.tpu", "InfeedQueue infeed_dequeue infeed_enqueue outfeed_enqueue", _SYSTEM),
    Missing(
        "contrib.tpu",
        "AsyncCheckpointSaverHook TPUInMemoryEvalHook",
        "Leave the hook out: checkpoints are saved by RunConfig(save_checkpoints_steps=...).",
    ),
    Missing(
        "contrib.tpu",
        "TPUDistributionStrategy keras_to_tpu_model",
        "Use tf.distribute.TPUStrategy, under which Keras models train.",
    ),
    Missing(
        "contrib.tpu estimator_tpu_py.tpu_estimator",
        "export_estimator_savedmodel",
        "Use TPUEstimator.export_saved_model.",
    ),
    Missing(
        "tpu_py",
        "async_checkpoint session_support tpu_embedding_gradient",
        "It went with the Estimator of TensorFlow 2.15. Leave it out.",
    ),
    Missing("contrib.slim", "*", _TF_SLIM.format("slim")),
    Missing(
        "contrib.layers",
        "*",
        _TF_SLIM.format("layers") + " tf.compat.v1.layers has the common ones.",
    ),
    Missing("contrib.framework", "*", _TF_SLIM.format("framework")),
    Missing(
        "contrib.training",
        "*",
        "Train with estimator_spec.Estimator; see also tf.compat.v1.train.",
    ),
    Missing("contrib.data", "*", "Look for it in tf.data and tf.data.experimental."),
    Missing("contrib.lookup", "*", "Look for it in tf.lookup and tf.lookup.experimental."),
    Missing("contrib.metrics", "*", "Look for it in tf.compat.v1.metrics."),
    Missing("contrib.rnn", "*", "Look for it in tf.compat.v1.nn.rnn_cell and tf.keras.layers."),
    Missing("contrib.distribute", "*", "Look for it in tf.distribute."),
    Missing("contrib.distributions", "*", "Install tensorflow_probability."),
    Missing("contrib.image", "*", "Look for it in tf.image and tf.raw_ops."),
    Missing("contrib.learn", "*", "Train with estimator_spec.train_and_evaluate."),
    Missing("contrib.predictor", "*", "Use tf.saved_model.load(path).signatures."),
    Missing("contrib.opt contrib.crf contrib.seq2seq", "*", _ADDONS),
    Missing("contrib", "*", "tensorflow.contrib ended with TensorFlow 1.15."),
)


@functools.cache
def _table() -> dict[str, str]:
    """Advice by full name, `module.*` for the rest of a module. The first one counts."""
    found: dict[str, str] = {}
    for missing in MISSING:
        for place in missing.places.split():
            for module in spellings(place):
                for name in missing.names.split():
                    found.setdefault(f"{module}.{name}", missing.advice)
    return found


def is_listed(module: str, name: str) -> bool:
    """Whether there is advice about exactly this name."""
    return f"{module}.{name}" in _table()


def advice(module: str, name: str) -> str:
    """What to use in place of a removed name that isn't put back.

    >>> advice('tensorflow.contrib', 'slim')
    'Install tf_slim, which has what tensorflow.contrib.slim had, and import tf_slim.'

    Args:
        module: the full name of the module that has been asked, whatever its spelling.
        name: what it has been asked for.

    Returns:
        A sentence or two, for an error message.
    """
    full = f"{module}.{name}"
    if full in _table():
        return _table()[full]
    while full:
        if f"{full}.*" in _table():
            return _table()[f"{full}.*"]
        full = full.rpartition(".")[0]
    return "docs/legacy_names.md lists the names that are put back."
