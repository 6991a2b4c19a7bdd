# SPDX-License-Identifier: Apache-2.0
"""Moves the census model from its TPUEstimator checkpoint to each of today's systems.

    python examples/census/census.py --model_dir /tmp/census
    python examples/census/moving_on.py --model_dir /tmp/census

turns the checkpoint into a `TPUEmbedding`, a SavedModel of a `TPUEmbeddingForServing`, a
`PartialEmbedding` and, with the extra keras-rs, a Keras 3 model that trains on; and compares the
probabilities that each one gives with those of the estimator.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable
from typing import Any

import census
import census_data
import census_model
import numpy as np
import tensorflow as tf
from absl import app, flags

from estimator_spec import convert
from tpu_columns import Hardware

FLAGS = flags.FLAGS
flags.DEFINE_integer("rows", 512, "Test rows on which the systems are compared.", lower_bound=1)
flags.DEFINE_integer("keras_steps", 100, "Steps that the Keras model trains on.", lower_bound=1)

LAYERS = (*(f"hidden_{number}" for number in range(len(census_model.HIDDEN_UNITS))), "logits")


def trained_layers(model_dir: str) -> list[list[Any]]:
    """Returns kernel and bias of each layer above the embeddings."""
    reader = tf.train.load_checkpoint(model_dir)
    return [[reader.get_tensor(f"{name}/{part}") for part in ("kernel", "bias")] for name in LAYERS]


def probabilities(columns: list[Any], layers: Any, activations: Any, batch: Any) -> Any:
    """Computes the model above the embeddings, [B]."""
    hidden = census_model.first_layer(columns, activations, batch)
    for kernel, bias in layers[:-1]:
        hidden = tf.nn.relu(hidden @ kernel + bias)
    kernel, bias = layers[-1]
    return tf.sigmoid(hidden @ kernel + bias)[:, 0].numpy()


def by_tpu_embedding(spec: Any, model_dir: str, hardware: Any) -> Callable[[Any], Any]:
    """Predicts by a `TPUEmbedding`, through a checkpoint that a TPU could restore."""
    moved = convert.to_tpu_embedding(spec, model_dir, hardware=hardware)
    path = tf.train.Checkpoint(embedding=moved).save(os.path.join(tempfile.mkdtemp(), "moved"))
    embedding = convert.to_tpu_embedding(spec, hardware=hardware)
    tf.train.Checkpoint(embedding=embedding).restore(path).assert_existing_objects_matched()
    return lambda batch: convert.look_up(embedding, batch)


def by_saved_model(spec: Any, model_dir: str, hardware: Any, batch: Any) -> Callable[[Any], Any]:
    """Predicts by a SavedModel of a `TPUEmbeddingForServing`; sparse features have three parts."""
    embedding = convert.to_serving(spec, model_dir, hardware=hardware)
    features, columns = embedding.conversion.source.features, spec.feature_columns
    keys = [*features, *(column.get_weight_key_name() for column in columns)]
    keys = [key for key in keys if key is not None]
    directory = os.path.join(tempfile.mkdtemp(), "export")
    convert.save_serving(embedding, directory, {key: batch[key] for key in keys})
    serve = tf.saved_model.load(directory).signatures["serving_default"]

    def look_up(batch: Any) -> Any:
        parts = {}
        for key in keys:
            value = batch[key]
            if isinstance(value, tf.SparseTensor):
                for part in ("values", "indices", "dense_shape"):
                    parts[f"{key}_{part}"] = getattr(value, part)
            else:
                parts[key] = value
        return serve(**parts)

    return look_up


def by_partial_embedding(spec: Any, model_dir: str, hardware: Any) -> Callable[[Any], Any]:
    """Predicts by a `PartialEmbedding`; on a TPU, it would hold tables of over 40 rows."""
    layer = convert.to_partial_embedding(spec, model_dir, size_threshold=40, hardware=hardware)

    def look_up(batch: Any) -> Any:
        found = convert.features_for(layer, batch)
        return layer(found.inputs, weights=found.weights)

    return look_up


def keras_model(spec: Any, model_dir: str, hardware: Any) -> tuple[Any, Any]:
    """Builds the whole model in Keras 3; returns it and the function that converts features."""
    import keras

    embedding = convert.to_distributed_embedding(
        spec, model_dir, optimizers="core", hardware=hardware
    )
    layers = [keras.layers.Dense(units, "relu") for units in census_model.HIDDEN_UNITS]
    layers.append(keras.layers.Dense(1, "sigmoid"))

    class Census(keras.Model):
        """Keras model over keras_rs embeddings."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = embedding
            self.stack = layers

        def call(self, inputs: Any) -> Any:
            activations = self.embedding(inputs["ids"], inputs["weights"])
            hidden = census_model.first_layer(spec.feature_columns, activations, inputs["numbers"])
            for layer in self.stack:
                hidden = layer(hidden)
            return hidden

    def inputs_of(batch: Any) -> Any:
        found = convert.features_for(embedding, batch)
        numbers = {name: batch[name] for name in census_model.NUMERIC}
        return {"ids": found.inputs, "weights": found.weights, "numbers": numbers}

    model = Census()
    # Tables keep the spec's optimizer, other variables have another.
    optimizer = embedding.conversion.optimizer(keras.optimizers.Adam(1e-4))
    model.compile(optimizer, "binary_crossentropy", metrics=["auc"])
    return model, inputs_of


