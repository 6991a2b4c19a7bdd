# SPDX-License-Identifier: Apache-2.0
"""DLRM with the embedding tables and features named in dictionaries.

The style of the recommendation benchmarks on TPU pods. The reference has no lookup of these tables
on a CPU: this program has never run anywhere but on a TPU.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import json
import os

from absl import app as absl_app
from absl import flags
import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.tpu import tpu_embedding

flags.DEFINE_string("model_dir", default=None, help="Directory of the model.")
flags.DEFINE_string("tpu", default="", help="TPU address.")
flags.DEFINE_integer("batch_size", default=64, help="Global batch size.")
flags.DEFINE_integer("train_steps", default=100, help="Steps of training.")
flags.DEFINE_integer("embedding_dim", default=8, help="Width of the embeddings.")
flags.DEFINE_float("learning_rate", default=0.2, help="Learning rate of everything.")
flags.DEFINE_list("top_mlp", default=["16", "8", "1"], help="Widths of the top layers.")
flags.DEFINE_bool("pipeline_execution", default=False, help="Overlap lookups with the model.")

FLAGS = flags.FLAGS

# Vocabulary sizes of the single-valued features.
SINGLE = {"site": 11, "app": 17, "device": 5, "banner": 3}
# Word ids of the query, several a row.
QUERY_VOCABULARY = 30
NUM_DENSE = 4


def create_data(count, seed):
  """Clicks that depend on a hidden weight for every id."""
  hidden = np.random.RandomState(0)
  weights = {name: hidden.normal(size=size) for name, size in sorted(SINGLE.items())}
  word_weights = hidden.normal(size=QUERY_VOCABULARY)
  random = np.random.RandomState(seed)
  features = {"dense": random.uniform(size=(count, NUM_DENSE)).astype(np.float32)}
  score = features["dense"].sum(axis=1) - NUM_DENSE / 2
  for name, size in sorted(SINGLE.items()):
    features[name] = random.randint(size, size=count).astype(np.int32)
    score += weights[name][features[name]]
  words = random.randint(1, QUERY_VOCABULARY, size=(count, 3)).astype(np.int32)
  words[random.uniform(size=words.shape) < 0.3] = 0
  features["query"] = words
  score += np.where(words > 0, word_weights[words], 0).sum(axis=1)
  return features, (score > 0).astype(np.float32)


def get_input_fn(count, seed, is_training):

  def input_fn(params):
    features, labels = create_data(count, seed)
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    if is_training:
      dataset = dataset.repeat()
    dataset = dataset.batch(params["batch_size"], drop_remainder=is_training)

    def to_sparse(features, labels):
      # A row without a word has no entry; 0 is the filler.
      features["query"] = tf.sparse.from_dense(features["query"])
      return features, labels

    return dataset.map(to_sparse)

  return input_fn


def serving_input_receiver_fn():
  features = {name: tf.placeholder(tf.int32, [None], name=name) for name in sorted(SINGLE)}
  features["dense"] = tf.placeholder(tf.float32, [None, NUM_DENSE], name="dense")
  query = tf.placeholder(tf.int32, [None, 3], name="query")
  receivers = dict(features, query=query)
  features["query"] = tf.sparse.from_dense(query)
  return tf.estimator.export.ServingInputReceiver(features, receivers)


def table_configs(learning_rate_fn=None):
  """One table a feature, but `site` and `app` look into one."""
  tables = {}
  for name, size in (("publisher", max(SINGLE["site"], SINGLE["app"])),
                     ("device", SINGLE["device"]), ("banner", SINGLE["banner"])):
    tables[name] = tpu_embedding.TableConfig(
        vocabulary_size=size,
        dimension=FLAGS.embedding_dim,
        initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=len(name)),
        combiner=None,
        learning_rate_fn=learning_rate_fn)
  tables["words"] = tpu_embedding.TableConfig(
      QUERY_VOCABULARY, FLAGS.embedding_dim,
      initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=9),
      combiner="sum", learning_rate_fn=learning_rate_fn)
  return tables


def feature_configs():
  return {
      "site": tpu_embedding.FeatureConfig("publisher"),
      "app": tpu_embedding.FeatureConfig("publisher"),
      "device": tpu_embedding.FeatureConfig("device"),
      "banner": tpu_embedding.FeatureConfig("banner"),
      "query": tpu_embedding.FeatureConfig("words"),
  }


def mlp(inputs, units, name):
  for i, width in enumerate(units):
    inputs = tf.layers.dense(
        inputs, width, name="%s_%d" % (name, i),
        activation=None if width == 1 else tf.nn.relu,
        kernel_initializer=tf.glorot_normal_initializer(seed=width + i))
  return inputs


def dot_interact(vectors):
  """Dot products of all pairs of feature vectors."""
  stacked = tf.stack(vectors, axis=1)
  products = tf.matmul(stacked, stacked, transpose_b=True)
  upper = np.triu_indices(len(vectors), k=1)
  flat = tf.reshape(products, [-1, len(vectors) ** 2])
  return tf.gather(flat, upper[0] * len(vectors) + upper[1], axis=1)


def dlrm_model_fn(features, labels, mode, params):
  """Bottom MLP, interactions, top MLP. The embeddings are looked up already."""
  bottom = mlp(features["dense"], [FLAGS.embedding_dim], "bottom")
  embeddings = [features[name] for name in sorted(params["embedded"])]
  for embedding in embeddings:
    embedding.shape.assert_is_compatible_with([None, FLAGS.embedding_dim])
  top_inputs = tf.concat([bottom, dot_interact([bottom] + embeddings)] + embeddings, axis=1)
  logits = tf.squeeze(mlp(top_inputs, [int(n) for n in FLAGS.top_mlp], "top"), axis=1)
  probability = tf.sigmoid(logits)

  if mode == tf.estimator.ModeKeys.PREDICT:
    return tf.estimator.tpu.TPUEstimatorSpec(
        mode=mode, predictions={"prediction": probability},
        export_outputs={"clicks": tf.estimator.export.PredictOutput({"prediction": probability})})

  loss = tf.reduce_mean(
      tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits), name="loss")
  if mode == tf.estimator.ModeKeys.TRAIN:
    optimizer = tf.tpu.CrossShardOptimizer(
        tf.train.AdagradOptimizer(FLAGS.learning_rate), reduction=tf.losses.Reduction.MEAN)
    train_op = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    logging_hook = tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=20)
    return tf.estimator.tpu.TPUEstimatorSpec(
        mode=mode, loss=loss, train_op=train_op, training_hooks=[logging_hook])

  def metric_fn(labels, probability):
    return {
        "auc": tf.metrics.auc(labels, probability, num_thresholds=1000),
        "accuracy": tf.metrics.accuracy(labels, tf.round(probability)),
    }

  return tf.estimator.tpu.TPUEstimatorSpec(
      mode=mode, loss=loss, eval_metrics=(metric_fn, [labels, probability]))


class StepLoss(tf.train.SessionRunHook):
  """Remembers the losses of a training."""

  def __init__(self):
    self.values = []

  def before_run(self, run_context):
    graph = run_context.session.graph
    return tf.train.SessionRunArgs(graph.get_tensor_by_name("loss:0"))

  def after_run(self, run_context, run_values):
    self.values.append(float(run_values.results))


def main(_):
  run_config = tf.estimator.tpu.RunConfig(
      master=FLAGS.tpu,
      evaluation_master=FLAGS.tpu,
      model_dir=FLAGS.model_dir,
      save_checkpoints_secs=None,
      save_checkpoints_steps=FLAGS.train_steps,
      tpu_config=tf.estimator.tpu.TPUConfig(
          iterations_per_loop=50,
          per_host_input_for_training=tf.estimator.tpu.InputPipelineConfig.PER_HOST_V2))
  features = feature_configs()
  embedding_config_spec = tf.estimator.tpu.experimental.EmbeddingConfigSpec(
      feature_to_config_dict=features,
      table_to_config_dict=table_configs(lambda step: FLAGS.learning_rate),
      optimization_parameters=tpu_embedding.AdagradParameters(
          learning_rate=FLAGS.learning_rate, initial_accumulator=0.1),
      pipeline_execution_with_tensor_core=FLAGS.pipeline_execution,
      partition_strategy="div")
  estimator = tf.estimator.tpu.TPUEstimator(
      model_fn=dlrm_model_fn,
      config=run_config,
      use_tpu=True,
      params={"embedded": sorted(features)},
      train_batch_size=FLAGS.batch_size,
      eval_batch_size=FLAGS.batch_size,
      predict_batch_size=FLAGS.batch_size,
      embedding_config_spec=embedding_config_spec)
  hook = StepLoss()
  estimator.train(get_input_fn(1280, 1, True), steps=FLAGS.train_steps, hooks=[hook])
  metrics = estimator.evaluate(get_input_fn(256, 2, False), steps=4)
  predictions = estimator.predict(get_input_fn(24, 3, False))
  predictions = [float(p["prediction"]) for p in predictions]
  export_dir = estimator.export_saved_model(
      os.path.join(FLAGS.model_dir, "export"), serving_input_receiver_fn)

  # Does the served model say the same?
  features, _ = create_data(24, 3)
  with tf.Graph().as_default(), tf.Session() as session:
    signature = tf.saved_model.load(session, ["serve"], export_dir).signature_def["serving_default"]
    feed = {signature.inputs[name].name: value for name, value in features.items()}
    served = session.run(signature.outputs["prediction"].name, feed)

  with open(os.path.join(FLAGS.model_dir, "results.json"), "w") as f:
    json.dump({
        "losses": hook.values,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "predictions": predictions,
        "served": served.tolist(),
        "tables": {name: list(estimator.get_variable_value(name).shape)
                   for name in table_configs()},
        "variables": sorted(estimator.get_variable_names()),
    }, f, indent=2)


if __name__ == "__main__":
  tf.logging.set_verbosity(tf.logging.INFO)
  absl_app.run(main)
