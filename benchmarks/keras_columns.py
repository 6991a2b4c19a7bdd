# SPDX-License-Identifier: Apache-2.0
"""Measures Keras models of feature columns: the time of predictions, and the memory of a move.

    python benchmarks/keras_columns.py                    # a wide and deep model; 10^7 rows of 16
    python benchmarks/keras_columns.py --rows 1000000 --examples 4096

Printed are seconds of `predict` of the estimator and of its Keras model, in turn, from the first
batch on, and their ratio (the goal is 1.2); and the peak of memory while a table moves, above what
the imports take, by the size of the table (the goal is below 2: no second copy).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def seconds_of(batches: Any) -> float:
    """Returns the seconds from the first item on."""
    iterator = iter(batches)
    next(iterator)
    start = time.perf_counter()
    for _ in iterator:
        pass
    return time.perf_counter() - start


def measure_predictions(examples: int, rounds: int) -> tuple[float, float, float]:
    """Returns the least seconds of the estimator, of Keras' `predict`, and of the model alone."""
    import tensorflow as tf

    from estimator_spec.convert import to_keras

    estimator, input_fn = wide_and_deep(examples)
    model = to_keras(estimator)
    model.predict(input_fn().map(lambda x, y: x), verbose=0)  # traces
    rest = input_fn().skip(1).map(lambda x, y: x)
    alone = tf.function(model)
    old, new, bare = [], [], []
    for _ in range(rounds):
        old.append(seconds_of(estimator.predict(input_fn, yield_single_examples=False)))
        start = time.perf_counter()
        model.predict(rest, verbose=0)
        new.append(time.perf_counter() - start)
        bare.append(seconds_of(map(alone, input_fn().map(lambda x, y: x))))
    return min(old), min(new), min(bare)


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
    parser.add_argument("--examples", type=int, default=65_536)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--process", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        function, folder = options.process
        if function == "write":
            write_table(options.rows, folder)
        else:
            print(peak_of_move(options.rows, folder))
        return
    old, new, bare = measure_predictions(options.examples, options.rounds)
    print(f"predict: estimator {old:.3f} s, Keras {new:.3f} s, ratio {new / old:.2f}")
    print(f"without Keras' loop of batches: {bare:.3f} s, ratio {bare / old:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, f"--rows={options.rows}", "--process"]
        subprocess.run([*command, "write", folder], check=True)
        done = subprocess.run([*command, "move", folder], check=True, stdout=subprocess.PIPE)
    ratio = float(done.stdout.split()[-1])
    print(f"memory: {ratio:.2f} of a table of {options.rows:,} rows of {WIDTH}")


if __name__ == "__main__":
    main()
