# SPDX-License-Identifier: Apache-2.0
"""Wide and deep: who earns more? A linear and a deep model, trained together.

The style of the tutorials of 2018: `--model_type`, a loop of epochs, and a serving function that
parses tf.Examples; with TensorFlow 2's names.
"""

import argparse
import json
import os
import shutil

import numpy as np
import tensorflow as tf

EDUCATION = ["primary", "secondary", "bachelor", "master", "doctorate"]
RELATION = ["single", "married", "divorced", "widowed"]
JOBS = ["clerk", "cook", "driver", "engineer", "farmer", "nurse", "sales", "teacher", "welder"]
COUNTRIES = ["AT", "BR", "CA", "DE", "FR", "IN", "JP", "MX", "PE", "US"]

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--model_dir", type=str, required=True, help="Base directory for the model.")
PARSER.add_argument("--train_epochs", type=int, default=6, help="Number of training epochs.")
PARSER.add_argument("--epochs_per_eval", type=int, default=3, help="Epochs between evaluations.")
PARSER.add_argument("--batch_size", type=int, default=40, help="Number of examples per batch.")


def make_people(count, seed):
    """Made-up rows of a census, and who earns more than fifty thousand."""
    rng = np.random.RandomState(seed)
    people = {
        "age": rng.randint(17, 80, size=count).astype(np.float32),
        "hours_per_week": rng.randint(5, 70, size=count).astype(np.float32),
        "capital_gain": (rng.uniform(size=count) ** 8 * 9000).astype(np.float32),
        "education": np.array(EDUCATION)[rng.randint(len(EDUCATION), size=count)],
        "relation": np.array(RELATION)[rng.randint(len(RELATION), size=count)],
        "job": np.array(JOBS)[rng.randint(len(JOBS), size=count)],
        "country": np.array(COUNTRIES)[rng.randint(len(COUNTRIES), size=count)],
    }
    score = (
        (people["age"] - 40) / 20
        + (people["hours_per_week"] - 38) / 15
        + people["capital_gain"] / 2000
        + np.array([EDUCATION.index(e) - 2 for e in people["education"]])
        + 1.5 * (people["relation"] == "married")
        + (people["job"] == "engineer")
        - 0.8
    )
    return people, (score > 0).astype(np.int64).reshape(-1, 1)


def build_model_columns():
    """Builds a set of wide and deep feature columns."""
    age = tf.feature_column.numeric_column("age")
    capital_gain = tf.feature_column.numeric_column(
        "capital_gain", normalizer_fn=lambda x: tf.math.log1p(x) / 4.0
    )
    education = tf.feature_column.categorical_column_with_vocabulary_list("education", EDUCATION)
    relation = tf.feature_column.categorical_column_with_vocabulary_list("relation", RELATION)
    # To show an example of hashing:
    job = tf.feature_column.categorical_column_with_hash_bucket("job", hash_bucket_size=50)
    country = tf.feature_column.categorical_column_with_hash_bucket("country", 30)
    # Transformations.
    age_buckets = tf.feature_column.bucketized_column(
        age, boundaries=[18, 25, 30, 35, 40, 45, 50, 55, 60, 65]
    )
    base_columns = [education, relation, job, country, age_buckets]
    crossed_columns = [
        tf.feature_column.crossed_column(["education", "job"], hash_bucket_size=200),
        tf.feature_column.crossed_column([age_buckets, "education", "relation"], 300),
    ]
    wide_columns = base_columns + crossed_columns
    deep_columns = [
        tf.feature_column.numeric_column("age", normalizer_fn=lambda x: (x - 45.0) / 18.0),
        tf.feature_column.numeric_column(
            "hours_per_week", normalizer_fn=lambda x: (x - 38.0) / 18.0
        ),
        capital_gain,
        tf.feature_column.indicator_column(education),
        tf.feature_column.indicator_column(relation),
        # To show an example of embedding:
        tf.feature_column.embedding_column(
            job, dimension=4,
            initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.3, seed=5)),
        tf.feature_column.embedding_column(
            country, dimension=2, combiner="sqrtn",
            initializer=tf.compat.v1.truncated_normal_initializer(stddev=0.3, seed=6)),
    ]
    return wide_columns, deep_columns


def build_estimator(model_dir, model_type):
    """Builds an estimator appropriate for the given model type."""
    wide_columns, deep_columns = build_model_columns()
    hidden_units = [16, 8]
    run_config = tf.estimator.RunConfig(
        tf_random_seed=11, save_checkpoints_steps=50, save_summary_steps=20
    )
    if model_type == "wide":
        return tf.estimator.LinearClassifier(
            model_dir=model_dir, feature_columns=wide_columns, config=run_config
        )
    elif model_type == "deep":
        return tf.estimator.DNNClassifier(
            model_dir=model_dir, feature_columns=deep_columns, hidden_units=hidden_units,
            config=run_config,
        )
    else:
        return tf.estimator.DNNLinearCombinedClassifier(
            model_dir=model_dir,
            linear_feature_columns=wide_columns,
            dnn_feature_columns=deep_columns,
            dnn_hidden_units=hidden_units,
            config=run_config,
        )


