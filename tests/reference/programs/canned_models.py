# SPDX-License-Identifier: Apache-2.0
"""Canned estimators of both generations, with each of their arguments in some model."""

from __future__ import annotations

import numpy as np
import side
import tensorflow as tf

tf1 = tf.compat.v1

COUNT, BATCH = 64, 16
JOBS = ("baker", "clerk", "nurse", "pilot")
TOWNS = ("Aachen", "Basel", "Cadiz", "Delft", "Essen", "Genoa")
LABELS = ("low", "middle", "high")

if side.SIDE == "reference":
    from tensorflow_estimator.python.estimator.canned import head

    V1, V2 = tf.compat.v1.estimator, tf.estimator
    HEADS = tf.estimator
    # The first generation takes heads of its own only.
    binary_head = head._binary_logistic_head_with_sigmoid_cross_entropy_loss
    multi_class_head = head._multi_class_head_with_softmax_cross_entropy_loss
    regression_head = head._regression_head
    RunConfig = tf1.estimator.RunConfig
    parsing_receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn
else:
    import estimator_spec
    from estimator_spec import canned, heads
    from estimator_spec.core.run_config import run_config
    from estimator_spec.heads import first_generation

    V1, V2 = canned.v1, canned
    HEADS = heads
    binary_head = first_generation.binary_logistic_head_with_sigmoid_cross_entropy_loss
    multi_class_head = first_generation.multi_class_head_with_softmax_cross_entropy_loss
    regression_head = first_generation.regression_head
    RunConfig = run_config.RunConfig
    parsing_receiver = estimator_spec.build_parsing_serving_input_receiver_fn


def normal(seed):
    """Returns a seeded initializer of tables."""
    return tf1.truncated_normal_initializer(stddev=0.5, seed=seed)


def rows(seed, count=COUNT):
    """Returns features and labels of `count` examples."""
    random = np.random.RandomState(seed)
    lengths = random.randint(0, 4, count)
    places = [(row, place) for row in range(count) for place in range(lengths[row])]
    age = random.randint(18, 80, count).astype(np.float32)
    job = random.randint(0, len(JOBS), count)
    score = 0.05 * (age - 45) + (job == 2) + random.normal(size=count)
    features = {
        "age": age,
        "sizes": random.normal(size=(count, 3)).astype(np.float32),
        "job": np.array((*JOBS, "spy"))[job],
        "town": np.array(TOWNS)[random.randint(0, len(TOWNS), (count, 2))],
        "tags": tf1.SparseTensorValue(
            np.array(places, np.int64),
            random.randint(0, 20, len(places)).astype(np.int64),
            np.array([count, 4], np.int64),
        ),
        "tag_weights": tf1.SparseTensorValue(
            np.array(places, np.int64),
            random.uniform(0.2, 1.0, len(places)).astype(np.float32),
            np.array([count, 4], np.int64),
        ),
        "importance": random.uniform(0.5, 2.0, count).astype(np.float32),
    }
    labels = {
        "binary": (score > 0).astype(np.int64),
        "numbers": np.stack([score, age / 50], 1).astype(np.float32),
        "number": score.astype(np.float32),
        "class": np.array(LABELS)[np.digitize(score, [-0.5, 0.7])],
        "many": np.stack([score > 0, age > 40, job == 1], 1).astype(np.int64),
    }
    return features, labels


# With several features TensorFlow's own baselines of the second generation read the input before
# it is initialized.
BASELINE_KEYS = ("age",)


def input_fn(model, seed, training):
    """Returns an input_fn of a model."""
    label, kind, _ = MODELS[model]

    def read():
        features, labels = rows(seed)
        if kind.startswith("Baseline"):
            features = {key: features[key] for key in BASELINE_KEYS}
        data = tf1.data.Dataset.from_tensor_slices((features, labels[label]))
        return (data.repeat() if training else data).batch(BATCH)

    return read


def feature_spec(model):
    """Returns the features of a serialized tf.Example that a model reads."""
    spec = {
        "age": tf.io.FixedLenFeature([1], tf.float32),
        "sizes": tf.io.FixedLenFeature([3], tf.float32),
        "job": tf.io.FixedLenFeature([1], tf.string),
        "town": tf.io.VarLenFeature(tf.string),
        "tags": tf.io.VarLenFeature(tf.int64),
        "tag_weights": tf.io.VarLenFeature(tf.float32),
    }
    if MODELS[model][1].startswith("Baseline"):
        return {key: spec[key] for key in BASELINE_KEYS}
    return spec


