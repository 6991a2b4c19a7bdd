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


def losses(seq2seq, tf):
    """Returns losses of sequences, and a batch whose examples are repeated."""
    found = []
    logits = np.sin(np.arange(24)).reshape(2, 3, 4).astype(np.float32)
    targets = np.array([[1, 0, 3], [2, 2, 0]], np.int32)
    weights = np.array([[1, 0.5, 0], [1, 0, 0]], np.float32)
    options = [
        {},
        {"average_across_timesteps": False},
        {"average_across_batch": False},
        {"average_across_batch": False, "average_across_timesteps": False},
        {"softmax_loss_function": tf.nn.sparse_softmax_cross_entropy_with_logits},
    ]
    for timesteps in (False, True):
        averaged = {"average_across_batch": False, "average_across_timesteps": not timesteps}
        options.append(dict(averaged, sum_over_batch=True, sum_over_timesteps=timesteps))
    options.append(
        {
            "average_across_batch": False,
            "average_across_timesteps": False,
            "sum_over_timesteps": True,
        }
    )
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tensors = [tf.constant(each) for each in (logits, targets, weights)]
        made = [seq2seq.sequence_loss(*tensors, **each) for each in options]
        made += seq2seq.tile_batch((tf.constant(targets), tf.constant([1.5, 2.5])), 3)
        found = session.run(made)
    return [np.asarray(each).tolist() for each in found]


def decoding(seq2seq, rnn, tf):
    """Returns outputs, states, lengths, gradients and names of variables of decoders."""
    v1 = tf.compat.v1
    inputs = np.cos(np.arange(36)).reshape(3, 4, 3).astype(np.float32)

    def training():
        return seq2seq.TrainingHelper(tf.constant(inputs), [4, 0, 2])

    def by_time():
        # The same numbers are four sequences of three steps.
        return seq2seq.TrainingHelper(tf.constant(inputs), [3, 0, 2, 1], time_major=True)

    def greedy():
        table = tf.constant(np.sin(3 * np.arange(15)).reshape(5, 3).astype(np.float32))
        return seq2seq.GreedyEmbeddingHelper(table, [1, 2, 0], 3)

    def by_function():
        return seq2seq.GreedyEmbeddingHelper(lambda ids: tf.one_hot(ids, 3), [1, 2, 0], 3)

    cases = {
        "training": (training, {}),
        "training, zeros after the end": (training, {"impute_finished": True}),
        "by time": (by_time, {"output_time_major": True, "maximum_iterations": 2}),
        "greedy": (greedy, {"maximum_iterations": 6}),
        "greedy by a function": (by_function, {"maximum_iterations": 5, "impute_finished": True}),
    }
    found = {}
    for name, (make, options) in cases.items():
        for layer in (None, 5):
            with tf.Graph().as_default(), v1.Session() as session:
                cell = rnn.BasicLSTMCell(4)
                state = cell.zero_state(4 if make is by_time else 3, tf.float32)
                layers = [v1.layers.Dense(layer)] if layer else []
                decoder = seq2seq.BasicDecoder(cell, make(), state, *layers)
                outputs, state, lengths = seq2seq.dynamic_decode(decoder, **options)
                variables = v1.trainable_variables()
                gradients = tf.gradients(outputs.rnn_output, variables)
                for number, each in enumerate(variables):
                    size = int(np.prod(each.shape.as_list()))
                    value = np.cos(np.arange(size) + number).reshape(each.shape.as_list())
                    each.load(value.astype(np.float32), session)
                values = session.run([*outputs, *state, lengths, *gradients])
                found["%s, %s" % (name, layer)] = [  # noqa: UP031
                    [each.op.name for each in variables],
                    outputs.rnn_output.shape.as_list(),
                    [np.asarray(each).tolist() for each in values],
                ]
    return found


def eager(tfe, tf, directory):
    """Returns what parts of contrib's eager execution compute."""
    found = []
    weight = tfe.Variable([2.0, -1.0], name="weight")

    def loss(scale):
        return tf.reduce_sum(weight * weight) * scale

    def numbers(values):
        return [tf.convert_to_tensor(each).numpy().tolist() for each in values]

    ((gradient, variable),) = tfe.implicit_gradients(loss)(tf.constant(3.0))
    found.append(numbers([gradient, variable]))
    value, ((gradient, _),) = tfe.implicit_value_and_gradients(loss)(tf.constant(3.0))
    found.append(numbers([value, gradient]))
    found.append(numbers(tfe.gradients_function(lambda x, y: x * x * y)(3.0, 2.0)))
    found.append(numbers(tfe.gradients_function(lambda x, y: x * x * y, params=[1])(3.0, 2.0)))
    value, gradients = tfe.value_and_gradients_function(lambda x: x * x)(tf.constant(3.0))
    found.append(numbers([value, *gradients]))
    found.append(numbers([tfe.defun(loss)(tf.constant(2.0))]))
    found.append(numbers([tfe.py_func(lambda x: x + 1, [tf.constant(1.0)], tf.float32)]))
    dataset = tf.data.Dataset.range(4).batch(3)
    found.append(numbers(tfe.Iterator(dataset)) + numbers([tfe.Iterator(dataset).next()]))
    with tfe.execution_mode(tfe.SYNC):
        found.append([tfe.executing_eagerly(), tfe.num_gpus() * 0])
    store = tfe.EagerVariableStore()
    for _ in range(2):
        with store.as_default():
            tf.compat.v1.get_variable("stored", initializer=4.0)
    found.append([each.name for each in store.variables()])
    optimizer = tf.compat.v1.train.MomentumOptimizer(0.5, 0.5)
    optimizer.apply_gradients([(gradient, weight)])
    found.append(numbers([weight, *tfe.get_optimizer_variables(optimizer)]))
    saver = tfe.Saver([weight])
    path = saver.save(os.path.join(directory, "saved"), global_step=7)
    weight.assign([0.0, 0.0])
    saver.restore(path)
    found.append([os.path.basename(path), *numbers([weight])])
    holder = tfe.Checkpointable()
    holder.weight = weight
    path = tfe.Checkpoint(held=holder).save(os.path.join(directory, "tracked"))
    found.append(sorted(name for name, _ in tf.train.list_variables(path) if "weight" in name))

    one_hot = np.eye(3, dtype=np.float32)
    for metric, *batches in (
        (tfe.metrics.Mean("mean"), [[1.0, 3.0]], [[5.0, 7.0], [0.5, 0.0]]),
        (tfe.metrics.Accuracy(), [[1, 2], [1, 0]], [[3, 3], [3, 1], [2.0, 1.0]]),
        (tfe.metrics.BinaryAccuracy(0.3), [[1, 0], [0.4, 0.4]], [[0, 0], [0.1, 0.9], [1.0, 3.0]]),
        (tfe.metrics.CategoricalAccuracy(), [one_hot, one_hot[[0, 2, 2]]]),
        (tfe.metrics.SparseAccuracy(), [[0], one_hot[:1]], [[2], one_hot[:1], [2.0]]),
    ):
        for batch in batches:
            metric(*(tf.constant(each) for each in batch))
        found.append([metric.name, metric.result().dtype.name, *numbers([metric.result()])])
        metric.init_variables()
        metric(*(tf.constant(each) for each in batches[0]))
        found.append(numbers([metric.result()]))
    return found
