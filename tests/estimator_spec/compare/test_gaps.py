# SPDX-License-Identifier: Apache-2.0
"""Differences of arrays: the largest ones, histograms, rows, orders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from estimator_spec.compare import gaps
from estimator_spec.compare.stages import Tolerance

SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=6)
ANY = arrays.arrays(np.float32, SHAPES)


@given(ANY)
def test_an_array_agrees_with_itself(array):
    """NaN and infinities included, and an array without elements."""
    gap = gaps.measure(array, array.copy())
    assert gap.agrees
    assert gap.absolute == gap.relative == 0
    assert gap.histogram[0] == gap.num_elements == array.size


@given(st.data())
def test_the_histogram_counts_each_element_once(data):
    """The bins' sum is the number of elements, whatever they are."""
    shape = data.draw(SHAPES)
    old, new = (data.draw(arrays.arrays(np.float32, shape)) for _ in range(2))
    assert sum(gaps.measure(old, new).histogram) == old.size


@given(st.data())
def test_blocks_of_rows_measure_as_the_whole(data):
    """An array measured in blocks has the differences of the whole."""
    shape = data.draw(arrays.array_shapes(min_dims=1, max_dims=2))
    finite = st.floats(-100, 100, width=32)
    old, new = (data.draw(arrays.arrays(np.float32, shape, elements=finite)) for _ in range(2))
    tolerance = Tolerance(0.1, 0.01)
    builder = gaps.GapBuilder(tolerance, gaps.largest_magnitude(old))
    cut = data.draw(st.integers(0, len(old)))
    for rows in (slice(0, cut), slice(cut, None)):
        builder.add(old[rows], new[rows])
    assert builder.finish() == gaps.measure(old, new, tolerance)


@given(st.permutations(range(9)))
def test_permuted_rows_are_recognized(order):
    """The order in which an array has another one's rows is found, but for the same order."""
    table = np.random.RandomState(0).normal(size=(9, 3))
    found = gaps.find_order(table, table[order], Tolerance(1e-6))
    if list(order) == list(range(9)):
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == list(order)


def test_other_rows_are_no_permutation():
    """One changed element, and nothing is said about an order."""
    table = np.arange(12.0).reshape(4, 3)
    other = table[::-1].copy()
    other[0, 0] += 1
    assert gaps.find_order(table, other, Tolerance(1e-6)) is None


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_number_and_none_differ_infinitely(special):
    """NaN or an infinity on one side is an infinite difference, whatever the tolerance."""
    gap = gaps.measure(np.array([1.0, 2.0]), np.array([1.0, special]), Tolerance(10, 10))
    assert (gap.num_outside, gap.absolute, gap.relative) == (1, np.inf, np.inf)
    assert gap.rows == (1,)


def test_small_elements_are_compared_with_the_largest():
    """A rounding error of a small element beside large ones is a small relative difference."""
    gap = gaps.measure(np.array([100.0, 1e-6]), np.array([100.0, 2e-6]))
    assert gap.relative == pytest.approx(1e-6)


def test_either_bound_suffices():
    """An element agrees within the relative or within the absolute tolerance."""
    old, new = np.array([1.0, 100.0]), np.array([1.1, 101.0])
    assert gaps.measure(old, new, Tolerance(0.02, 0.2)).agrees
    assert not gaps.measure(old, new, Tolerance(0.02, 0.05)).agrees


def test_strings_are_equal_or_not():
    """Strings have no difference in numbers, only rows that differ."""
    gap = gaps.measure(np.array([b"a", b"bb"]), np.array([b"a", b"b"]))
    assert (gap.absolute, gap.num_outside, gap.rows) == (None, 1, (1,))
