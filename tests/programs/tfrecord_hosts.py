# SPDX-License-Identifier: Apache-2.0
"""A denoising regression from TFRecords that every host reads its own part of.

The style of TPU pods: `params['context']` says which host the input_fn runs for, so this program
has never run anywhere but on a TPU.
"""

import json
import os

from absl import app
from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf

flags.DEFINE_string("data_dir", None, "Where the TFRecords are; they are made if it is empty.")
flags.DEFINE_string("model_dir", None, "Where checkpoints go.")
flags.DEFINE_string("tpu", os.environ.get("MY_TPU"), "Name of the TPU.")
flags.DEFINE_integer("batch_size", 16, "Global batch size.")
flags.DEFINE_integer("max_steps", 80, "When to stop.")

FLAGS = flags.FLAGS

InputPipelineConfig = tf.estimator.tpu.InputPipelineConfig

SIZE = 6
SHARDS = 4


def write_tfrecords(data_dir):
    """y = A x + noise, in four files."""
    random = np.random.RandomState(0)
    matrix = random.normal(size=(SIZE, 2))
    tf.io.gfile.makedirs(data_dir)
    for split, rows in (("train", 100), ("test", 16)):
        for shard in range(SHARDS):
            name = "%s-%05d-of-%05d" % (split, shard, SHARDS)
            with tf.io.TFRecordWriter(os.path.join(data_dir, name)) as writer:
                for _ in range(rows):
                    x = random.normal(size=SIZE)
                    y = x @ matrix + 0.1 * random.normal(size=2)
                    feature = {
                        "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                        "y": tf.train.Feature(float_list=tf.train.FloatList(value=y)),
                    }
                    example = tf.train.Example(features=tf.train.Features(feature=feature))
                    writer.write(example.SerializeToString())


class RecordInput:
    """Input pipeline of one split.

    Args:
      file_pattern: of the TFRecords
      is_training: whether to repeat and to shuffle
      seen: a list; notes what every call is told
    """

    def __init__(self, file_pattern, is_training, seen):
        self.file_pattern = file_pattern
        self.is_training = is_training
        self.seen = seen

    def parser(self, serialized):
        parsed = tf.io.parse_single_example(
            serialized,
            {
                "x": tf.io.FixedLenFeature([SIZE], tf.float32),
                "y": tf.io.FixedLenFeature([2], tf.float32),
            },
        )
        return {"x": parsed["x"]}, parsed["y"]

    def __call__(self, params):
        context = params["context"]
        _, host_index, num_calls, num_replicas = context.current_input_fn_deployment()
        self.seen.append(
            {
                "current_host": context.current_host,
                "num_hosts": context.num_hosts,
                "num_replicas": context.num_replicas,
                "deployment": [host_index, num_calls, num_replicas],
                "batch_size": params["batch_size"],
            }
        )
        files = tf.data.Dataset.list_files(self.file_pattern, shuffle=False)
        files = files.shard(context.num_hosts, context.current_host)
        if self.is_training:
            files = files.repeat()
        dataset = files.apply(
            tf.data.experimental.parallel_interleave(
                tf.data.TFRecordDataset, cycle_length=SHARDS, sloppy=False
            )
        )
        if self.is_training:
            dataset = dataset.apply(tf.data.experimental.shuffle_and_repeat(64, seed=5))
        dataset = dataset.apply(
            tf.data.experimental.map_and_batch(
                self.parser,
                batch_size=params["batch_size"],
                num_parallel_batches=2,
                drop_remainder=self.is_training,
            )
        )
        return dataset.prefetch(tf.data.experimental.AUTOTUNE)


