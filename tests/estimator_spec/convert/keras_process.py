# SPDX-License-Identifier: Apache-2.0
"""A process of Keras 3 alone: `keras_process.py CHECKPOINT OUT.npz`, backend by KERAS_BACKEND.

Looks the compact family's first batch up, and trains a model on it.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import keras
import numpy as np

from estimator_spec.convert import features_for, to_distributed_embedding

_SPEC = importlib.util.spec_from_file_location("families", Path(__file__).with_name("conftest.py"))
families = importlib.util.module_from_spec(_SPEC)
sys.modules["families"] = families
_SPEC.loader.exec_module(families)


def main(checkpoint, out):
    """Writes activations and losses."""
    spec = families.column_spec(("sqrtn",))
    batch = families.column_batch("random", 0, ("sqrtn",))
    layer = to_distributed_embedding(spec, checkpoint, max_ids=8)
    found = features_for(layer, batch)
    looked_up = {key: np.asarray(value) for key, value in layer(*found[:2]).items()}

    class Model(keras.Model):
        """The sum of all activations, and a layer of its own."""

        def __init__(self):
            super().__init__()
            self.embedding = layer
            self.dense = keras.layers.Dense(1)

        def call(self, inputs):
            activations = self.embedding(inputs["ids"], inputs["weights"])
            summed = [keras.ops.mean(x, axis=tuple(range(1, x.ndim))) for x in activations.values()]
            return self.dense(keras.ops.stack(summed, axis=1))

    model = Model()
    model.compile(layer.conversion.optimizer(keras.optimizers.SGD(0.05)), "mse")
    inputs = {"ids": found.inputs, "weights": found.weights}
    labels = np.arange(6.0)[:, np.newaxis]
    losses = model.fit(inputs, labels, batch_size=6, epochs=5, verbose=0).history["loss"]
    np.savez(out, keras_backend=keras.backend.backend(), losses=losses, **looked_up)


if __name__ == "__main__":
    main(*sys.argv[1:])
