# SPDX-License-Identifier: Apache-2.0
"""The order of features and labels of Keras models."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.canned.keras_models import tensors

NAMES = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=5, unique=True)


@given(names=NAMES, data=st.data())
def test_tensors_by_name_are_ordered(names, data):
    """Whatever the order of a dictionary, tensors come in the order of the model's names."""
    order = data.draw(st.permutations(names))
    values = {name: tf.constant(names.index(name)) for name in order}
    found = tensors.in_order(values, names, "input")
    assert [int(tensor) for tensor in found] == list(range(len(names)))


@given(names=NAMES, data=st.data())
def test_a_missing_name_is_refused(names, data):
    """A missing name is in the error; a name that the model lacks is ignored."""
    missing = data.draw(st.sampled_from(names))
    values = {name: 1 for name in names if name != missing}
    with pytest.raises(ValueError, match=rf"of labels does not cover.*\['{missing}'\] is not in"):
        tensors.in_order(values, names, "output")
    assert len(tensors.in_order({**values, missing: 1, "other": 1}, names, "output")) == len(names)


def test_numbers_get_the_dtype_of_the_input():
    """Integers are cast to the input's dtype; strings aren't."""
    found = tensors.in_order([np.array([1, 2]), ["a"]], ["n", "s"], "input", ["float32", "string"])
    assert [tensor.dtype for tensor in found] == [tf.float32, tf.string]


def test_subclassed_models_have_numbered_inputs():
    """Without names of the model, the inputs are input_1, input_2 and so on."""
    values = {"input_2": tf.constant(2), "input_1": tf.constant(1)}
    assert [int(x) for x in tensors.in_order(values, None, "input")] == [1, 2]


@pytest.mark.parametrize(
    ("features", "weights"),
    [
        ({"features": 1, "sample_weights": 2}, 2),
        ({"features": 1, "sample_weights": 2, "more": 3}, None),
        ({"features": 1}, None),
        (1, None),
    ],
)
def test_weights_are_split_off(features, weights):
    """Only a dictionary of exactly two keys has weights of examples."""
    found, found_weights = tensors.split_weights(features)
    assert found_weights == weights
    assert found == (features if weights is None else 1)
