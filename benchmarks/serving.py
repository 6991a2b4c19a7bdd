# SPDX-License-Identifier: Apache-2.0
"""Compares serving latency of our SavedModels and the reference's on a CPU, in one run.

    TPU_COLUMNS_REFERENCE_PYTHON=.../python benchmarks/serving.py

The variable names a Python with TensorFlow 2.15.1, whose own TPUEstimator exports the same program.
One process loads all SavedModels with plain TensorFlow and calls them in turn. Prints the median
latency of a call (ms) and the throughput (examples a second) at each batch size; and what loading
and calling a model makes resident, above the same with tables of 100 rows (what TensorFlow needs by
itself), as a multiple of its tables. The goals: no slower than the reference, at most 1.1 times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
ROWS = int(os.environ.get("ROWS", "200000"))
FEW_ROWS = 100
WIDTH, SINGLE, WEIGHTED, SHARED = 32, 6, 10, 5
TABLE_BYTES = (SINGLE + 2) * ROWS * WIDTH * 4
MODELS = {
    "reference": {},
    "ours": {},
    "ours, mod × 4": {"strategy": "mod", "shards": 4},
    "ours, float16": {"tables": "float16"},
    "ours, int8": {"tables": "int8"},
}
PARTS = {"ours, float16": 0.5, "ours, int8": (WIDTH + 4) / (4 * WIDTH)}
MEMORY_GOAL = 1.1


def features_of(batch: int) -> dict[str, Any]:
    """Returns a batch of ids and weights."""
    generator = np.random.default_rng(batch)
    found = {f"one{i}": generator.integers(0, ROWS, (batch, 1)) for i in range(SINGLE)}
    found["many"] = generator.integers(0, ROWS, (batch, WEIGHTED))
    found["weight"] = generator.random((batch, WEIGHTED)).astype(np.float32) + 0.5
    found["left"] = generator.integers(0, ROWS, (batch, SHARED))
    found["right"] = generator.integers(0, ROWS, (batch, SHARED))
    return found


def export(side: str, directory: str, options: dict[str, Any]) -> None:
    """Trains one step and exports, in the process of one side."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    if side == "reference":
        columns_of, tpu = tf1.tpu.experimental, tf1.estimator.tpu
        spec_class = tpu.experimental.EmbeddingConfigSpec
        parameters, receiver = tf1.tpu.experimental.AdagradParameters, tf1.estimator.export
        more: dict[str, Any] = {}
    else:
        import estimator_spec as tpu
        import tpu_columns as columns_of

        spec_class, parameters = tpu.EmbeddingConfigSpec, tpu.AdagradParameters
        receiver = tpu
        more = {"embedding_shards": options.get("shards", 1)}
    identity = tf.feature_column.categorical_column_with_identity
    columns = [columns_of.embedding_column(identity(f"one{i}", ROWS), WIDTH) for i in range(SINGLE)]
    weighted = tf.feature_column.weighted_categorical_column(identity("many", ROWS), "weight")
    columns.append(columns_of.embedding_column(weighted, WIDTH, combiner="sum"))
    pair = [identity("left", ROWS), identity("right", ROWS)]
    shared = columns_of.shared_embedding_columns(pair, WIDTH)

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        # The reference accepts shared columns in Keras' layer only.
        first = tf1.feature_column.input_layer(features, columns)
        layer = tf.concat([first, tf.keras.layers.DenseFeatures(shared)(features)], 1)
        with tf1.variable_scope("head"):
            kernel = tf1.get_variable("kernel", [layer.shape[1], 64])
            last = tf1.get_variable("last", [64, 1])
        logits = tf.matmul(tf.nn.relu(tf.matmul(layer, kernel)), last)
        loss = train_op = None
        if mode != "infer":
            loss = tf.reduce_mean(tf.square(logits - labels))
        if mode == "train":
            train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(
                loss, tf1.train.get_global_step()
            )
        return tpu.TPUEstimatorSpec(
            mode, loss=loss, train_op=train_op, predictions={"logits": logits}
        )

    def input_fn(params: Any) -> Any:
        data = tf.data.Dataset.from_tensors((features_of(8), np.zeros((8, 1), np.float32)))
        return data.repeat()

    def serving_input_receiver_fn() -> Any:
        inputs = {
            key: tf1.placeholder(value.dtype, [None, value.shape[1]], f"in_{key}")
            for key, value in features_of(1).items()
        }
        return receiver.ServingInputReceiver(inputs, inputs)

    estimator = tpu.TPUEstimator(
        model_fn,
        config=tpu.RunConfig(model_dir=os.path.join(directory, "model"), tf_random_seed=1),
        params={},
        use_tpu=False,
        train_batch_size=8,
        export_to_tpu=False,
        embedding_config_spec=spec_class(
            columns + shared, parameters(0.1), partition_strategy=options.get("strategy", "div")
        ),
        **more,
    )
    estimator.train(input_fn, steps=1)
    narrow = {"tables": options["tables"]} if "tables" in options else {}
    estimator.export_saved_model(
        os.path.join(directory, "export"), serving_input_receiver_fn, **narrow
    )


