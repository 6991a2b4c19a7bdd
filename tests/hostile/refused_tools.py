# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of conversions, of the checkpoint tools and of their command line."""

from __future__ import annotations

import os
import tempfile

import tensorflow as tf

import estimator_spec as es
from estimator_spec import checkpoints, convert
from refusal import each, refused, spec

tf1 = tf.compat.v1
NOWHERE = "/nowhere/model.ckpt-1"


def checkpoint():
    """Returns the prefix of a checkpoint with one table."""
    prefix = os.path.join(tempfile.mkdtemp(), "model.ckpt-1")
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable("input_layer/words_embedding/embedding_weights", [10, 4])
        session.run(tf1.global_variables_initializer())
        return tf1.train.Saver().save(session, prefix)


def _convert(**arguments):
    return checkpoints.convert(checkpoint(), os.path.join(tempfile.mkdtemp(), "out"), **arguments)


REFUSALS = [
    *(
        refusal
        for name, call in (
            ("to_mid_level", convert.to_mid_level),
            ("to_tpu_embedding", convert.to_tpu_embedding),
            ("config_proto_report", convert.config_proto_report),
            ("to_config_proto", lambda spec: convert.to_config_proto(spec, 8)),
            ("to_serving", lambda spec: convert.to_serving(spec, NOWHERE)),
        )
        for refusal in each(name, [None, "spec"], call, TypeError, "EmbeddingConfigSpec")
    ),
    *each(
        "batch_size",
        [0, -8, "8"],
        lambda v: convert.to_config_proto(spec(), v),
        ValueError,
        "batch_size must be a positive int",
    ),
    *each("target", [None, 3], lambda v: convert.features_for(v, {}), TypeError, "target must be"),
    refused(
        "serving without a checkpoint",
        lambda: convert.to_serving(spec(), NOWHERE),
        es.CheckpointError,
        NOWHERE,
    ),
    *(
        refused(f"{name} of no checkpoint", lambda f=f: f(NOWHERE), es.CheckpointError, NOWHERE)
        for name, f in (
            ("inspect", checkpoints.inspect),
            ("verify", checkpoints.verify),
            ("tables_of", checkpoints.tables_of),
            ("record", checkpoints.record),
            ("diff", lambda path: checkpoints.diff(checkpoint(), path)),
            ("convert", lambda path: checkpoints.convert(path, path + "-new", shards=2)),
        )
    ),
    refused(
        "inspect of an empty directory",
        lambda: checkpoints.inspect(tempfile.mkdtemp()),
        es.CheckpointError,
        "directory without a checkpoint",
    ),
    refused(
        "unknown table",
        lambda: checkpoints.read_table(checkpoint(), "titles"),
        ValueError,
        "'titles'",
        "input_layer/words_embedding/embedding_weights",
    ),
    *each(
        "strategy of a checkpoint", ["hash", 3], lambda v: _convert(strategy=v), ValueError, "mod"
    ),
    *each(
        "shards of a checkpoint", [0, -1], lambda v: _convert(shards=v), ValueError, "num_shards"
    ),
    *each(
        "shards of a checkpoint", ["2", 2.5], lambda v: _convert(shards=v), TypeError, "num_shar"
    ),
]

# Command line after `python -m estimator_spec`, and words of what it prints to standard error.
COMMANDS = [
    ([], ["usage:", "COMMAND"]),
    (["frobnicate"], ["'frobnicate'", "usage:"]),
    (["checkpoint"], ["COMMAND"]),
    (["checkpoint", "frobnicate"], ["frobnicate", "inspect"]),
    (["checkpoint", "inspect"], ["path"]),
    (["checkpoint", "inspect", NOWHERE], ["error:", NOWHERE]),
    (["checkpoint", "verify", NOWHERE], ["error:", NOWHERE]),
    (["checkpoint", "diff", NOWHERE], ["second"]),
    (["checkpoint", "convert", NOWHERE], ["target"]),
    (["checkpoint", "convert", NOWHERE, "out", "--shards", "x"], ["--shards", "'x'"]),
    (["checkpoint", "convert", NOWHERE, "out", "--strategy", "hash"], ["--strategy", "'hash'"]),
]
