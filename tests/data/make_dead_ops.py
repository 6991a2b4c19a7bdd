# SPDX-License-Identifier: Apache-2.0
"""Creates `tests/data/dead_ops/` with SavedModels of ops that today's TensorFlow can't run.

TensorFlow 1.15.5 and 2.8.4 write them, and what they compute; see make_boosted_trees.py for their
environments:

    python tests/data/make_dead_ops.py

Each writes a folder of its version with a SavedModel for each case, and `expected.json`: for each
case a list of inputs and outputs by name. The models of boosted trees are those of
`tests/data/boosted_trees/`, whose `expected.json` has their outputs.
"""

import json
import os
import shutil
import sys
import tempfile

import numpy as np
import tensorflow as tf

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import make_boosted_trees  # noqa: E402

tf1 = tf.compat.v1
IS_1 = tf.__version__.startswith("1.")
BOUNDARIES = np.array([-1.0, 0.0, 0.0, 0.5, 3.0], np.float32)
ODD = np.array([-np.inf, -1.0, 0.0, np.inf], np.float32)
NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, -1.0, -0.0, 0.0, 0.25, 0.5, 3.0, 3.5, 1e30, -1e-40], np.float32
)


def everywhere(make, x, flag):
    """Returns outputs of an op in the graph, in branches, in loops, and in functions.

    Args:
        make: function of a tensor that returns one with the same shape, int32 or float32.
        x: the tensor.
        flag: scalar bool.
    """
    dtype = make(x).dtype

    def loop(start):
        def body(i, total):
            return i + 1, total + make(x + tf.cast(i, x.dtype) / 2)

        return tf1.while_loop(lambda i, _: i < 3, body, [0, start])[1]

    @tf.function(autograph=False)
    def function(values):
        first = make(values)
        return first, make(tf.cast(first, values.dtype)), tf.identity(first)

    @tf.function(autograph=False)
    def outer(values):
        return function(values)[1] + make(values)

    zeros = tf.zeros_like(x, dtype)
    return {
        "graph": make(x),
        "again": make(tf.cast(make(x), x.dtype)) + 0,
        "branch": tf1.cond(flag, lambda: make(x), lambda: zeros - 1),
        "loop": loop(zeros),
        "loop_in_branch": tf1.cond(flag, lambda: loop(zeros), lambda: make(-x)),
        "function": tf.identity(function(x)[0]),
        "function_twice": tf.identity(function(x)[1]),
        "function_in_function": tf.identity(outer(x)),
    }


def bucketize(x):
    """Returns the buckets of x, which has any rank in the graph, as an op of three features."""
    one, other, none = tf.raw_ops.BoostedTreesBucketize(
        float_values=[x, x * 2, x],
        bucket_boundaries=[tf.constant(BOUNDARIES), tf.constant(ODD), tf.zeros([0])],
    )
    return one + 10 * other + 100 * none


def add(x):
    """Returns 2 x + x²."""
    return tf.raw_ops.AccumulateNV2(inputs=[x, x, x * x], shape=x.shape)


def contrib_bucketize(dtype):
    """Returns a function of contrib's buckets of numbers in a dtype."""
    from tensorflow.contrib.boosted_trees.python.ops import quantile_ops

    def make(x):
        return quantile_ops.bucketize_with_input_boundaries(
            tf.cast(x, dtype), tf.constant(BOUNDARIES * 1.5)
        )

    return make


def crosses(words, ids, more):
    """Returns outputs of all kinds of crosses that TensorFlow has an op for."""
    from tensorflow.contrib.layers.python.ops import sparse_feature_cross_op

    found = {}
    kinds = {
        "hashed": {"hashed_output": True, "num_buckets": 1000, "hash_key": 0xDECAFCAFFE},
        "other_key": {"hashed_output": True, "num_buckets": 7, "hash_key": 5},
        "unlimited": {"hashed_output": True, "num_buckets": 0, "hash_key": 1},
        "words": {},
    }
    for name, arguments in kinds.items():
        crossed = sparse_feature_cross_op.sparse_feature_cross([words, ids, more], **arguments)
        found[name] = crossed.values
        found[name + "_indices"] = crossed.indices
        found[name + "_shape"] = crossed.dense_shape
    return found


