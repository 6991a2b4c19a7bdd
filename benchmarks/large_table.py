# SPDX-License-Identifier: Apache-2.0
"""Measures memory of training, saving and restoring one large table.

    python benchmarks/large_table.py                          # 10^7 rows of 64 floats, both cores
    python benchmarks/large_table.py --rows 1000000 --cores host

Each core trains some steps and saves, and a second process restores the checkpoint and trains on.
Printed is the peak of each process above what `import tensorflow` takes, and its ratio to table and
slot (Adagrad's accumulator). The goal is 1.15.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from training_time import clocks

ROOT = Path(__file__).resolve().parent.parent
STEPS = 20
BATCH = 1024


def train(rows: int, width: int, core: str, model_dir: str) -> dict[str, float]:
    """Trains some steps and saves; returns the peak memory in MiB."""
    sys.path.insert(0, str(ROOT))
    import tensorflow as tf

    import estimator_spec
    import tpu_columns

    tf1 = tf.compat.v1
    item = tf.feature_column.categorical_column_with_identity("item", rows)
    columns = [tpu_columns.embedding_column(item, width)]

    def input_fn(params: dict) -> tf.data.Dataset:
        ids = tf.data.Dataset.random(seed=1).batch(params["batch_size"], drop_remainder=True)
        return ids.map(lambda drawn: ({"item": drawn[:, tf.newaxis] % rows}, drawn % 2)).prefetch(1)

    def model_fn(features: dict, labels: tf.Tensor, mode: str, params: dict) -> object:
        logits = tf.reduce_sum(tpu_columns.input_layer(features, columns), 1)
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        step = tf1.train.get_global_step()
        train_op = tf1.train.AdagradOptimizer(0.1).minimize(loss, step)
        return estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

    before = clocks.resident()
    estimator = estimator_spec.TPUEstimator(
        model_fn,
        config=estimator_spec.RunConfig(model_dir=model_dir, keep_checkpoint_max=1),
        use_tpu=False,
        train_batch_size=BATCH,
        embedding_config_spec=estimator_spec.EmbeddingConfigSpec(
            feature_columns=columns,
            optimization_parameters=estimator_spec.AdagradParameters(0.1),
        ),
        embedding_core=None if core == "default" else core,
    )
    estimator.train(input_fn, steps=STEPS)
    return {"mib": clocks.resident("VmHWM") - before}


def main() -> None:
    """Measures each core in two fresh processes, and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--cores", default="default,host", help="of default, host")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process:
        found = train(options.rows, options.width, options.cores, options.process)
        print(json.dumps(found))
        return
    size = 2 * 4 * options.rows * options.width / 2**20
    print(f"table and slot: {size:,.0f} MiB")
    for core in options.cores.split(","):
        with tempfile.TemporaryDirectory() as model_dir:
            for name in ("train and save", "restore, train and save"):
                command = [sys.executable, __file__, "--process", model_dir, "--cores", core]
                command += ["--rows", str(options.rows), "--width", str(options.width)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found = json.loads(done.stdout.splitlines()[-1])
                ratio = found["mib"] / size
                print(f"{core}: {name}: {found['mib']:,.0f} MiB, {ratio:.2f} times", flush=True)


if __name__ == "__main__":
    main()
