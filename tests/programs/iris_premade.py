# SPDX-License-Identifier: Apache-2.0
"""Which iris is it? A premade DNNClassifier in forty lines.

The style of "Getting started" in 2017: `tf.estimator` of TensorFlow 1, a module-level parser,
`main(argv)` and a loop that prints predictions.
"""
from __future__ import absolute_import
from __future__ import division
from __future__ import print_function

import argparse
import json
import os

import numpy as np
import tensorflow.compat.v1 as tf

parser = argparse.ArgumentParser()
parser.add_argument('--batch_size', default=30, type=int, help='batch size')
parser.add_argument('--train_steps', default=200, type=int, help='number of training steps')
parser.add_argument('--model_dir', required=True, help='checkpoints, exports and results')

KEYS = ['SepalLength', 'SepalWidth', 'PetalLength', 'PetalWidth']
SPECIES = ['Setosa', 'Versicolor', 'Virginica']
MEANS = [[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]]


def load_data(count, seed):
    """Flowers like those of 1936."""
    random = np.random.RandomState(seed)
    y = random.randint(3, size=count)
    x = np.array(MEANS)[y] + random.normal(scale=0.3, size=(count, 4))
    features = {key: x[:, i].astype(np.float32) for i, key in enumerate(KEYS)}
    return features, y.astype(np.int32)


def train_input_fn(features, labels, batch_size):
    """An input function for training"""
    dataset = tf.data.Dataset.from_tensor_slices((dict(features), labels))
    dataset = dataset.shuffle(1000, seed=17).repeat().batch(batch_size)
    return dataset.make_one_shot_iterator().get_next()


def eval_input_fn(features, labels, batch_size):
    """An input function for evaluation or prediction"""
    features = dict(features)
    if labels is None:
        # No labels, use only features.
        inputs = features
    else:
        inputs = (features, labels)
    dataset = tf.data.Dataset.from_tensor_slices(inputs)
    assert batch_size is not None, "batch_size must not be None"
    return dataset.batch(batch_size)


class LossHistory(tf.train.SessionRunHook):

    def __init__(self):
        self.losses = []

    def begin(self):
        self._loss = tf.get_collection(tf.GraphKeys.LOSSES)[-1]

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


def first_layer(hidden_units):
    """Values for a checkpoint to warm start from: the same on every machine."""
    random = np.random.RandomState(5)
    sizes = [len(KEYS)] + hidden_units + [len(SPECIES)]
    names = ['hiddenlayer_%d' % i for i in range(len(hidden_units))] + ['logits']
    values = {}
    for name, before, after in zip(names, sizes[:-1], sizes[1:]):
        kernel = random.uniform(-1, 1, size=(before, after)) * np.sqrt(6.0 / (before + after))
        values['dnn/%s/kernel' % name] = kernel.astype(np.float32)
        values['dnn/%s/bias' % name] = np.zeros([after], np.float32)
    return values


def save_values(values, path):
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in values.items():
            tf.get_variable(name, initializer=value)
        session.run(tf.global_variables_initializer())
        return tf.train.Saver().save(session, path)


def main(argv):
    args = parser.parse_args(argv[1:])
    train_x, train_y = load_data(120, seed=1)
    test_x, test_y = load_data(30, seed=2)

    # Feature columns describe how to use the input.
    my_feature_columns = []
    for key in train_x.keys():
        my_feature_columns.append(tf.feature_column.numeric_column(key=key))

    # Build 2 hidden layer DNN with 10, 10 units respectively.
    hidden_units = [10, 10]
    start = save_values(first_layer(hidden_units), os.path.join(args.model_dir, 'start', 'values'))
    classifier = tf.estimator.DNNClassifier(
        feature_columns=my_feature_columns,
        hidden_units=hidden_units,
        # The model must choose between 3 classes.
        n_classes=3,
        label_vocabulary=None,
        optimizer=lambda: tf.train.AdagradOptimizer(
            tf.train.exponential_decay(0.05, tf.train.get_global_step(), 100, 0.9)),
        activation_fn=tf.nn.tanh,
        warm_start_from=start,
        model_dir=os.path.join(args.model_dir, 'model'),
        config=tf.estimator.RunConfig(tf_random_seed=1))

    # Train the Model.
    history = LossHistory()
    classifier.train(
        input_fn=lambda: train_input_fn(train_x, train_y, args.batch_size),
        hooks=[history],
        steps=args.train_steps)

    # Evaluate the model.
    eval_result = classifier.evaluate(
        input_fn=lambda: eval_input_fn(test_x, test_y, args.batch_size))

    print('\nTest set accuracy: {accuracy:0.3f}\n'.format(**eval_result))

    # Generate predictions from the model
    expected = ['Setosa', 'Versicolor', 'Virginica']
    predict_x = {
        'SepalLength': [5.1, 5.9, 6.9],
        'SepalWidth': [3.3, 3.0, 3.1],
        'PetalLength': [1.7, 4.2, 5.4],
        'PetalWidth': [0.5, 1.5, 2.1],
    }
    predictions = classifier.predict(
        input_fn=lambda: eval_input_fn(predict_x, labels=None, batch_size=args.batch_size))

    rows = []
    template = 'Prediction is "{}" ({:.1f}%), expected "{}"'
    for pred_dict, expec in zip(predictions, expected):
        class_id = pred_dict['class_ids'][0]
        probability = pred_dict['probabilities'][class_id]
        print(template.format(SPECIES[class_id], 100 * probability, expec))
        rows.append({key: np.asarray(value).astype(str).tolist() if value.dtype == object
                     else value.tolist() for key, value in pred_dict.items()})

    feature_spec = tf.feature_column.make_parse_example_spec(my_feature_columns)
    classifier.export_savedmodel(
        os.path.join(args.model_dir, 'export'),
        tf.estimator.export.build_parsing_serving_input_receiver_fn(feature_spec))

    with open(os.path.join(args.model_dir, 'results.json'), 'w') as f:
        json.dump({
            'losses': history.losses,
            'metrics': {key: float(value) for key, value in eval_result.items()},
            'predictions': rows,
            'variables': classifier.get_variable_names(),
            'bias': classifier.get_variable_value('dnn/logits/bias').tolist(),
        }, f, indent=2)


if __name__ == '__main__':
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.app.run(main)
