# SPDX-License-Identifier: Apache-2.0
"""Maps the names of `estimator_spec` to TensorFlow 2.15.1's own TPUEstimator.

With this directory on the path, a program is the reference's without a change. Nothing of ours is
imported in such a process.
"""

import types

from tensorflow.compat.v1 import estimator
from tensorflow.compat.v1.estimator import ModeKeys
from tensorflow.compat.v1.estimator.export import ServingInputReceiver
from tensorflow.compat.v1.estimator.tpu import (
    RunConfig,
    TPUConfig,
    TPUEstimator,
    TPUEstimatorSpec,
)
from tensorflow.compat.v1.estimator.tpu.experimental import EmbeddingConfigSpec
from tensorflow.compat.v1.tpu.experimental import (
    AdagradParameters,
    AdamParameters,
    StochasticGradientDescentParameters,
)

canned = types.SimpleNamespace(v1=estimator)
DIVIDES = True  # log_step_count_steps is divided by iterations_per_loop

__all__ = [
    "AdagradParameters",
    "AdamParameters",
    "DIVIDES",
    "canned",
    "EmbeddingConfigSpec",
    "ModeKeys",
    "RunConfig",
    "ServingInputReceiver",
    "StochasticGradientDescentParameters",
    "TPUConfig",
    "TPUEstimator",
    "TPUEstimatorSpec",
]
