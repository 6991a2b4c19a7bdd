# SPDX-License-Identifier: Apache-2.0
"""Creates `tests/data/tf2_15_checkpoint/` with TensorFlow 2.15.1's own TPUEstimator.

    pip install tensorflow==2.15.1 'numpy<2'
    python tests/data/make_tf2_checkpoint.py

The folder then holds a checkpoint of the program `sequences` (sequence columns of every kind, two
of them shared) and `expected.json`: the logits that TensorFlow 2.15.1 itself predicts with it.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "tf2_15_checkpoint")
STEPS = 100

os.environ["SIDE"] = "reference"
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "reference"))

import tensorflow as tf  # noqa: E402
from programs import common, sequences  # noqa: E402


def main():
    """Trains, and saves the checkpoint and its predictions."""
    model_dir = os.path.join(tempfile.mkdtemp(), "model")
    estimator = sequences.make_estimator(model_dir)
    estimator.train(sequences.train_input_fn, max_steps=STEPS)
    logits = [float(row["logit"][0]) for row in estimator.predict(sequences.test_input_fn)]
    assert len(logits) == common.TEST_ROWS
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    name = f"model.ckpt-{STEPS}"
    for suffix in (".index", ".data-*"):
        for path in glob.glob(os.path.join(model_dir, name + suffix)):
            shutil.copy(path, OUT)
    with open(os.path.join(OUT, "checkpoint"), "w") as file:
        file.write(f'model_checkpoint_path: "{name}"\n')
    with open(os.path.join(OUT, "expected.json"), "w") as file:
        json.dump({"tensorflow": tf.__version__, "logits": logits}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
