# SPDX-License-Identifier: Apache-2.0
"""A small Transformer of Tensor2Tensor on a problem of its registry."""

import os
import sys

import tensorflow.compat.v1 as tf
from tensor2tensor import models  # registers them
from tensor2tensor.data_generators import algorithmic  # registers its problems
from tensor2tensor.utils import registry, trainer_lib

del models, algorithmic
data_dir = os.path.join(sys.argv[1], "data")
tf.gfile.MakeDirs(data_dir)
problem = registry.problem("algorithmic_identity_binary40")
for split, count in (("train", 200), ("dev", 20)):
    path = os.path.join(data_dir, "%s-%s-00000-of-00001" % (problem.dataset_filename(), split))
    with tf.io.TFRecordWriter(path) as writer:
        for index in range(count):
            ids = [2 + (index >> bit) % 2 for bit in range(6)]
            feature = tf.train.Feature(int64_list=tf.train.Int64List(value=ids + [1]))
            features = tf.train.Features(feature={"inputs": feature, "targets": feature})
            writer.write(tf.train.Example(features=features).SerializeToString())
hparams = trainer_lib.create_hparams(
    "transformer_tiny", data_dir=data_dir, problem_name="algorithmic_identity_binary40"
)
hparams.batch_size = 128
hparams.add_hparam("warm_start_from", None)  # as its trainer does
run_config = trainer_lib.create_run_config(
    model_name="transformer", model_dir=os.path.join(sys.argv[1], "model"), save_checkpoints_steps=5
)
estimator = trainer_lib.create_estimator("transformer", hparams, run_config)
train_input_fn = problem.make_estimator_input_fn(tf.estimator.ModeKeys.TRAIN, hparams, data_dir)
estimator.train(train_input_fn, max_steps=5)
assert estimator.get_variable_value("global_step") == 5
