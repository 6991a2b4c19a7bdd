# SPDX-License-Identifier: Apache-2.0
"""Recovers the model of a canned estimator from the graph of its SavedModel."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import re
from typing import Any

import tensorflow as tf

from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.heads.canned_model import CannedModel, ModelPart
from estimator_spec.heads.feature_columns import scope_name
from estimator_spec.saved_models import feature_names, files, head_recovery, layer_recovery
from estimator_spec.saved_models.columns import ColumnReader, RecoveredColumn
from estimator_spec.saved_models.dead_ops import verdicts
from estimator_spec.saved_models.graph import (
    GraphFeature,
    GraphSignature,
    GraphVariable,
    NodeGraph,
    UnknownPartError,
)
from estimator_spec.saved_models.head_recovery import RecoveredHead
from estimator_spec.saved_models.layer_recovery import RecoveredLayers
from tpu_columns import log_messages

fc = tf.feature_column
fc1 = tf.compat.v1.feature_column


_Columns = tuple[RecoveredColumn, ...] | None


@dataclasses.dataclass(frozen=True)
class RecoveredModel:
    """A model recovered from the graph of a SavedModel or a training.

    Attributes:
        path: the file.
        version: of the TensorFlow that wrote it.
        signatures: by name.
        features: the features that enter the graph, by key.
        variables: by name.
        linear: columns of the linear part; None without one.
        deep: columns of the deep part; None without one.
        layers: hidden layers, or None.
        is_baseline: whether the model is a bias only.
        sparse_combiner: of the linear part.
        heads: the head, or several of a `MultiHead`.
        generation: 1 for `tf.compat.v1.estimator`, 2 for `tf.estimator`.
        dead_ops: ops that this TensorFlow can't run.
        unknown: what wasn't recovered, with its node.
    """

    path: str
    version: str
    signatures: dict[str, GraphSignature]
    features: dict[str, GraphFeature]
    variables: dict[str, GraphVariable]
    linear: tuple[RecoveredColumn, ...] | None
    deep: tuple[RecoveredColumn, ...] | None
    layers: RecoveredLayers | None
    is_baseline: bool
    sparse_combiner: str
    heads: tuple[RecoveredHead, ...]
    generation: int
    dead_ops: tuple[str, ...]
    unknown: tuple[str, ...]

    @functools.cached_property
    def parsing_spec(self) -> dict[str, Any]:
        """The argument of `tf.io.parse_example`; empty if the graph parses no tf.Examples."""
        found: dict[str, Any] = {}
        for key, feature in self.parsed_features.items():
            if feature.is_sparse:
                found[key] = tf.io.VarLenFeature(feature.dtype)
            else:
                default = None if feature.default is None else feature.default.tolist()
                found[key] = tf.io.FixedLenFeature(feature.shape, feature.dtype, default)
        return found

    @property
    def parsed_features(self) -> dict[str, GraphFeature]:
        """The features that the graph parses, by their keys in tf.Examples."""
        parsed = [feature for feature in self.features.values() if feature.is_parsed]
        return {each.fed_as: each for each in sorted(parsed, key=lambda each: each.fed_as)}

    @functools.cached_property
    def canned_model(self) -> CannedModel:
        """The model of a canned estimator, without optimizers.

        Raises:
            UnknownPartError: something wasn't recovered.
        """
        if self.unknown:
            more = f" (and {len(self.unknown) - 1} more)" if len(self.unknown) > 1 else ""
            raise UnknownPartError(f"{self.path}: not recovered: {self.unknown[0]}{more}")
        kinds = {each.dtype.name: name for name, each in self.variables.items()}
        narrow = next((each for each in ("int8", "float16") if each in kinds), None)
        if narrow is not None:
            raise UnknownPartError(
                f"{self.path}: {kinds[narrow]} is stored as {narrow}, in which no other model "
                "takes it. Export the model with tables='float32'."
            )
        head = head_recovery.make_head(self.heads, self.generation)
        parts = []
        if self.linear is not None:
            columns = [each.column for each in self.linear]
            parts.append(ModelPart("linear", None, None, columns, self.sparse_combiner))
        if self.deep is not None and self.layers is not None:
            columns = [each.column for each in self.deep]
            found = self.layers
            layers = HiddenLayers(found.units, found.activation, None, found.batch_norm)
            parts.append(ModelPart("dnn", None, None, columns, layers=layers))
        if self.is_baseline:
            parts.append(ModelPart("baseline", None, None))
        return CannedModel(head, tuple(parts), self.generation)


def read(path: Any, tag: str | None = None) -> RecoveredModel:
    """Returns what a graph says of the canned estimator that made it; runs nothing.

    Args:
        path: directory of a SavedModel; a `model.ckpt-N.meta`; or a `model_dir` with `graph.pbtxt`.
        tag: of the graph. None: 'serve', or the only one there is.

    Raises:
        SavedModelError: there is no graph, or it can't be read.
    """
    log_messages.install()
    file = files.load(path)
    meta = file.meta_graph(tag)
    try:
        return _Recovery(file, meta).model()
    except (IndexError, KeyError) as error:
        raise files.SavedModelError(
            f"{file.path} is damaged: a node of its graph lacks inputs or attributes ({error!r}). "
            "Copy it anew."
        ) from None


class _Recovery:
    def __init__(self, file: files.GraphFile, meta: Any) -> None:
        self._file, self._meta = file, meta
        self._graph = NodeGraph(file, meta)
        self._columns = ColumnReader(self._graph)
        self._unknown: list[str] = []
        # Pairs of a key of a column, and that of the graph's input.
        self._own_keys: list[tuple[str, str]] = []

    def model(self) -> RecoveredModel:
        """Returns all that is recovered."""
        graph, columns = self._graph, self._columns
        layers = self._try("the hidden layers", layer_recovery.recover, graph, columns)
        is_baseline = "baseline/bias" in columns.variables
        version = self._meta.meta_info_def.tensorflow_version
        is_first = version.startswith("1.") or any("/part_" in name for name in graph.variables)
        generation = 1 if is_first else 2
        linear, combiner = self._linear()
        deep = None if layers is None else self._deep(layers)
        linear, deep = self._with_own_keys(linear, deep, generation)
        self._check_variables(linear, deep, layers)
        heads: tuple[RecoveredHead, ...] = ()
        if linear is not None or is_baseline or any("dnn/" in name for name in columns.variables):
            heads = self._try("the head", head_recovery.recover, graph) or ()
        else:
            self._unknown.append(self._other_model())
        index = os.path.join(self._file.directory, "variables", "variables.index")
        if self._file.is_saved_model and graph.variables and not tf.io.gfile.exists(index):
            self._unknown.append(f"the values of variables: {index} is missing")
        return RecoveredModel(
            self._file.path,
            version,
            graph.signatures,
            self._features(),
            columns.variables,
            linear,
            deep,
            layers,
            is_baseline,
            combiner,
            heads,
            generation,
            tuple(verdicts.find_ops(self._meta)),
            tuple(self._unknown),
        )

    def _check_variables(
        self, linear: _Columns, deep: _Columns, layers: RecoveredLayers | None
    ) -> None:
        """Adds variables of a served model to `unknown` that nothing recovered has."""
        parts = {"linear": linear is not None, "dnn": layers is not None}
        is_canned = linear is not None or any("dnn/" in name for name in self._columns.variables)
        is_served = files.SERVING in self._meta.meta_info_def.tags
        if self._unknown or not is_canned or not is_served:
            return
        columns = {each.variable for each in (*(linear or ()), *(deep or ()))}
        found = [
            name
            for name, variable in self._columns.variables.items()
            if variable.dtype.is_floating
            and name not in columns
            and not self._columns.is_scale(name)
            and not any(parts.get(part, True) and rule.fullmatch(name) for part, rule in _OWN)
        ]
        if found:
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            self._unknown.append(
                f"{', '.join(found[:3])}{more}: variables of no column, layer or head that "
                "canned estimators have"
            )

    def _try(self, what: str, function: Any, *arguments: Any) -> Any:
        """Calls a function; what it doesn't know becomes an entry of `unknown`."""
        try:
            return function(*arguments)
        except (UnknownPartError, ValueError, IndexError, TypeError) as error:
            self._unknown.append(f"{what}: {error}")
            return None

    def _other_model(self) -> str:
        """Returns what a model without the variables of a canned estimator is."""
        graph = self._graph
        ops = {node.op for node in graph.nodes.values()}
        found = dict.fromkeys(what for op, what in _OTHER_MODELS.items() if op in ops)
        what = ", ".join(found) or "none of a canned estimator"
        outputs = (each.outputs.values() for each in graph.signatures.values())
        tensors = dict.fromkeys(info.tensor for info in itertools.chain(*outputs))
        return f"{', '.join(tensors) or 'the outputs'}: by {what}"

    def _deep(self, layers: RecoveredLayers) -> tuple[RecoveredColumn, ...]:
        columns = self._columns
        found = []
        for tensor in layers.inputs:
            column = self._try(tensor, columns.dense, tensor)
            if column is None:
                continue
            lookup = columns.lookup_below(tensor) if hasattr(column, "combiner") else None
            variable = None if lookup is None else lookup.variable
            found.append(RecoveredColumn(column, tensor, variable))
        return tuple(found)

    def _with_own_keys(
        self, linear: _Columns, deep: _Columns, generation: int
    ) -> tuple[_Columns, _Columns]:
        """Returns the columns with the keys that the model had; those of shared tables share one.

        Where a receiver gave inputs other names, the scopes of the columns tell their keys.
        """
        found = [*(linear or ()), *(deep or ())]
        for place, keys in enumerate(feature_names.own_keys(found, generation)):
            column = found[place].column
            self._own_keys += [(keys.get(key, key), key) for key in column.parse_example_spec]
            if keys:
                column = feature_names.rename(column, keys)
                found[place] = dataclasses.replace(found[place], column=column)
        count = len(linear or ())
        own_linear = None if linear is None else tuple(found[:count])
        own_deep = None if deep is None else self._with_shared_tables(found[count:])
        self._unknown += feature_names.misfits(own_linear or (), own_deep or ())
        return own_linear, own_deep

    def _features(self) -> dict[str, GraphFeature]:
        """Returns the features by the columns' keys; those of no column by those of the graph."""
        features = {feature.key: feature for feature in self._graph.features.values()}
        found = {
            own: dataclasses.replace(features[key], key=own, source=key if own != key else "")
            for own, key in self._own_keys
            if key in features
        }
        used = {key for _, key in self._own_keys}
        return {**{key: each for key, each in features.items() if key not in used}, **found}

    def _with_shared_tables(self, found: list[RecoveredColumn]) -> tuple[RecoveredColumn, ...]:
        """Returns the columns of a deep part; those that look up one variable share it."""
        uses: dict[str, list[Any]] = {}
        for each in found:
            if each.variable is not None:
                uses.setdefault(each.variable, []).append(each.column)
        for variable, group in uses.items():
            name = _shared_name(variable, group)
            if name is not None:
                shared = dict(zip(map(id, group), self._share(name, group), strict=True))
                found = [
                    dataclasses.replace(each, column=shared.get(id(each.column), each.column))
                    for each in found
                ]
        return tuple(found)

    def _share(self, name: str, group: list[Any]) -> list[Any]:
        """Returns the columns of a shared table for embedding columns."""
        first = group[0]
        make = (
            fc.shared_embeddings
            if name in self._columns.variables
            else fc1.shared_embedding_columns
        )
        inner = [column.categorical_column for column in group]
        with tf.Graph().as_default():  # TensorFlow 2's are made in a graph only
            return list(
                make(inner, first.dimension, first.combiner, None, name, max_norm=first.max_norm)
            )

    def _linear(self) -> tuple[tuple[RecoveredColumn, ...] | None, str]:
        found, seen = [], False
        combiners: dict[str | None, str] = {}
        for name in self._columns.variables:
            if feature_names.WEIGHTS.fullmatch(name):
                seen = True
                column = self._try(name, self._linear_column, name)
                if column is not None:
                    found.append(column[0])
                    combiners.setdefault(column[1], name)
        kinds = sorted(filter(None, combiners))
        if len(kinds) > 1:
            self._unknown.append(f"the linear model: it has the combiners {kinds}")
        is_linear = seen or "linear/linear_model/bias_weights" in self._columns.variables
        return (tuple(found) if is_linear else None), next(iter(kinds), "sum")

    def _linear_column(self, name: str) -> tuple[RecoveredColumn, str | None]:
        graph, columns = self._graph, self._columns
        for node in self._readers[name]:
            if node.op == "MatMul":
                column = columns.dense(graph.inputs(node)[0])
                return RecoveredColumn(column, node.name, name), None
            lookup = columns.lookup_of(node)
            if lookup is not None:
                column, combined = columns.looked_up(lookup)
                return RecoveredColumn(column, combined.tensor, name), combined.combiner
        raise UnknownPartError("no op of a column reads it")

    @functools.cached_property
    def _readers(self) -> dict[str, list[Any]]:
        """The lookups and products of each variable."""
        graph = self._graph
        found: dict[str, list[Any]] = {name: [] for name in self._columns.variables}
        for node in graph.nodes.values():
            place = _TABLE_INPUTS.get(node.op)
            if place is None:
                continue
            name = self._columns.variable_of(graph.inputs(node)[place])
            if name is not None:
                found[name].append(node)
        for nodes in found.values():
            # An export that multiplies by the whole table keeps the gather that it replaced.
            nodes.sort(key=lambda node: node.op != "SparseTensorDenseMatMul")
        return found


