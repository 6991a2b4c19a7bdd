# SPDX-License-Identifier: Apache-2.0
"""House prices with a plain Estimator: train_and_evaluate, exporters, early stopping, warm start.

The style of a cloud tutorial, moved to TensorFlow 2 by hand.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf

COLUMNS = ["rooms", "area", "year"]
DISTRICTS = ["north", "south", "east", "west"]

numpy_input_fn = tf.compat.v1.estimator.inputs.numpy_input_fn


def load_data(count, seed):
    rng = np.random.RandomState(seed)
    features = {
        "rooms": rng.randint(1, 7, size=count).astype(np.float32),
        "area": rng.uniform(20, 180, size=count).astype(np.float32),
        "year": rng.randint(1900, 2020, size=count).astype(np.float32),
        "district": np.array(DISTRICTS)[rng.randint(4, size=count)],
    }
    price = (
        features["area"] / 50
        + features["rooms"] / 4
        + (features["district"] == "west")
        + 0.1 * rng.normal(size=count)
    )
    return features, price.astype(np.float32).reshape(-1, 1)


def feature_columns():
    columns = [
        tf.feature_column.numeric_column("rooms", normalizer_fn=lambda x: (x - 3.5) / 2),
        tf.feature_column.numeric_column("area", normalizer_fn=lambda x: (x - 100) / 50),
        tf.feature_column.bucketized_column(
            tf.feature_column.numeric_column("year"), [1920, 1950, 1980]
        ),
        tf.feature_column.indicator_column(
            tf.feature_column.categorical_column_with_vocabulary_list("district", DISTRICTS)
        ),
    ]
    return columns


def model_fn(features, labels, mode, params):
    net = tf.compat.v1.feature_column.input_layer(features, params["feature_columns"])
    for i, units in enumerate(params["hidden_units"]):
        net = tf.compat.v1.layers.dense(
            net,
            units=units,
            activation=tf.nn.relu,
            name="hidden_%d" % i,
            kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=i),
        )
    price = tf.compat.v1.layers.dense(
        net, 1, name="price", kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=9)
    )
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(
            mode,
            predictions={"price": price},
            export_outputs={"price": tf.estimator.export.PredictOutput({"price": price})},
        )
    loss = tf.compat.v1.losses.mean_squared_error(labels, price)
    metrics = {"rmse": tf.compat.v1.metrics.root_mean_squared_error(labels, price)}
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = tf.compat.v1.train.FtrlOptimizer(params["learning_rate"])
    train_op = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def serving_input_receiver_fn():
    receivers = {name: tf.compat.v1.placeholder(tf.float32, [None], name) for name in COLUMNS}
    receivers["district"] = tf.compat.v1.placeholder(tf.string, [None], "district")
    features = {name: tf.expand_dims(tensor, -1) for name, tensor in receivers.items()}
    return tf.estimator.export.ServingInputReceiver(features, receivers)


class Losses(tf.estimator.SessionRunHook):
    def __init__(self):
        self.values = []

    def before_run(self, run_context):
        loss = tf.compat.v1.losses.get_losses()[0]
        return tf.estimator.SessionRunArgs(loss)

    def after_run(self, run_context, run_values):
        self.values.append(float(run_values.results))


def evaluations(eval_dir):
    """The summaries of all evaluations: {step: {metric: value}}."""
    found = {}
    for path in tf.io.gfile.glob(os.path.join(eval_dir, "*tfevents*")):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    found.setdefault(str(event.step), {})[value.tag] = value.simple_value
    return found


def subdirectories(path):
    if not os.path.isdir(path):
        return []
    return sorted(name for name in os.listdir(path) if os.path.isdir(os.path.join(path, name)))


def run(args):
    model_dir = os.path.join(args.job_dir, "model")
    train, test = load_data(500, seed=1), load_data(120, seed=2)
    test_input_fn = numpy_input_fn(*test, batch_size=50, num_epochs=1, shuffle=False)
    params = {
        "feature_columns": feature_columns(),
        "hidden_units": [12, 6],
        "learning_rate": args.learning_rate,
    }
    config = tf.estimator.RunConfig(
        tf_random_seed=19,
        save_checkpoints_steps=25,
        save_summary_steps=10,
        keep_checkpoint_max=10,
        log_step_count_steps=50,
    )
    estimator = tf.estimator.Estimator(model_fn, model_dir=model_dir, config=config, params=params)
    losses = Losses()
    # The directory must be there, says the documentation of the early stopping hooks.
    os.makedirs(estimator.eval_dir("test"))
    early_stopping = tf.estimator.experimental.stop_if_lower_hook(
        estimator,
        "rmse",
        threshold=args.good_enough,
        eval_dir=estimator.eval_dir("test"),
        run_every_secs=None,
        run_every_steps=5,
    )
    train_spec = tf.estimator.TrainSpec(
        numpy_input_fn(*train, batch_size=40, num_epochs=None, shuffle=False),
        max_steps=args.max_steps,
        hooks=[losses, early_stopping],
    )
    exporters = [
        tf.estimator.LatestExporter("latest", serving_input_receiver_fn, exports_to_keep=2),
        tf.estimator.BestExporter(
            "best", serving_input_receiver_fn, exports_to_keep=1, compare_fn=better
        ),
        tf.estimator.FinalExporter("final", serving_input_receiver_fn),
    ]
    eval_spec = tf.estimator.EvalSpec(
        test_input_fn,
        steps=None,
        name="test",
        exporters=exporters,
        start_delay_secs=0,
        throttle_secs=0,
    )
    metrics, exported = tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)

    new = load_data(6, seed=3)
    new_input_fn = numpy_input_fn(new[0], batch_size=4, num_epochs=1, shuffle=False)
    prices = [float(p["price"][0]) for p in estimator.predict(new_input_fn)]
    (best,) = subdirectories(os.path.join(model_dir, "export", "best"))
    serve = tf.saved_model.load(os.path.join(model_dir, "export", "best", best))
    request = {name: tf.constant(values) for name, values in new[0].items()}
    served = serve.signatures["serving_default"](**request)["price"].numpy()

    # A second model that starts with the first one's layers, but for the last.
    warm = tf.estimator.Estimator(
        model_fn,
        model_dir=os.path.join(args.job_dir, "warm"),
        config=config.replace(tf_random_seed=20),
        params=dict(params, learning_rate=0.05),
        warm_start_from=tf.estimator.WarmStartSettings(
            ckpt_to_initialize_from=model_dir, vars_to_warm_start="hidden.*"
        ),
    )
    warm_losses = Losses()
    tf.estimator.train_and_evaluate(
        warm,
        tf.estimator.TrainSpec(train_spec.input_fn, max_steps=10, hooks=[warm_losses]),
        tf.estimator.EvalSpec(
            test_input_fn,
            exporters=tf.estimator.FinalExporter("final", serving_input_receiver_fn),
            throttle_secs=0,
        ),
    )

    results = {
        "losses": losses.values,
        "metrics": {name: float(value) for name, value in metrics.items()},
        "exports": [value is not None for value in exported],
        "exports_kept": {
            path: len(subdirectories(os.path.join(args.job_dir, path)))
            for path in (
                "model/export/latest",
                "model/export/best",
                "model/export/final",  # none: it was stopped before max_steps
                "warm/export/final",
            )
        },
        "prices": prices,
        "served": served[:, 0].tolist(),
        "warm_losses": warm_losses.values,
        "variables": estimator.get_variable_names(),
        "evaluations": evaluations(estimator.eval_dir("test")),
    }
    with open(os.path.join(args.job_dir, "results.json"), "w") as file:
        json.dump(results, file, indent=2)


def better(best_eval_result, current_eval_result):
    return current_eval_result["rmse"] < best_eval_result["rmse"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--job-dir", required=True)
    parser.add_argument("--learning-rate", type=float, default=0.3)
    parser.add_argument("--max-steps", type=int, default=150)
    parser.add_argument("--good-enough", type=float, default=0.165)
    tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.WARN)
    run(parser.parse_args())
