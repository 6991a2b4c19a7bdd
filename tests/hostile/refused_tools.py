# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of conversions, of the checkpoint tools and of their command line."""

from __future__ import annotations

import os
import tempfile

import tensorflow as tf

import estimator_spec as es
from constructors import bad
from estimator_spec import checkpoints, convert
from refusal import case, each, spec

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
        for refusal in each(name, [None, "spec"], call, "EmbeddingConfigSpec", TypeError)
    ),
    *each(
        "batch_size",
        [0, -8, "8"],
        lambda v: convert.to_config_proto(spec(), v),
        "batch_size must be a positive int",
    ),
    *each("target", [None, 3], lambda v: convert.features_for(v, {}), "target must be", TypeError),
    case(
        "serving without a checkpoint",
        lambda: convert.to_serving(spec(), NOWHERE),
        NOWHERE,
        es.CheckpointError,
    ),
    *(
        case(f"{name} of no checkpoint", lambda f=f: f(NOWHERE), NOWHERE, es.CheckpointError)
        for name, f in (
            ("inspect", checkpoints.inspect),
            ("verify", checkpoints.verify),
            ("tables_of", checkpoints.tables_of),
            ("record", checkpoints.record),
            ("diff", lambda path: checkpoints.diff(checkpoint(), path)),
            ("convert", lambda path: checkpoints.convert(path, path + "-new", shards=2)),
        )
    ),
    case(
        "inspect of an empty directory",
        lambda: checkpoints.inspect(tempfile.mkdtemp()),
        "directory without a checkpoint",
        es.CheckpointError,
    ),
    case(
        "unknown table",
        lambda: checkpoints.read_table(checkpoint(), "titles"),
        "'titles' … input_layer/words_embedding/embedding_weights",
    ),
    *bad(_convert, "strategy", [3], "mod"),
    *bad(_convert, "shards", [-1], "num_shards"),
    *bad(_convert, "shards", ["2", 2.5], "num_shards", TypeError),
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
