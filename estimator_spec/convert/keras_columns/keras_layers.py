# SPDX-License-Identifier: Apache-2.0
"""The Keras layers that Keras and keras_rs don't have, made at their first use."""

from __future__ import annotations

import functools
from typing import Any

from estimator_spec.common.optional_packages import load_extra

EXTRA = "keras-rs"


@functools.cache
def bias_layer() -> Any:
    """Returns the class of a layer with a bias and nothing else."""
    keras = load_extra("keras", EXTRA)

    @keras.saving.register_keras_serializable("columns")
    class Bias(keras.layers.Layer):
        """Adds a bias: a linear model has one for all of its columns."""

        def build(self, input_shape: tuple[int | None, ...]) -> None:
            """Creates the bias."""
            self.bias = self.add_weight(shape=input_shape[-1:], initializer="zeros", name="bias")

        def call(self, inputs: Any) -> Any:
            """Returns the sum of inputs and bias."""
            return inputs + self.bias

    return Bias
