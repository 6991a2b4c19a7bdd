# SPDX-License-Identifier: Apache-2.0
"""Trains the census model by Keras 3 and keras_rs, from the estimator's checkpoint.

    python examples/census/census.py --model_dir=/tmp/census --embedding_core=host
    python examples/census/train_keras_rs.py --checkpoint=/tmp/census --train_steps=4000

Columns and the `DistributedEmbedding` are in to_keras_rs/census_model.py, which
`python -m estimator_spec migrate --to keras-rs census_model.py` wrote. This file is what its
report leaves to a person: the Keras model, and its training. It needs the extra keras-rs.
"""

from __future__ import annotations

from typing import Any

import census_data
import census_layers
import keras
from absl import app, flags
from to_keras_rs import census_model

from estimator_spec import convert

FLAGS = flags.FLAGS
census_layers.define_flags()


class Census(keras.Model):
    """The network over the activations of a `DistributedEmbedding`.

    Args:
        embedding: the layer.
        layers: the layers above it.
    """

    def __init__(self, embedding: Any, layers: Any) -> None:
        super().__init__()
        self.embedding = embedding
        self.above = layers
        self.layers_above = [*layers.dense, layers.dropout]  # Keras tracks lists of layers

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Computes logits `[B, 1]`."""
        activations = self.embedding(inputs["ids"], inputs["weights"])
        columns = self.embedding.conversion.source.spec.feature_columns
        return self.above(
            census_model.first_layer(columns, activations, inputs["numbers"]), training
        )


def main(argv: list[str]) -> None:
    """Trains and evaluates."""
    del argv
    keras.utils.set_random_seed(FLAGS.seed)
    columns = census_model.embedding_columns(FLAGS.data_dir)
    spec = census_model.embedding_config_spec(columns).conversion.source.spec
    # The same layer again, with the tables of the estimator's checkpoint.
    embedding = convert.to_distributed_embedding(spec, FLAGS.checkpoint, optimizers="core")
    layers = census_layers.Layers(census_model)
    model = Census(embedding, layers)
    # Tables keep the spec's optimizer, other variables have another.
    model.compile(
        embedding.conversion.optimizer(layers.optimizer),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=[keras.metrics.AUC(num_thresholds=2000, from_logits=True, name="auc")],
    )

    def examples(features: Any, labels: Any) -> Any:
        found = convert.features_for(embedding, features)
        numbers = {name: features[name] for name in census_model.NUMERIC}
        return {"ids": found.inputs, "weights": found.weights, "numbers": numbers}, labels

    test = census_layers.batches(census_data.TEST_FILE, is_training=False).map(examples)
    model(next(iter(test))[0])  # builds the layers
    model.optimizer.build(model.trainable_variables)
    step = layers.load()
    embedding.conversion.load_slots(embedding)
    train = census_layers.batches(census_data.TRAIN_FILE, is_training=True)
    train = train.skip(step).map(examples)
    history = model.fit(train, steps_per_epoch=FLAGS.train_steps - step, verbose=0).history
    found = model.evaluate(test, verbose=0, return_dict=True)
    by_path = {weight.path: weight for weight in embedding.weights}
    conversion = embedding.conversion
    tables = {
        key: by_path[f"{conversion.layer_name}/{name}/embeddings"]
        for key, name in conversion.table_names.items()
    }
    slots = {
        key: conversion.optimizers[key].slot("accumulator", table) for key, table in tables.items()
    }
    census_layers.save(layers, spec, tables, slots)
    print(f"step {FLAGS.train_steps}: loss {history['loss'][-1]:.4f}, test AUC {found['auc']:.4f}")


if __name__ == "__main__":
    app.run(main)
