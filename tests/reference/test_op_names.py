# SPDX-License-Identifier: Apache-2.0
"""Names of ops of canned models of TensorFlow 1, which programs name in hooks.

Ops are named as in TensorFlow 2.15.1, but for those of `OTHERS`.
"""

from __future__ import annotations

import re

import pytest

from goldens import OP_NAMES

pytestmark = [pytest.mark.reference, pytest.mark.slow]

OTHERS = {
    "lookups of columns, which are this project's": r"(input_layer|linear_model)/[^/]+/\w+",
    "reshapes, casts and reads on the way": (
        r"(ExpandDims|Shape|ones_like|Cast|Squeeze|strided_slice|ReadVariableOp)(_\d+)?(/|$)"
    ),
    "tables of labels": r"class_(id|string)_lookup|hash_table_Lookup",
    "losses of single examples": r"/(mean_squared_error|sparse_softmax_cross_entropy_loss)/",
    "parts of metrics": r"broadcast_weights|accuracy_baseline/sub",
    "metrics of regressions, all called mean": r"^dnn/(prediction/)?mean(_1)?/",
    "parts of summaries": r"zero_fraction|linear/bias/values",
}


@pytest.fixture
def names(sides, model):
    """Returns the names that the reference and ours have, by mode."""
    run = sides(OP_NAMES, model)
    return {mode: (set(run.reference[mode]), set(run.ours[mode])) for mode in run.reference}


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("dnn_regressor", ["dnn/head/truediv", "dnn/logits/BiasAdd", "dnn/head/labels"]),
        (
            "linear_classes",
            ["linear/head/truediv", "linear/linear_model/linear_model/linear_model/weighted_sum"],
        ),
        ("combined_binary", ["head/truediv", "head/predictions/probabilities", "add"]),
    ],
)
def test_ops_have_their_names(names, named):
    """Whatever the reference's model has, but for `OTHERS`, ours has; some names in particular."""
    for theirs, ours in names.values():
        missing = [
            name
            for name in sorted(theirs - ours)
            if not any(re.search(pattern, name) for pattern in OTHERS.values())
        ]
        assert not missing
        assert len(theirs & ours) > 30
    theirs, ours = names["train"]
    assert set(named) <= theirs & ours


def test_a_program_logs_the_mean_loss(tmp_path):
    """A LoggingTensorHook of a program finds the mean loss of the head by name."""
    import tensorflow as tf

    from estimator_spec.canned import v1

    columns = [tf.feature_column.numeric_column("x")]
    regressor = v1.LinearRegressor(columns, str(tmp_path))
    logged = []
    hook = tf.compat.v1.train.LoggingTensorHook(
        {"loss": "linear/head/truediv"}, every_n_iter=1, formatter=logged.append
    )
    data = {"x": [[1.0], [2.0]]}, [[1.0], [3.0]]
    regressor.train(lambda: tf.data.Dataset.from_tensors(data).repeat(), [hook], steps=1)
    assert logged == [{"loss": 5.0}]  # (1² + 3²) / 2
