# SPDX-License-Identifier: Apache-2.0
"""Checks of argument types and names."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from tpu_columns import checks


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, True),
        (-1, True),
        (np.int32(3), True),
        (tf.compat.v1.Dimension(3), True),
        (True, False),
        (np.bool_(True), False),
        (3.0, False),
        (np.float32(3), False),
        ("3", False),
        (None, False),
        (tf.compat.v1.Dimension(None), False),
    ],
    ids=repr,
)
def test_is_int(value, expected):
    """Integers of any library are ints; bools, floats, strings and unknown sizes are not."""
    assert checks.is_int(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, True),
        (-2.5, True),
        (np.float32(1), True),
        (np.int64(3), True),
        (float("inf"), True),
        (float("nan"), False),
        (np.float64("nan"), False),
        (True, False),
        (np.bool_(True), False),
        ("1", False),
        (1j, False),
        (None, False),
    ],
)
def test_is_number(value, expected):
    """Real numbers of Python and NumPy are numbers; bools and NaN are not."""
    assert checks.is_number(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (0, True), (np.bool_(False), True), (2, False), ("no", False), (None, False)],
)
def test_is_flag(value, expected):
    """Bools, 0 and 1 are flags."""
    assert checks.is_flag(value) is expected


def test_names_of_graphs():
    """The accepted names are those with which TensorFlow makes a scope of a graph."""
    for name in ("words", "a/b", "a.b-c_d", "9", ".a", "_a", "-a", "my words", "wörter", "a:b", ""):
        for in_scope in (False, True):
            with tf.Graph().as_default() as graph:
                with graph.name_scope("outer") if in_scope else contextlib.nullcontext():
                    try:
                        tf.constant(1, name=name or " ")
                        accepted = True
                    except ValueError:
                        accepted = False
                if accepted:
                    checks.check_name(name, "Table", in_scope=in_scope)
                    continue
                with pytest.raises(ValueError, match=f"Table: {name!r} is not a valid scope name"):
                    checks.check_name(name, "Table", in_scope=in_scope)
