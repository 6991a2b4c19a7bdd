# SPDX-License-Identifier: Apache-2.0
"""Makes an `Estimator` of a compiled Keras model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from estimator_spec.canned.keras_models import checkpoints
from estimator_spec.canned.keras_models.model_fn import KerasModelFn
from estimator_spec.core._tensorflow import keras_models
from estimator_spec.core.common import legacy_keras
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.estimator_base import resolve_config
from estimator_spec.core.run_config import RunConfig

_FORMATS = ("checkpoint", "saver")


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: str | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    model_dir: Any = None,
    config: RunConfig | None = None,
    checkpoint_format: str = "checkpoint",
    metric_names_map: Mapping[str, str] | None = None,
    export_outputs: Mapping[str, Any] | None = None,
) -> Estimator:
    """Makes an `Estimator` that trains, evaluates, predicts with and exports a Keras model.

    The model is built anew in the graph of each mode, and starts with the weights that it has at
    this call; `keras_model` itself isn't trained. The names of variables, metrics and predictions
    are those of `tf.keras.estimator.model_to_estimator` in TensorFlow 2.15.

    The model must be one of Keras 2: of `tf_keras`, or of `tf.keras` with the environment variable
    TF_USE_LEGACY_KERAS=1 from TensorFlow 2.16 on. Its weights aren't kept if it is subclassed.

    Args:
        keras_model: a compiled model: functional, sequential, or subclassed.
        keras_model_path: path of a compiled model that was saved by `model.save`; instead of
            `keras_model`.
        custom_objects: classes and functions of the model by their names, needed to copy or to load
            it.
        model_dir: as for `Estimator`.
        config: as for `Estimator`.
        checkpoint_format: 'checkpoint', that of `tf.train.Checkpoint` (functional and sequential
            models only), or 'saver', that of `tf.compat.v1.train.Saver` with variables by name.
        metric_names_map: new names of all metrics of the model, by their names in it.
        export_outputs: classes of `ExportOutput`, by the names of the model's outputs. Each adds a
            signature of that name to the default one, which has all predictions.

    Returns:
        The estimator. Its `input_fn` returns one tensor or tensors by the names of the model's
        inputs, and labels likewise. Weights of examples are passed by features of the form
        `{'features': ..., 'sample_weights': ...}`.

    Raises:
        ValueError: not exactly one model is given, it isn't compiled or not of Keras 2, or the
            format is unknown.
    """
    if checkpoint_format not in _FORMATS:
        raise ValueError(
            f'checkpoint_format: Checkpoint format must be one of "checkpoint" or "saver". Got '
            f"{checkpoint_format!r}."
        )
    model = _load(keras_model, keras_model_path, custom_objects)
    package = _check_keras_2(model)
    if not getattr(model, "optimizer", None):
        raise ValueError(
            "The given keras model has not been compiled yet. Please compile the model with "
            "`model.compile()` before calling `model_to_estimator()`."
        )
    if checkpoint_format == "checkpoint" and keras_models.is_subclassed(model):
        raise ValueError(
            "Object-based checkpoints are currently not supported with subclassed models, such as "
            f"{model.name!r}. Set checkpoint_format='saver'."
        )
    config = resolve_config(config, model_dir)
    as_objects = checkpoint_format == "checkpoint"
    model_fn = KerasModelFn(
        package,
        model,
        custom_objects=custom_objects,
        object_checkpoints=as_objects,
        metric_names=metric_names_map,
        export_outputs=export_outputs,
    )
    start = checkpoints.write_initial(
        package, model, custom_objects, str(config.model_dir), as_objects
    )
    return Estimator(model_fn, config=config, warm_start_from=start)


def _load(model: Any, path: Any, custom_objects: Mapping[str, Any] | None) -> Any:
    """Returns the given model, or the one in a file.

    Raises:
        ValueError: not exactly one of both is given, or the path is remote.
    """
    if (model is None) == (path is None):
        given = "both" if path is not None else "neither"
        raise ValueError(
            "Either `keras_model` or `keras_model_path` needs to be provided, but not both; got "
            f"{given}."
        )
    if path is None:
        return model
    path = os.fspath(path)
    if path.startswith("gs://"):
        raise ValueError(
            f"keras_model_path {path!r} is a remote path, which Keras can't load. Copy the file "
            "and give the copy's path."
        )
    return legacy_keras.keras_2().models.load_model(path, custom_objects=custom_objects)


def _check_keras_2(model: Any) -> Any:
    """Returns the Keras package of a model.

    Raises:
        ValueError: it is a model of Keras 3 or of TensorFlow's private copy, or no Keras model.
    """
    package = keras_models.package_of(model)
    name = type(model).__name__
    if keras_models.is_of_private_keras(model):
        raise ValueError(
            f"The model {model.name!r} is of tensorflow.python.keras, a private copy of an old "
            "Keras for TensorFlow's own code. Import Keras as tf.keras: replace `from "
            "tensorflow.python.keras` by `from tensorflow.keras` (or `tf_keras`) in the program."
        )
    if package is None:
        raise ValueError(f"keras_model must be a compiled Keras model, got {model!r}, a {name}.")
    if int(package.__version__.partition(".")[0]) > 2:
        raise ValueError(
            f"The model {model.name!r} is of Keras {package.__version__}, which builds no TF1 "
            "graphs, so no Estimator can train it. Make it with tf_keras: set the environment "
            "variable TF_USE_LEGACY_KERAS=1 before TensorFlow is imported (`estimator_spec run` "
            "does), or train it by its own `fit`."
        )
    return package
