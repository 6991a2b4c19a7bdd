# SPDX-License-Identifier: Apache-2.0
"""Warm-starts from another model's checkpoint: a larger vocabulary, other names, `init_from`.

The donor is trained for a few steps by the same side. `word` takes its rows by vocabulary file,
`colour` comes under an older scope, and the head by `tf.compat.v1.train.init_from_checkpoint`.
"""

from __future__ import annotations

import os

import numpy as np
import side
import tensorflow as tf
from programs import common

tf1 = tf.compat.v1
NEW_WORDS = ("gnu", "fox", "elk", "dog", "cat", "bee", "ant", "hen")
DONOR_STEPS = 20


def rows(random, count):
    """Returns the features of `count` rows."""
    return {
        "word": np.array(NEW_WORDS)[random.randint(0, len(NEW_WORDS), (count, 2))],
        "colour": common.sparse(random, count, 3, lambda r: r.randint(0, 6)),
    }


train_input_fn, test_input_fn = common.input_fns(rows, seed=900)


def estimator_of(model_dir, words, scope, donor=None, warm_start_from=None):
    """Returns an estimator with columns under `scope`; `donor` has the head's initial values."""
    fc = tf.feature_column
    path = common.write_vocabulary(model_dir, words)
    tpu_columns = [
        side.tpu_columns.embedding_column(
            fc.categorical_column_with_vocabulary_file("word", path),
            4,
            initializer=common.normal(91),
        ),
        side.tpu_columns.embedding_column(
            fc.categorical_column_with_identity("colour", 6), 3, initializer=common.normal(92)
        ),
    ]

    def scaffold_fn():
        tf1.train.init_from_checkpoint(donor, {"head/": "head/"})
        return tf1.train.Scaffold()

    def model_fn(features, labels, mode, params):
        del params
        with tf1.variable_scope(scope):
            hidden = tf1.feature_column.input_layer(features, tpu_columns)
        logits = common.head(hidden, seed=93)

        def train_op_fn(loss):
            step = tf1.train.get_global_step()
            return tf1.train.AdagradOptimizer(0.1).minimize(loss, global_step=step)

        return common.spec(
            mode, logits, labels, train_op_fn, scaffold_fn=scaffold_fn if donor else None
        )

    estimator = common.make_estimator(
        model_fn, model_dir, tpu_columns, warm_start_from=warm_start_from
    )
    return estimator, path


def make_estimator(model_dir):
    """Trains the donor if there is none yet, and returns the estimator that starts from it."""
    donor_dir = model_dir.rstrip("/") + ".donor"
    donor, old_path = estimator_of(donor_dir, common.WORDS, "old")
    if not os.path.exists(os.path.join(donor_dir, "checkpoint")):
        donor.train(train_input_fn, max_steps=DONOR_STEPS)
    new_path = common.write_vocabulary(model_dir, NEW_WORDS)
    word = "new/input_layer/word_embedding/embedding_weights"
    settings = side.estimator.WarmStartSettings(
        donor_dir,
        vars_to_warm_start=".*embedding_weights",
        var_name_to_vocab_info={
            word: side.estimator.VocabInfo(
                new_path, len(NEW_WORDS), 0, old_path, len(common.WORDS), common.normal(94)
            )
        },
        var_name_to_prev_var_name={
            name: name.replace("new/", "old/")
            for name in (word, "new/input_layer/colour_embedding/embedding_weights")
        },
    )
    donor_checkpoint = os.path.join(donor_dir, f"model.ckpt-{DONOR_STEPS}")
    estimator, _ = estimator_of(model_dir, NEW_WORDS, "new", donor_checkpoint, settings)
    return estimator
