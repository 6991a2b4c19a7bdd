# SPDX-License-Identifier: Apache-2.0
"""Writes a program whose canned estimator begins with the variables of a SavedModel."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.canned import input_layer
from estimator_spec.convert.keras_columns.expressions import Name, call, render
from estimator_spec.convert.keras_columns.serving_source import example_feature
from estimator_spec.heads.feature_columns import scope_name
from estimator_spec.saved_models.column_source import ColumnWriter, table_of
from estimator_spec.saved_models.columns import RecoveredColumn
from estimator_spec.saved_models.graph import GraphFeature, UnknownPartError
from estimator_spec.saved_models.recovery import RecoveredModel
from estimator_spec.saved_models.text import NOT_STORED
from tpu_columns import tables

_PROGRAM = '''\
"""Trains on the {kind} of a SavedModel: --help says how.

Of what a SavedModel doesn't hold, this has the defaults:
{not_stored}.
"""

import argparse
import os
import re

import tensorflow as tf

import estimator_spec
from estimator_spec import heads
{imports}
fc = tf.feature_column

SAVED_MODEL = {directory}
VARIABLES = os.path.join(SAVED_MODEL, "variables", "variables")
FEATURES = {features}
LABEL = {label}
{names}

def make_estimator(model_dir=None):
    """Returns the estimator; its first training begins with all variables of the SavedModel."""
{columns}    names = [name for name, _ in tf.train.list_variables(VARIABLES)]
    warm_start = estimator_spec.WarmStartSettings(
        VARIABLES,
        [rf"({{'|'.join(map(re.escape, names))}})(/part_\\d+)?:0"],
        # One of them that the model lacks is an error.
        var_name_to_prev_var_name={{name: name for name in names}},
    )
    return {estimator}


def input_fn(files, label, batch_size=128):
    """Returns batches of the tf.Examples of files, with their labels."""

    def parse(examples):
        features = tf.io.parse_example(examples, {{**FEATURES, label: LABEL}})
        labels = features.pop(label)
        return {made_features}, labels

    paths = tf.data.Dataset.list_files(files)
    return tf.data.TFRecordDataset(paths).shuffle(10_000).repeat().batch(batch_size).map(parse)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="pattern of TFRecord files")
    parser.add_argument("--label", required=True, help="key of the label")
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    estimator = make_estimator(arguments.model_dir)
    estimator.train(lambda: input_fn(arguments.data, arguments.label), steps=arguments.steps)
'''
_NAMES = "  # in tf.Examples, of features that the model knows by others\n"
_RENAMED = "{**features, **{key: features[name] for key, name in NAMES.items()}}"
_V1 = "from estimator_spec.canned import v1\n"
_WIDTH = 100


def write_program(model: RecoveredModel) -> str:
    """Returns the text of the program.

    Args:
        model: what is recovered of a SavedModel.

    Raises:
        UnknownPartError: something wasn't recovered.
    """
    _ = model.canned_model  # which raises the error
    _check_tables(model)
    writer = ColumnWriter(lambda path: _path(path, model))
    lines, arguments = [], {}
    for name, columns in (("linear", model.linear), ("deep", model.deep)):
        if columns:
            text = render(_expressions(writer, columns), 2, len(f"{name} = "), width=_WIDTH)
            lines.append(f"        {name} = {text}")
            arguments[name] = Name(name)
    if lines:
        lines.insert(0, "    with tf.Graph().as_default():  # where shared embeddings can be made")
    package = "v1" if model.generation == 1 else "estimator_spec"
    name, given = f"{package}.{_class_name(model)}", _arguments(model, arguments)
    started = {"model_dir": Name("model_dir"), "warm_start_from": Name("warm_start")}
    if model.is_baseline:  # whose class has no warm start, as in TensorFlow
        model_fn = Name(f"{render(call(name, **given), width=_WIDTH)}.model_fn")
        estimator = call("estimator_spec.Estimator", model_fn, **started)
    else:
        estimator = call(name, **given, **started)
    names = {key: each.source for key, each in model.features.items() if each.source}
    if not model.parsing_spec:
        names = {}
    return _PROGRAM.format(
        kind=_class_name(model),
        not_stored=NOT_STORED,
        imports=_V1 if package == "v1" else "",
        directory=render(os.path.dirname(os.path.abspath(model.path))),
        features=render(_features(model), before=len("FEATURES = "), width=_WIDTH),
        label=render(_label(model), width=_WIDTH),
        names=f"NAMES = {render(names, before=8, width=_WIDTH)}{_NAMES}" if names else "",
        made_features=_RENAMED if names else "features",
        columns="".join(f"{line}\n" for line in lines),
        estimator=render(estimator, 1, len("return "), width=_WIDTH),
    )


def _check_tables(model: RecoveredModel) -> None:
    """Checks that the estimator calls the tables of embedding columns as the SavedModel does."""
    layer = f"dnn/{input_layer.SCOPE}/{input_layer.LAYER}"
    for each in model.deep or ():
        if each.variable is None:
            continue
        shared = table_of(each.column)
        name = f"{layer}/{shared or scope_name(each.column)}/{tables.WEIGHTS}"
        if each.variable not in (name, shared):
            raise UnknownPartError(
                f"{model.path}: no estimator restores {each.variable}, which it would call {name}. "
                "Read it in a model_fn of your own, or write a program with the columns that "
                "`saved-model show` prints."
            )


def _class_name(model: RecoveredModel) -> str:
    if model.linear is not None and model.deep is not None:
        return "DNNLinearCombinedEstimator"
    if model.is_baseline:
        return "BaselineEstimator"
    return "LinearEstimator" if model.deep is None else "DNNEstimator"


def _arguments(model: RecoveredModel, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the estimator."""
    made = [call(f"heads.{head.kind}", **head.arguments()) for head in model.heads]
    found: dict[str, Any] = {"head": made[0] if len(made) == 1 else call("heads.MultiHead", made)}
    both = model.linear is not None and model.deep is not None
    if model.linear is not None:
        found["linear_feature_columns" if both else "feature_columns"] = columns["linear"]
        combiner = "linear_sparse_combiner" if both else "sparse_combiner"
        if model.sparse_combiner != "sum":
            found[combiner] = model.sparse_combiner
    if model.deep is not None and model.layers is not None:
        prefix, layers = "dnn_" if both else "", model.layers
        found[f"{prefix}feature_columns"] = columns["deep"]
        found[f"{prefix}hidden_units"] = list(layers.units)
        name = None if layers.activation is None else f"tf.nn.{layers.activation.__name__}"
        if name != "tf.nn.relu":
            found[f"{prefix}activation_fn"] = name and Name(name)
        if layers.batch_norm:
            found["batch_norm"] = True
    return found


