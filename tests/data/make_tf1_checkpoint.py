# SPDX-License-Identifier: Apache-2.0
"""Creates `tests/data/tf1_15_checkpoint/` with TensorFlow 1.15.5's own TPUEstimator.

Needs Python 3.7 and TensorFlow 1.15.5, whose generated code needs an old protobuf:

    python3.7 -m venv tf1
    tf1/bin/pip install tensorflow==1.15.5 'protobuf<3.21' 'numpy<1.19'
    tf1/bin/python tests/data/make_tf1_checkpoint.py

The folder then holds the checkpoint of step 40 (tables, Adagrad slots, dense layers) and
`expected.json`: what TensorFlow 1.15.5 itself did in the 60 steps after it.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "tf1_15_checkpoint")

os.environ["SIDE"] = "reference"
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "reference"))

from programs import common, tf1_columns  # noqa: E402


def main():
    """Trains, saves the checkpoint, continues training, and saves the results."""
    model_dir = tempfile.mkdtemp()
    steps = tf1_columns.FIRST_STEPS
    estimator = tf1_columns.make_estimator(model_dir)
    estimator.train(tf1_columns.train_input_fn, max_steps=steps)
    shutil.rmtree(OUT, ignore_errors=True)
    os.makedirs(OUT)
    name = f"model.ckpt-{steps}"
    for suffix in (".index", ".data-*"):  # the .meta graph is ten times larger, and not needed
        for path in glob.glob(os.path.join(model_dir, name + suffix)):
            shutil.copy(path, OUT)
    with open(os.path.join(OUT, "checkpoint"), "w") as file:
        file.write(f'model_checkpoint_path: "{name}"\n')
    record = tf1_columns.continue_training(model_dir)
    assert len(record["losses"]) == tf1_columns.LAST_STEP - steps
    assert len(record["logits_after"]) == common.TEST_ROWS
    with open(os.path.join(OUT, "expected.json"), "w") as file:
        json.dump(record, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
