# SPDX-License-Identifier: Apache-2.0
"""Measures Keras models of feature columns: the time of predictions, and the memory of a move.

    python benchmarks/keras_columns.py                    # a wide and deep model; 10^7 rows of 16
    python benchmarks/keras_columns.py --rows 1000000 --examples 4096
    python benchmarks/keras_columns.py --without-tensorflow PYTHON --rounds 3    # the next file

Printed are the times of `predict` of the estimator and of its Keras model, in turn, with their
ratios (the goal is 1.2): seconds of whole calls, and milliseconds of a batch after the first ones;
processor time of all threads is beside them. Then the same where a dataset's `map` reads the
features, and where Keras also compiles the model by XLA and runs 16 batches at a time. Last, the
peak of memory while a table moves, above what the imports take, by the size of the table (the goal
is below 2: no second copy).

`--without-tensorflow` measures programs of `to-torch` instead; see `without_tensorflow.py`.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import without_tensorflow
from training_time import clocks

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
WIDTH = 16


def wide_and_deep(examples: int) -> tuple[Any, Any]:
    """Returns a trained estimator of words and numbers, and a function that returns its input."""
    import numpy as np
    import tensorflow as tf

    import estimator_spec

    fc = tf.feature_column
    random = np.random.RandomState(0)
    names = [f"c{n}" for n in range(8)]
    features: dict[str, Any] = {
        name: random.choice([f"word {n}" for n in range(1000)], examples) for name in names
    }
    features["x"] = random.normal(size=examples).astype(np.float32)
    labels = (features["x"] > 0).astype(np.int64)
    words = [fc.categorical_column_with_hash_bucket(name, 10_000) for name in names]
    deep = [fc.numeric_column("x"), *(fc.embedding_column(column, WIDTH) for column in words)]
    wide = [*words, fc.crossed_column(names[:2], 10_000)]

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensor_slices((features, labels)).batch(512)

    estimator = estimator_spec.DNNLinearCombinedClassifier(
        linear_feature_columns=wide, dnn_feature_columns=deep, dnn_hidden_units=[128, 64]
    )
    return estimator.train(input_fn), input_fn


class Times(NamedTuple):
    """Times of a prediction.

    Attributes:
        whole: seconds of the call.
        batch: milliseconds of a batch after the first ones.
        cpu: milliseconds of all threads for such a batch.
    """

    whole: float
    batch: float
    cpu: float


def time_call(call: Callable[[Callable[[int], None]], Any], batches: int) -> Times:
    """Returns the times of a call, which calls its argument with the number of batches done."""
    first: list[tuple[int, float, float]] = []

    def after(done: int) -> None:
        if not first:
            first.append((done, time.perf_counter(), time.process_time()))

    start = time.perf_counter()
    call(after)
    end, cpu = time.perf_counter(), time.process_time()
    ((done, begin, cpu_begin),) = first
    each = 1e3 / (batches - done)
    return Times(end - start, (end - begin) * each, (cpu - cpu_begin) * each)


def measure_predictions(examples: int, rounds: int) -> dict[str, Times]:
    """Returns the least times of the estimator, and of its Keras model in three ways."""
    import keras
    import tensorflow as tf

    from estimator_spec.convert import to_keras

    estimator, input_fn = wide_and_deep(examples)
    model = to_keras(estimator)
    features = input_fn().map(lambda x, y: x)
    read = features.map(model.preprocess, num_parallel_calls=tf.data.AUTOTUNE).prefetch(2)
    compiled = keras.Model(model.core.input, model.core.output)
    compiled.compile(jit_compile=True, steps_per_execution=16)

    def by_estimator(after: Callable[[int], None]) -> None:
        for done, _ in enumerate(estimator.predict(input_fn, yield_single_examples=False), 1):
            after(done)

    def by_keras(model: Any, data: Any, after: Callable[[int], None]) -> None:
        def each(batch: int, logs: Any) -> None:
            after(batch + 1)

        callback = keras.callbacks.LambdaCallback(on_predict_batch_end=each)
        model.predict(data, verbose=0, callbacks=[callback])

    sides = {
        "estimator": by_estimator,
        "Keras": functools.partial(by_keras, model, features),
        "Keras, features read in tf.data": functools.partial(by_keras, model.core, read),
        "the same, by XLA, 16 batches at a time": functools.partial(by_keras, compiled, read),
    }
    found: dict[str, list[Times]] = {name: [] for name in sides}
    batches = int(features.cardinality())
    for _ in range(rounds + 1):  # the first one traces
        for name, side in sides.items():
            found[name].append(time_call(side, batches))
    return {name: Times(*map(min, zip(*times[1:], strict=True))) for name, times in found.items()}


def write_table(rows: int, folder: str) -> None:
    """Writes a checkpoint with a table of an embedding column."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    with tf.Graph().as_default(), tf1.Session() as session:
        name = "input_layer/item_embedding/embedding_weights"
        tf1.get_variable(name, [rows, WIDTH], use_resource=True)
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver().save(session, f"{folder}/model.ckpt", global_step=1)


def peak_of_move(rows: int, folder: str) -> float:
    """Returns the peak memory of a move, above that before it, by the bytes of the table."""
    import keras
    import keras_rs
    import tensorflow as tf

    from estimator_spec.convert import to_keras

    del keras, keras_rs
    tf.random.normal([1])
    item = tf.feature_column.categorical_column_with_identity("item", rows)
    column = tf.feature_column.embedding_column(item, WIDTH)
    before = clocks.resident()
    model = to_keras([column], folder)
    peak = (clocks.resident("VmHWM") - before) * 2**20
    assert model({"item": tf.constant([rows - 1])}).shape == (1, WIDTH)
    return peak / (rows * WIDTH * 4)


def main() -> None:
    """Prints both measurements."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--examples", type=int, default=131_072)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--without-tensorflow", metavar="PYTHON")
    parser.add_argument("--output", help="file of the page of --without-tensorflow")
    parser.add_argument("--process", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.without_tensorflow:
        without_tensorflow.report(options.without_tensorflow, options.rounds, options.output)
        return
    if options.process:
        function, folder = options.process
        if function == "write":
            write_table(options.rows, folder)
        else:
            print(peak_of_move(options.rows, folder))
        return
    measured = measure_predictions(options.examples, options.rounds)
    old = measured["estimator"]
    for name, times in measured.items():
        parts = [
            f"{what} {new:.3g} ({new / before:.2f})"
            for what, new, before in zip(Times._fields, times, old, strict=True)
        ]
        print(f"predict, {name}: {', '.join(parts)}")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, f"--rows={options.rows}", "--process"]
        subprocess.run([*command, "write", folder], check=True)
        done = subprocess.run([*command, "move", folder], check=True, stdout=subprocess.PIPE)
    ratio = float(done.stdout.split()[-1])
    print(f"memory: {ratio:.2f} of a table of {options.rows:,} rows of {WIDTH}")


if __name__ == "__main__":
    main()
