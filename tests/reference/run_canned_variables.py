# SPDX-License-Identifier: Apache-2.0
"""Lists the variables of random canned models on one side in one process.

    SIDE=reference python run_canned_variables.py OUT 1_few 2_few 2_many

1_few are models of the first generation. The record, OUT/<name>.json, has for each seed the model
as text, names and shapes of the variables in its checkpoint, and names of those in its graph that
can be trained; or the error of a model that the side refuses.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile

import side
import tensorflow as tf
from programs import canned_models

tf1 = tf.compat.v1
fc = tf.feature_column

SEEDS = {"few": range(12), "many": range(12, 60)}
KEYS = ("a", "b", "c", "d")
OPTIMIZERS = ("Adagrad", "Adam", "Ftrl", "RMSProp", "SGD")
SHARED = {
    "feature_column": fc.shared_embeddings,
    "compat.v1": tf1.feature_column.shared_embedding_columns,
    "tpu": side.tpu_columns.shared_embedding_columns,
}


def identity(key):
    """Returns a categorical column of one size."""
    return fc.categorical_column_with_identity(key, 6)


def categorical(draw, key):
    """Returns a categorical column of any kind."""
    kind = draw.choice(["identity", "list", "hashed", "weighted", "crossed", "buckets"])
    if kind == "list":
        return fc.categorical_column_with_vocabulary_list(key, [1, 2, 3], tf.int64)
    if kind == "hashed":
        return fc.categorical_column_with_hash_bucket(key, 7, tf.int64)
    if kind == "weighted":
        return fc.weighted_categorical_column(identity(key), "w")
    if kind == "crossed":
        return fc.crossed_column([identity(key), identity("d")], 9)
    if kind == "buckets":
        return fc.bucketized_column(fc.numeric_column(f"x{key}"), [0.0, 1.0])
    return identity(key)


def shared(draw, generation, prefix=None):
    """Returns columns that share a table, of any of the three kinds.

    Two tables of one name are an error in the reference.
    """
    # The second generation of TensorFlow refuses columns of TensorFlow 1, and the first both kinds
    # in one layer.
    kinds = sorted(SHARED) if generation == 1 else ["feature_column", "tpu"]
    keys = draw.sample(KEYS, draw.randint(1, 3))
    options = {}
    if prefix or draw.random() < 0.4:
        options["shared_embedding_collection_name"] = f"{prefix or 'table'}_{keys[0]}"
    return SHARED[draw.choice(kinds)]([identity(key) for key in keys], 2, **options)


def dense(draw, generation):
    """Returns dense columns with different names."""
    columns = []
    for key in draw.sample(KEYS, draw.randint(0, 3)):
        kind = draw.choice(["embedding", "indicator", "numeric", "tpu"])
        if kind == "numeric":
            columns.append(fc.numeric_column(f"x{key}"))
        elif kind == "tpu":
            columns.append(side.tpu_columns.embedding_column(identity(key), 3))
        elif kind == "indicator":
            columns.append(fc.indicator_column(categorical(draw, key)))
        else:
            columns.append(fc.embedding_column(categorical(draw, key), draw.randint(1, 4)))
    for _ in range(draw.choice([0, 1, 1, 2])):
        columns += shared(draw, generation)
    names = [column.name for column in columns]
    if not columns or len({*names}) < len(names):
        return dense(draw, generation)
    return columns


def wide(draw, generation):
    """Returns columns of a linear model."""
    columns = [categorical(draw, key) for key in draw.sample(KEYS, draw.randint(1, 3))]
    if draw.random() < 0.3:
        columns.append(fc.numeric_column("pair", (2,)))
    if draw.random() < 0.2:
        columns += shared(draw, generation, "wide")
    names = [column.name for column in columns]
    return wide(draw, generation) if len({*names}) < len(names) else columns


def make_estimator(draw, generation, model_dir):
    """Returns a random canned estimator, and its description."""
    package = (canned_models.V1, canned_models.V2)[generation - 1]
    family = draw.choice(["DNN", "DNN", "Linear", "DNNLinearCombined", "DNNLinearCombined"])
    kind = draw.choice(["Classifier", "Regressor"])
    layers = [draw.randint(1, 3) for _ in range(draw.randint(1, 2))]
    options = {"model_dir": model_dir}
    if kind == "Classifier":
        options["n_classes"] = draw.choice([2, 3])
    else:
        options["label_dimension"] = draw.choice([1, 2])
    if family != "Linear":
        options["batch_norm"] = draw.random() < 0.3
    optimizers = [draw.choice(OPTIMIZERS) for _ in range(2)]
    # The reference fails on a linear model of several logits whose bias has several parts.
    one_logit = options.get("label_dimension") == 1 or options.get("n_classes") == 2
    if generation == 1 and (one_logit or family == "DNN") and draw.random() < 0.3:
        name = "partitioner" if family == "Linear" else "input_layer_partitioner"
        options[name] = tf1.fixed_size_partitioner(2)
    if family == "DNN":
        options.update(feature_columns=dense(draw, generation), hidden_units=layers)
        options["optimizer"] = optimizers[0]
    elif family == "Linear":
        options.update(feature_columns=wide(draw, generation), optimizer=optimizers[1])
    else:
        options.update(
            linear_feature_columns=wide(draw, generation),
            linear_optimizer=optimizers[1],
            dnn_feature_columns=dense(draw, generation),
            dnn_optimizer=optimizers[0],
            dnn_hidden_units=layers,
        )
    shown = {
        name: [column.name for column in value]
        if name.endswith("columns")
        else str(value).split(" at ")[0]
        for name, value in options.items()
        if name != "model_dir"
    }
    return getattr(package, family + kind)(**options), f"{family}{kind} {shown}"


class Trainable(tf1.train.SessionRunHook):
    """Records the trainable variables of the graph."""

    names = ()

    def begin(self):
        """Records the names."""
        self.names = sorted(variable.op.name for variable in tf1.trainable_variables())


def variables(seed, generation):
    """Returns the record of one model."""
    draw = random.Random(f"{generation} {seed}")
    with tempfile.TemporaryDirectory() as model_dir:
        with tf.Graph().as_default():  # shared columns can't be made outside of graphs
            estimator, text = make_estimator(draw, generation, model_dir)
        width = 2 if "'label_dimension': '2'" in text else 1

        def input_fn():
            features = {key: [[1], [2]] for key in KEYS}
            features.update({f"x{key}": [[0.5], [1.5]] for key in KEYS})
            features.update(w=[[1.0], [0.5]], pair=[[0.5, 1.0], [1.5, 2.0]])
            labels = [[0], [1]] if "Classifier" in text else [[0.0] * width, [1.0] * width]
            return tf.data.Dataset.from_tensors((features, labels)).repeat()

        hook = Trainable()
        try:
            estimator.train(input_fn, hooks=[hook], steps=1)
        except ValueError as error:
            return {"model": text, "error": str(error).strip().partition("\n")[0]}
        saved = {name: list(shape) for name, shape in tf.train.list_variables(model_dir)}
    return {"model": text, "saved": saved, "trainable": hook.names}


def main():
    """Records all models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("names", nargs="+")
    args = parser.parse_args()
    tf1.logging.set_verbosity("ERROR")
    for name in args.names:
        generation, _, count = name.partition("_")
        record = {str(seed): variables(seed, int(generation)) for seed in SEEDS[count]}
        os.makedirs(os.path.join(args.out, name), exist_ok=True)
        with open(os.path.join(args.out, f"{name}.json"), "w") as file:
            json.dump(record, file)


if __name__ == "__main__":
    main()
