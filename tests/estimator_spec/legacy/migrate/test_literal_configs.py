# SPDX-License-Identifier: Apache-2.0
"""Configurations that the rule `literal-configs` writes are those of `estimator_spec.convert`."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

from estimator_spec import convert
from estimator_spec.legacy.migrate.migration import MigrationOptions, migrate
from estimator_spec.legacy.migrate.rule import MigrationTarget

DICTIONARIES = """
import estimator_spec
import tensorflow as tf
from estimator_spec import FeatureConfig, TableConfig

spec = estimator_spec.EmbeddingConfigSpec(
    feature_to_config_dict={"word": FeatureConfig("words"), "next": FeatureConfig("words", 3)},
    table_to_config_dict={"words": TableConfig(10, 4, combiner="sum")},
    optimization_parameters=estimator_spec.OPTIMIZER,
)
"""
COLUMNS = """
import estimator_spec
import tensorflow as tf
import tpu_columns

make = tf.feature_column.categorical_column_with_identity
sequence = tf.feature_column.sequence_categorical_column_with_identity("steps", 7)
columns = [
    tpu_columns.embedding_column(make("age", 5), 8, "sqrtn"),
    tpu_columns.embedding_column(sequence, 4, max_sequence_length=2),
    *tpu_columns.shared_embedding_columns([make("b", 6), make("a", 6)], dimension=4),
]
spec = estimator_spec.EmbeddingConfigSpec(columns, estimator_spec.OPTIMIZER)
"""
SGD = "StochasticGradientDescentParameters(0.25)"
ADAGRAD = "AdagradParameters(0.25, initial_accumulator=0.5)"
ADAM = "AdamParameters(0.25, beta2=0.9)"
sources = pytest.mark.parametrize(
    "source", [DICTIONARIES, COLUMNS], ids=["dictionaries", "columns"]
)


def both(source: str, target: MigrationTarget) -> tuple[Any, Any]:
    """Returns what a program calls `spec`, before the rule and after it."""
    after = migrate(source, MigrationOptions(target, frozenset(["literal-configs"]))).source
    assert "EmbeddingConfigSpec" not in after
    found = []
    for text in (source, after):
        scope: dict[str, Any] = {}
        exec(compile(ast.parse(text), "program.py", "exec"), scope)
        found.append(scope["spec"])
    return found[0], found[1]


def described(value: Any) -> Any:
    """Returns an object's attributes, as far as they are configuration."""
    if isinstance(value, int | float | str | bool | None):
        return value
    if isinstance(value, dict):
        return {key: described(item) for key, item in value.items() if "creation_fn" not in key}
    if hasattr(value, "get_config"):
        config = value.get_config()
        return {key: config[key] for key in ("mean", "stddev")}
    return described(vars(value)) if hasattr(value, "__dict__") else str(value)


@sources
@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD, ADAM])
def test_mid_level(source: str, optimizer: str) -> None:
    """Features, tables, initializers and optimizers have the attributes of a conversion's."""
    spec, written = both(source.replace("OPTIMIZER", optimizer), MigrationTarget.MID_LEVEL)
    converted = convert.to_mid_level(spec).feature_config
    assert described(written) == described(dict(converted))


@sources
@pytest.mark.parametrize("optimizer", [SGD, ADAGRAD])
def test_keras_rs(source: str, optimizer: str) -> None:
    """The layer has the tables of a conversion's, and looks up the same rows in them."""
    pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    spec, written = both(source.replace("OPTIMIZER", optimizer), MigrationTarget.KERAS_RS)
    converted = convert.to_distributed_embedding(spec)
    features = converted.conversion.source.features
    ids = {
        key: np.array([[[1, 2]] * feature.max_sequence_length] * 3)
        if feature.max_sequence_length
        else np.array([[1, 2], [3, 3], [4, 0]])
        for key, feature in features.items()
    }
    written(ids)
    weights = {weight.path.split("/")[-2]: weight for weight in written.weights}
    for weight in converted.weights:
        weights[weight.path.split("/")[-2]].assign(weight.numpy())
    expected, found = converted(ids), written(ids)
    for key in features:
        np.testing.assert_array_equal(found[key], expected[key])


def test_missing_argument() -> None:
    """A call that lacks an argument is left to the program, whose error it is."""
    source = COLUMNS.replace("OPTIMIZER", SGD).replace(', 8, "sqrtn"', "")
    options = MigrationOptions(MigrationTarget.MID_LEVEL, frozenset(["literal-configs"]))
    assert "EmbeddingConfigSpec" in migrate(source, options).source