LOAD = """
import sys
import tensorflow as tf
sys.path.insert(0, sys.argv[2])
import serving

def resident():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024

tf.random.normal([1000, 1000]) @ tf.random.normal([1000, 1000])
before = resident()
loaded = tf.saved_model.load(sys.argv[1])
data = {key: tf.constant(value) for key, value in serving.features_of(32).items()}
for _ in range(3):
    loaded.signatures["serving_default"](**data)
print(resident() - before)
"""


def start(python: str, *arguments: str, rows: int = ROWS) -> str:
    """Runs another process and returns its output."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "ROWS": str(rows)}
    done = subprocess.run([python, *arguments], capture_output=True, text=True, env=env)
    if done.returncode:
        sys.exit(done.stderr[-3000:])
    return done.stdout


def measure(paths: dict[str, str], batches: list[int], seconds: float) -> bool:
    """Prints latencies; returns whether ours were no slower than the reference."""
    import tensorflow as tf

    loaded = {name: tf.saved_model.load(path) for name, path in paths.items()}
    good = True
    print(f"\n{'ms a call, examples/s':<24}" + "".join(f"{f'batch {b}':>22}" for b in batches))
    rows: dict[str, str] = dict.fromkeys(loaded, "")
    for batch in batches:
        data = {key: tf.constant(value) for key, value in features_of(batch).items()}
        serve = {name: model.signatures["serving_default"] for name, model in loaded.items()}
        times: dict[str, list[float]] = {name: [] for name in serve}
        end = time.perf_counter() + seconds * len(serve)
        calls = 0
        while time.perf_counter() < end or calls < 20:
            # Alternating order: the first side finds other caches.
            names = list(serve)[calls % len(serve) :] + list(serve)[: calls % len(serve)]
            for name in names:
                begin = time.perf_counter()
                serve[name](**data)["logits"].numpy()
                times[name].append(time.perf_counter() - begin)
            calls += 1
        medians = {name: statistics.median(found[5:]) for name, found in times.items()}
        for name, median in medians.items():
            rows[name] += f"{median * 1000:>10.3f}{batch / median:>12,.0f}"
        if "reference" in medians:
            # Medians of equal programs differ by a few percent.
            good = good and medians["ours"] <= 1.05 * medians["reference"]
    for name, text in rows.items():
        print(f"{name:<24}{text}")
    return good


def main() -> None:
    """Runs the measurements and prints them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10, help="for each model and batch size")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32, 1024])
    parser.add_argument("--dir", help="keeps the SavedModels here, and takes those that are here")
    parser.add_argument("--export", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        side, directory, settings = options.export
        export(side, directory, json.loads(settings))
        return
    reference = os.environ.get("TPU_COLUMNS_REFERENCE_PYTHON")
    with contextlib.ExitStack() as stack:
        base = options.dir or stack.enter_context(tempfile.TemporaryDirectory())
        paths, sizes = {}, {}
        for number, (name, settings) in enumerate(MODELS.items()):
            python = reference if name == "reference" else sys.executable
            if python is None:
                print("no reference: set TPU_COLUMNS_REFERENCE_PYTHON")
                continue
            sizes[name] = 0
            for rows in (FEW_ROWS, ROWS):
                directory = os.path.join(base, f"{number}-{rows}")
                side, given = name.split(",")[0], json.dumps(settings)
                if not Path(directory, "export").exists():
                    start(python, __file__, "--export", side, directory, given, rows=rows)
                (path,) = Path(directory, "export").iterdir()
                here = str(ROOT / "benchmarks")
                size = int(start(sys.executable, "-c", LOAD, str(path), here, rows=rows))
                sizes[name] += size if rows == ROWS else -size
            paths[name] = str(path)
        good = measure(paths, options.batches, options.seconds)
        print(f"\n{'resident after loading':<24}{'MiB':>8}{'tables':>8}{'ratio':>8}")
        small = True
        for name, size in sizes.items():
            tables = TABLE_BYTES * PARTS.get(name, 1.0)
            print(f"{name:<24}{size / 2**20:>8.0f}{tables / 2**20:>8.0f}{size / tables:>8.2f}")
            if name in ("ours", "ours, mod × 4"):
                small = small and size <= MEMORY_GOAL * tables
        print(f"goals: no slower than the reference {good}; <= {MEMORY_GOAL} × tables {small}")


if __name__ == "__main__":
    main()
