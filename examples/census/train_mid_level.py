# SPDX-License-Identifier: Apache-2.0
"""Trains the census model by `tf.tpu.experimental.embedding`, from the estimator's checkpoint.

    python examples/census/census.py --model_dir=/tmp/census --embedding_core=host
    python examples/census/train_mid_level.py --checkpoint=/tmp/census --train_steps=4000

Columns, table and feature configurations are in to_mid_level/census_model.py, which
`python -m estimator_spec migrate --to mid-level census_model.py` wrote. This file is what its
report leaves to a person: the training step, and evaluation.

`TPUEmbedding` is TensorFlow's within the scope of a `TPUStrategy`, and trains on this machine
without one: the step is the same. That it computes what the estimator computes, `compare` shows:

    python -m estimator_spec compare --only=train --checkpoint=/tmp/census/model.ckpt-0 \
        --new-args=--checkpoint=/tmp/census/model.ckpt-0 --old-args=--embedding_core=host \
        examples/census/census.py examples/census/train_mid_level.py -- --dropout=0
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import census_data
import census_layers
import tensorflow as tf
from absl import app, flags
from to_mid_level import census_model

from estimator_spec import checkpoints, compare, convert, mid_level

FLAGS = flags.FLAGS
census_layers.define_flags()


def restore(embedding: Any, spec: Any) -> None:
    """Restores the estimator's checkpoint, converted to one of a `TPUEmbedding`."""
    with tempfile.TemporaryDirectory() as directory:
        moved = os.path.join(directory, "embedding")
        checkpoints.convert(FLAGS.checkpoint, moved, spec, objects="tpu_embedding")
        status = tf.train.Checkpoint(embedding=embedding).read(moved)
        embedding.build(FLAGS.batch_size)
        status.assert_existing_objects_matched().expect_partial()


def whole_batches(dataset: Any) -> Any:
    """Returns batches of the size of a training step, the only one that a TPU takes.

    Args:
        dataset: batches of features and labels.

    Returns:
        Batches of features, labels and weights, which are 0 for the rows that fill the last one.
    """
    rows = dataset.unbatch().map(lambda features, labels: (features, labels, 1.0))
    filler = rows.repeat().take(FLAGS.batch_size - 1)
    filler = filler.map(lambda features, labels, _: (features, labels, 0.0))
    return rows.concatenate(filler).batch(FLAGS.batch_size, drop_remainder=True)


def main(argv: list[str]) -> None:
    """Trains and evaluates."""
    del argv
    tf.random.set_seed(FLAGS.seed)
    columns = census_model.embedding_columns(FLAGS.data_dir)
    conversion = census_model.embedding_config_spec(columns)
    spec = conversion.source.spec
    embedding = mid_level.TPUEmbedding(conversion.feature_config, None)
    restore(embedding, spec)
    layers = census_layers.Layers(census_model)

    def enqueue(features: Any, training: bool) -> None:
        found = convert.features_for(conversion, features)
        embedding.enqueue(found.inputs, found.weights, training)

    def logits_of(activations: Any, features: Any, training: bool) -> Any:
        return layers(census_model.first_layer(columns, activations, features), training)

    @tf.function
    def train_step(features: Any, labels: Any) -> Any:
        enqueue(features, training=True)
        with tf.GradientTape() as tape:
            activations = embedding.dequeue()
            tape.watch(activations)
            logits = logits_of(activations, features, training=True)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        weights = [variable.value for variable in layers.variables().values()]
        of_tables, of_layers = tape.gradient(loss, (activations, weights))
        embedding.apply_gradients(of_tables)
        layers.optimizer.apply(of_layers)
        return loss

    @tf.function
    def probabilities(features: Any) -> Any:
        enqueue(features, training=False)
        return tf.sigmoid(logits_of(embedding.dequeue(), features, training=False))

    test = whole_batches(census_layers.batches(census_data.TEST_FILE, is_training=False))
    probabilities(next(iter(test))[0])  # builds the layers
    layers.optimizer.build(list(layers.variables().values()))
    step = layers.load()
    train = census_layers.batches(census_data.TRAIN_FILE, is_training=True)
    names = checkpoints.tables_of(FLAGS.checkpoint, spec)

    def values() -> Any:
        return {**mid_level.estimator_values(embedding, spec, names), **layers.values()}

    with compare.record_loop(values) as steps:
        for features, labels in train.skip(step).take(FLAGS.train_steps - step):
            loss = train_step(features, labels)
            if steps.add(loss):
                break

    metric = census_layers.auc()
    for features, labels, weights in test:
        metric.update_state(labels, probabilities(features), weights)
    if FLAGS.output is not None:
        step = int(layers.optimizer.iterations)
        mid_level.save_for_estimator(FLAGS.output, embedding, spec, step, names, layers.values())
    print(f"step {FLAGS.train_steps}: loss {loss:.4f}, test AUC {float(metric.result()):.4f}")


if __name__ == "__main__":
    app.run(main)
