# SPDX-License-Identifier: Apache-2.0
"""Records what TensorFlow 1.15 gives for `contrib_parts`, in tf1_15_contrib_parts.json.

PYTHON_OF_TENSORFLOW_1_15 tests/data/make_tf1_15_contrib_parts.py
"""

import base64
import json
import os
import tempfile

import tensorflow as tf
from tensorflow.contrib.learn.python.learn import preprocessing
from tensorflow.examples.tutorials.mnist import input_data

import contrib_parts

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    """Writes the file."""
    tf.compat.v1.enable_eager_execution()
    found = {
        "losses": contrib_parts.losses(tf.contrib.seq2seq, tf),
        "decoding": contrib_parts.decoding(tf.contrib.seq2seq, tf.contrib.rnn, tf),
        "words": contrib_parts.words(preprocessing),
        "cells": contrib_parts.cells(tf.contrib.rnn, tf),
    }
    with tempfile.TemporaryDirectory() as directory:
        found["eager"] = contrib_parts.eager(tf.contrib.eager, tf, directory)
        found["digits"] = contrib_parts.digits(input_data, directory)
        path = os.path.join(directory, "vocabulary")
        processor = preprocessing.VocabularyProcessor(4, min_frequency=1)
        processor.fit(contrib_parts.TEXTS[:3])
        processor.save(path)
        with open(path, "rb") as file:
            found["saved"] = base64.b64encode(file.read()).decode()
    with open(os.path.join(HERE, "tf1_15_contrib_parts.json"), "w") as file:
        json.dump(found, file)
        file.write("\n")


if __name__ == "__main__":
    main()
