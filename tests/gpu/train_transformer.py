# SPDX-License-Identifier: Apache-2.0
"""Trains the Transformer of the benchmarks with a TPUEstimator; prints its losses as JSON.

python train_transformer.py LAYERS STEPS BATCH LENGTH MODEL_DIR
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf

import estimator_spec

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from training_time import transformer_program

tf1 = tf.compat.v1


class Losses(tf1.train.SessionRunHook):
    """Keeps the losses."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def before_run(self, run_context: Any) -> Any:
        """Asks for the loss."""
        return tf1.train.SessionRunArgs(tf1.losses.get_losses()[0])

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps it."""
        self.losses.append(float(run_values.results))


def main() -> None:
    """Trains; prints the losses."""
    layers, steps, batch, length = map(int, sys.argv[1:5])
    hook = Losses()
    estimator = estimator_spec.TPUEstimator(
        transformer_program.model_fn,
        config=estimator_spec.RunConfig(
            model_dir=sys.argv[5],
            tf_random_seed=1,
            save_checkpoints_steps=None,
            save_checkpoints_secs=None,
        ),
        use_tpu=False,
        train_batch_size=batch,
        params={"layers": layers, "length": length},
    )
    estimator.train(transformer_program.input_fn_of(batch, length), steps=steps, hooks=[hook])
    print(json.dumps(hook.losses))


if __name__ == "__main__":
    main()
