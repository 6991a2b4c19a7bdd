# SPDX-License-Identifier: Apache-2.0
"""Converts a legacy checkpoint to a Keras 3 model, in a process of its own.

`legacy_to_keras.py PROGRAM CHECKPOINT OUT.npz`, with SIDE=ours and tests/reference on the path.
PROGRAM is `tf1_columns` or `sequences`; OUT gets the logits of its test rows, and the losses of
the training that goes on from the checkpoint.
"""

from __future__ import annotations

import importlib
import os
import sys

import keras
import numpy as np
import tensorflow as tf
from programs import common

import estimator_spec
from estimator_spec.convert import features_for, to_distributed_embedding

STEPS = 60


def masked_mean(sequence, lengths):
    """Averages over steps, as the legacy model does: `[B, L, D]` and `[B]` to `[B, D]`."""
    steps = keras.ops.arange(sequence.shape[1], dtype=lengths.dtype)
    mask = keras.ops.cast(steps[None, :] < lengths[:, None], "float32")
    total = keras.ops.sum(sequence * mask[:, :, None], axis=1)
    return total / keras.ops.maximum(keras.ops.cast(lengths, "float32"), 1.0)[:, None]


class Legacy(keras.Model):
    """Legacy program's model in Keras: embeddings, layers, one logit.

    Args:
        layer: the converted embeddings.
        order: features in the order in which the legacy layers join them.
        hidden: units of a layer before the head, or None.
    """

    def __init__(self, layer, order, hidden):
        super().__init__()
        self.embedding = layer
        self.order = order
        self.hidden = keras.layers.Dense(hidden, "relu", name="hidden") if hidden else None
        self.head = keras.layers.Dense(1, name="head")

    def call(self, inputs):
        ids, weights, lengths = inputs
        found = self.embedding(ids, weights)
        for key in found:
            if f"{key}_seq_length_" in lengths:
                found[key] = masked_mean(found[key], lengths[f"{key}_seq_length_"])
        joined = keras.ops.concatenate([found[key] for key in self.order], axis=1)
        return self.head(joined if self.hidden is None else self.hidden(joined))


def load_dense(model, optimizer, reader):
    """Loads the weights of the other layers, and their Adagrad slots, by their legacy names."""
    for layer in (model.hidden, model.head):
        for variable in layer.weights if layer else ():
            name = f"{layer.name}/{variable.name}"
            variable.assign(reader.get_tensor(name))
            if reader.has_tensor(f"{name}/Adagrad"):
                index = optimizer._get_variable_index(variable)
                optimizer._accumulators[index].assign(reader.get_tensor(f"{name}/Adagrad"))


def main(program, checkpoint, out):
    """Converts the checkpoint, predicts, and continues training."""
    program = importlib.import_module(f"programs.{program}")
    if program.__name__.endswith("sequences"):
        columns = program.columns(common.write_vocabulary(os.path.dirname(out), common.PLACES))
        order, hidden = ["place", "step", "word", "left", "right"], None
    else:
        columns, (order, hidden) = (
            program.columns(),
            (["colour", "tag", "word", "left", "right"], 5),
        )
    plain, shared = columns
    # Learning rate and optimizer of the legacy model_fn.
    spec = estimator_spec.EmbeddingConfigSpec(plain + shared, estimator_spec.AdagradParameters(0.2))
    layer = to_distributed_embedding(spec, checkpoint, optimizers="core")
    model = Legacy(layer, order, hidden)
    params = {"batch_size": common.BATCH_SIZE}

    def inputs(dataset):
        return dataset.map(lambda features, labels: (tuple(features_for(layer, features)), labels))

    test = inputs(program.test_input_fn(params))
    model(next(iter(test))[0])
    dense = keras.optimizers.Adagrad(0.2, initial_accumulator_value=0.1, epsilon=0.0)
    optimizer = layer.conversion.optimizer(dense)
    optimizer.build(model.trainable_variables)
    layer.conversion.load_slots(layer)
    load_dense(model, dense, tf.train.load_checkpoint(checkpoint))

    @tf.function(reduce_retracing=True)
    def train(batch, labels):
        with tf.GradientTape() as tape:
            loss = common.cross_entropy(model(batch), labels)
        variables = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
        return loss

    def logits():
        return np.concatenate([model(batch).numpy() for batch, _ in test])

    before = logits()
    batches = inputs(program.train_input_fn(params)).take(STEPS)
    losses = [float(train(batch, labels)) for batch, labels in batches]
    np.savez(out, logits=before, losses=losses, logits_after=logits())


if __name__ == "__main__":
    main(*sys.argv[1:])
