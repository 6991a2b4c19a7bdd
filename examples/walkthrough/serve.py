# SPDX-License-Identifier: Apache-2.0
"""Loads SavedModels of the click model with TensorFlow alone, and compares their answers.

python serve.py EXAMPLES.tfrecord SAVED_MODEL...
"""

import sys

import numpy as np
import tensorflow as tf


def main():
    """Sends the first hundred examples of a file to each model."""
    file, *directories = sys.argv[1:]
    examples = tf.constant(list(tf.data.TFRecordDataset(file).take(100).as_numpy_iterator()))
    answers = []
    for directory in directories:
        model = tf.saved_model.load(directory)
        answer = model.signatures["serving_default"](examples=examples)["probability"]
        answers.append(answer.numpy()[:, 0])
        print(directory, *(f"{probability:.6f}" for probability in answers[-1][:4]), "...")
    if len(answers) > 1:
        print(f"largest difference {np.max(np.ptp(answers, axis=0)):.1e}")
    loaded = {"estimator_spec", "tpu_columns", "keras_rs"} & set(sys.modules)
    if loaded:
        sys.exit(f"imported {sorted(loaded)}")


if __name__ == "__main__":
    main()
