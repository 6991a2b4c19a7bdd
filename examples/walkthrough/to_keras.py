# SPDX-License-Identifier: Apache-2.0
"""Makes a Keras 3 model of a checkpoint of the click model, exports it, and trains it further.

    python to_keras.py --data_dir=DIR --model_dir=DIR --export_dir=DIR --train_steps=N

It lies beside the modules of the migrated program. EXPORT_DIR/1 is the model of the checkpoint,
EXPORT_DIR/2 the model after the training.
"""

import os

import click_columns
import click_data
import keras
import tensorflow as tf
from absl import app, flags

from estimator_spec.convert import features_for, to_distributed_embedding

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", None, "Directory of train.tfrecord and test.tfrecord.")
flags.DEFINE_string("model_dir", None, "Directory of the checkpoint.")
flags.DEFINE_string("export_dir", None, "Directory of the SavedModels.")
flags.DEFINE_integer("train_steps", 500, "Steps to train in Keras.", lower_bound=1)

KEYS = ["past_items", "shown_item", "tags", "user"]


def make_model(embedding):
    """Returns the network of the old `model_fn`, over the embedding layer."""
    ids = {key: keras.Input((None,), dtype="int32") for key in KEYS}
    weights = {key: keras.Input((None,)) for key in KEYS}
    hour = keras.Input((1,), name="hour")
    looked_up = embedding(ids, weights)
    # DenseFeatures concatenates columns in the order of their names.
    net = keras.layers.concatenate([hour, *(looked_up[key] for key in KEYS)])
    net = keras.layers.Dense(16, "relu", name="hidden")(net)
    net = keras.layers.Dense(1, "sigmoid", name="logit")(net)
    return keras.Model({"ids": ids, "weights": weights, "hour": hour}, net)


def load_layers(model, model_dir):
    """Sets kernels and biases to those of the checkpoint."""
    reader = tf.train.load_checkpoint(model_dir)
    for name in ("hidden", "logit"):
        parts = [reader.get_tensor(f"{name}/{part}") for part in ("kernel", "bias")]
        model.get_layer(name).set_weights(parts)


def export(model, inputs_of, directory):
    """Writes a SavedModel that takes serialized tf.Examples, as the old one does."""

    def serve(examples):
        features = tf.io.parse_example(examples, click_data.feature_spec())
        return {"probability": model(inputs_of(features))}

    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec([None], tf.string, name="examples")]
    archive.add_endpoint("serving_default", serve, input_signature=signature)
    archive.write_out(directory, verbose=False)


def main(argv):
    """Converts, exports, trains, and exports again."""
    del argv
    tf.get_logger().setLevel("ERROR")
    spec = click_columns.embedding_spec()
    embedding = to_distributed_embedding(spec, FLAGS.model_dir, optimizers="core")
    print(embedding.conversion.report)
    model = make_model(embedding)
    load_layers(model, FLAGS.model_dir)

    # The tables keep the spec's optimizer, with the slot variables of the checkpoint.
    optimizer = embedding.conversion.optimizer(keras.optimizers.Adagrad(0.1))
    model.compile(optimizer, "binary_crossentropy", metrics=["auc"])
    optimizer.build(model.trainable_variables)
    embedding.conversion.load_slots(embedding)

    def inputs_of(features):
        found = features_for(embedding, features)
        return {"ids": found.inputs, "weights": found.weights, "hour": features["hour"]}

    def batches(training):
        dataset = click_data.make_input_fn(FLAGS.data_dir, training)({"batch_size": 64})
        return dataset.map(lambda features, labels: (inputs_of(features), labels))

    def evaluate():
        return model.evaluate(batches(False), verbose=0, return_dict=True)["auc"]

    print(f"AUC {evaluate():.3f} with the weights of the checkpoint")
    export(model, inputs_of, os.path.join(FLAGS.export_dir, "1"))
    model.fit(batches(True), steps_per_epoch=FLAGS.train_steps, verbose=0)
    print(f"AUC {evaluate():.3f} after {FLAGS.train_steps} more steps")
    export(model, inputs_of, os.path.join(FLAGS.export_dir, "2"))


if __name__ == "__main__":
    flags.mark_flags_as_required(["data_dir", "model_dir", "export_dir"])
    app.run(main)
