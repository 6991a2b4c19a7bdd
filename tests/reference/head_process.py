# SPDX-License-Identifier: Apache-2.0
"""Answers cases with the outcomes of the reference's heads, one line of JSON each.

A line of standard input is an encoded case with a kind, a line of standard output its outcome.
"""

from __future__ import annotations

import json
import os
import sys
import types

# What TensorFlow prints must not get between the outcomes.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import tensorflow as tf  # noqa: E402
from head_calls import (  # noqa: E402
    GraphsOfTheFirstGeneration,
    decoded,
    encoded,
    graph_outcome,
    outcome,
    parameters,
)
from tensorflow_estimator.python.estimator.canned import head as v1  # noqa: E402

FIRST_GENERATION = types.SimpleNamespace(
    **{
        name.lstrip("_"): getattr(v1, name)
        for name in dir(v1)
        if name.endswith(("_head", "_loss")) and callable(getattr(v1, name))
    }
)


def main():
    """Answers until standard input ends."""
    heads = tf.estimator
    first_generation = GraphsOfTheFirstGeneration(FIRST_GENERATION)
    for line in sys.stdin:
        request = decoded(json.loads(line))
        kind, case = request["kind"], request["case"]
        if kind == "eager":
            answer = outcome(heads, case)
        elif kind == "graph":
            answer = outcome(heads, case, graph_outcome)
        elif kind == "first_generation":
            answer = outcome(FIRST_GENERATION, case, first_generation)
        elif kind == "first_generation_graph":
            answer = outcome(FIRST_GENERATION, case, graph_outcome)
        else:
            answer = encoded(parameters(getattr(heads, case)))
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()


if __name__ == "__main__":
    main()
