# SPDX-License-Identifier: Apache-2.0
"""Uses parts of TensorFlow 1's contrib and examples; what it returns is recorded and compared.

It runs on Python 3.7 and TensorFlow 1.15 (`make_tf1_15_contrib_parts.py`), and on ours.
"""

import gzip
import os

import numpy as np


def write_digits(directory, examples=(7, 4)):
    """Writes the four files of the digits, with images of 2 x 3 pixels."""
    for name, count in zip(("train", "t10k"), examples):  # noqa: B905 - not in Python 3.7
        pixels = np.arange(count * 6, dtype=np.uint8).tobytes()
        labels = (np.arange(count) % 10).astype(np.uint8).tobytes()
        for kind, header, content in (
            ("images-idx3", [2051, count, 2, 3], pixels),
            ("labels-idx1", [2049, count], labels),
        ):
            path = os.path.join(directory, "%s-%s-ubyte.gz" % (name, kind))  # noqa: UP031
            with gzip.open(path, "wb") as file:
                file.write(np.array(header, ">u4").tobytes() + content)


def digits(input_data, directory):
    """Returns batches of the digits."""
    write_digits(directory)
    found = []
    for options in ({"seed": 3}, {"seed": 4, "one_hot": True, "reshape": False, "dtype": np.uint8}):
        parts = input_data.read_data_sets(directory, validation_size=2, **options)
        for part in (parts.train, parts.validation, parts.test):
            for size in (2, 2, 2):
                images, labels = part.next_batch(size)
                found.append([images.tolist(), labels.tolist(), part.epochs_completed])
    return found


TEXTS = ["HTTPServer don't stop the re-start", "the the cat", "a cat the dog dog", "unseen"]


def words(preprocessing):
    """Returns rows of words, and of bytes."""
    found = []
    for frequency in (0, 1):
        processor = preprocessing.VocabularyProcessor(4, min_frequency=frequency)
        rows = list(processor.fit_transform(TEXTS[:3]))
        rows += list(processor.transform(TEXTS))
        found.append([[row.tolist() for row in rows], list(processor.reverse(rows))])
    # The file that TensorFlow 1.15 had these two in has no name of its own.
    vocabulary = type(processor.vocabulary_)(support_reverse=False)
    for word, count in (("b", 3), ("a", 3), ("c", 9), ("d", 1)):
        vocabulary.add(word, count)
    vocabulary.trim(1, 9)
    found.append([vocabulary.get(word) for word in "abcde"])
    rows = list(preprocessing.ByteProcessor(4).transform(["abcdef", "é", b"xy"]))
    found.append([row.tolist() for row in rows])
    found.append(list(preprocessing.ByteProcessor(4).reverse(np.array(rows))))
    return found


def cells(rnn, tf):
    """Returns outputs, states, gradients and names of variables of cells, by their options."""
    made = {
        "block": lambda: rnn.LSTMBlockCell(3),
        "block, peephole": lambda: rnn.LSTMBlockCell(
            3, forget_bias=0.5, cell_clip=0.2, use_peephole=True
        ),
        "layer norm": lambda: rnn.LayerNormBasicLSTMCell(
            3, forget_bias=0.5, norm_gain=0.8, norm_shift=0.1
        ),
        "no layer norm": lambda: rnn.LayerNormBasicLSTMCell(
            3, layer_norm=False, activation=tf.nn.relu
        ),
    }
    inputs = np.sin(np.arange(24)).reshape(2, 4, 3).astype(np.float32)
    found = {}
    for name, make in made.items():
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            outputs, state = tf.compat.v1.nn.dynamic_rnn(make(), inputs, dtype=tf.float32)
            variables = tf.compat.v1.trainable_variables()
            gradients = tf.gradients(outputs, variables)
            for number, each in enumerate(variables):
                size = int(np.prod(each.shape.as_list()))
                value = np.cos(np.arange(size) + number).reshape(each.shape.as_list())
                each.load(value.astype(np.float32), session)
            values = session.run([outputs, *state, *gradients])
            found[name] = [
                [each.op.name for each in variables],
                [np.asarray(each).tolist() for each in values],
            ]
    return found
