# SPDX-License-Identifier: Apache-2.0
"""Checks of argument values."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.core.common.checks import check_instances, check_positive, check_positive_ints


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1"])
@pytest.mark.parametrize(
    ("optional", "expected"), [(False, "a positive int"), (True, "a positive int or None")]
)
def test_other_values_are_refused(value, optional, expected):
    """The message names the argument, what was expected and the value."""
    with pytest.raises(ValueError, match=f"^size must be {expected}, got {value!r}.$"):
        check_positive_ints(optional=optional, first=3, size=value)


def test_none_is_accepted_if_optional():
    """None is a value of optional arguments only."""
    check_positive_ints(optional=True, size=None)
    with pytest.raises(ValueError, match="size must be a positive int, got None"):
        check_positive_ints(size=None)


@pytest.mark.parametrize(
    "value", [1, 2.5, 1e6, True, np.int64(3), np.array(3), np.array([3]), float("inf"), None]
)
def test_numbers_of_steps(value):
    """Numbers above 0 are accepted, of Python and NumPy, as in TensorFlow; so is None."""
    check_positive("steps", value)


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, ValueError, "Must specify steps > 0, given: 0"),
        (float("nan"), ValueError, "Must specify steps > 0, given: nan"),
        ("5", TypeError, "steps must be a number, got '5', a str"),
        (np.array([1, 2]), TypeError, "steps must be a number"),
    ],
)
def test_no_numbers_of_steps(value, error, message):
    """0, NaN and what can't be compared with 0 are refused."""
    with pytest.raises(error, match=message):
        check_positive("steps", value)


def test_instances():
    """The elements are returned as a list; one that isn't in a list is refused."""
    hook = tf.compat.v1.train.SessionRunHook()
    assert check_instances((hook,), type(hook), "Hooks") == [hook]
    assert check_instances(None, type(hook), "Hooks") == []
    with pytest.raises(TypeError, match="Hooks, in a list; given: "):
        check_instances(hook, type(hook), "Hooks")