def load_keras_model(model: Any, inputs: Any, model_dir: str) -> list[str]:
    """Sets the checkpoint's weights in the Keras layers above the embedding.

    Returns the tables whose slots the checkpoint has: those that an embedding core trained.
    """
    model(inputs)
    for layer, weights in zip(model.stack, trained_layers(model_dir), strict=True):
        layer.set_weights(weights)
    model.optimizer.build(model.trainable_variables)
    return list(model.embedding.conversion.load_slots(model.embedding))


def main(argv: list[str]) -> None:
    """Converts the model, compares probabilities, and continues training."""
    del argv
    model_dir = FLAGS.model_dir
    columns = census_model.embedding_columns(FLAGS.data_dir)
    has_core = FLAGS.embedding_core is not None
    # The embedding core takes ids, the model words.
    hardware = Hardware.TPU if has_core else Hardware.CPU
    spec = census_model.embedding_config_spec(columns)

    def batches(file: str, rows: int, is_training: bool) -> Any:
        core_columns = columns if has_core else None
        make = census_data.input_fn_builder(
            FLAGS.data_dir, file, is_training, False, core_columns=core_columns
        )
        return make({"batch_size": rows})

    def test_input_fn(params: Any) -> Any:
        del params
        return batches(census_data.TEST_FILE, FLAGS.rows, False).take(1)

    predictions = census.make_estimator(census.run_config(model_dir), columns).predict(
        test_input_fn
    )
    expected = [float(prediction["probability"][0]) for prediction in predictions]

    batch, _ = next(iter(test_input_fn({})))
    lookups = {
        "TPUEmbedding": by_tpu_embedding(spec, model_dir, hardware),
        "TPUEmbeddingForServing": by_saved_model(spec, model_dir, hardware, batch),
        "PartialEmbedding": by_partial_embedding(spec, model_dir, hardware),
    }
    layers = trained_layers(model_dir)
    found = {
        name: probabilities(columns, layers, look_up(batch), batch)
        for name, look_up in lookups.items()
    }
    if importlib.util.find_spec("keras_rs") is not None:
        model, inputs_of = keras_model(spec, model_dir, hardware)
        slots = load_keras_model(model, inputs_of(batch), model_dir)
        found["DistributedEmbedding"] = model(inputs_of(batch)).numpy()[:, 0]
    print(f"\nLargest difference from the estimator's probability, of {len(expected)}:")
    for name, values in found.items():
        worst = float(np.max(np.abs(values - expected)))
        print(f"  {name:24} {worst:.1e}")
        if worst > 1e-5:
            raise RuntimeError(f"{name} gives other probabilities than the estimator.")
    if "DistributedEmbedding" in found:
        data = batches(census_data.TRAIN_FILE, FLAGS.batch_size, True)
        data = data.map(lambda features, labels: (inputs_of(features), labels))
        history = model.fit(data, steps_per_epoch=FLAGS.keras_steps, epochs=1, verbose=0).history
        print(
            f"Trained on in Keras, with the slots of {len(slots)} tables: "
            f"loss {history['loss'][-1]:.3f}, AUC {history['auc'][-1]:.3f}"
        )


if __name__ == "__main__":
    flags.mark_flag_as_required("model_dir")
    app.run(main)
