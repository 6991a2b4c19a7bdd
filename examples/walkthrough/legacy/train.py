# SPDX-License-Identifier: Apache-2.0
"""Learns who clicks on what (TensorFlow 1.15 to 2.15).

    python train.py --data_dir=DIR --model_dir=DIR --tpu=NAME
"""

import os

import click_columns
import click_data
import tensorflow as tf
from absl import app, flags

tpu = tf.compat.v1.estimator.tpu

FLAGS = flags.FLAGS
flags.DEFINE_string("data_dir", None, "Directory of train.tfrecord and test.tfrecord.")
flags.DEFINE_string("model_dir", None, "Checkpoints, summaries, and the exported model.")
flags.DEFINE_integer("train_steps", 2000, "Train up to this step.")
flags.DEFINE_integer("batch_size", 64, "Global batch size.")
flags.DEFINE_float("learning_rate", 0.1, "Learning rate of Adagrad.")
flags.DEFINE_bool("use_tpu", True, "Train on a TPU.")
flags.DEFINE_string("tpu", "local", "Name of the TPU.")


def network(features):
    # input_layer refuses shared columns from TensorFlow 1.15 on.
    columns = click_columns.embedding_columns() + click_columns.dense_columns()
    net = tf.keras.layers.DenseFeatures(columns)(features)
    hidden = tf.compat.v1.glorot_normal_initializer(seed=4)
    logit = tf.compat.v1.glorot_normal_initializer(seed=5)
    net = tf.compat.v1.layers.dense(net, 16, tf.nn.relu, kernel_initializer=hidden, name="hidden")
    return tf.compat.v1.layers.dense(net, 1, kernel_initializer=logit, name="logit")


def model_fn(features, labels, mode, params):
    logits = network(features)
    probability = tf.sigmoid(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tpu.TPUEstimatorSpec(mode, predictions={"probability": probability})
    loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels, logits)

    def metric_fn(labels, probability):
        return {"auc": tf.compat.v1.metrics.auc(labels, probability)}

    optimizer = tf.compat.v1.train.AdagradOptimizer(FLAGS.learning_rate)
    if params["use_tpu"]:
        optimizer = tf.compat.v1.tpu.CrossShardOptimizer(optimizer)
    return tpu.TPUEstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, tf.compat.v1.train.get_global_step()),
        eval_metrics=(metric_fn, {"labels": labels, "probability": probability}),
    )


def main(argv):
    estimator = tpu.TPUEstimator(
        model_fn,
        config=tpu.RunConfig(
            cluster=tf.distribute.cluster_resolver.TPUClusterResolver(FLAGS.tpu),
            model_dir=FLAGS.model_dir,
            tf_random_seed=1,
            tpu_config=tpu.TPUConfig(iterations_per_loop=100),
        ),
        use_tpu=FLAGS.use_tpu,
        train_batch_size=FLAGS.batch_size,
        eval_batch_size=FLAGS.batch_size,
        predict_batch_size=FLAGS.batch_size,
        embedding_config_spec=click_columns.embedding_spec(),
    )
    train_input_fn = click_data.make_input_fn(FLAGS.data_dir, training=True)
    test_input_fn = click_data.make_input_fn(FLAGS.data_dir, training=False)
    estimator.train(train_input_fn, max_steps=FLAGS.train_steps)
    metrics = estimator.evaluate(test_input_fn)
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        click_data.feature_spec()
    )
    path = estimator.export_saved_model(os.path.join(FLAGS.model_dir, "export"), receiver_fn)
    print("AUC %.3f after %d steps" % (metrics["auc"], metrics["global_step"]))
    print("exported to", path.decode())


if __name__ == "__main__":
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)
    flags.mark_flags_as_required(["data_dir", "model_dir"])
    app.run(main)
