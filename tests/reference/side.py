# SPDX-License-Identifier: Apache-2.0
"""Imports TensorFlow's own estimator or ours for the programs.

The environment variable SIDE is `reference` or `ours`. Everything below these imports is the same
program on both sides. Runs on Python 3.7 too, for TensorFlow 1.15.5.
"""

from __future__ import annotations

import os

import tensorflow as tf

tf1 = tf.compat.v1

SIDE = os.environ["SIDE"]

if SIDE == "reference":
    estimator = tf1.estimator
    tpu = tf1.estimator.tpu
    EmbeddingConfigSpec = tf1.estimator.tpu.experimental.EmbeddingConfigSpec
    ServingInputReceiver = tf1.estimator.export.ServingInputReceiver
    tpu_columns = tf1.tpu.experimental
    AdagradParameters = tf1.tpu.experimental.AdagradParameters
elif SIDE == "ours":
    import estimator_spec
    import tpu_columns as tpu_columns

    estimator = estimator_spec
    tpu = estimator_spec
    EmbeddingConfigSpec = estimator_spec.EmbeddingConfigSpec
    ServingInputReceiver = estimator_spec.ServingInputReceiver
    AdagradParameters = estimator_spec.AdagradParameters
else:
    raise ValueError(f"SIDE must be 'reference' or 'ours', got {SIDE!r}.")
