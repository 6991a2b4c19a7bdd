# SPDX-License-Identifier: Apache-2.0
"""Both generations of canned estimators, and data that they learn."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec import canned
from estimator_spec.core.run_config import run_config

tf1 = tf.compat.v1

WORDS = ("ant", "bee", "cat", "dog")


def examples(count=64):
    """Returns features, and labels that follow from the word and the sign of x."""
    random = np.random.RandomState(0)
    x = random.uniform(-1, 1, (count, 1)).astype(np.float32)
    word = random.randint(0, len(WORDS), count)
    features = {"x": x, "word": np.array(WORDS)[word], "id": word.astype(np.int64)[:, np.newaxis]}
    return features, ((x[:, 0] + (word >= 2)) > 0.5).astype(np.int64)


@pytest.fixture(params=["v1", "v2"])
def generation(request):
    """Returns the names of a generation: its classes, and optimizers that they take."""
    if request.param == "v1":
        return types.SimpleNamespace(
            name="v1",
            classes=canned.v1,
            adam=tf1.train.AdamOptimizer,
            sgd=tf1.train.GradientDescentOptimizer,
        )
    legacy = tf.keras.optimizers.legacy
    return types.SimpleNamespace(name="v2", classes=canned, adam=legacy.Adam, sgd=legacy.SGD)


@pytest.fixture
def config(tmp_path):
    """Returns a function that makes a seeded configuration; arguments replace its values."""

    def make(directory="model", **options):
        options = {"tf_random_seed": 3, "model_dir": str(tmp_path / directory), **options}
        return run_config.RunConfig(**options)

    return make


@pytest.fixture
def train_input():
    """An endless input_fn of batches of 32."""
    return lambda: tf.data.Dataset.from_tensor_slices(examples()).repeat().batch(32)


@pytest.fixture
def test_input():
    """An input_fn of all examples."""
    return lambda: tf.data.Dataset.from_tensor_slices(examples()).batch(32)


class Variables(tf1.train.SessionRunHook):
    """Hook that records the names of a graph's variables."""

    def __init__(self):
        self.names = set()

    def begin(self):
        self.names = {variable.op.name for variable in tf1.global_variables()}


@pytest.fixture
def variables():
    """A hook whose `names` are those of the graph's variables."""
    return Variables()