def serialized():
    """Returns serialized examples; one has neither towns nor tags."""

    def example(age, job, towns, tags):
        feature = tf.train.Feature
        return tf.train.Example(
            features=tf.train.Features(
                feature={
                    "age": feature(float_list=tf.train.FloatList(value=[age])),
                    "sizes": feature(float_list=tf.train.FloatList(value=[0.5, -1.0, age / 80])),
                    "job": feature(bytes_list=tf.train.BytesList(value=[job])),
                    "town": feature(bytes_list=tf.train.BytesList(value=towns)),
                    "tags": feature(int64_list=tf.train.Int64List(value=tags)),
                    "tag_weights": feature(
                        float_list=tf.train.FloatList(value=[0.5 + tag / 40 for tag in tags])
                    ),
                }
            )
        ).SerializeToString()

    return [
        example(31.0, b"nurse", [b"Basel", b"Essen"], [3, 19, 3]),
        example(67.0, b"spy", [], []),
        example(44.0, b"clerk", [b"Delft"], [0]),
    ]


fc = tf.feature_column


def wide():
    """Returns columns of a linear model, of each kind that it takes."""
    age = fc.numeric_column("age", normalizer_fn=lambda age: (age - 45.0) / 20.0)
    buckets = fc.bucketized_column(fc.numeric_column("age"), [30.0, 40.0, 55.0])
    job = fc.categorical_column_with_vocabulary_list("job", JOBS, num_oov_buckets=1)
    town = fc.categorical_column_with_hash_bucket("town", 30)
    tags = fc.categorical_column_with_identity("tags", 20)
    return [
        age,
        fc.numeric_column("sizes", shape=(3,)),
        buckets,
        job,
        town,
        fc.crossed_column(["job", buckets], 40),
        fc.weighted_categorical_column(tags, "tag_weights"),
    ]


def deep():
    """Returns columns of a deep model: numeric, indicator, and embeddings of several kinds."""
    age = fc.numeric_column("age", normalizer_fn=lambda age: (age - 45.0) / 20.0)
    buckets = fc.bucketized_column(fc.numeric_column("age"), [30.0, 40.0, 55.0])
    job = fc.categorical_column_with_vocabulary_list("job", JOBS)
    town = fc.categorical_column_with_hash_bucket("town", 30)
    tags = fc.categorical_column_with_identity("tags", 20)
    crossed = fc.crossed_column(["job", buckets], 40)
    return [
        age,
        fc.numeric_column("sizes", shape=(3,)),
        buckets,
        fc.indicator_column(job),
        fc.embedding_column(town, 4, initializer=normal(1)),
        fc.embedding_column(tags, 3, combiner="sqrtn", initializer=normal(2)),
        fc.embedding_column(crossed, 2, combiner="sum", initializer=normal(3), max_norm=1.0),
    ]


def weighted():
    """Returns a weighted column's embedding, and a number."""
    tags = fc.categorical_column_with_identity("tags", 20)
    column = fc.weighted_categorical_column(tags, "tag_weights")
    return [fc.embedding_column(column, 3, initializer=normal(4)), fc.numeric_column("age")]


def decayed(step, first):
    """Returns a learning rate that falls with the step."""
    return tf1.train.exponential_decay(first, step, decay_steps=10, decay_rate=0.8)


def slow_adam():
    """Returns an optimizer of the second generation whose rate is a function of the step."""
    return tf.keras.optimizers.legacy.Adam(learning_rate=decayed(tf1.train.get_global_step(), 0.05))


def slow_sgd():
    """Returns an optimizer of the first generation whose rate is a function of the step."""
    return tf1.train.GradientDescentOptimizer(decayed(tf1.train.get_global_step(), 0.05))


