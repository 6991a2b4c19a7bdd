# SPDX-License-Identifier: Apache-2.0
"""Where TensorFlow's lookup for serving differs from `dequeue`: the table of the how-to page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.mid_level import TPUEmbedding

API = tf.tpu.experimental.embedding
PAGE = Path(__file__).resolve().parents[3] / "docs" / "how_to" / "mid_level.md"
SPARSE = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 3], tf.int64), [2, 2])
NEGATIVE = tf.SparseTensor(SPARSE.indices, tf.constant([-1, 2, 3], tf.int64), [2, 2])
FIRST_ONLY = tf.SparseTensor([[0, 0]], tf.constant([2], tf.int64), [2, 2])
WEIGHTS = tf.SparseTensor(SPARSE.indices, [-1.0, 3.0, 2.0], [2, 2])
REFUSED = "refused"


def outcome(look_up):
    """Returns the first elements of a lookup's rows, or `REFUSED`."""
    try:
        return look_up()["x"].numpy()[..., 0].tolist()
    except (ValueError, tf.errors.InvalidArgumentError):
        return REFUSED


@pytest.mark.parametrize(
    ("ids", "weights", "feature", "serving", "dequeued"),
    [
        (tf.constant([[1], [2]]), None, {}, [[1], [2]], [1, 2]),
        (tf.constant([[1, 2], [2, 3]]), None, {}, [[1, 2], [2, 3]], REFUSED),
        (tf.constant([1, 2]), None, {"max_sequence_length": 2}, REFUSED, [1, 2]),
        (SPARSE, WEIGHTS, {"max_sequence_length": 2}, REFUSED, [[1, 2], [3, 0]]),
        (NEGATIVE, None, {}, [2, 3], REFUSED),
        (SPARSE, WEIGHTS, {}, [2, 3], [2.5, 3]),
        (FIRST_ONLY, None, {"validate_weights_and_indices": False}, [2], [2, 0]),
        (SPARSE, None, {"output_shape": [2, 2]}, [1.5, 3], [[1, 2], [3, 0]]),
        (SPARSE, None, {}, [1.5, 3], [1.5, 3]),
    ],
)
def test_serving_and_training(ids, weights, feature, serving, dequeued):
    """Each row of the table: what serving returns, and what dequeue returns."""
    initializer = tf.constant_initializer(np.arange(6.0)[:, np.newaxis])
    config = {"x": API.FeatureConfig(API.TableConfig(6, 1, initializer, name="t"), **feature)}
    weights = None if weights is None else {"x": weights}
    object_for_serving = API.TPUEmbeddingForServing(config, None)
    assert outcome(lambda: object_for_serving({"x": ids}, weights)) == serving
    embedding = TPUEmbedding(config, API.SGD(0.1))

    def look_up():
        embedding.enqueue({"x": ids}, weights)
        return embedding.dequeue()

    assert outcome(look_up) == dequeued


def test_the_page_runs_and_names_tests(tmp_path, monkeypatch):
    """The page's programs train, and each test that its tables name exists."""
    text = PAGE.read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names = {}
    for program in programs:
        exec(compile(program, str(PAGE), "exec"), names)
    assert len(programs) == 3 and names["losses"][-1] < 0.1 * names["losses"][0]
    there = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.py"))
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 10
    assert not [name for name in named if f"def {name}(" not in there]