def _expressions(writer: ColumnWriter, columns: Sequence[RecoveredColumn]) -> list[Any]:
    """Returns the source of columns; those of a shared table come from one call."""
    made: list[Any] = []
    for found, expression in writer.expressions(columns):
        if table_of(found.column) is None:
            made.append(expression)
        else:
            made.append(Name(f"*{render(expression, 3, 1, 1, _WIDTH)}"))
    return made


def _features(model: RecoveredModel) -> dict[str, Any]:
    """Returns how tf.Examples are parsed: as in the SavedModel, or as the columns say."""
    spec = model.parsing_spec
    if not spec:
        spec = {key: _parsed(each) for key, each in sorted(model.features.items())}
    return {key: example_feature(each) for key, each in spec.items()}


def _parsed(feature: GraphFeature) -> Any:
    """Returns how a feature that the graph doesn't parse may be stored in a tf.Example."""
    if feature.dtype == tf.string:
        return tf.io.VarLenFeature(tf.string)
    dtype = tf.int64 if feature.dtype.is_integer else tf.float32
    if feature.is_sparse or feature.shape is None:
        return tf.io.VarLenFeature(dtype)
    return tf.io.FixedLenFeature(feature.shape or (1,), dtype)


def _label(model: RecoveredModel) -> Any:
    head = model.heads[0]
    if len(model.heads) > 1:
        names = ", ".join(head.name for head in model.heads)
        raise UnknownPartError(
            f"{model.path} has a MultiHead of {names}; programs are written for one head, whose "
            "label is one feature. `saved-model show` prints the source text of columns and heads."
        )
    size = head.logits_dimension
    if head.kind in ("BinaryClassHead", "MultiClassHead"):
        dtype, size = ("tf.int64" if head.labels is None else "tf.string"), 1
    else:
        dtype = "tf.int64" if head.kind == "MultiLabelHead" else "tf.float32"
    return call("tf.io.FixedLenFeature", [size], Name(dtype))


def _path(path: str, model: RecoveredModel) -> Any:
    """Returns the expression of a vocabulary's path, below the SavedModel's where it is."""
    home = os.path.dirname(model.path)
    if not path.startswith(f"{home}/"):
        return path
    return call("os.path.join", Name("SAVED_MODEL"), *os.path.relpath(path, home).split("/"))
