# SPDX-License-Identifier: Apache-2.0
"""Imports optional packages on first use."""

from __future__ import annotations

import importlib
from typing import Any

import tensorflow as tf


def load_extra(module: str, extra: str = "keras-rs") -> Any:
    """Imports an optional package.

    Args:
        module: name of the package.
        extra: the extra of this project that installs it.

    Raises:
        ImportError: the package isn't installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise ImportError(
            f"{module} isn't installed: pip install 'tpu-columns[{extra}]'", name=module
        ) from None


def check_keras() -> None:
    """Checks that Keras 3 and keras_rs are there.

    Raises:
        ImportError: one of them isn't.
    """
    version = load_extra("keras").__version__
    if int(version.partition(".")[0]) < 3:
        raise ImportError(
            f"Keras 3 is needed, and this is Keras {version}, beside TensorFlow {tf.__version__}. "
            "Use an environment with TensorFlow 2.20 or later, Python 3.11 or later and "
            f"'tpu-columns[keras-rs]'; it reads the checkpoints of this one."
        )
    load_extra("keras_rs")