def _shared_name(variable: str, group: list[Any]) -> str | None:
    """Returns the name of a shared table; None if it is that of the one column that has it."""
    scope, _, last = variable.rpartition("/")
    if last != "embedding_weights":
        return last
    name = scope.rpartition("/")[2]
    return None if len(group) == 1 and name == scope_name(group[0]) else name


# Ops that read a variable of a linear part: which of their inputs it is.
_TABLE_INPUTS = {
    "MatMul": 1,
    "SparseTensorDenseMatMul": 3,
    **dict.fromkeys(("ResourceGather", "GatherV2", "Gather"), 0),
}
# Variables of a part besides those of its columns.
_OWN = (
    ("linear", re.compile(r"linear/linear_model/(bias_weights|.*embedding.*)")),
    ("dnn", re.compile(r"dnn/(hiddenlayer_\d+|logits)/(kernel|bias)")),
    ("dnn", re.compile(r"dnn/.*batchnorm_\d+/(gamma|beta|moving_mean|moving_variance)")),
    ("baseline", re.compile(r"baseline/bias")),
)
_IN_FUNCTIONS = "a model of Keras, or of tf.saved_model.save, in functions"
# Models that have their own ops.
_OTHER_MODELS = {
    "BoostedTreesPredict": "boosted trees",
    "SimpleMLInferenceOpWithHandle": "a model of TensorFlow Decision Forests",
    "StatefulPartitionedCall": _IN_FUNCTIONS,
    "PartitionedCall": _IN_FUNCTIONS,
    "NearestNeighbors": "k-means",
}
