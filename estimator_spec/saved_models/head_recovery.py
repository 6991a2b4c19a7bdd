# SPDX-License-Identifier: Apache-2.0
"""Recovers the head of a canned estimator from the outputs of its signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.heads.binary_class import BinaryClassHead
from estimator_spec.heads.first_generation import (
    binary_logistic_head_with_sigmoid_cross_entropy_loss,
    multi_class_head_with_softmax_cross_entropy_loss,
    poisson_regression_head,
    regression_head,
)
from estimator_spec.heads.multi import MultiHead
from estimator_spec.heads.multi_class import MultiClassHead
from estimator_spec.heads.multi_label import MultiLabelHead
from estimator_spec.heads.regression import (
    LogisticRegressionHead,
    PoissonRegressionHead,
    RegressionHead,
)
from estimator_spec.saved_models.categorical import CategoricalReader
from estimator_spec.saved_models.columns import walk_up
from estimator_spec.saved_models.graph import (
    GraphSignature,
    NodeGraph,
    StoredTensor,
    UnknownPartError,
)
from tpu_columns.partition import unsharded_name

_PASSED = dict.fromkeys(("Identity", "Reshape", "ExpandDims", "Squeeze", "Cast"), 0)
_LAYERS = ("MatMul", "BiasAdd", "AddN", "AddV2", "Add")
_ENDS = (*_LAYERS, "Softmax", "Sigmoid", "ArgMax")
_LOGITS = (*_LAYERS, "StridedSlice", "Slice", "Split", "SplitV")
_BIASES = ("dnn/logits/bias", "linear/linear_model/bias_weights", "baseline/bias")
_READS = dict.fromkeys(("Identity", "ReadVariableOp", "ConcatV2", "Reshape"), 0)
_SUMS = ("Add", "AddV2", "AddN")
# What predictions are computed of logits by, and the heads that do so; the first one counts.
_OF_LOGITS = {
    "Softmax": "MultiClassHead",
    "Sigmoid": "LogisticRegressionHead",
    "Exp": "PoissonRegressionHead",
    "": "RegressionHead",
}
_BASELINE = "baseline/"  # whose logits are a product of ones and the bias


class RecoveredHead(NamedTuple):
    """A head, as far as its predictions show it.

    Attributes:
        kind: name of its class.
        logits_dimension: number of its logits.
        labels: labels of the classes, or None if they are numbers.
        name: its name among several, else ''.
        logits: the tensor of its logits, or of predictions made of them.
        output: what heads call that tensor, if the signature gives its outputs other names.
    """

    kind: str
    logits_dimension: int
    labels: tuple[str, ...] | None
    name: str
    logits: str
    output: str = ""

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments of its class."""
        found: dict[str, Any] = {}
        if self.kind in ("MultiClassHead", "MultiLabelHead"):
            found["n_classes"] = self.logits_dimension
        if self.labels is not None:
            found["label_vocabulary"] = list(self.labels)
        if self.kind == "RegressionHead" and self.logits_dimension != 1:
            found["label_dimension"] = self.logits_dimension
        if self.name:
            found["name"] = self.name
        return found


_CLASSES: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(BinaryClassHead, MultiClassHead, MultiLabelHead, RegressionHead),
        *(LogisticRegressionHead, PoissonRegressionHead),
    )
}
_FIRST_GENERATION: dict[str, Any] = {
    "BinaryClassHead": binary_logistic_head_with_sigmoid_cross_entropy_loss,
    "MultiClassHead": multi_class_head_with_softmax_cross_entropy_loss,
    "PoissonRegressionHead": poisson_regression_head,
    "RegressionHead": regression_head,
}


def make_head(found: tuple[RecoveredHead, ...], generation: int) -> Any:
    """Returns the head object of recovered ones."""
    first = _FIRST_GENERATION if generation == 1 and len(found) == 1 else {}
    made = [first.get(each.kind, _CLASSES[each.kind])(**each.arguments()) for each in found]
    return made[0] if len(made) == 1 else MultiHead(made)


def recover(graph: NodeGraph) -> tuple[RecoveredHead, ...]:
    """Returns the heads behind a SavedModel's signatures, in the order of their logits.

    Raises:
        UnknownPartError: the outputs aren't those of a head.
    """
    if not graph.signatures:
        return (_of_loss(graph),)
    signature = prediction_signature(graph)
    groups: dict[str, dict[str, StoredTensor]] = {}
    for key, info in signature.outputs.items():
        head, _, name = key.rpartition("/")
        groups.setdefault(head, {})[name] = info
    reader = _HeadReader(graph)
    found = [reader.read(name, outputs) for name, outputs in groups.items()]
    return tuple(sorted(found, key=reader.place) if len(found) > 1 else found)