def input_fn(data, num_epochs, shuffle, batch_size):
    """Generates an input function for the Estimator."""
    people, labels = data
    dataset = tf.data.Dataset.from_tensor_slices((people, labels))
    if shuffle:
        dataset = dataset.shuffle(buffer_size=500, seed=3)
    # We call repeat after shuffling, rather than before, to prevent separate epochs from blending
    # together.
    return dataset.repeat(num_epochs).batch(batch_size)


class SameStart(tf.estimator.SessionRunHook):
    """Gives the layers the same initial weights on every machine."""

    def begin(self):
        self.step = tf.compat.v1.train.get_global_step()
        self.feeds = []
        for variable in sorted(tf.compat.v1.trainable_variables(), key=lambda v: v.name):
            if "hiddenlayer" in variable.name or "/logits/" in variable.name:
                value = tf.compat.v1.placeholder(variable.dtype.base_dtype, variable.shape)
                self.feeds.append((variable.assign(value).op, value, variable.shape.as_list()))

    def after_create_session(self, session, coord):
        if session.run(self.step) > 0:
            return
        rng = np.random.RandomState(13)
        for op, value, shape in self.feeds:
            scale = 0.0 if len(shape) < 2 else np.sqrt(2.0 / sum(shape))
            session.run(op, {value: scale * rng.normal(size=shape)})


class Losses(tf.estimator.SessionRunHook):
    """Remembers the loss of every step."""

    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs(
            tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        )

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def export_model(model, model_type, export_dir):
    """Exports for serving: requests are serialized tf.Examples."""
    wide_columns, deep_columns = build_model_columns()
    if model_type == "wide":
        columns = wide_columns
    elif model_type == "deep":
        columns = deep_columns
    else:
        columns = wide_columns + deep_columns
    feature_spec = tf.feature_column.make_parse_example_spec(columns)
    example_input_fn = tf.estimator.export.build_parsing_serving_input_receiver_fn(feature_spec)
    return model.export_saved_model(export_dir, example_input_fn)


def serialized(people):
    """One tf.Example a person."""
    examples = []
    for i in range(len(people["age"])):
        features = {}
        for name, values in people.items():
            if values.dtype == np.float32:
                feature = tf.train.Feature(float_list=tf.train.FloatList(value=[values[i]]))
            else:
                value = values[i].encode()
                feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
            features[name] = feature
        example = tf.train.Example(features=tf.train.Features(feature=features))
        examples.append(example.SerializeToString())
    return tf.constant(examples)


def main(flags):
    train, test, new = make_people(600, 1), make_people(150, 2), make_people(7, 3)
    results = {"losses": [], "losses_of_networks": [], "histories": {}, "served": {}, "predictions": {}, "variables": []}
    for model_type in ["wide", "deep", "wide_deep"]:
        # Clean up the model directory if present
        model_dir = os.path.join(flags.model_dir, model_type)
        shutil.rmtree(model_dir, ignore_errors=True)
        model = build_estimator(model_dir, model_type)
        losses = Losses()
        # Train and evaluate the model every `flags.epochs_per_eval` epochs.
        history = []
        for n in range(flags.train_epochs // flags.epochs_per_eval):
            model.train(
                input_fn=lambda: input_fn(train, flags.epochs_per_eval, True, flags.batch_size),
                hooks=[SameStart(), losses],
            )
            evaluation = model.evaluate(input_fn=lambda: input_fn(test, 1, False, flags.batch_size))
            # Display evaluation metrics
            print("Results at epoch", (n + 1) * flags.epochs_per_eval)
            print("-" * 60)
            for key in sorted(evaluation):
                print("%s: %s" % (key, evaluation[key]))
            history.append({key: float(value) for key, value in evaluation.items()})
        predictions = list(model.predict(lambda: input_fn((new[0], new[1]), 1, False, 4)))
        results["predictions"][model_type] = {
            "probabilities": [p["probabilities"].tolist() for p in predictions],
            "classes": [p["classes"][0].decode() for p in predictions],
            "class_ids": [int(p["class_ids"][0]) for p in predictions],
        }
        path = export_model(model, model_type, os.path.join(flags.model_dir, "export_" + model_type))
        signatures = tf.saved_model.load(path.decode()).signatures
        scores = signatures["serving_default"](serialized(new[0]))["scores"]
        results["served"][model_type] = scores.numpy().tolist()
        # Networks need far more steps with the default learning rate.
        results["losses" if model_type == "wide" else "losses_of_networks"] += losses.values
        results["histories"][model_type] = history
        results["variables"] += model.get_variable_names()
    with open(os.path.join(flags.model_dir, "results.json"), "w") as file:
        json.dump(results, file, indent=2)


if __name__ == "__main__":
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.WARN)
    main(PARSER.parse_args())
