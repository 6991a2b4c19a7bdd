# SPDX-License-Identifier: Apache-2.0
"""Serves a model of `train_tables.py` with TensorFlow alone.

    python serve.py EXPORT INPUT OUTPUT

calls the model in EXPORT with the arrays of the .npz file INPUT.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import tensorflow as tf


def main() -> None:
    """Writes the predictions as JSON."""
    export, data, output = sys.argv[1:]
    signature = tf.saved_model.load(export).signatures["serving_default"]
    inputs = {name: tf.constant(value) for name, value in np.load(data).items()}
    with open(output, "w", encoding="utf-8") as file:
        json.dump(
            {
                "predictions": signature(**inputs)["p"].numpy()[:, 0].tolist(),
                "ours": sorted({"tpu_columns", "estimator_spec"} & set(sys.modules)),
            },
            file,
        )


if __name__ == "__main__":
    main()