# By name: label, name of the class, and a function of the generation (1 or 2) to the arguments.
MODELS = {
    "dnn_binary": (
        "binary",
        "DNNClassifier",
        lambda g: {"hidden_units": [8, 4], "feature_columns": deep()},
    ),
    "dnn_classes": (
        "class",
        "DNNClassifier",
        lambda g: {
            "hidden_units": (6,),
            "feature_columns": deep(),
            "n_classes": 3,
            "label_vocabulary": list(LABELS),
            "weight_column": "importance",
            "optimizer": (
                tf1.train.AdamOptimizer(0.02)
                if g == 1
                else tf.keras.optimizers.legacy.Adam(learning_rate=0.02)
            ),
            "batch_norm": True,
            "activation_fn": tf.nn.tanh,
        },
    ),
    "dnn_regressor": (
        "numbers",
        "DNNRegressor",
        lambda g: {
            "hidden_units": [8],
            "feature_columns": weighted(),
            "label_dimension": 2,
            "optimizer": "RMSProp",
        },
    ),
    "dnn_estimator": (
        "many",
        "DNNEstimator",
        lambda g: {
            "head": (
                regression_head(label_dimension=3) if g == 1 else HEADS.MultiLabelHead(n_classes=3)
            ),
            "hidden_units": [5, 5],
            "feature_columns": deep(),
            "optimizer": slow_sgd if g == 1 else slow_adam,
        },
    ),
    "linear_binary": (
        "binary",
        "LinearClassifier",
        lambda g: {"feature_columns": wide(), "weight_column": "importance"},
    ),
    "linear_classes": (
        "class",
        "LinearClassifier",
        lambda g: {
            "feature_columns": wide(),
            "n_classes": 3,
            "label_vocabulary": list(LABELS),
            "optimizer": "Adam",
            "sparse_combiner": "mean",
        },
    ),
    "linear_regressor": (
        "number",
        "LinearRegressor",
        lambda g: {
            "feature_columns": wide(),
            # The first generation sums the loss of a batch: SGD would diverge.
            "optimizer": "Adagrad" if g == 1 else "SGD",
            "sparse_combiner": "sqrtn",
        },
    ),
    "linear_estimator": (
        "binary",
        "LinearEstimator",
        lambda g: {
            "head": (binary_head if g == 1 else HEADS.BinaryClassHead)(thresholds=[0.3, 0.6]),
            "feature_columns": [*wide()[3:5], deep()[4]],
        },
    ),
    "combined_binary": (
        "binary",
        "DNNLinearCombinedClassifier",
        lambda g: {
            "linear_feature_columns": wide(),
            "dnn_feature_columns": deep(),
            "dnn_hidden_units": [8, 4],
        },
    ),
    "combined_regressor": (
        "number",
        "DNNLinearCombinedRegressor",
        lambda g: {
            "linear_feature_columns": wide(),
            "linear_optimizer": slow_sgd if g == 1 else slow_adam,
            "dnn_feature_columns": deep(),
            "dnn_hidden_units": [6],
            "dnn_optimizer": "Adam",
            "batch_norm": True,
            "linear_sparse_combiner": "mean",
        },
    ),
    "combined_estimator": (
        "numbers",
        "DNNLinearCombinedEstimator",
        lambda g: {
            "head": (regression_head if g == 1 else HEADS.RegressionHead)(label_dimension=2),
            "linear_feature_columns": wide(),
        },
    ),
    "baseline_binary": ("binary", "BaselineClassifier", lambda g: {}),
    "baseline_regressor": ("numbers", "BaselineRegressor", lambda g: {"label_dimension": 2}),
    "baseline_estimator": (
        "class",
        "BaselineEstimator",
        lambda g: {
            "head": (multi_class_head if g == 1 else HEADS.MultiClassHead)(
                3, label_vocabulary=list(LABELS)
            ),
            "optimizer": "SGD",
        },
    ),
}


def make_estimator(name, generation, model_dir, steps):
    """Returns an estimator that saves a checkpoint every `steps` steps, from step 0 on."""
    _, kind, arguments = MODELS[name]
    config = RunConfig(
        model_dir=model_dir,
        tf_random_seed=7,
        save_checkpoints_steps=steps,
        save_summary_steps=1,  # the losses are read from summaries
        keep_checkpoint_max=None,
    )
    return getattr({1: V1, 2: V2}[generation], kind)(config=config, **arguments(generation))
