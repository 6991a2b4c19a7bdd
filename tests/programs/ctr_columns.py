# SPDX-License-Identifier: Apache-2.0
"""Click-through rate with TPU embedding columns (TensorFlow 1.15 - 2.15, `tf.compat.v1`).

    python ctr_columns.py --job-dir gs://... [--use-tpu --tpu NAME]
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf

tpu = tf.compat.v1.estimator.tpu

USERS, ITEMS, TAGS = 40, 60, 25
LABEL = "clicked"


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", required=True)
    parser.add_argument("--use-tpu", action="store_true")
    parser.add_argument("--tpu", default="local")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--train-steps", type=int, default=60)
    parser.add_argument("--learning-rate", type=float, default=0.3)
    return parser.parse_args()


def make_examples(count, seed):
    """Serialized tf.Examples: some users click more, some items are clicked more."""
    random = np.random.RandomState(seed)
    taste = np.random.RandomState(0).normal(size=USERS + ITEMS)
    examples = []
    for _ in range(count):
        user = random.randint(USERS)
        shown = random.randint(ITEMS)
        history = random.randint(ITEMS, size=random.randint(1, 5))
        tags = random.choice(TAGS, size=random.randint(0, 4), replace=False)
        clicked = taste[user] + taste[USERS + shown] + 0.3 * random.normal() > 0
        features = {
            "user": int_feature([user]),
            "shown_item": int_feature([shown]),
            "past_items": int_feature(history),
            "tags": int_feature(tags),
            "tag_weights": float_feature(random.uniform(0.5, 1.5, size=len(tags))),
            "hour": float_feature([random.uniform()]),
            LABEL: int_feature([int(clicked)]),
        }
        example = tf.train.Example(features=tf.train.Features(feature=features))
        examples.append(example.SerializeToString())
    return examples


def int_feature(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(v) for v in values]))


def float_feature(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=[float(v) for v in values]))


def initializer(seed):
    return tf.compat.v1.truncated_normal_initializer(stddev=0.3, seed=seed)


def user_columns():
    user = tf.feature_column.categorical_column_with_identity("user", USERS)
    tags = tf.feature_column.weighted_categorical_column(
        tf.feature_column.categorical_column_with_identity("tags", TAGS), "tag_weights"
    )
    return [
        tf.compat.v1.tpu.experimental.embedding_column(user, 8, initializer=initializer(1)),
        tf.compat.v1.tpu.experimental.embedding_column(
            tags, 4, combiner="sum", initializer=initializer(3)
        ),
    ]


def item_columns():
    shown = tf.feature_column.categorical_column_with_identity("shown_item", ITEMS)
    past = tf.feature_column.categorical_column_with_identity("past_items", ITEMS)
    return tf.compat.v1.tpu.experimental.shared_embedding_columns(
        [shown, past],
        dimension=8,
        combiner="mean",
        initializer=initializer(2),
        shared_embedding_collection_name="items",
    )


def embedding_columns():
    return user_columns() + item_columns()


def dense_columns():
    return [tf.feature_column.numeric_column("hour")]


def input_fn_of(examples, training):
    spec = tf.feature_column.make_parse_example_spec(embedding_columns() + dense_columns())
    spec[LABEL] = tf.io.FixedLenFeature([1], tf.int64)

    def parse(serialized):
        features = tf.io.parse_example(serialized, spec)
        return features, tf.cast(features.pop(LABEL), tf.float32)

    def input_fn(params):
        dataset = tf.data.Dataset.from_tensor_slices(examples)
        if training:
            dataset = dataset.repeat()
        dataset = dataset.batch(params["batch_size"], drop_remainder=training)
        return dataset.map(parse)

    return input_fn


def model_fn(features, labels, mode, params):
    users = tf.compat.v1.feature_column.input_layer(features, user_columns() + dense_columns())
    # input_layer refuses shared columns from TF 1.15 on.
    items = tf.keras.layers.DenseFeatures(item_columns())(features)
    net = tf.concat([users, items], axis=1)
    for i, units in enumerate([16, 1]):
        net = tf.compat.v1.layers.dense(
            net,
            units,
            activation=tf.nn.relu if units > 1 else None,
            kernel_initializer=tf.compat.v1.glorot_normal_initializer(seed=20 + i),
        )
    probability = tf.sigmoid(net)

    if mode == tf.estimator.ModeKeys.PREDICT:
        return tpu.TPUEstimatorSpec(mode, predictions={"logit": net, "probability": probability})

    loss = tf.compat.v1.losses.sigmoid_cross_entropy(labels, net)
    if mode == tf.estimator.ModeKeys.EVAL:

        def metric_fn(labels, probability):
            return {
                "auc": tf.compat.v1.metrics.auc(labels, probability),
                "click_rate": tf.compat.v1.metrics.mean(labels),
            }

        return tpu.TPUEstimatorSpec(
            mode, loss=loss, eval_metrics=(metric_fn, {"labels": labels, "probability": probability})
        )

    optimizer = tf.compat.v1.train.AdagradOptimizer(params["learning_rate"])
    if params["use_tpu"]:
        optimizer = tf.compat.v1.tpu.CrossShardOptimizer(optimizer)
    step = tf.compat.v1.train.get_or_create_global_step()
    return tpu.TPUEstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, step))


class LossLog(tf.compat.v1.train.SessionRunHook):
    """Keeps the loss of every step."""

    def __init__(self):
        self.losses = []

    def begin(self):
        self._loss = tf.compat.v1.losses.get_losses()[0]

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


def main():
    args = parse_arguments()
    model_dir = os.path.join(args.job_dir, "model")
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(args.tpu)
    config = tpu.RunConfig(
        cluster=resolver,
        model_dir=model_dir,
        save_checkpoints_steps=30,
        keep_checkpoint_max=3,
        tpu_config=tpu.TPUConfig(
            iterations_per_loop=10,
            per_host_input_for_training=tpu.InputPipelineConfig.PER_HOST_V2,
        ),
    )
    estimator = tpu.TPUEstimator(
        model_fn=model_fn,
        config=config,
        use_tpu=args.use_tpu,
        train_batch_size=args.batch_size,
        eval_batch_size=args.batch_size,
        predict_batch_size=args.batch_size,
        params={"learning_rate": args.learning_rate},
        embedding_config_spec=tpu.experimental.EmbeddingConfigSpec(
            feature_columns=embedding_columns(),
            optimization_parameters=tf.compat.v1.tpu.experimental.AdagradParameters(
                args.learning_rate, initial_accumulator=0.1
            ),
        ),
    )
    log = LossLog()
    estimator.train(input_fn_of(make_examples(640, 1), True), hooks=[log], steps=args.train_steps)
    metrics = estimator.evaluate(input_fn_of(make_examples(200, 2), False))
    new = make_examples(20, 3)
    predictions = list(estimator.predict(input_fn_of(new, False)))

    spec = tf.feature_column.make_parse_example_spec(embedding_columns() + dense_columns())
    receiver_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    export_dir = estimator.export_saved_model(os.path.join(model_dir, "export"), receiver_fn)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        loaded = tf.compat.v1.saved_model.load(session, ["serve"], export_dir.decode())
        signature = loaded.signature_def["serving_default"]
        (receiver,) = signature.inputs.values()
        served = session.run(signature.outputs["logit"].name, {receiver.name: new})

    with open(os.path.join(args.job_dir, "results.json"), "w") as file:
        json.dump(
            {
                "columns": [column.name for column in embedding_columns()],
                "losses": log.losses,
                "metrics": {name: float(value) for name, value in metrics.items()},
                "logits": [float(p["logit"][0]) for p in predictions],
                "served_logits": served[:, 0].tolist(),
                "variables": estimator.get_variable_names(),
            },
            file,
        )


if __name__ == "__main__":
    main()
