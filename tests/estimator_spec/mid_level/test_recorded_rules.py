# SPDX-License-Identifier: Apache-2.0
"""Training by the mid-level API against numbers recorded from Google's SparseCore code."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import recorded_rules
from estimator_spec.convert import target_support
from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.mid_level import TPUEmbedding, load_tables, read_tables

API = tf.tpu.experimental.embedding
# The others' rates differ from step to step.
NAMES = [name for name in recorded_rules.SETS if not name.startswith(("random/", "adam/spec:"))]


@pytest.mark.parametrize("name", NAMES)
def test_steps(name):
    """Each step of `apply_gradients` is Google's up to rounding, in tables and slots."""
    steps = recorded_rules.fixed(name)
    parameters = steps[0].parameters
    support = target_support.find_support("tpu_embedding", parameters)
    arguments = target_support.target_arguments(parameters, support)
    optimizer = getattr(API, support.name)(**arguments, **support.fixed)
    rows, width = steps[0].gradient.shape
    config = API.TableConfig(rows, width, optimizer=optimizer, name="t")
    embedding = TPUEmbedding(API.FeatureConfig(config), None)
    slots = {"w": "parameters", **mid_level_slot_names(parameters)}
    for step in steps:
        load_tables(embedding, {"t": {slots[each]: rows for each, rows in step.before.items()}})
        embedding.enqueue(tf.range(rows))
        embedding.dequeue()
        embedding.apply_gradients(tf.constant(step.gradient))
        found = read_tables(embedding)["t"]
        values = {each: np.array(found[slots[each]]) for each in step.before}
        ulps = recorded_rules.ulps(step, values)
        assert max(ulps.values()) <= recorded_rules.limit(parameters), ulps


def test_momentum_keeps_the_direction():
    """AdagradMomentum sums scaled gradients: one that turns round slows the table down."""
    config = API.TableConfig(1, 1, tf.ones_initializer(), API.AdagradMomentum(0.1, 0.9), name="t")
    embedding = TPUEmbedding([API.FeatureConfig(config)], None)
    momenta = []
    for gradient in (2.0, -2.0):
        embedding.enqueue([tf.constant([0])])
        embedding.dequeue()
        embedding.apply_gradients([tf.constant([[gradient]])])
        momenta.append(float(embedding.variables["t"]["momenta"][0, 0]))
    np.testing.assert_allclose(momenta, [1.0, 0.9 - 1 / np.sqrt(2)], rtol=1e-6)