def signature(inputs, outputs, feeds):
    """Returns a case: tensors by name, and lists of values of the inputs."""
    return inputs, outputs, feeds


def numbers_case(make, shape=None):
    """Returns a case of an op of numbers everywhere."""
    x = tf1.placeholder(tf.float32, shape, "x")
    flag = tf1.placeholder(tf.bool, [], "flag")
    feeds = [
        {"x": NUMBERS, "flag": True},
        {"x": NUMBERS[:1], "flag": False},
        {"x": NUMBERS[:0], "flag": True},
    ]
    return {"x": x, "flag": flag}, everywhere(make, x, flag), feeds


def crosses_case():
    """Returns a case of crosses of sparse and dense features, and of none."""
    words = tf1.sparse_placeholder(tf.string, [None, None], "words")
    ids = tf1.sparse_placeholder(tf.int64, [None, None], "ids")
    more = tf1.placeholder(tf.int64, [None, None], "more")
    inputs = {"more": more}
    for name, sparse in (("words", words), ("ids", ids)):
        inputs[name] = sparse.values
        inputs[name + "_indices"] = sparse.indices
        inputs[name + "_shape"] = sparse.dense_shape
    full = {
        "words": ["a", "", "bb", "a longer word of more than sixteen bytes"],
        "words_indices": [[0, 0], [0, 1], [1, 0], [2, 0]],
        "words_shape": [4, 2],
        "ids": [5, -1, 2**40],
        "ids_indices": [[0, 0], [1, 0], [1, 1]],
        "ids_shape": [4, 2],
        "more": [[1, 2], [3, 4], [5, 6], [7, 8]],
    }
    empty = {key: np.zeros([0, 2] if "indices" in key else [0]) for key in full}
    empty.update(words_shape=[0, 2], ids_shape=[0, 2], more=np.zeros([0, 2]))
    dtypes = {key: tensor.dtype.as_numpy_dtype for key, tensor in inputs.items()}
    feeds = [
        {key: np.array(value).astype(dtypes[key]) for key, value in feed.items()}
        for feed in (full, empty)
    ]
    return inputs, crosses(words, ids, more), feeds


def images_case():
    """Returns a case of moved images, and of comparisons packed into bits."""
    from tensorflow.contrib.image.ops import gen_image_ops

    images = tf1.placeholder(tf.float32, [None, None, None, 2], "images")
    outputs = {
        name: gen_image_ops.image_projective_transform(
            images, [[1.0, 0.3, -1.0, 0.1, 0.9, 0.5, 0.01, 0.0]], name
        )
        for name in ("NEAREST", "BILINEAR")
    }
    outputs["bits"] = tf.raw_ops.CompareAndBitpack(input=tf.reshape(images, [-1, 8]), threshold=0.5)
    random = np.random.RandomState(0).uniform(size=[2, 4, 5, 2]).astype(np.float32)
    return {"images": images}, outputs, [{"images": random}]


class Module(tf.Module):
    """Functions with an op in loops and branches of TensorFlow 2."""

    def __init__(self, make):
        super().__init__()
        self.scale = tf.Variable(1.0)
        self._make = make

    @tf.function(
        input_signature=[tf.TensorSpec(None, tf.float32), tf.TensorSpec([], tf.bool)],
        autograph=False,
    )
    def __call__(self, x, flag):
        return everywhere(self._make, x * self.scale, flag)


def run(path, feeds):
    """Returns the outputs of an exported model for each feed."""
    with tf.Graph().as_default(), tf1.Session() as session:
        found = tf1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        fetched = {key: info.name for key, info in found.outputs.items()}
        return [
            session.run(fetched, {found.inputs[key].name: value for key, value in feed.items()})
            for feed in feeds
        ]


def with_shape(feed):
    """Returns a feed whose empty values keep their shape in JSON."""
    return {
        key: value if np.size(value) else {"empty": np.shape(value)} for key, value in feed.items()
    }


