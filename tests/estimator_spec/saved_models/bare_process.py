# SPDX-License-Identifier: Apache-2.0
"""Runs SavedModels with TensorFlow alone, by both of its loaders: a process of its own.

    python -I bare_process.py < jobs.json > outputs.json

A job has the `path` of a SavedModel, its `tags`, the name of a `signature` and a list of `feeds`.
Its result has a list of outputs by 'session' (as TensorFlow Serving reads models) and by 'function'
(`tf.saved_model.load`), or an error's text.
"""

import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def in_session(job):
    """Returns the outputs of a model in a session that places ops nowhere else."""
    with tf.Graph().as_default(), tf1.Session() as session:
        loaded = tf1.saved_model.load(session, job["tags"], job["path"])
        signature = loaded.signature_def[job["signature"]]
        fetched = {name: info.name for name, info in signature.outputs.items()}
        return [
            session.run(
                fetched,
                {
                    signature.inputs[key].name: as_array(value, signature.inputs[key].dtype)
                    for key, value in feed.items()
                },
            )
            for feed in job["feeds"]
        ]


def in_function(job):
    """Returns the outputs of a model's signature as a function."""
    loaded = tf.saved_model.load(job["path"], job["tags"])
    function = loaded.signatures[job["signature"]]
    specs = function.structured_input_signature[1]
    return [
        function(
            **{key: tf.constant(as_array(value, specs[key].dtype)) for key, value in feed.items()}
        )
        for feed in job["feeds"]
    ]


def as_array(value, dtype):
    """Returns a value of JSON in a dtype; an empty one has the shape of a sparse tensor's part."""
    dtype = tf.as_dtype(dtype)
    if isinstance(value, dict):
        return np.zeros(value["empty"], dtype.as_numpy_dtype)
    return np.array(value, object if dtype == tf.string else dtype.as_numpy_dtype)


def as_json(value):
    """Returns arrays and bytes as JSON has them."""
    if isinstance(value, dict):
        return {key: as_json(each) for key, each in value.items()}
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)):
        return [as_json(each) for each in value]
    return as_json(np.asarray(value).tolist()) if hasattr(value, "dtype") else value


def run(job):
    """Returns the outputs of both loaders."""
    found = {}
    for name, load in (("session", in_session), ("function", in_function)):
        try:
            found[name] = as_json(load(job))
        except Exception as error:  # whatever a dead op raises
            found[name] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    results = [run(job) for job in json.load(sys.stdin)]
    own = sorted({name.split(".")[0] for name in sys.modules} & {"estimator_spec", "tpu_columns"})
    json.dump({"own": own, "results": results}, sys.stdout)
