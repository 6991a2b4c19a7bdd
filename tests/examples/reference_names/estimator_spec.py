# SPDX-License-Identifier: Apache-2.0
"""Maps the names of `estimator_spec` that examples use to TensorFlow 2.15.1's own.

With this directory on the path, an example is the reference's without a change. Nothing of ours is
imported in such a process.
"""

from tensorflow.estimator import (
    DNNClassifier,
    DNNLinearCombinedClassifier,
    LinearClassifier,
    RunConfig,
)
from tensorflow.estimator.export import build_parsing_serving_input_receiver_fn

__all__ = [
    "DNNClassifier",
    "DNNLinearCombinedClassifier",
    "LinearClassifier",
    "RunConfig",
    "build_parsing_serving_input_receiver_fn",
]
