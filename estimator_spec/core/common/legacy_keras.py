# SPDX-License-Identifier: Apache-2.0
"""Selects tf_keras, the Keras for TF1 graphs, before the first use of `tf.keras`.

From TensorFlow 2.16 on `tf.keras` is Keras 3, which can't build TF1 graphs. tf_keras can;
TensorFlow uses it if TF_USE_LEGACY_KERAS is set at the first use of `tf.keras`.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private

_LOCK = threading.Lock()
VARIABLE = "TF_USE_LEGACY_KERAS"


def _release() -> tuple[int, int]:
    major, minor = tf.__version__.split(".")[:2]
    return int(major), int(minor)


def select_legacy_keras() -> bool:
    """Makes `tf.keras` and `tf.compat.v1.layers` use tf_keras, if neither was used yet.

    Does nothing if the variable is set (to any value), `tf.keras` was used already, tf_keras isn't
    installed, or TensorFlow is older than 2.16, whose Keras is the legacy one.

    Returns:
        Whether this call selected tf_keras.
    """
    with _LOCK:
        if VARIABLE in os.environ or _release() < (2, 16) or private.keras_is_loaded():
            return False
        if importlib.util.find_spec("tf_keras") is None:
            return False
        os.environ[VARIABLE] = "1"
        private.prefer_keras_package("tf_keras")
        return True


def keras_2() -> Any:
    """Returns Keras 2, whose metrics keep the update ops of a graph: `tf.keras`, or else tf_keras.

    Raises:
        ImportError: `tf.keras` is Keras 3, and tf_keras isn't installed.
    """
    select_legacy_keras()
    # The Keras of TensorFlow 2.15 doesn't say its version.
    if _release() < (2, 16) or getattr(tf.keras, "__version__", "").startswith("2."):
        return tf.keras
    try:
        import tf_keras
    except ImportError as error:
        raise ImportError(f"This needs Keras 2, and tf.keras is Keras 3. {cure()}") from error
    return tf_keras


def cure() -> str:
    """Returns the advice for a program that needs Keras 2 where `tf.keras` is Keras 3."""
    if importlib.util.find_spec("tf_keras") is None:
        release = ".".join(map(str, _release()))
        return (
            "Install the tf_keras of TensorFlow's minor version: "
            f"pip install 'tf_keras=={release}.*'."
        )
    return f"Set the environment variable {VARIABLE}=1 before the program starts."


def reset_layer_names() -> None:
    """Restarts the numbering of layer names in a graph; they must be equal in all replicas."""
    for package in ("tf_keras", "keras"):
        private.restart_layer_names(package)