def write_graph(path, make):
    """Writes a case as a graph of TensorFlow 1; returns its feeds."""
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs, outputs, feeds = make()
        tf1.saved_model.simple_save(session, path, inputs, outputs)
    return feeds


def write_trees(name, path):
    """Writes the SavedModel of a checkpoint of boosted trees."""
    kind, arguments, _ = make_boosted_trees.make_models()[name]
    model_dir = os.path.join(HERE, "boosted_trees", "tf" + tf.__version__, name)

    def receiver_fn():
        tensors = make_boosted_trees.receiver_tensors()
        return tf.estimator.export.ServingInputReceiver(tensors, tensors)

    estimator = getattr(tf.estimator, kind)(n_batches_per_layer=1, model_dir=model_dir, **arguments)
    exported = estimator.export_saved_model(tempfile.mkdtemp(), receiver_fn)
    shutil.move(tf.compat.as_str(exported), path)


def write_tpu(path):
    """Writes a SavedModel of a TPUEstimator, with a graph for CPUs and one for a TPU."""
    tpu = tf1.estimator.tpu

    def model_fn(features, labels, mode, params):
        hidden = tf1.layers.dense(features["x"], 4, tf.nn.relu, name="hidden")
        logits = tf1.layers.dense(hidden, 2, name="logits")
        predictions = {"logits": logits, "best": tf.argmax(logits, 1)}
        outputs = {"serving_default": tf.estimator.export.PredictOutput(predictions)}
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tpu.TPUEstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
        loss = tf.reduce_sum(logits)
        optimizer = tf1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def receiver_fn():
        x = tf1.placeholder(tf.float32, [None, 3], "x")
        return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})

    def input_fn(params):
        return tf.data.Dataset.from_tensors(({"x": [[1.0, 2.0, 3.0]]}, [1])).repeat(1)

    config = tpu.RunConfig(model_dir=tempfile.mkdtemp(), tf_random_seed=1)
    estimator = tpu.TPUEstimator(
        model_fn, config=config, use_tpu=False, train_batch_size=1, export_to_tpu=True
    )
    estimator.train(input_fn, steps=1)
    shutil.move(
        tf.compat.as_str(estimator.export_saved_model(tempfile.mkdtemp(), receiver_fn)), path
    )
    random = np.random.RandomState(0).normal(size=[5, 3]).astype(np.float32)
    return [{"x": random}, {"x": random[:0]}]


def main():
    """Writes all cases of this TensorFlow."""
    out = os.path.join(HERE, "dead_ops", "tf" + tf.__version__)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    tf1.disable_control_flow_v2()
    cases = {
        "bucketize": lambda: numbers_case(bucketize),
        "sums": lambda: numbers_case(add, [None]),
    }
    if IS_1:
        for name in ("float32", "float64", "int32", "int64"):
            make = contrib_bucketize(name)
            cases["contrib_" + name] = lambda make=make: numbers_case(make)
        cases["crosses"] = crosses_case
        cases["images"] = images_case
    feeds = {name: write_graph(os.path.join(out, name), make) for name, make in cases.items()}
    feeds["tpu"] = write_tpu(os.path.join(out, "tpu"))
    if not IS_1:
        tf1.enable_control_flow_v2()
        for name, make in (("bucketize", bucketize), ("sums", add)):
            tf.saved_model.save(Module(make), os.path.join(out, name + "_functions"))
            feeds[name + "_functions"] = feeds[name]
    expected = {}
    for name, each in feeds.items():
        outputs = run(os.path.join(out, name), each)
        expected[name] = [[with_shape(feed), found] for feed, found in zip(each, outputs)]  # noqa: B905
    trees = ("binary", "numbers") if IS_1 else ("binary", "classes", "numbers", "pairs", "equality")
    for name in trees:
        write_trees(name, os.path.join(out, "trees_" + name))
    with open(os.path.join(out, "expected.json"), "w") as file:
        json.dump(make_boosted_trees.to_json(expected), file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
