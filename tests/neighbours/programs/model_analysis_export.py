"""Exports a DNNClassifier for TensorFlow Model Analysis, which finds the estimator's metrics."""

import os
import sys

import numpy as np
import tensorflow as tf
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis.proto import config_pb2

DATA = os.path.join(sys.argv[1], "examples.tfrecord")
FEATURES = {
    "age": tf.io.FixedLenFeature([1], tf.float32),
    "words": tf.io.VarLenFeature(tf.string),
    "weight": tf.io.FixedLenFeature([1], tf.float32),
    "label": tf.io.FixedLenFeature([1], tf.int64),
}
# The estimator's metric of each of TFMA's.
METRICS = {
    "binary_accuracy": "accuracy",
    "mean_label": "label/mean",
    "mean_prediction": "prediction/mean",
    "auc": "auc",
}


def write_examples():
    """Writes 200 examples, some of them without words."""
    random = np.random.RandomState(1)
    os.makedirs(sys.argv[1], exist_ok=True)
    with tf.io.TFRecordWriter(DATA) as writer:
        for number in range(200):
            age = random.uniform(0, 90)
            label = int(age > 40) ^ int(number % 7 == 0)
            values = {
                "age": tf.train.Feature(float_list=tf.train.FloatList(value=[age])),
                "words": tf.train.Feature(
                    bytes_list=tf.train.BytesList(value=[b"a", b"b"][: number % 3])
                ),
                "weight": tf.train.Feature(
                    float_list=tf.train.FloatList(value=[random.uniform(0.5, 2)])
                ),
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=values))
            writer.write(example.SerializeToString())


def input_fn():
    def parse(serialized):
        features = tf.io.parse_example(serialized, FEATURES)
        return features, features.pop("label")

    return tf.data.TFRecordDataset(DATA).batch(50).map(parse)


def train():
    """Returns a trained estimator."""
    age = tf.feature_column.numeric_column("age", normalizer_fn=lambda value: value / 90)
    words = tf.feature_column.categorical_column_with_hash_bucket("words", 5)
    estimator = tf.estimator.DNNClassifier(
        [4],
        [age, tf.feature_column.embedding_column(words, 2)],
        weight_column="weight",
        model_dir=os.path.join(sys.argv[1], "model"),
    )
    estimator.train(lambda: input_fn().repeat(), max_steps=50)
    return estimator


def analyze(path):
    """Returns TFMA's metrics of an export, by name."""
    names = ("BinaryAccuracy", "AUC", "MeanLabel", "MeanPrediction", "WeightedExampleCount")
    config = config_pb2.EvalConfig(
        model_specs=[
            config_pb2.ModelSpec(
                signature_name="eval",
                prediction_key="predictions/logistic",
                label_key="labels",
                example_weight_key="weights",
            )
        ],
        slicing_specs=[config_pb2.SlicingSpec()],
        metrics_specs=[
            config_pb2.MetricsSpec(
                metrics=[config_pb2.MetricConfig(class_name=name) for name in names]
            )
        ],
    )
    model = tfma.default_eval_shared_model(path, eval_config=config, tags=["eval"])
    result = tfma.run_model_analysis(
        eval_shared_model=model,
        eval_config=config,
        data_location=DATA,
        output_path=os.path.join(sys.argv[1], "analysis"),
    )
    found = result.get_metrics_for_slice()
    return {name: value["doubleValue"] for name, value in found.items() if "doubleValue" in value}


if __name__ == "__main__":
    write_examples()
    trained = train()
    wanted = trained.evaluate(input_fn)
    receiver_fn = tfma.export.build_parsing_eval_input_receiver_fn(FEATURES, label_key="label")
    exported = tfma.export.export_eval_savedmodel(
        estimator=trained,
        export_dir_base=os.path.join(sys.argv[1], "export"),
        eval_input_receiver_fn=receiver_fn,
    )
    metrics = analyze(exported.decode())
    print(metrics)
    for name, own in METRICS.items():
        # Areas under curves are sums over thresholds, of which TFMA has 10,000 and the head 200.
        tolerance = 0.01 if own == "auc" else 1e-4
        np.testing.assert_allclose(metrics[name], wanted[own], atol=tolerance, err_msg=name)
