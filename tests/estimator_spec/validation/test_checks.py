# SPDX-License-Identifier: Apache-2.0
"""Checks of argument values."""

from __future__ import annotations

import pytest

from estimator_spec.validation.checks import check_positive_ints


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
