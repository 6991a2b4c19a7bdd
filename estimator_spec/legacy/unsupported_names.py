# SPDX-License-Identifier: Apache-2.0
"""Defines advice on removed names that are not restored; their errors contain it."""

from __future__ import annotations

import functools
from typing import NamedTuple

from estimator_spec.legacy.module_spellings import spellings


class UnsupportedNames(NamedTuple):
    """Names that aren't restored.

    Attributes:
        places: the former modules, as in `module_spellings`, separated by spaces.
        names: the names, separated by spaces; `*` is every other name of these modules.
        advice: a sentence that says what to use instead.
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

UNSUPPORTED = (
    UnsupportedNames(
        "estimator estimator_py.estimator_lib",
        "BaselineClassifier BaselineEstimator BaselineRegressor BinaryClassHead DNNClassifier "
        "DNNEstimator DNNLinearCombinedClassifier DNNLinearCombinedEstimator "
        "DNNLinearCombinedRegressor DNNRegressor Head KMeansClustering LinearClassifier "
        "LinearEstimator LinearRegressor LogisticRegressionHead MultiClassHead MultiHead "
        "MultiLabelHead PoissonRegressionHead RegressionHead RNNClassifier RNNEstimator "
        "dnn_logit_fn_builder linear_logit_fn_builder",
        _OWN_MODEL_FN,
    ),
    UnsupportedNames(
        "estimator.experimental",
        "KMeans LinearSDCA RNNClassifier RNNEstimator dnn_logit_fn_builder linear_logit_fn_builder",
        _OWN_MODEL_FN,
    ),
    UnsupportedNames("estimator_py.canned estimator_py.head", "*", _OWN_MODEL_FN),
    UnsupportedNames(
        "estimator estimator_py.estimator_lib estimator_py.extenders contrib.estimator",
        "add_metrics",
        "Return the metrics in the model_fn's EstimatorSpec(eval_metric_ops=...).",
    ),
    UnsupportedNames(
        "estimator estimator_py.estimator_lib",
        "classifier_parse_example_spec regressor_parse_example_spec",
        "Use tf.feature_column.make_parse_example_spec, and add the label's feature to it.",
    ),
    UnsupportedNames(
        "estimator_py.estimator_lib estimator_py.keras_lib", "model_to_estimator", _KERAS
    ),
    UnsupportedNames(
        "contrib.estimator",
        "export_all_saved_models export_saved_model_for_mode",
        "Use Estimator.experimental_export_all_saved_models or Estimator.export_saved_model.",
    ),
    UnsupportedNames("contrib.estimator", "*", _OWN_MODEL_FN),
    UnsupportedNames(
        "tpu_py.tpu_embedding",
        "EnqueueData RaggedEnqueueData TPUEmbedding TPUEmbeddingConfiguration VariablesAndOps",
        _MID_LEVEL,
    ),
    UnsupportedNames(
        "contrib.tpu", "InfeedQueue infeed_dequeue infeed_enqueue outfeed_enqueue", _SYSTEM
    ),
    UnsupportedNames(
        "contrib.tpu",
        "AsyncCheckpointSaverHook TPUInMemoryEvalHook",
        "Leave the hook out: checkpoints are saved by RunConfig(save_checkpoints_steps=...).",
    ),
    UnsupportedNames(
        "contrib.tpu",
        "TPUDistributionStrategy keras_to_tpu_model",
        "Use tf.distribute.TPUStrategy, under which Keras models train.",
    ),
    UnsupportedNames(
        "contrib.tpu estimator_tpu_py.tpu_estimator",
        "export_estimator_savedmodel",
        "Use TPUEstimator.export_saved_model.",
    ),
    UnsupportedNames(
        "tpu_py",
        "async_checkpoint session_support tpu_embedding_gradient",
        "It went with the Estimator of TensorFlow 2.15. Leave it out.",
    ),
    UnsupportedNames("contrib.slim", "*", _TF_SLIM.format("slim")),
    UnsupportedNames(
        "contrib.layers",
        "*",
        _TF_SLIM.format("layers") + " tf.compat.v1.layers has the common ones.",
    ),
    UnsupportedNames("contrib.framework", "*", _TF_SLIM.format("framework")),
    UnsupportedNames(
        "contrib.training",
        "*",
        "Train with estimator_spec.Estimator; see also tf.compat.v1.train.",
    ),
    UnsupportedNames("contrib.data", "*", "Look for it in tf.data and tf.data.experimental."),
    UnsupportedNames("contrib.lookup", "*", "Look for it in tf.lookup and tf.lookup.experimental."),
    UnsupportedNames("contrib.metrics", "*", "Look for it in tf.compat.v1.metrics."),
    UnsupportedNames(
        "contrib.rnn", "*", "Look for it in tf.compat.v1.nn.rnn_cell and tf.keras.layers."
    ),
    UnsupportedNames("contrib.distribute", "*", "Look for it in tf.distribute."),
    UnsupportedNames("contrib.distributions", "*", "Install tensorflow_probability."),
    UnsupportedNames("contrib.image", "*", "Look for it in tf.image and tf.raw_ops."),
    UnsupportedNames("contrib.learn", "*", "Train with estimator_spec.train_and_evaluate."),
    UnsupportedNames("contrib.predictor", "*", "Use tf.saved_model.load(path).signatures."),
    UnsupportedNames("contrib.opt contrib.crf contrib.seq2seq", "*", _ADDONS),
    UnsupportedNames("contrib", "*", "tensorflow.contrib ended with TensorFlow 1.15."),
)


@functools.cache
def _table() -> dict[str, str]:
    """Returns advice by full name, `module.*` for the rest of a module; the first entry wins."""
    found: dict[str, str] = {}
    for entry in UNSUPPORTED:
        for place in entry.places.split():
            for module in spellings(place):
                for name in entry.names.split():
                    found.setdefault(f"{module}.{name}", entry.advice)
    return found


def is_listed(module: str, name: str) -> bool:
    """Returns whether there is advice on exactly this name."""
    return f"{module}.{name}" in _table()


def advice(module: str, name: str) -> str:
    """Returns advice on a removed name that isn't restored.

    >>> advice('tensorflow.contrib', 'slim')
    'Install tf_slim, which has what tensorflow.contrib.slim had, and import tf_slim.'

    Args:
        module: the module's full name, in any spelling.
        name: the name in it.

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
