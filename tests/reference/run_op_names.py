# SPDX-License-Identifier: Apache-2.0
"""Records the names of the ops that canned models of TensorFlow 1 build on one side.

    SIDE=reference python run_op_names.py OUT dnn_binary linear_classes

Programs name ops in hooks, such as `dnn/head/truediv` in a LoggingTensorHook. The record of a
model, OUT/<model>.npz, has the names in each mode, without those of constants, assertions,
gradients and of what variables are initialized from.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile

import numpy as np
import tensorflow as tf
from programs import canned_models

tf1 = tf.compat.v1

LEFT_OUT = re.compile(r"gradients|assert_|/Assert|/Initializer|/initial_value|/Read/|IsInitialized")
LEFT_OUT_TYPES = ("Const", "NoOp", "Placeholder", "VarHandleOp", "AssignVariableOp")


def names(model, mode):
    """Returns the names of the ops that the model_fn makes in a mode."""
    with tempfile.TemporaryDirectory() as directory, tf.Graph().as_default() as graph:
        estimator = canned_models.make_estimator(model, 1, directory, 10)
        tf1.train.create_global_step()
        data = canned_models.input_fn(model, 1, training=True)()
        features, labels = tf1.data.make_initializable_iterator(data).get_next()
        before = len(graph.get_operations())
        estimator.model_fn(features, None if mode == "infer" else labels, mode, estimator.config)
        return sorted(
            op.name
            for op in graph.get_operations()[before:]
            if op.type not in LEFT_OUT_TYPES and not LEFT_OUT.search(op.name)
        )


def main():
    """Records all models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    tf1.logging.set_verbosity("ERROR")
    for model in args.models:
        os.makedirs(os.path.join(args.out, model))
        record = {mode: np.array(names(model, mode)) for mode in ("train", "eval", "infer")}
        np.savez(os.path.join(args.out, f"{model}.npz"), **record)


if __name__ == "__main__":
    main()
