# SPDX-License-Identifier: Apache-2.0
"""Measures a training step of the mid-level API without a TPU, beside other ways to train tables.

    python benchmarks/mid_level.py                                # 26 tables x 16, batches of 1,024
    python benchmarks/mid_level.py --rows 10000 --ids 10 --sides session,mid-level

Each side trains the same tables by Adagrad, below a small model, on the same ids: the host core of
a `TPUEstimator` in a session; a `TPUEmbedding` in a tf.function for each step, and in a loop of 100
steps; the layer of TensorFlow Recommenders without `install()`, whose tables the model's optimizer
trains; and keras_rs' `DistributedEmbedding`. Printed are the least milliseconds of a step over the
rounds, which the sides take in turn, each in a process of its own; and the least processor time of
all threads, which other processes of a machine change less.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from training_time import clocks

ROOT = Path(__file__).resolve().parent.parent
TABLES, WIDTH, BATCHES = 26, 16, 16
LOGGED = 100  # steps between two lines of the log
KERAS_3 = ("keras-rs",)  # the others need Keras 2


def arrays_of(options: Any) -> list[dict[str, Any]]:
    """Returns batches of ids."""
    import numpy as np

    rng = np.random.default_rng(1)
    shape = [options.batch_size, options.ids]
    return [
        {f"f{n}": rng.integers(1, options.rows, shape) for n in range(TABLES)}
        for _ in range(BATCHES)
    ]


def dataset_of(options: Any, give: Callable[[dict[str, Any]], Any]) -> Any:
    """Returns the batches as a dataset without end, each as `give` returns it."""
    import numpy as np
    import tensorflow as tf

    batches = arrays_of(options)
    joined = {key: np.stack([batch[key] for batch in batches]) for key in batches[0]}
    return tf.data.Dataset.from_tensor_slices(joined).repeat().map(give).prefetch(4)


def sparse(ids: dict[str, Any]) -> dict[str, Any]:
    """Returns ids as the mid-level API takes them: one as it is, several as sparse ones."""
    import tensorflow as tf

    if next(iter(ids.values())).shape[1] == 1:
        return {key: value[:, 0] for key, value in ids.items()}
    return {key: tf.sparse.from_dense(value) for key, value in ids.items()}


def configurations(options: Any) -> dict[str, Any]:
    """Returns the features of the mid-level API."""
    import tensorflow as tf

    api = tf.tpu.experimental.embedding
    return {
        f"f{n}": api.FeatureConfig(api.TableConfig(options.rows, WIDTH, name=f"t{n}"))
        for n in range(TABLES)
    }


class Dense:
    """The model above the embeddings: one layer, and its loss."""

    def __init__(self) -> None:
        import tensorflow as tf

        self.weights = tf.Variable(tf.random.normal([TABLES * WIDTH, 1], seed=1))

    def loss(self, activations: dict[str, Any]) -> Any:
        """Returns the loss of a batch."""
        import tensorflow as tf

        joined = tf.concat([activations[key] for key in sorted(activations)], 1)
        return tf.reduce_mean(tf.square(tf.sigmoid(tf.matmul(joined, self.weights)) - 0.3))


def session(options: Any) -> Iterator[Any]:
    """Yields functions that train some steps: the host core of a `TPUEstimator`."""
    import tensorflow as tf

    import estimator_spec as es

    tf1 = tf.compat.v1
    tf1.logging.set_verbosity("INFO")
    logging.getLogger("tensorflow").propagate = False
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={f"f{n}": es.FeatureConfig(f"t{n}") for n in range(TABLES)},
        table_to_config_dict={f"t{n}": es.TableConfig(options.rows, WIDTH) for n in range(TABLES)},
        optimization_parameters=es.AdagradParameters(0.1),
    )

    def model_fn(features: Any, labels: Any, mode: Any, params: Any) -> Any:
        del labels, params
        joined = tf.concat([features[key] for key in sorted(features)], 1)
        weights = tf1.get_variable("weights", [TABLES * WIDTH, 1])
        loss = tf.reduce_mean(tf.square(tf.sigmoid(tf.matmul(joined, weights)) - 0.3))
        train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(
            loss, tf1.train.get_global_step()
        )
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn(params: Any) -> Any:
        del params
        return dataset_of(options, lambda ids: (sparse(ids), 0.0))

    with tempfile.TemporaryDirectory() as model_dir:
        estimator = es.TPUEstimator(
            model_fn=model_fn,
            config=es.RunConfig(
                model_dir=model_dir,
                save_checkpoints_steps=10**9,
                log_step_count_steps=LOGGED,
                tpu_config=es.TPUConfig(iterations_per_loop=1),
            ),
            use_tpu=False,
            train_batch_size=options.batch_size,
            embedding_config_spec=spec,
            embedding_core="host",
        )

        def train(steps: int) -> float:
            # By the log's rates, without the first interval: a run also builds and saves a model.
            log = clocks.SpeedLog()
            logger = logging.getLogger("tensorflow")
            logger.addHandler(log)
            estimator.train(input_fn, steps=LOGGED + steps + 1)
            logger.removeHandler(log)
            return steps * statistics.median(log.milliseconds()) / 1000

        yield train


def timed(step: Callable[[Any], Any], batches: Any, calls_for: int = 1) -> Callable[[int], float]:
    """Returns a function that calls a step on batches and returns the seconds."""
    iterator = iter(batches)

    def train(steps: int) -> float:
        start = time.perf_counter()
        for _ in range(steps // calls_for):
            found = step(next(iterator) if calls_for == 1 else iterator)
        float(found)
        return time.perf_counter() - start

    return train


def mid_level(options: Any, loop: int = 0) -> Iterator[Any]:
    """Yields functions that train some steps: a `TPUEmbedding` of ours."""
    import tensorflow as tf

    from estimator_spec.mid_level import TPUEmbedding

    embedding = TPUEmbedding(configurations(options), tf.tpu.experimental.embedding.Adagrad(0.1))
    model = Dense()

    def step(ids: Any) -> Any:
        embedding.enqueue(ids)
        with tf.GradientTape() as tape:
            activations = embedding.dequeue()
            tape.watch(activations)
            loss = model.loss(activations)
        of_tables, of_weights = tape.gradient(loss, (activations, model.weights))
        embedding.apply_gradients(of_tables)
        model.weights.assign_sub(0.1 * of_weights)
        return loss

    batches = dataset_of(options, sparse)
    if not loop:
        yield timed(tf.function(step), batches)
        return

    @tf.function
    def many(iterator: Any) -> Any:
        loss = 0.0
        for _ in tf.range(loop):
            loss = step(next(iterator))
        return loss

    yield timed(many, batches, loop)


def recommenders(options: Any) -> Iterator[Any]:
    """Yields functions that train some steps: the library's layer, by the model's optimizer."""
    import tensorflow as tf
    import tensorflow_recommenders as tfrs

    adagrad = tf.keras.optimizers.legacy.Adagrad(0.1, epsilon=0.0)
    layer = tfrs.layers.embedding.TPUEmbedding(configurations(options), adagrad)
    model = Dense()

    @tf.function
    def step(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = model.loss(layer(ids))
        variables = [*layer.trainable_variables, model.weights]
        adagrad.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    yield timed(step, dataset_of(options, sparse))


def keras_rs(options: Any) -> Iterator[Any]:
    """Yields functions that train some steps: keras_rs' layer, in `fit`."""
    import keras
    import keras_rs as rs

    features = {
        f"f{n}": rs.layers.FeatureConfig(
            f"f{n}",
            rs.layers.TableConfig(f"t{n}", options.rows, WIDTH, combiner="mean"),
            (options.batch_size, options.ids),
            (options.batch_size, WIDTH),
        )
        for n in range(TABLES)
    }
    inputs = {key: keras.Input((options.ids,), dtype="int32", name=key) for key in features}
    found = rs.layers.DistributedEmbedding(features)(inputs)
    joined = keras.layers.concatenate([found[key] for key in sorted(found)])
    model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(joined))
    model.compile(keras.optimizers.Adagrad(0.1), "mse")
    import tensorflow as tf

    batches = dataset_of(options, lambda ids: (ids, tf.fill([options.batch_size, 1], 0.3)))

    def train(steps: int) -> float:
        start = time.perf_counter()
        model.fit(batches, steps_per_epoch=steps, verbose=0)
        return time.perf_counter() - start

    yield train


