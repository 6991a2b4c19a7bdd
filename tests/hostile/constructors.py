# SPDX-License-Identifier: Apache-2.0
"""Public constructors with good arguments, one of which a table of bad arguments replaces."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import tensorflow as tf

import estimator_spec as es
from estimator_spec import canned, heads, run_config
from estimator_spec.heads import first_generation as heads_v1
from refusal import column, each, shared, spec

AGE = tf.feature_column.numeric_column("age")
X = [AGE]


def _receiver_fn():
    return None


def _hook(name: str, **arguments: Any) -> Any:
    """Returns an early stopping hook of a new estimator."""
    arguments = {"metric_name": "loss", **arguments}
    return getattr(es, name)(es.LinearRegressor(X), **arguments)


_DEEP = {"hidden_units": [2], "feature_columns": X}
_LINEAR = {"feature_columns": X}
_COMBINED = {"linear_feature_columns": X}


def _canned(generation: str, classes: Any, make_head: Any) -> dict[str, Any]:
    """Returns the canned models of a generation by its name and theirs."""
    found: dict[str, Any] = {}
    for family, arguments in (
        ("DNN", _DEEP),
        ("Linear", _LINEAR),
        ("DNNLinearCombined", _COMBINED),
        ("Baseline", {}),
    ):
        for kind in ("Classifier", "Regressor", "Estimator"):
            given = arguments | ({"head": make_head()} if kind == "Estimator" else {})
            found[f"{generation} {family}{kind}"] = functools.partial(
                getattr(classes, family + kind), **given
            )
    return found


GOOD = {
    **_canned("v2", canned, heads.RegressionHead),
    **_canned("v1", canned.v1, heads_v1.regression_head),
    "BinaryClassHead": heads.BinaryClassHead,
    "MultiClassHead": functools.partial(heads.MultiClassHead, n_classes=3),
    "MultiLabelHead": functools.partial(heads.MultiLabelHead, n_classes=3),
    "RegressionHead": heads.RegressionHead,
    "PoissonRegressionHead": heads.PoissonRegressionHead,
    "LogisticRegressionHead": heads.LogisticRegressionHead,
    "MultiHead": functools.partial(
        heads.MultiHead, [heads.RegressionHead(name="a"), heads.BinaryClassHead(name="b")]
    ),
    "MultiHeadV1": functools.partial(
        heads_v1.MultiHeadV1,
        [heads_v1.regression_head(name="a"), heads_v1.regression_head(name="b")],
    ),
    "binary head of TF1": heads_v1.binary_logistic_head_with_sigmoid_cross_entropy_loss,
    "multi-class head of TF1": functools.partial(
        heads_v1.multi_class_head_with_softmax_cross_entropy_loss, n_classes=3
    ),
    "regression head of TF1": heads_v1.regression_head,
    "Poisson head of TF1": heads_v1.poisson_regression_head,
    "RunConfig of Estimator": run_config.RunConfig,
    "RunConfig": es.RunConfig,
    "TPUConfig": es.TPUConfig,
    "TableConfig": functools.partial(es.TableConfig, 10, 4),
    "EmbeddingConfigSpec": spec,
    "embedding_column": column,
    "shared_embedding_columns": shared,
    "numpy_input_fn": functools.partial(es.numpy_input_fn, {"x": np.arange(4)}, shuffle=False),
    "classifier_parse_example_spec": functools.partial(
        es.classifier_parse_example_spec, feature_columns=X, label_key="label"
    ),
    "regressor_parse_example_spec": functools.partial(
        es.regressor_parse_example_spec, feature_columns=X, label_key="label"
    ),
    **{
        name: functools.partial(_hook, name, **arguments)
        for name, arguments in (
            ("stop_if_higher_hook", {"threshold": 0.5}),
            ("stop_if_lower_hook", {"threshold": 0.5}),
            ("stop_if_no_increase_hook", {"max_steps_without_increase": 5}),
            ("stop_if_no_decrease_hook", {"max_steps_without_decrease": 5}),
        )
    },
    "TrainSpec": functools.partial(es.TrainSpec, _receiver_fn),
    "EvalSpec": functools.partial(es.EvalSpec, _receiver_fn),
    "FinalExporter": functools.partial(
        es.FinalExporter, name="final", serving_input_receiver_fn=_receiver_fn
    ),
    "LatestExporter": functools.partial(
        es.LatestExporter, name="latest", serving_input_receiver_fn=_receiver_fn
    ),
    "BestExporter": functools.partial(
        es.BestExporter, name="best", serving_input_receiver_fn=_receiver_fn
    ),
    "WarmStartSettings": functools.partial(es.WarmStartSettings, "/models/before"),
}
CONFIGS = ("RunConfig of Estimator", "RunConfig")
CLASSIFIERS = tuple(name for name in GOOD if "Classifier" in name)
REGRESSORS = tuple(name for name in GOOD if "Regressor" in name)
WITH_HEAD = tuple(name for name in GOOD if "Estimator" in name and name[0] == "v")
DEEP = ("v2 DNNClassifier", "v1 DNNRegressor", "v2 DNNEstimator", "v1 DNNEstimator")
COMBINED = tuple(name for name in GOOD if "Combined" in name)
MULTI_HEADS = ("MultiHead", "MultiHeadV1")
HEADS = tuple(name for name in GOOD if "ead" in name and name not in MULTI_HEADS)


def bad(
    constructors: Any,
    argument: str,
    values: Any,
    words: str,
    error: Any = ValueError,
    **others: Any,
) -> list[Any]:
    """Returns a refusal for each bad value of an argument, by constructors in turn.

    Args:
        constructors: a function, a name in `GOOD`, or several names.
        argument: the argument's name.
        values: bad values of it.
        words: as in `refused`.
        error: class of the error.
        **others: other arguments.
    """
    names = (
        (constructors,) if isinstance(constructors, str) or callable(constructors) else constructors
    )
    found = []
    # Each value with one constructor, and each constructor with one value.
    for index in range(max(len(names), len(values))):
        name, value = names[index % len(names)], values[index % len(values)]
        make = name if callable(name) else GOOD[name]
        name = name if isinstance(name, str) else name.__name__.strip("_")
        found += each(
            f"{name} {argument}",
            [value],
            lambda v, make=make: make(**{argument: v, **others}),
            words,
            error,
        )
    return found
