# SPDX-License-Identifier: Apache-2.0
"""Continues TensorFlow 1.15.5's checkpoint in a process of its own: SIDE=ours ... MODEL_DIR OUT.

MODEL_DIR is a copy of `tests/data/tf1_15_checkpoint/`; OUT becomes a JSON file.
"""

from __future__ import annotations

import json
import sys

from programs import tf1_columns

if __name__ == "__main__":
    with open(sys.argv[2], "w") as file:
        json.dump(tf1_columns.continue_training(sys.argv[1]), file, indent=1)