SIDES: dict[str, Callable[[Any], Iterator[Any]]] = {
    "session": session,
    "mid-level": mid_level,
    "mid-level loop": lambda options: mid_level(options, 100),
    "recommenders": recommenders,
    "keras-rs": keras_rs,
}


def run_side(side: str, options: Any) -> None:
    """Prints the milliseconds of a step of one side, and those of all its threads."""

    def measure(train: Callable[[int], float], steps: int) -> tuple[float, float]:
        start = time.process_time()
        return train(steps), time.process_time() - start

    for train in SIDES[side](options):
        train(100)
        # The difference of two lengths: a side may build its model in each call.
        short = measure(train, 100)
        seconds, cpu = measure(train, options.steps + 100)
        per_step = 1000 / options.steps
        print(seconds * 1000 / (options.steps + 100), (cpu - short[1]) * per_step)


def main() -> None:
    """Measures the sides in turn, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--ids", type=int, default=1)
    parser.add_argument("--batch_size", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=300, help="a multiple of 100")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sides", default=",".join(SIDES))
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        run_side(options.side, options)
        return
    sides = options.sides.split(",")
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    arguments = [f"--{name}={getattr(options, name)}" for name in ("rows", "ids", "batch_size")]
    for _ in range(options.rounds):
        for side in sides:
            legacy = {} if side in KERAS_3 else {"TF_USE_LEGACY_KERAS": "1"}
            environment = {**os.environ, **legacy, "PYTHONPATH": str(ROOT)}
            if not legacy:
                environment.pop("TF_USE_LEGACY_KERAS", None)
            command = [sys.executable, __file__, *arguments, f"--steps={options.steps}"]
            done = subprocess.run(
                [*command, f"--side={side}"],
                env={**environment, "TF_CPP_MIN_LOG_LEVEL": "2"},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            wall, cpu = map(float, done.stdout.split()[-2:])
            found[side].append((wall, cpu))
    print(f"{TABLES} tables of {options.rows:,} x {WIDTH}, {options.ids} ids, ms a step:")
    print(f"{'':16} {'wall':>8} {'cpu':>8}")
    for side, measured in found.items():
        wall, cpu = map(min, zip(*measured, strict=True))
        print(f"{side:16} {wall:8.2f} {cpu:8.2f}")


if __name__ == "__main__":
    main()