def _of_loss(graph: NodeGraph) -> RecoveredHead:
    """Returns the head of a training's graph, whose loss tells what it is.

    Raises:
        UnknownPartError: the loss is of no head.
    """
    name, size = _bias(graph)
    ops = {node.op for node in graph.nodes.values()}
    losses = [each for each in graph.nodes if not each.startswith(("gradients", "training"))]
    kinds = {
        "MultiClassHead": "SparseSoftmaxCrossEntropyWithLogits" in ops,
        "PoissonRegressionHead": any("log_poisson_loss" in each for each in losses),
        "BinaryClassHead": size == 1 and any("logistic_loss" in each for each in losses),
        "MultiLabelHead": size > 1 and any("logistic_loss" in each for each in losses),
        "RegressionHead": any(
            graph.nodes[each].op == "SquaredDifference" and "batchnorm" not in each
            for each in losses
        ),
    }
    kind = next((each for each, fits in kinds.items() if fits), None)
    if kind is None:
        raise UnknownPartError(f"{name}: no loss of a head is computed of these logits")
    reader, labels = CategoricalReader(graph, _no_numbers), None
    for each in losses:
        node = graph.nodes[each]
        if "head" in each.split("/") and node.op in ("LookupTableFindV2", "LookupTableFind"):
            words = graph.constant(graph.inputs(reader.initializer(graph.inputs(node)[0]))[1])
            if words is not None and words.dtype == object:
                labels = tuple(word.decode() for word in words.tolist())
    return RecoveredHead(kind, size, labels, "", name)


def _bias(graph: NodeGraph) -> tuple[str, int]:
    """Returns the name of the variable that is the logits' bias, and its size."""
    for name, variable in graph.variables.items():
        if unsharded_name(name) in _BIASES:
            return name, int(variable.shape[0])
    raise UnknownPartError("no variable is the bias of logits")


def outputs_of(graph: NodeGraph, signature: GraphSignature, heads: Any) -> dict[str, str]:
    """Returns the tensors of a signature's predictions, by the names that heads give them.

    Outputs that pass a feature on aren't among them.

    Args:
        graph: the graph.
        signature: that of its predictions.
        heads: what `recover` found.
    """
    named = {head.output: head.logits for head in heads if head.output}
    return named or {
        key: info.tensor
        for key, info in signature.outputs.items()
        if graph.follow(info.tensor, _PASSED) not in graph.features
    }


def prediction_signature(graph: NodeGraph) -> GraphSignature:
    """Returns the signature with all predictions: 'predict', or the one with most outputs.

    Raises:
        UnknownPartError: there is none.
    """
    found = graph.signatures.get("predict")
    if found is not None:
        return found
    usable = [each for each in graph.signatures.values() if each.outputs]
    if not usable:
        raise UnknownPartError("no signature has outputs")
    return max(usable, key=lambda each: (len(each.outputs), each.name == "serving_default"))