def model_fn(features, labels, mode, params):
    """Linear regression."""
    if mode == tf.estimator.ModeKeys.TRAIN:
        # A TPU compiles for one shape.
        features["x"].shape.assert_is_compatible_with([params["batch_size"], SIZE])
    with tf.variable_scope("regression"):
        weights = tf.get_variable("weights", [SIZE, 2], initializer=tf.zeros_initializer())
        bias = tf.get_variable("bias", [2], initializer=tf.zeros_initializer())
        outputs = tf.matmul(features["x"], weights) + bias
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.tpu.TPUEstimatorSpec(mode, predictions={"y": outputs})

    loss = tf.reduce_mean(tf.square(outputs - labels))
    if mode == tf.estimator.ModeKeys.EVAL:

        def metric_fn(outputs, labels):
            return {
                "mae": tf.metrics.mean_absolute_error(labels, outputs),
                "rmse": tf.metrics.root_mean_squared_error(labels, outputs),
            }

        return tf.estimator.tpu.TPUEstimatorSpec(
            mode, loss=loss, eval_metrics=(metric_fn, {"outputs": outputs, "labels": labels})
        )

    optimizer = tf.tpu.CrossShardOptimizer(tf.train.GradientDescentOptimizer(0.05))
    global_step = tf.train.get_global_step()
    train_op = optimizer.minimize(loss, global_step=global_step)
    # The mean over all replicas, which on a pod isn't the mean of this one.
    num_replicas = tf.tpu.cross_replica_sum(tf.ones([]))
    loss_everywhere = tf.tpu.cross_replica_sum(loss) / num_replicas

    def host_call(step, mean_loss):
        with tf.compat.v2.summary.create_file_writer(FLAGS.model_dir).as_default():
            tf.compat.v2.summary.write("mean_loss", mean_loss[0], step=step[0])
            return tf.summary.all_v2_summary_ops()

    tensors = [tf.reshape(global_step, [1]), tf.reshape(loss_everywhere, [1])]
    return tf.estimator.tpu.TPUEstimatorSpec(
        mode, loss=loss, train_op=train_op, host_call=(host_call, tensors)
    )


def read_losses(model_dir):
    losses = {}
    for path in tf.io.gfile.glob(os.path.join(model_dir, "*.v2")):
        for event in tf.train.summary_iterator(path):
            for value in event.summary.value:
                losses[event.step] = float(tf.make_ndarray(value.tensor))
    return [losses[step] for step in sorted(losses)]


def main(_):
    if not tf.io.gfile.exists(FLAGS.data_dir):
        write_tfrecords(FLAGS.data_dir)
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(FLAGS.tpu)
    config = tf.estimator.tpu.RunConfig(
        cluster=resolver,
        model_dir=FLAGS.model_dir,
        save_checkpoints_steps=40,
        tpu_config=tf.estimator.tpu.TPUConfig(
            iterations_per_loop=20,
            tpu_job_name="worker",
            per_host_input_for_training=InputPipelineConfig.PER_HOST_V2,
            eval_training_input_configuration=InputPipelineConfig.PER_HOST_V1,
        ),
    )
    estimator = tf.estimator.tpu.TPUEstimator(
        model_fn=model_fn,
        config=config,
        params={},
        train_batch_size=FLAGS.batch_size,
        eval_batch_size=FLAGS.batch_size,
        predict_batch_size=FLAGS.batch_size,
    )
    seen = []
    train_input = RecordInput(os.path.join(FLAGS.data_dir, "train-*"), True, seen)
    test_input = RecordInput(os.path.join(FLAGS.data_dir, "test-*"), False, seen)
    estimator.train(train_input, max_steps=FLAGS.max_steps)
    metrics = estimator.evaluate(test_input, steps=64 // FLAGS.batch_size)
    predictions = [p["y"].tolist() for p in estimator.predict(test_input)]
    estimator.export_saved_model(
        os.path.join(FLAGS.model_dir, "export"),
        tf.estimator.export.build_raw_serving_input_receiver_fn(
            {"x": tf.placeholder(tf.float32, [None, SIZE])}
        ),
    )
    results = {
        "contexts": seen,
        "losses": read_losses(FLAGS.model_dir),
        "metrics": {key: float(value) for key, value in metrics.items()},
        "predictions": predictions,
        "weights": estimator.get_variable_value("regression/weights").tolist(),
        "variables": estimator.get_variable_names(),
    }
    with tf.io.gfile.GFile(os.path.join(FLAGS.model_dir, "results.json"), "w") as f:
        json.dump(results, f, indent=1)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    app.run(main)
