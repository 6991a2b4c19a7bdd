# SPDX-License-Identifier: Apache-2.0
"""Tolerances by item."""

from __future__ import annotations

import pytest

from estimator_spec.compare.stages import Stage, Tolerance, Tolerances, parse_rule


def test_the_last_rule_that_matches_decides():
    """Rules go from the general to the special; a stage without a rule keeps its own tolerance."""
    rules = Tolerances(parse_rule("*/*=0.5"), parse_rule("metrics/*auc=0,0.25"))
    assert rules.of(Stage.METRICS, "evaluate 1: auc") == Tolerance(0, 0.25)
    assert rules.of(Stage.METRICS, "evaluate 1: loss") == Tolerance(0.5)
    rules = Tolerances(parse_rule("losses/*=0.5"))
    assert rules.of(Stage.INITIAL_VALUES, "x") == Tolerances().of(Stage.INITIAL_VALUES, "x")


@pytest.mark.parametrize("text", ["losses", "losses/*=", "losses/*=a", "=1", "losses/*=1,2,3"])
def test_text_that_is_no_rule_is_refused(text):
    """The error says the form of a rule."""
    with pytest.raises(ValueError, match="PATTERN=RELATIVE"):
        parse_rule(text)


def test_a_rule_of_no_stage_is_refused():
    """A misspelt stage is named, with the stages there are."""
    with pytest.raises(ValueError, match=r"'loses/\*' matches no stage.*losses"):
        Tolerances(("loses/*", Tolerance(0.1)))


ITEMS = [
    (Stage.METRICS, "evaluate 1: auc"),
    (Stage.TRAINED_VALUES, "train 1: input_layer/word_embedding/embedding_weights"),
    (Stage.TRAINED_VALUES, "train 1: dnn/logits/kernel"),
]


@pytest.mark.parametrize("name", ["word", "tbl_word", "word_embedding", "*word_embedding*"])
def test_a_rule_takes_each_name_of_a_table(name):
    """A table's key, a feature and a part of its variable's name mean the table, and only it."""
    rules = Tolerances((f"trained-values/{name}", Tolerance(0.5)))
    rules.check_names(ITEMS)
    of_items = [rules.rule_of(*item) for item in ITEMS]
    assert of_items == [None, Tolerance(0.5), None]


def test_a_rule_of_a_name_that_nothing_has_is_refused():
    """The error lists the names of the rule's stages; a whole stage may have no items."""
    Tolerances(("losses/*", Tolerance(0.1)), ("*/*auc", Tolerance(0.1))).check_names(ITEMS)
    with pytest.raises(ValueError, match=r"'metrics/acu' is about nothing.*'metrics/evaluate 1: a"):
        Tolerances(("metrics/acu", Tolerance(0.1))).check_names(ITEMS)
    with pytest.raises(ValueError, match=r"at 'losses': nothing"):
        Tolerances(("losses/loss", Tolerance(0.1))).check_names(ITEMS)


@pytest.mark.parametrize("number", [-1.0, float("nan"), float("inf")])
def test_bounds_are_numbers(number):
    """A tolerance is a number of 0 or more."""
    with pytest.raises(ValueError, match="absolute tolerance"):
        Tolerance(0.1, number)
