# SPDX-License-Identifier: Apache-2.0
"""Equality of heads with TensorFlow 2.15.1's, by recorded answers and, nightly, by its process."""

from __future__ import annotations

import re

import head_cases
import pytest
from head_asker import HeadAsker
from head_calls import (
    GraphsOfTheFirstGeneration,
    decoded,
    encoded,
    graph_outcome,
    outcome,
    parameters,
)
from head_cases import REFUSED, SPECS, SPECS_V1, drawing
from head_outcomes import assert_same_outcome
from hypothesis import given, settings

import goldens
from estimator_spec import heads
from estimator_spec.heads import first_generation
from goldens import HEADS

pytestmark = [pytest.mark.reference, pytest.mark.slow]

nightly = pytest.mark.nightly("asks the reference's process 500 times")

# Of the second generation a case has eight to ten batches, but for MultiHead.
several_batches, one_batch = settings(drawing, max_examples=75), settings(drawing, max_examples=520)


@pytest.fixture(scope="module")
def reference(reference_python):
    """Returns a function that asks the reference's process, which lives as long as these tests."""
    asker = HeadAsker(reference_python)
    yield asker
    asker.close()


@pytest.fixture
def answer(request):
    """Returns a function of the name of a fixed case: its request, and the reference's answer."""
    live = request.getfixturevalue("reference") if goldens.is_live("heads_fixed") else None
    recorded = None if live else goldens.read("heads_fixed").record
    cases = head_cases.fixed()

    def answered(name):
        kind, case = cases[name]
        return case, live(kind, case)[0] if live else recorded[name]

    return answered


@pytest.fixture
def head_tolerance(tolerance):
    """Returns the tolerance of another version's kernels, and another CPU's if answers are."""
    is_live = goldens.is_live("heads_fixed")
    return tolerance if is_live else max(tolerance, goldens.TOLERANCE)


@pytest.mark.parametrize("head", [name for name in HEADS.names if name != "fixed"])
def test_recorded_batches(head_tolerance, head):
    """What the reference answered to drawn cases is answered here: values, or a refusal."""
    of_the_first = head in head_cases.FIRST_GENERATION
    side = first_generation if of_the_first else heads
    compute = [GraphsOfTheFirstGeneration(first_generation)] if of_the_first else []
    cases = goldens.read(HEADS.prefix + head).record["cases"]
    if not goldens.all_are_live():
        cases = cases[::3]
    refused = 0
    for case, expected in cases:
        refused += "error" in expected
        assert_same_outcome(outcome(side, decoded(case), *compute), expected, head_tolerance)
    assert refused >= 2
    assert len(cases) - refused >= 8


def compared(reference, case, tolerance, kind, *compute):
    """Compares both sides' outcomes of a case."""
    side = first_generation if kind == "first_generation" else heads
    arguments = [side, case, *compute]
    expected, actual = reference(kind, case, lambda: outcome(*arguments))
    assert_same_outcome(actual, expected, tolerance)
    return expected


@nightly
@pytest.mark.parametrize("head", head_cases.SECOND_GENERATION)
def test_five_hundred_batches(reference, tolerance, head):
    """Loss, predictions and metrics of drawn labels, weights and arguments are the reference's."""
    accepted, refused = [], []

    @(settings(drawing, max_examples=620) if head == "MultiHead" else several_batches)
    @given(head_cases.SECOND_GENERATION[head]())
    def compare(case):
        if "error" in compared(reference, case, tolerance, "eager"):
            refused.append(case)
        else:
            accepted.extend(case["batches"])

    compare()
    assert len(accepted) >= 500
    assert refused


@nightly
@pytest.mark.parametrize("head", head_cases.FIRST_GENERATION)
def test_five_hundred_batches_of_the_first_generation(reference, tolerance, head):
    """The same in TF1 graphs, for the heads of TensorFlow 1."""
    graphs = GraphsOfTheFirstGeneration(first_generation)
    accepted, refused = [], []

    @one_batch
    @given(head_cases.first_generation(head))
    def compare(case):
        expected = compared(reference, case, tolerance, "first_generation", graphs)
        (refused if "error" in expected else accepted).append(case)

    compare()
    assert len(accepted) + len(refused) >= 500
    assert refused and len(accepted) > 400


def same_spec(case, side, expected, tolerance):
    """Asserts that both sides make the same of a case in a graph."""
    assert "error" not in expected
    assert_same_outcome(outcome(side, case, graph_outcome), expected, tolerance)


@pytest.mark.parametrize("name", SPECS)
def test_specs(answer, head_tolerance, name):
    """Each mode's spec has the same names, tensors and values, exported outputs and summaries."""
    case, expected = answer(f"graph {name}")
    same_spec(case, heads, expected, head_tolerance)


@pytest.mark.parametrize("name", SPECS_V1)
def test_specs_of_the_first_generation(answer, head_tolerance, name):
    """The same for the heads of TensorFlow 1."""
    case, expected = answer(f"first_generation_graph {name}")
    same_spec(case, first_generation, expected, head_tolerance)


@pytest.mark.parametrize("name", [*head_cases.SECOND_GENERATION])
def test_arguments(answer, name):
    """Each head takes the reference's arguments, in its order and with its defaults."""
    _, expected = answer(f"parameters {name}")
    assert encoded(parameters(getattr(heads, name))) == expected


@pytest.mark.parametrize("head, arguments, words", REFUSED)
def test_refused_arguments(answer, head, arguments, words):
    """Arguments that the reference refuses are refused, with its key words."""
    number = REFUSED.index((head, arguments, words))
    case, expected = answer(f"refused {number}")
    actual = outcome(heads, case)
    for found in (expected, actual):
        assert re.search(words, found["message"]), found
    assert actual["error"] == expected["error"]
