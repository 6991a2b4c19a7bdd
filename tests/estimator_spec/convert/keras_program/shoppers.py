"""A program of the tests: who buys? A wide and deep model of made-up shoppers."""

import argparse
import functools

import numpy as np
import tensorflow as tf

CITIES = [f"city {n}" for n in range(30)]
MEAN = 40.0


def scaled(value, scale):
    """Returns a value around its mean."""
    return (value - MEAN) / scale


def columns():
    """Returns the wide and the deep columns."""
    fc = tf.feature_column
    age = fc.numeric_column("age", normalizer_fn=functools.partial(scaled, scale=20.0))
    spent = fc.numeric_column("spent", normalizer_fn=lambda x: tf.math.log1p(tf.maximum(x, 0.0)))
    city = fc.categorical_column_with_vocabulary_list("city", CITIES, num_oov_buckets=2)
    items = fc.categorical_column_with_hash_bucket("items", 50)
    weighted = fc.weighted_categorical_column(items, "counts")
    buckets = fc.bucketized_column(fc.numeric_column("age"), [20, 40, 60])
    wide = [city, weighted, buckets, fc.crossed_column(["city", buckets], 40)]
    deep = [age, spent, fc.embedding_column(city, 3), fc.embedding_column(weighted, 2, "sqrtn")]
    return wide, deep


def input_fn():
    """Returns batches of shoppers."""
    random = np.random.RandomState(0)
    size = 24
    counts = tf.ragged.constant([[1.0, 2.0, 0.5][: n % 4] for n in range(size)]).to_sparse()
    words = tf.constant(["milk", "bread", "salt"])
    features = {
        "age": random.uniform(10, 80, size).astype(np.float32),
        "spent": random.uniform(0, 99, size).astype(np.float32),
        "city": random.choice([*CITIES[:5], "elsewhere", ""], size),
        "items": tf.SparseTensor(
            counts.indices, tf.gather(words, counts.indices[:, 1]), counts.dense_shape
        ),
        "counts": counts,
    }
    labels = np.where(features["spent"] > 50, "yes", "no")
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat(2).batch(8)


def main():
    """Trains the model."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_dir")
    flags = parser.parse_args()
    wide, deep = columns()
    model = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=flags.model_dir,
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[6],
        label_vocabulary=["no", "yes"],
    )
    model.train(input_fn)


if __name__ == "__main__":
    main()
