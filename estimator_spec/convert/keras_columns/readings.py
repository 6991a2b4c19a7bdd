# SPDX-License-Identifier: Apache-2.0
"""Two ways for written programs to read features: by TensorFlow's ops, or by NumPy.

The tables `CATEGORICAL` and `DENSE` name functions, which each reading defines.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from typing import Any

from estimator_spec.convert.keras_columns import (
    numpy_features,
    numpy_preprocessing,
    preprocessing,
)


@dataclasses.dataclass(frozen=True)
class Reading:
    """A way to read features.

    Attributes:
        name: what users call it.
        modules: define the functions that plans name, and what these use.
        imports: statement that programs need.
        array: type of what the functions return.
    """

    name: str
    modules: tuple[types.ModuleType, ...]
    imports: str
    array: str

    def definitions(self) -> dict[str, Any]:
        """Returns the functions and classes by name, in their order."""
        return {
            name: value
            for module in self.modules
            for name, value in vars(module).items()
            if inspect.isfunction(inspect.unwrap(value)) or inspect.isclass(value)
            if value.__module__ == module.__name__
        }


TENSORFLOW = Reading("tensorflow", (preprocessing,), "import tensorflow as tf", "tf.Tensor")
NUMPY = Reading("numpy", (numpy_features, numpy_preprocessing), "import numpy as np", "np.ndarray")
BY_NAME = {each.name: each for each in (TENSORFLOW, NUMPY)}
