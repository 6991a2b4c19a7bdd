# SPDX-License-Identifier: Apache-2.0
"""Trains the same tables and network by `model.fit` in keras-rs on Keras' TensorFlow backend."""

from __future__ import annotations

import os
import time
from typing import Any

import tensorflow as tf

from training_time import batches, clocks
from training_time.workloads import Workload

os.environ["KERAS_BACKEND"] = "tensorflow"

RATE = 0.05
HIDDEN = 64
# A step takes between milliseconds and a second, as all tables are updated densely.
SECONDS, MOST, FEWEST, WARM_UP = 8.0, 300, 12, 4


def dataset_of(workload: Workload) -> Any:
    """Returns the same batches with separate ids and weights, as the layer takes them."""

    def give(arrays: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        ids = {f.name: as_given(f, arrays[f.name]) for f in workload.features}
        weights = {f.name: arrays[f"{f.name}_weight"] for f in workload.features if f.weighted}
        return {"ids": ids, "weights": weights} if weights else {"ids": ids}, arrays["label"]

    def as_given(feature: Any, tensor: Any) -> Any:
        if feature.kind == "dense" or feature.weighted:
            return tensor  # dense ids have dense weights
        found = tf.where(tf.ones(tensor.shape, tf.bool))
        return tf.SparseTensor(found, tf.reshape(tensor, [-1]), tensor.shape)

    made = batches.dataset_of(workload, workload.batch_size, give)
    return made.repeat().prefetch(2)


def model_of(workload: Workload) -> Any:
    """Returns a compiled model."""
    import keras
    import keras_rs

    size = workload.batch_size
    configs = {
        feature.name: keras_rs.layers.FeatureConfig(
            name=feature.name,
            table=keras_rs.layers.TableConfig(
                name=f"table_{feature.name}",
                vocabulary_size=feature.rows,
                embedding_dim=feature.width,
                combiner=feature.combiner,
            ),
            input_shape=(size, feature.ids),
            output_shape=(size, feature.width),
        )
        for feature in workload.features
    }

    class Model(keras.Model):
        """Embedding tables and a network of two layers."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = keras_rs.layers.DistributedEmbedding(configs)
            self.hidden = keras.layers.Dense(HIDDEN, activation="relu")
            self.last = keras.layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            """Returns logits."""
            weights = inputs.get("weights")
            found = self.embedding(inputs["ids"], weights) if weights else None
            found = found or self.embedding(inputs["ids"])
            layer = keras.ops.concatenate([found[f.name] for f in workload.features], axis=-1)
            return self.last(self.hidden(layer))

    optimizers = {
        "adagrad": lambda: keras.optimizers.Adagrad(RATE, initial_accumulator_value=0.1),
        "adam": lambda: keras.optimizers.Adam(RATE / 50),
        "sgd": lambda: keras.optimizers.SGD(RATE),
    }
    model = Model()
    model.compile(
        optimizers[workload.optimizer](), keras.losses.BinaryCrossentropy(from_logits=True)
    )
    return model


def run(workload: Workload) -> dict[str, Any]:
    """Returns milliseconds of each step, and seconds to the end of the first."""
    import keras
    import keras_rs

    class Clock(keras.callbacks.Callback):
        """Callback that records the time of every step and ends the fit."""

        marks: list[tuple[int, float]] = []  # noqa: RUF012 - one fit a process

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Records the time."""
            self.marks.append((batch, time.perf_counter()))
            if workload.verb == "first_step":
                self.model.stop_training = True
            warm = self.marks[min(WARM_UP, len(self.marks) - 1)][1]
            if len(self.marks) > FEWEST and self.marks[-1][1] - warm > SECONDS:
                self.model.stop_training = True

    before = clocks.resident()
    clock = Clock()
    begin = time.perf_counter()
    model = model_of(workload)
    steps = 1 if workload.verb == "first_step" else MOST
    model.fit(dataset_of(workload), steps_per_epoch=steps, callbacks=[clock], verbose=0)
    first = clock.marks[0][1] - begin
    times = clocks.milliseconds(clock.marks, WARM_UP) or [1000 * first]
    version = (
        f"TensorFlow {tf.__version__}, Keras {keras.__version__}, keras-rs {keras_rs.__version__}"
    )
    return {"ms": times, "first_step_s": first, "imported_mib": before, "version": version}
