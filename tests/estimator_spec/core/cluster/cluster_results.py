# SPDX-License-Identifier: Apache-2.0
"""Reads what the programs of a cluster printed and saved."""

from __future__ import annotations

import re

import tensorflow as tf


def losses(output):
    """Returns the printed losses by step."""
    return {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss (\S+)", output)}


def variables(model_dir):
    """Returns the values of all variables in the latest checkpoint."""
    reader = tf.train.load_checkpoint(str(model_dir))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
