# SPDX-License-Identifier: Apache-2.0
"""Trains the census model by `tf.tpu.experimental.embedding`, from the estimator's checkpoint.

    python examples/census/census.py --model_dir=/tmp/census --embedding_core=host
    python examples/census/train_mid_level.py --checkpoint=/tmp/census --train_steps=4000

Columns, table and feature configurations are in to_mid_level/census_model.py, which
`python -m estimator_spec migrate --to mid-level census_model.py` wrote. This file is what its
report leaves to a person: lookups, the training step, and evaluation.

TensorFlow trains a `TPUEmbedding` under a `TPUStrategy` only. There `enqueue`, `dequeue` and
`apply_gradients` take the place of `look_up` and `update`, which do the same on a CPU.
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

from estimator_spec import checkpoints, convert

FLAGS = flags.FLAGS
census_layers.define_flags()


class Embeddings:
    """Tables and Adagrad's accumulators, as a `TPUEmbedding` has them.

    Args:
        conversion: the configurations.
    """

    def __init__(self, conversion: Any) -> None:
        self.conversion = conversion
        self.tables = {
            name: tf.Variable(config.initializer((config.vocabulary_size, config.dim)), name=name)
            for name, config in conversion.tables.items()
        }
        self.accumulators = {
            name: tf.Variable(tf.fill(table.shape, self._optimizer(name).initial_accumulator_value))
            for name, table in self.tables.items()
        }

    def _optimizer(self, table: str) -> Any:
        return self.conversion.tables[table].optimizer

    def restore(self, checkpoint: str) -> None:
        """Restores the estimator's checkpoint, converted to one of a `TPUEmbedding`."""
        spec = self.conversion.source.spec
        with tempfile.TemporaryDirectory() as directory:
            moved = os.path.join(directory, "embedding")
            checkpoints.convert(checkpoint, moved, spec, objects="tpu_embedding")
            slots = {f"{name}/accumulators": slot for name, slot in self.accumulators.items()}
            embedding = tf.train.Checkpoint(**self.tables, **slots)
            status = tf.train.Checkpoint(embedding=embedding).read(moved)
            status.assert_existing_objects_matched().expect_partial()

    def look_up(self, features: Any) -> Any:
        """Returns activations by feature key."""
        found = convert.features_for(self.conversion, features)
        tables = {self.conversion.tables[name]: table for name, table in self.tables.items()}
        return tf.tpu.experimental.embedding.serving_embedding_lookup(
            found.inputs, found.weights, tables, self.conversion.feature_config
        )

    def update(self, gradients: dict[str, Any]) -> None:
        """Updates the rows of a step by the rule of an embedding core's Adagrad."""
        for name, gradient in gradients.items():
            rows, places = tf.unique(gradient.indices)
            # A row is updated once a step, by the sum of its gradients.
            total = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
            accumulated = tf.gather(self.accumulators[name], rows) + tf.square(total)
            self.accumulators[name].scatter_update(tf.IndexedSlices(accumulated, rows))
            step = self._optimizer(name).learning_rate * total / tf.sqrt(accumulated)
            self.tables[name].scatter_sub(tf.IndexedSlices(step, rows))


def main(argv: list[str]) -> None:
    """Trains and evaluates."""
    del argv
    tf.random.set_seed(FLAGS.seed)
    columns = census_model.embedding_columns(FLAGS.data_dir)
    embeddings = Embeddings(census_model.embedding_config_spec(columns))
    embeddings.restore(FLAGS.checkpoint)
    layers = census_layers.Layers(census_model)

    def logits_of(features: Any, training: bool) -> Any:
        activations = embeddings.look_up(features)
        return layers(census_model.first_layer(columns, activations, features), training)

    @tf.function
    def train_step(features: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = logits_of(features, training=True)
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        weights = [variable.value for variable in layers.variables().values()]
        of_tables, of_layers = tape.gradient(loss, (embeddings.tables, weights))
        embeddings.update(of_tables)
        layers.optimizer.apply(of_layers)
        return loss

    @tf.function
    def probabilities(features: Any) -> Any:
        return tf.sigmoid(logits_of(features, training=False))

    test = census_layers.batches(census_data.TEST_FILE, is_training=False)
    probabilities(next(iter(test))[0])  # builds the layers
    layers.optimizer.build(list(layers.variables().values()))
    step = layers.load()
    train = census_layers.batches(census_data.TRAIN_FILE, is_training=True)
    for features, labels in train.skip(step).take(FLAGS.train_steps - step):
        loss = train_step(features, labels)

    metric = census_layers.auc()
    for features, labels in test:
        metric.update_state(labels, probabilities(features))
    spec = embeddings.conversion.source.spec
    census_layers.save(layers, spec, embeddings.tables, embeddings.accumulators)
    print(f"step {FLAGS.train_steps}: loss {loss:.4f}, test AUC {float(metric.result()):.4f}")


if __name__ == "__main__":
    app.run(main)
