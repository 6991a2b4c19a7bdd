# SPDX-License-Identifier: Apache-2.0
"""Two ways for written programs to read features: by TensorFlow's ops, or by NumPy.

The tables `CATEGORICAL` and `DENSE` name functions, which each reading defines.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
import types
from collections.abc import Iterable, Iterator
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
        classes: modules of `keras_classes` for programs of Keras; later ones replace definitions.
    """

    name: str
    modules: tuple[types.ModuleType, ...]
    imports: str
    array: str
    classes: tuple[str, ...]

    def definitions(self) -> dict[str, Any]:
        """Returns the functions and classes by name, in their order."""
        return _definitions(self.modules)

    def keras_classes(self) -> dict[str, Any]:
        """Returns the functions and classes of Keras by name, in their order."""
        return _definitions(importlib.import_module(f"{_CLASSES}.{name}") for name in self.classes)

    def names(self) -> Iterator[str]:
        """Yields the names of all functions and classes, for which Keras needn't be there."""
        yield from self.definitions()
        for name in self.classes:
            yield from _names_in(name)


@functools.cache
def _names_in(module: str) -> tuple[str, ...]:
    """Returns the names of the classes and functions of a module of `keras_classes`."""
    body = ast.parse(pkgutil.get_data(_CLASSES, f"{module}.py") or b"").body
    return tuple(node.name for node in body if isinstance(node, (ast.ClassDef, ast.FunctionDef)))


def _definitions(modules: Iterable[types.ModuleType]) -> dict[str, Any]:
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(inspect.unwrap(value)) or inspect.isclass(value)
        if value.__module__ == module.__name__
    }


_CLASSES = "estimator_spec.convert.keras_columns.keras_classes"
TENSORFLOW = Reading(
    "tensorflow",
    (preprocessing,),
    "import tensorflow as tf",
    "tf.Tensor",
    ("row_gradients", "optimizers", "layers"),
)
NUMPY = Reading(
    "numpy",
    (numpy_features, numpy_preprocessing),
    "import numpy as np",
    "np.ndarray",
    ("row_gradients", "optimizers", "whole_gradients", "layers"),
)
BY_NAME = {each.name: each for each in (TENSORFLOW, NUMPY)}
