# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a small Transformer encoder on sentence pairs.

The style of the first BERT code: variables by tf.get_variable, an optimizer of its own, a checkpoint
of a pre-trained model, no feature columns.
"""

from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import collections
import json
import math
import os
import re

import numpy as np
import tensorflow.compat.v1 as tf

flags = tf.flags

FLAGS = flags.FLAGS

## Required parameters
flags.DEFINE_string(
    "output_dir", None,
    "The output directory where the model checkpoints will be written.")

## Other parameters
flags.DEFINE_string(
    "init_checkpoint", None,
    "Initial checkpoint (usually from a pre-trained BERT model). Made up if there is none.")

flags.DEFINE_integer("max_seq_length", 10, "The maximum total input sequence length.")

flags.DEFINE_bool("do_train", True, "Whether to run training.")

flags.DEFINE_bool("do_eval", True, "Whether to run eval on the dev set.")

flags.DEFINE_bool("do_predict", True, "Whether to run the model in inference mode on the test set.")

flags.DEFINE_bool("do_export", True, "Whether to export the model.")

flags.DEFINE_integer("train_batch_size", 16, "Total batch size for training.")

flags.DEFINE_integer("eval_batch_size", 8, "Total batch size for eval.")

flags.DEFINE_integer("predict_batch_size", 8, "Total batch size for predict.")

flags.DEFINE_float("learning_rate", 5e-3, "The initial learning rate for Adam.")

flags.DEFINE_integer("num_train_steps", 60, "Number of training steps to perform.")

flags.DEFINE_float("warmup_proportion", 0.1, "Proportion of training with linear warmup.")

flags.DEFINE_integer("save_checkpoints_steps", 30, "How often to save the model checkpoint.")

flags.DEFINE_integer("iterations_per_loop", 30, "How many steps to make in each estimator call.")

flags.DEFINE_bool("use_tpu", False, "Whether to use TPU or GPU/CPU.")

tf.flags.DEFINE_string("tpu_name", None, "The Cloud TPU to use for training.")

tf.flags.DEFINE_string("tpu_zone", None, "[Optional] GCE zone where the Cloud TPU is located in.")

tf.flags.DEFINE_string("gcp_project", None, "[Optional] Project name of the Cloud TPU project.")

tf.flags.DEFINE_string("master", None, "[Optional] TensorFlow master URL.")

flags.DEFINE_integer("num_tpu_cores", 8, "Only used if `use_tpu` is True.")


class BertConfig(object):
  """Configuration for `BertModel`."""

  def __init__(self,
               vocab_size=40,
               hidden_size=16,
               num_hidden_layers=2,
               num_attention_heads=2,
               intermediate_size=32,
               max_position_embeddings=16,
               type_vocab_size=2,
               initializer_range=0.1):
    self.vocab_size = vocab_size
    self.hidden_size = hidden_size
    self.num_hidden_layers = num_hidden_layers
    self.num_attention_heads = num_attention_heads
    self.intermediate_size = intermediate_size
    self.max_position_embeddings = max_position_embeddings
    self.type_vocab_size = type_vocab_size
    self.initializer_range = initializer_range


def gelu(x):
  """Gaussian Error Linear Unit."""
  return x * 0.5 * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * tf.pow(x, 3))))


def create_initializer(initializer_range, name):
  """A truncated normal, of a seed for every name, so that runs can be repeated."""
  seed = sum((i + 1) * ord(c) for i, c in enumerate(name))
  return tf.truncated_normal_initializer(stddev=initializer_range, seed=seed)


def layer_norm(input_tensor):
  """Run layer normalization on the last dimension of the tensor."""
  with tf.variable_scope("LayerNorm", reuse=tf.AUTO_REUSE):
    width = input_tensor.shape[-1]
    beta = tf.get_variable("beta", [width], initializer=tf.zeros_initializer())
    gamma = tf.get_variable("gamma", [width], initializer=tf.ones_initializer())
  mean, variance = tf.nn.moments(input_tensor, axes=[-1], keep_dims=True)
  return tf.nn.batch_normalization(input_tensor, mean, variance, beta, gamma, 1e-12)


def dense(input_tensor, units, name, config, activation=None):
  scope = tf.get_variable_scope().name
  return tf.layers.dense(
      input_tensor,
      units,
      activation=activation,
      name=name,
      kernel_initializer=create_initializer(config.initializer_range, scope + "/" + str(name)))


class BertModel(object):
  """Token, type and position embeddings, then layers of attention."""

  def __init__(self, config, is_training, input_ids, input_mask, token_type_ids):
    del is_training
    self.config = config
    with tf.variable_scope("bert"):
      with tf.variable_scope("embeddings"):
        embeddings = self.embed(input_ids, token_type_ids)
      with tf.variable_scope("encoder"):
        adder = (1.0 - tf.cast(input_mask[:, tf.newaxis, tf.newaxis, :], tf.float32)) * -10000.0
        layer = embeddings
        for i in range(config.num_hidden_layers):
          with tf.variable_scope("layer_%d" % i):
            layer = self.transformer_layer(layer, adder)
        self.sequence_output = layer
      with tf.variable_scope("pooler"):
        first_token = tf.squeeze(layer[:, 0:1, :], axis=1)
        self.pooled_output = dense(
            first_token, config.hidden_size, "dense", config, activation=tf.tanh)

  def table(self, name, rows):
    config = self.config
    return tf.get_variable(
        name=name,
        shape=[rows, config.hidden_size],
        initializer=create_initializer(config.initializer_range, name))

  def embed(self, input_ids, token_type_ids):
    """Sums the three embeddings."""
    config = self.config
    self.embedding_table = self.table("word_embeddings", config.vocab_size)
    types = self.table("token_type_embeddings", config.type_vocab_size)
    positions = self.table("position_embeddings", config.max_position_embeddings)
    output = tf.nn.embedding_lookup(self.embedding_table, input_ids)
    output += tf.tensordot(tf.one_hot(token_type_ids, config.type_vocab_size), types, 1)
    length = input_ids.shape.as_list()[1]
    assert_op = tf.assert_less_equal(length, config.max_position_embeddings)
    with tf.control_dependencies([assert_op]):
      output += tf.slice(positions, [0, 0], [length, -1])
    return layer_norm(output)

  def transformer_layer(self, layer_input, adder):
    """Attention and the feed-forward part."""
    config = self.config
    with tf.variable_scope("attention"):
      with tf.variable_scope("self"):
        context = self.attention(layer_input, adder)
      with tf.variable_scope("output"):
        attended = layer_norm(layer_input + dense(context, config.hidden_size, "dense", config))
    with tf.variable_scope("intermediate"):
      hidden = dense(attended, config.intermediate_size, "dense", config, activation=gelu)
    with tf.variable_scope("output"):
      return layer_norm(attended + dense(hidden, config.hidden_size, "dense", config))

  def attention(self, layer_input, adder):
    """Multi-headed attention from the layer to itself."""
    config = self.config
    heads = config.num_attention_heads
    size = config.hidden_size // heads
    length = layer_input.shape.as_list()[1]

    def split(name):
      projected = dense(layer_input, config.hidden_size, name, config)
      return tf.transpose(tf.reshape(projected, [-1, length, heads, size]), [0, 2, 1, 3])

    query, key, value = split("query"), split("key"), split("value")
    scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(size) + adder
    context = tf.matmul(tf.nn.softmax(scores), value)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, length, heads * size])


def get_assignment_map_from_checkpoint(tvars, init_checkpoint):
  """Compute the union of the current variables and checkpoint variables."""
  initialized_variable_names = {}
  name_to_variable = collections.OrderedDict()
  for var in tvars:
    name = var.name
    m = re.match("^(.*):\\d+$", name)
    if m is not None:
      name = m.group(1)
    name_to_variable[name] = var

  assignment_map = collections.OrderedDict()
  for name, _ in tf.train.list_variables(init_checkpoint):
    if name not in name_to_variable:
      continue
    assignment_map[name] = name
    initialized_variable_names[name] = 1
    initialized_variable_names[name + ":0"] = 1
  return assignment_map, initialized_variable_names


class AdamWeightDecayOptimizer(tf.train.Optimizer):
  """A basic Adam optimizer that includes "correct" L2 weight decay."""

  def __init__(self,
               learning_rate,
               weight_decay_rate=0.0,
               beta_1=0.9,
               beta_2=0.999,
               epsilon=1e-6,
               exclude_from_weight_decay=None,
               name="AdamWeightDecayOptimizer"):
    super(AdamWeightDecayOptimizer, self).__init__(False, name)
    self.learning_rate = learning_rate
    self.weight_decay_rate = weight_decay_rate
    self.beta_1 = beta_1
    self.beta_2 = beta_2
    self.epsilon = epsilon
    self.exclude_from_weight_decay = exclude_from_weight_decay

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    """See base class."""
    assignments = []
    for (grad, param) in grads_and_vars:
      if grad is None or param is None:
        continue
      param_name = re.match("^(.*):\\d+$", param.name).group(1)
      m = tf.get_variable(
          name=param_name + "/adam_m", shape=param.shape.as_list(), dtype=tf.float32,
          trainable=False, initializer=tf.zeros_initializer())
      v = tf.get_variable(
          name=param_name + "/adam_v", shape=param.shape.as_list(), dtype=tf.float32,
          trainable=False, initializer=tf.zeros_initializer())

      # Standard Adam update, without bias correction.
      next_m = tf.multiply(self.beta_1, m) + tf.multiply(1.0 - self.beta_1, grad)
      next_v = tf.multiply(self.beta_2, v) + tf.multiply(1.0 - self.beta_2, tf.square(grad))
      update = next_m / (tf.sqrt(next_v) + self.epsilon)
      if self._do_use_weight_decay(param_name):
        update += self.weight_decay_rate * param
      next_param = param - self.learning_rate * update
      assignments.extend([param.assign(next_param), m.assign(next_m), v.assign(next_v)])
    return tf.group(*assignments, name=name)

  def _do_use_weight_decay(self, param_name):
    """Whether to use L2 weight decay for `param_name`."""
    if not self.weight_decay_rate:
      return False
    for r in self.exclude_from_weight_decay or []:
      if re.search(r, param_name) is not None:
        return False
    return True


def create_optimizer(loss, init_lr, num_train_steps, num_warmup_steps, use_tpu):
  """Creates an optimizer training op."""
  global_step = tf.train.get_or_create_global_step()
  learning_rate = tf.constant(value=init_lr, shape=[], dtype=tf.float32)
  # Implements linear decay of the learning rate.
  learning_rate = tf.train.polynomial_decay(
      learning_rate, global_step, num_train_steps, end_learning_rate=0.0, power=1.0, cycle=False)
  # Implements linear warmup.
  if num_warmup_steps:
    global_steps_int = tf.cast(global_step, tf.int32)
    warmup_steps_int = tf.constant(num_warmup_steps, dtype=tf.int32)
    warmup_percent_done = tf.cast(global_steps_int, tf.float32) / float(num_warmup_steps)
    is_warmup = tf.cast(global_steps_int < warmup_steps_int, tf.float32)
    learning_rate = (
        (1.0 - is_warmup) * learning_rate + is_warmup * init_lr * warmup_percent_done)

  # The pre-trained weights were trained with weight decay, so the fine tuning has it too.
  optimizer = AdamWeightDecayOptimizer(
      learning_rate=learning_rate,
      weight_decay_rate=0.01,
      exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"])
  if use_tpu:
    optimizer = tf.tpu.CrossShardOptimizer(optimizer)

  tvars = tf.trainable_variables()
  grads = tf.gradients(loss, tvars)
  # This is how the model was pre-trained.
  (grads, _) = tf.clip_by_global_norm(grads, clip_norm=1.0)
  train_op = optimizer.apply_gradients(zip(grads, tvars), global_step=global_step)

  # Normally the global step update is done inside of `apply_gradients`. However,
  # `AdamWeightDecayOptimizer` doesn't do this. But if you use a different optimizer, you should
  # probably take this line out.
  with tf.control_dependencies([train_op]):
    return tf.assign_add(global_step, 1)


def create_model(bert_config, is_training, features, labels, num_labels):
  """Creates a classification model."""
  model = BertModel(
      bert_config, is_training, features["input_ids"], features["input_mask"],
      features["segment_ids"])
  output_layer = model.pooled_output
  hidden_size = output_layer.shape[-1]
  output_weights = tf.get_variable(
      "output_weights", [num_labels, hidden_size],
      initializer=tf.truncated_normal_initializer(stddev=0.02, seed=5))
  output_bias = tf.get_variable("output_bias", [num_labels], initializer=tf.zeros_initializer())

  with tf.variable_scope("loss"):
    logits = tf.nn.bias_add(tf.matmul(output_layer, output_weights, transpose_b=True), output_bias)
    probabilities = tf.nn.softmax(logits, axis=-1)
    if labels is None:
      return None, None, logits, probabilities
    log_probs = tf.nn.log_softmax(logits, axis=-1)
    one_hot_labels = tf.one_hot(labels, depth=num_labels, dtype=tf.float32)
    per_example_loss = -tf.reduce_sum(one_hot_labels * log_probs, axis=-1)
    loss = tf.reduce_mean(per_example_loss, name="total_loss")
    return loss, per_example_loss, logits, probabilities


def model_fn_builder(bert_config, num_labels, init_checkpoint, learning_rate, num_train_steps,
                     num_warmup_steps, use_tpu):
  """Returns `model_fn` closure for TPUEstimator."""

  def model_fn(features, labels, mode, params):  # pylint: disable=unused-argument
    """The `model_fn` for TPUEstimator."""
    tf.logging.info("*** Features ***")
    for name in sorted(features.keys()):
      tf.logging.info("  name = %s, shape = %s" % (name, features[name].shape))

    is_training = (mode == tf.estimator.ModeKeys.TRAIN)
    label_ids = features.get("label_ids")
    total_loss, per_example_loss, logits, probabilities = create_model(
        bert_config, is_training, features, label_ids, num_labels)

    tvars = tf.trainable_variables()
    initialized_variable_names = {}
    scaffold_fn = None
    if init_checkpoint:
      (assignment_map, initialized_variable_names
      ) = get_assignment_map_from_checkpoint(tvars, init_checkpoint)
      if use_tpu:

        def tpu_scaffold():
          tf.train.init_from_checkpoint(init_checkpoint, assignment_map)
          return tf.train.Scaffold()

        scaffold_fn = tpu_scaffold
      else:
        tf.train.init_from_checkpoint(init_checkpoint, assignment_map)

    tf.logging.info("**** Trainable Variables ****")
    for var in tvars:
      init_string = ""
      if var.name in initialized_variable_names:
        init_string = ", *INIT_FROM_CKPT*"
      tf.logging.info("  name = %s, shape = %s%s", var.name, var.shape, init_string)

    output_spec = None
    if mode == tf.estimator.ModeKeys.TRAIN:
      train_op = create_optimizer(
          total_loss, learning_rate, num_train_steps, num_warmup_steps, use_tpu)
      output_spec = tf.estimator.tpu.TPUEstimatorSpec(
          mode=mode,
          loss=total_loss,
          train_op=train_op,
          scaffold_fn=scaffold_fn)
    elif mode == tf.estimator.ModeKeys.EVAL:

      def metric_fn(per_example_loss, label_ids, logits, is_real_example):
        predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
        accuracy = tf.metrics.accuracy(
            labels=label_ids, predictions=predictions, weights=is_real_example)
        loss = tf.metrics.mean(values=per_example_loss, weights=is_real_example)
        return {"eval_accuracy": accuracy, "eval_loss": loss}

      is_real_example = tf.cast(features["is_real_example"], dtype=tf.float32)
      eval_metrics = (metric_fn, [per_example_loss, label_ids, logits, is_real_example])
      output_spec = tf.estimator.tpu.TPUEstimatorSpec(
          mode=mode,
          loss=total_loss,
          eval_metrics=eval_metrics,
          scaffold_fn=scaffold_fn)
    else:
      output_spec = tf.estimator.tpu.TPUEstimatorSpec(
          mode=mode,
          predictions={"probabilities": probabilities},
          scaffold_fn=scaffold_fn)
    return output_spec

  return model_fn


def make_examples(count, seed):
  """Pairs of sentences; the label says whether they share a word."""
  random = np.random.RandomState(seed)
  examples = []
  for _ in range(count):
    same = random.randint(2)
    first = random.randint(3, 20, size=3)
    second = random.randint(20, 40, size=random.randint(2, 4))
    if same:
      second[0] = 1
    tokens = [2] + list(first) + [0] + list(second) + [0]
    examples.append((tokens[:10], [0] * 5 + [1] * (len(second) + 1), same))
  return examples


def file_based_convert_examples_to_features(examples, seq_length, output_file, padded_to=None):
  """Convert a set of examples to a TFRecord file."""
  writer = tf.python_io.TFRecordWriter(output_file)
  real = len(examples)
  if padded_to:
    examples = examples + [([], [], 0)] * (padded_to - real)
  for (index, (tokens, segments, label)) in enumerate(examples):

    def create_int_feature(values):
      return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(v) for v in values]))

    def pad(values):
      return (list(values) + [0] * seq_length)[:seq_length]

    features = collections.OrderedDict()
    features["input_ids"] = create_int_feature(pad(tokens))
    features["input_mask"] = create_int_feature(pad([1] * len(tokens)))
    features["segment_ids"] = create_int_feature(pad(segments))
    features["label_ids"] = create_int_feature([label])
    features["is_real_example"] = create_int_feature([int(index < real)])
    tf_example = tf.train.Example(features=tf.train.Features(feature=features))
    writer.write(tf_example.SerializeToString())
  writer.close()


def name_to_features(seq_length):
  return {
      "input_ids": tf.FixedLenFeature([seq_length], tf.int64),
      "input_mask": tf.FixedLenFeature([seq_length], tf.int64),
      "segment_ids": tf.FixedLenFeature([seq_length], tf.int64),
      "label_ids": tf.FixedLenFeature([], tf.int64),
      "is_real_example": tf.FixedLenFeature([], tf.int64),
  }


def file_based_input_fn_builder(input_file, seq_length, is_training, drop_remainder):
  """Creates an `input_fn` closure to be passed to TPUEstimator."""

  def _decode_record(record):
    """Decodes a record to a TensorFlow example."""
    example = tf.parse_single_example(record, name_to_features(seq_length))
    # tf.Example only supports tf.int64, but the TPU only supports tf.int32.
    # So cast all int64 to int32.
    for name in list(example.keys()):
      t = example[name]
      if t.dtype == tf.int64:
        t = tf.to_int32(t)
      example[name] = t
    return example

  def input_fn(params):
    """The actual input function."""
    batch_size = params["batch_size"]
    # For training, we want a lot of parallel reading and shuffling.
    # For eval, we want no shuffling and parallel reading doesn't matter.
    d = tf.data.TFRecordDataset(input_file)
    if is_training:
      d = d.repeat()
      d = d.shuffle(buffer_size=100, seed=3)
    d = d.apply(
        tf.data.experimental.map_and_batch(
            _decode_record,
            batch_size=batch_size,
            drop_remainder=drop_remainder))
    return d

  return input_fn


def serving_input_fn():
  length = FLAGS.max_seq_length
  features = {
      name: tf.placeholder(tf.int32, [None, length], name=name)
      for name in ("input_ids", "input_mask", "segment_ids")
  }
  return tf.estimator.export.build_raw_serving_input_receiver_fn(features)()


def pretrain(bert_config, path):
  """Stands for a pre-trained model: its checkpoint has no classifier."""
  with tf.Graph().as_default():
    ids = tf.placeholder(tf.int32, [None, FLAGS.max_seq_length])
    BertModel(bert_config, False, ids, ids, ids)
    tf.get_variable("cls/predictions/output_bias", [bert_config.vocab_size])
    with tf.Session() as sess:
      sess.run(tf.global_variables_initializer())
      return tf.train.Saver().save(sess, path)


class LossRecorder(tf.train.SessionRunHook):
  """Records the loss of every step."""

  def __init__(self):
    self.losses = []

  def before_run(self, run_context):
    return tf.train.SessionRunArgs("loss/total_loss:0")

  def after_run(self, run_context, run_values):
    self.losses.append(float(run_values.results))


def main(_):
  tf.logging.set_verbosity(tf.logging.INFO)
  tf.gfile.MakeDirs(FLAGS.output_dir)
  bert_config = BertConfig()
  if FLAGS.max_seq_length > bert_config.max_position_embeddings:
    raise ValueError("Cannot use sequence length %d" % FLAGS.max_seq_length)
  init_checkpoint = FLAGS.init_checkpoint
  if init_checkpoint is None:
    init_checkpoint = pretrain(bert_config, os.path.join(FLAGS.output_dir, "bert_model.ckpt"))

  tpu_cluster_resolver = None
  if FLAGS.use_tpu and FLAGS.tpu_name:
    tpu_cluster_resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
        FLAGS.tpu_name, zone=FLAGS.tpu_zone, project=FLAGS.gcp_project)

  is_per_host = tf.estimator.tpu.InputPipelineConfig.PER_HOST_V2
  run_config = tf.estimator.tpu.RunConfig(
      cluster=tpu_cluster_resolver,
      master=FLAGS.master,
      model_dir=os.path.join(FLAGS.output_dir, "model"),
      save_checkpoints_steps=FLAGS.save_checkpoints_steps,
      tpu_config=tf.estimator.tpu.TPUConfig(
          iterations_per_loop=FLAGS.iterations_per_loop,
          num_shards=FLAGS.num_tpu_cores,
          per_host_input_for_training=is_per_host))

  num_warmup_steps = int(FLAGS.num_train_steps * FLAGS.warmup_proportion)
  model_fn = model_fn_builder(
      bert_config=bert_config,
      num_labels=2,
      init_checkpoint=init_checkpoint,
      learning_rate=FLAGS.learning_rate,
      num_train_steps=FLAGS.num_train_steps,
      num_warmup_steps=num_warmup_steps,
      use_tpu=FLAGS.use_tpu)

  # If TPU is not available, this will fall back to normal Estimator on CPU or GPU.
  estimator = tf.estimator.tpu.TPUEstimator(
      use_tpu=FLAGS.use_tpu,
      model_fn=model_fn,
      config=run_config,
      train_batch_size=FLAGS.train_batch_size,
      eval_batch_size=FLAGS.eval_batch_size,
      predict_batch_size=FLAGS.predict_batch_size)

  results = {}
  if FLAGS.do_train:
    train_file = os.path.join(FLAGS.output_dir, "train.tf_record")
    file_based_convert_examples_to_features(
        make_examples(320, 1), FLAGS.max_seq_length, train_file)
    tf.logging.info("***** Running training *****")
    train_input_fn = file_based_input_fn_builder(train_file, FLAGS.max_seq_length, True, True)
    recorder = LossRecorder()
    estimator.train(
        input_fn=train_input_fn, max_steps=FLAGS.num_train_steps, hooks=[recorder])
    results["losses"] = recorder.losses

  if FLAGS.do_eval:
    eval_file = os.path.join(FLAGS.output_dir, "eval.tf_record")
    # TPU requires a fixed batch size for all batches, therefore the number of examples must be a
    # multiple of the batch size. These fakes are ignored: their weight is 0.
    file_based_convert_examples_to_features(
        make_examples(60, 2), FLAGS.max_seq_length, eval_file, padded_to=64)
    eval_input_fn = file_based_input_fn_builder(eval_file, FLAGS.max_seq_length, False, True)
    result = estimator.evaluate(input_fn=eval_input_fn, steps=64 // FLAGS.eval_batch_size)
    with tf.gfile.GFile(os.path.join(FLAGS.output_dir, "eval_results.txt"), "w") as writer:
      for key in sorted(result.keys()):
        tf.logging.info("  %s = %s", key, str(result[key]))
        writer.write("%s = %s\n" % (key, str(result[key])))
    results["metrics"] = {key: float(result[key]) for key in result}

  if FLAGS.do_predict:
    predict_file = os.path.join(FLAGS.output_dir, "predict.tf_record")
    file_based_convert_examples_to_features(
        make_examples(12, 3), FLAGS.max_seq_length, predict_file)
    predict_input_fn = file_based_input_fn_builder(
        predict_file, FLAGS.max_seq_length, False, False)
    results["probabilities"] = [
        [float(p) for p in prediction["probabilities"]]
        for prediction in estimator.predict(input_fn=predict_input_fn)]

  if FLAGS.do_export:
    estimator._export_to_tpu = False
    estimator.export_saved_model(os.path.join(FLAGS.output_dir, "export"), serving_input_fn)

  results["variables"] = sorted(estimator.get_variable_names())
  with tf.gfile.GFile(os.path.join(FLAGS.output_dir, "results.json"), "w") as writer:
    writer.write(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
  flags.mark_flag_as_required("output_dir")
  tf.app.run()
