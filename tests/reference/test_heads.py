# SPDX-License-Identifier: Apache-2.0
"""Equality of heads with TensorFlow 2.15.1's, whose process answers the same cases."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import head_cases
import numpy as np
import pytest
from head_calls import (
    GraphsOfTheFirstGeneration,
    encoded,
    graph_outcome,
    outcome,
    parameters,
)
from head_outcomes import assert_same_outcome
from hypothesis import HealthCheck, Phase, given, settings

from estimator_spec import heads
from estimator_spec.heads import first_generation

pytestmark = [pytest.mark.reference, pytest.mark.slow]

HERE = Path(__file__).resolve().parent

drawn = settings(
    deadline=None,
    derandomize=True,
    database=None,
    # Without shrinking, which would ask the reference many times more.
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)

# Of the second generation a case has eight to ten batches, but for MultiHead.
several_batches, one_batch = settings(drawn, max_examples=75), settings(drawn, max_examples=520)


@pytest.fixture(scope="module")
def reference(reference_python):
    """Returns a function that asks the reference's process, which lives as long as these tests."""
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONPATH=str(HERE))
    environment.pop("TF_USE_LEGACY_KERAS", None)
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            [reference_python, str(HERE / "head_process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        ) as process,
    ):

        def ask(kind, case, ours=None):
            """Returns the reference's answer, and what `ours` returns meanwhile."""
            process.stdin.write(json.dumps(encoded({"kind": kind, "case": case})) + "\n")
            process.stdin.flush()
            own = ours() if ours is not None else None
            line = process.stdout.readline()
            if not line:
                log.seek(0)
                pytest.fail(f"The reference's process ended:\n{log.read()[-4000:]}")
            return json.loads(line), own

        yield ask
        process.stdin.close()


def compared(reference, case, tolerance, kind, compute=None):
    """Compares both sides' outcomes of a case."""
    side = first_generation if kind.startswith("first_generation") else heads
    arguments = [side, case] + ([compute] if compute is not None else [])
    expected, actual = reference(kind, case, lambda: outcome(*arguments))
    assert_same_outcome(actual, expected, tolerance)
    return expected


@pytest.mark.parametrize("head", head_cases.SECOND_GENERATION)
def test_five_hundred_batches(reference, tolerance, head):
    """Loss, predictions and metrics of drawn labels, weights and arguments are the reference's."""
    accepted, refused = [], []

    @(settings(drawn, max_examples=620) if head == "MultiHead" else several_batches)
    @given(head_cases.SECOND_GENERATION[head]())
    def compare(case):
        if "error" in compared(reference, case, tolerance, "eager"):
            refused.append(case)
        else:
            accepted.extend(case["batches"])

    compare()
    assert len(accepted) >= 500
    assert refused


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


def batch(**parts):
    """Returns a case of one batch of three examples."""
    logits = {1: [[2.0], [-1.0], [0.5]], 2: [[1, 2], [0, -1], [3, -1]]}
    logits[3] = [[1, 2, 0.5], [0, 0, 0], [3, -1, 2]]
    found = {"features": {"weight": np.array([[1.0], [2.0], [0.5]], np.float32)}, **parts}
    if "dimension" in found:
        found["logits"] = np.array(logits[found.pop("dimension")], np.float32)
    return [found]


IDS = np.array([[1], [0], [1]])
WORDS = np.array([["bee"], ["ant"], ["bee"]], object)
PAIRS = np.array([[1.0, 0.0], [2.0, 0.5], [0.0, 1.0]], np.float32)
NAMED = {"name": "some_head", "weight_column": "weight"}
VOCABULARY = {"label_vocabulary": ["ant", "bee"]}

SPECS = {
    "binary": ("BinaryClassHead", {"thresholds": [0.5]}, batch(dimension=1, labels=IDS)),
    "binary, named": (
        "BinaryClassHead",
        {**NAMED, **VOCABULARY, "loss_reduction": "sum"},
        batch(dimension=1, labels=WORDS),
    ),
    "multi-class": ("MultiClassHead", {"n_classes": 3}, batch(dimension=3, labels=IDS)),
    "multi-class, named": (
        "MultiClassHead",
        {**NAMED, "n_classes": 3, "label_vocabulary": ["ant", "bee", "cat"]},
        batch(dimension=3, labels=WORDS),
    ),
    "multi-label": (
        "MultiLabelHead",
        {"n_classes": 2, "thresholds": [0.5], "classes_for_class_based_metrics": [1]},
        batch(dimension=2, labels=np.array([[1, 0], [1, 1], [0, 0]])),
    ),
    "multi-label, named": (
        "MultiLabelHead",
        {**NAMED, **VOCABULARY, "n_classes": 2, "classes_for_class_based_metrics": ["bee"]},
        batch(dimension=2, labels=np.array([[1, 0], [1, 1], [0, 0]])),
    ),
    "regression": ("RegressionHead", {}, batch(dimension=1, labels=IDS)),
    "regression, named": (
        "RegressionHead",
        {**NAMED, "label_dimension": 2, "inverse_link_fn": "exp"},
        batch(dimension=2, labels=PAIRS),
    ),
    "poisson": ("PoissonRegressionHead", {}, batch(dimension=1, labels=IDS)),
    "logistic": ("LogisticRegressionHead", NAMED, batch(dimension=1, labels=IDS)),
    "several": (
        "MultiHead",
        {
            "heads": [("RegressionHead", {"name": "one"}), ("BinaryClassHead", {"name": "two"})],
            "head_weights": [1.0, 2.0],
        },
        batch(
            logits={name: np.array([[2.0], [-1.0], [0.5]], np.float32) for name in ("one", "two")},
            labels={"one": IDS, "two": IDS},
        ),
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_specs(reference, tolerance, name):
    """Each mode's spec has the same names, tensors and values, exported outputs and summaries."""
    head, arguments, batches = SPECS[name]
    case = {"head": head, "arguments": arguments, "batches": batches}
    expected = compared(reference, case, tolerance, "graph", graph_outcome)
    assert "error" not in expected


BINARY = "binary_logistic_head_with_sigmoid_cross_entropy_loss"
MULTI = "multi_class_head_with_softmax_cross_entropy_loss"
SPECS_V1 = {
    "binary": (BINARY, {"thresholds": [0.5]}, batch(dimension=1, labels=IDS)),
    "binary, named": (BINARY, {**NAMED, **VOCABULARY}, batch(dimension=1, labels=WORDS)),
    "multi-class": (MULTI, {"n_classes": 3}, batch(dimension=3, labels=IDS)),
    "multi-class, named": (
        MULTI,
        {**NAMED, "n_classes": 3, "label_vocabulary": ["ant", "bee", "cat"]},
        batch(dimension=3, labels=WORDS),
    ),
    "regression": ("regression_head", {}, batch(dimension=1, labels=IDS)),
    "regression, named": (
        "regression_head",
        {**NAMED, "label_dimension": 2, "inverse_link_fn": "exp"},
        batch(dimension=2, labels=PAIRS),
    ),
}


@pytest.mark.parametrize("name", SPECS_V1)
def test_specs_of_the_first_generation(reference, tolerance, name):
    """The same for the heads of TensorFlow 1."""
    head, arguments, batches = SPECS_V1[name]
    case = {"head": head, "arguments": arguments, "batches": batches}
    expected = compared(reference, case, tolerance, "first_generation_graph", graph_outcome)
    assert "error" not in expected


@pytest.mark.parametrize("name", [*head_cases.SECOND_GENERATION])
def test_arguments(reference, name):
    """Each head takes the reference's arguments, in its order and with its defaults."""
    expected, _ = reference("parameters", name)
    assert encoded(parameters(getattr(heads, name))) == expected


# Head, arguments, and words of the refusal. Labels, logits and weights are in the drawn cases.
REFUSED = [
    ("BinaryClassHead", {"loss_reduction": "none"}, "Invalid loss_reduction: none"),
    ("BinaryClassHead", {"loss_reduction": "bogus"}, "Invalid loss_reduction: bogus"),
    ("BinaryClassHead", {"thresholds": [0.5, 1.0]}, r"thresholds not in \(0, 1\)"),
    ("BinaryClassHead", {"label_vocabulary": "ab"}, "label_vocabulary should be a list"),
    ("BinaryClassHead", {"loss_fn": "without_labels"}, "loss_fn must contain argument: labels"),
    ("BinaryClassHead", {"loss_fn": "without_logits"}, "loss_fn must contain argument: logits"),
    ("BinaryClassHead", {"loss_fn": "another_argument"}, "loss_fn has unexpected args"),
    ("MultiClassHead", {"n_classes": None}, "n_classes cannot be None"),
    ("MultiClassHead", {"n_classes": 2}, "n_classes must be > 2"),
    ("RegressionHead", {"label_dimension": 0}, "Invalid label_dimension"),
]


@pytest.mark.parametrize("head, arguments, words", REFUSED)
def test_refused_arguments(reference, head, arguments, words):
    """Arguments that the reference refuses are refused, with its key words."""
    case = {"head": head, "arguments": arguments, "batches": []}
    expected, actual = reference("eager", case, lambda: outcome(heads, case))
    for answer in (expected, actual):
        assert re.search(words, answer["message"]), answer
    assert actual["error"] == expected["error"]
