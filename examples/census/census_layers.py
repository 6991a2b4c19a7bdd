# SPDX-License-Identifier: Apache-2.0
"""The census model above its embeddings, in Keras 3, for the programs that left the estimator.

`train_mid_level.py` and `train_keras_rs.py` share it: layers, optimizer, data, and checkpoints of
the estimator, from which they start and to which they can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import census_data
import keras
import tensorflow as tf
from absl import flags

import estimator_spec

FLAGS = flags.FLAGS
# Adam's names of its variables in Keras, and of the same slots in TensorFlow 1.
MOMENTS = {"momentum": "Adam", "velocity": "Adam_1"}


def define_flags() -> None:
    """Defines the flags of both programs; those of census.py have the same meaning."""
    flags.DEFINE_string("checkpoint", None, "Checkpoint of census.py to train on.", required=True)
    flags.DEFINE_string("output", None, "Prefix of a new checkpoint with the estimator's names.")
    flags.DEFINE_string("data_dir", census_data.DATA_DIR, "Where the Adult data is.")
    flags.DEFINE_integer("train_steps", 2000, "Train up to this step.", lower_bound=1)
    flags.DEFINE_integer("batch_size", 512, "Rows a training step.", lower_bound=1)
    flags.DEFINE_integer("eval_batch_size", 1024, "Rows a step otherwise.", lower_bound=1)
    flags.DEFINE_float("learning_rate", 0.001, "Adam's, at the first step.", lower_bound=0.0)
    flags.DEFINE_float("dropout", 0.4, "Part of the units that a step leaves out.")
    flags.DEFINE_integer("seed", 1, "Seed of the order of rows and the dropout.")


class Layers:
    """The layers between the embeddings and the logit, and their optimizer.

    Args:
        model: the module `census_model`.
    """

    def __init__(self, model: Any) -> None:
        self.dense = [
            *(
                keras.layers.Dense(units, "relu", name=f"hidden_{layer}")
                for layer, units in enumerate(model.HIDDEN_UNITS)
            ),
            keras.layers.Dense(1, name="logits"),
        ]
        self.dropout = keras.layers.Dropout(FLAGS.dropout, seed=FLAGS.seed)
        rate = keras.optimizers.schedules.CosineDecay(FLAGS.learning_rate, FLAGS.train_steps)
        # The epsilon of TensorFlow 1; Keras' own is 1e-7.
        self.optimizer = keras.optimizers.Adam(rate, epsilon=1e-8)

    def __call__(self, hidden: Any, training: bool) -> Any:
        """Computes logits `[B, 1]`."""
        for layer in self.dense[:-1]:
            hidden = self.dropout(layer(hidden), training=training)
        return self.dense[-1](hidden)

    def variables(self) -> dict[str, Any]:
        """Returns the built layers' variables by the estimator's names."""
        return {
            f"{layer.name}/{part}": getattr(layer, part)
            for layer in self.dense
            for part in ("kernel", "bias")
        }

    def moments(self) -> dict[str, Any]:
        """Returns the built optimizer's variables by the estimator's names."""
        return {
            f"{name}/{slot}": variable
            for name in self.variables()
            for moment, slot in MOMENTS.items()
            for variable in self.optimizer.variables
            if variable.path.endswith(f"{name.replace('/', '_')}_{moment}")
        }

    def values(self) -> dict[str, Any]:
        """Returns all values by the estimator's names."""
        step = self.optimizer.iterations.value
        powers = {"beta1_power": 0.9, "beta2_power": 0.999}  # TensorFlow 1's Adam stores them
        return {
            **{name: variable.value for name, variable in self.variables().items()},
            **{name: variable.value for name, variable in self.moments().items()},
            **{name: beta ** tf.cast(step + 1, tf.float32) for name, beta in powers.items()},
            "global_step": tf.cast(step, tf.int64),
        }

    def load(self) -> int:
        """Loads weights and moments of the estimator's checkpoint; returns its global step."""
        reader = tf.train.load_checkpoint(FLAGS.checkpoint)
        for name, variable in {**self.variables(), **self.moments()}.items():
            variable.assign(reader.get_tensor(name))
        step = int(reader.get_tensor("global_step"))
        self.optimizer.iterations.assign(step)
        return step


def batches(file: str, is_training: bool) -> Any:
    """Returns the batches of a file, with words, which `features_for` converts to ids."""
    make = census_data.input_fn_builder(FLAGS.data_dir, file, is_training, use_tpu=False)
    return make({"batch_size": FLAGS.batch_size if is_training else FLAGS.eval_batch_size})


def auc() -> Any:
    """Returns the metric of census.py's evaluation."""
    return keras.metrics.AUC(num_thresholds=2000, name="auc")


def save(layers: Layers, spec: Any, tables: Mapping[str, Any], slots: Mapping[str, Any]) -> None:
    """Saves the trained values under the names of the estimator's checkpoint, if it is asked to.

    Args:
        layers: the layers.
        spec: the spec of the tables.
        tables: values of the tables by key.
        slots: Adagrad's accumulators by key.
    """
    if FLAGS.output is None:
        return
    names = estimator_spec.checkpoints.tables_of(FLAGS.checkpoint, spec)
    values = {names[key]: table for key, table in tables.items()}
    values.update({f"{names[key]}/Adagrad": slot for key, slot in slots.items()})
    values.update(layers.values())
    arrays = {name: tf.convert_to_tensor(value) for name, value in values.items()}
    tf.raw_ops.SaveV2(
        prefix=FLAGS.output,
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=list(arrays.values()),
    )