class _HeadReader:
    def __init__(self, graph: NodeGraph) -> None:
        self._graph = graph

    def read(self, name: str, outputs: Mapping[str, StoredTensor]) -> RecoveredHead:
        """Returns the head with these outputs, by the names that heads give them."""
        graph = self._graph
        values = outputs.get("predictions") or (
            outputs.get("outputs") if len(outputs) == 1 else None
        )
        if values is not None:
            node = graph.node(graph.follow(values.tensor, _PASSED))
            op = "AddN" if node.name.startswith(_BASELINE) else node.op
            kinds = {"Exp": "PoissonRegressionHead", "Sigmoid": "LogisticRegressionHead"}
            if op not in (*_LOGITS, *kinds):
                raise UnknownPartError(f"{values.tensor}: predictions by {op} of the logits")
            kind = kinds.get(op, "RegressionHead")
            return RecoveredHead(kind, _size(values), None, name, values.tensor)
        scores = outputs.get("probabilities") or outputs.get("scores")
        if scores is None:
            return self._read_by_ops(name, outputs)
        labels = self._labels(outputs, ("all_classes", "classes"))
        op = graph.node(graph.follow(scores.tensor, _PASSED)).op
        size = _size(scores)
        if op == "Sigmoid":
            return RecoveredHead("MultiLabelHead", size, labels, name, scores.tensor)
        if op != "Softmax":
            raise UnknownPartError(f"{scores.tensor}: probabilities by {op}")
        if self._is_binary(outputs, scores):
            return RecoveredHead("BinaryClassHead", 1, labels, name, scores.tensor)
        return RecoveredHead("MultiClassHead", size, labels, name, scores.tensor)

    def _read_by_ops(self, name: str, outputs: Mapping[str, StoredTensor]) -> RecoveredHead:
        """Returns the head of outputs with names of a program's own, such as BigQuery ML's."""
        graph, size = self._graph, _bias(self._graph)[1]
        made: dict[str, StoredTensor] = {}
        for info in outputs.values():
            node = graph.node(graph.follow(info.tensor, _PASSED))
            below = graph.inputs(node)[0] if node.op in _OF_LOGITS else info.tensor
            if self._is_logits(below):
                made.setdefault(node.op if node.op in _OF_LOGITS else "", info)
        for op, kind in _OF_LOGITS.items():
            if op not in made:
                continue
            tensor, output, labels = made[op].tensor, "predictions", None
            if op == "Softmax":
                kind, output = "BinaryClassHead" if size == 1 else kind, "probabilities"
                texts = [key for key, info in outputs.items() if info.dtype == tf.string]
                labels = self._labels(outputs, texts)
            return RecoveredHead(kind, size, labels, name, tensor, output)
        names = ", ".join(f"{key} ({info.tensor})" for key, info in sorted(outputs.items()))
        raise UnknownPartError(f"no head of a canned estimator has the outputs {names}")

    def _is_logits(self, tensor: str) -> bool:
        """Returns whether a tensor is the sum of the parts' logits, or 0 beside them."""
        graph = self._graph
        node = graph.node(graph.follow(tensor, _PASSED))
        inputs = graph.inputs(node)
        if node.op == "ConcatV2":  # (0, logit) of two classes
            return self._is_logits(inputs[1])
        if node.op in _SUMS:
            return all(map(self._is_logits, inputs))
        if node.op != "BiasAdd":
            return False
        bias = graph.node(graph.follow(inputs[1], _READS)).name
        return unsharded_name(bias) in _BIASES

    def _is_binary(self, outputs: Mapping[str, StoredTensor], scores: StoredTensor) -> bool:
        """Returns whether there is one logit: the probabilities are of (0, logit)."""
        if "logits" in outputs:
            return _size(outputs["logits"]) == 1
        graph = self._graph
        softmax = graph.node(graph.follow(scores.tensor, _PASSED))
        logits = graph.node(graph.follow(graph.inputs(softmax)[0], _PASSED))
        return logits.op == "ConcatV2"

    def place(self, head: RecoveredHead) -> int:
        """Returns the number of the first of a head's logits among those of all heads."""
        graph = self._graph
        for tensor in walk_up(graph, head.logits, ("MatMul",)):
            node = graph.node(tensor)
            if node.op in ("StridedSlice", "Slice"):
                begin = graph.constant(graph.inputs(node)[1])
                if begin is not None:
                    return int(begin.reshape(-1)[-1])
            if node.op in ("Split", "SplitV"):
                return int(tensor.partition(":")[2] or 0)
        raise UnknownPartError(f"{head.logits}: which logits {head.name!r} has isn't found")

    def _labels(
        self, outputs: Mapping[str, StoredTensor], keys: Sequence[str]
    ) -> tuple[str, ...] | None:
        """Returns the labels of classes; None if they are the numbers from 0.

        Args:
            outputs: outputs of the head.
            keys: those with labels.
        """
        graph = self._graph
        for key in keys:
            if key not in outputs:
                continue
            for tensor in walk_up(graph, outputs[key].tensor, _ENDS):
                node = graph.node(tensor)
                words = None
                if node.op in ("LookupTableFindV2", "LookupTableFind"):
                    reader = CategoricalReader(graph, _no_numbers)
                    table = reader.initializer(graph.inputs(node)[0])
                    words = graph.constant(graph.inputs(table)[2])
                elif node.op == "Const":
                    words = graph.constant(tensor)
                if words is None or words.dtype != object or not words.ndim:
                    continue
                labels = tuple(word.decode() for word in words.reshape(-1).tolist())
                is_numbers = labels == tuple(map(str, range(len(labels))))
                return None if is_numbers else labels
        return None


def _no_numbers(tensor: str) -> Any:
    raise UnknownPartError(f"{tensor}: numbers among the labels of classes")


def _size(info: StoredTensor) -> int:
    if not info.shape or info.shape[-1] is None:
        raise UnknownPartError(f"{info.tensor}: the number of outputs isn't in the graph")
    return info.shape[-1]
