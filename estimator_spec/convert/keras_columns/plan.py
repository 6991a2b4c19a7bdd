# SPDX-License-Identifier: Apache-2.0
"""A model to be made of feature columns: how features are read, and the layers that follow.

`planned` fills a plan; `source` writes a program of it, and `live` runs that as a model.
"""

from __future__ import annotations

import collections
import dataclasses
import keyword
import re
from typing import Any

from estimator_spec.convert.keras_columns import readings
from estimator_spec.convert.keras_columns.expressions import DictItem, FunctionCall, Name, call
from estimator_spec.heads.description import HeadDescription

FEATURES, LABELS = Name("features"), Name("labels")

# Names that a program has besides those of columns: modules, and functions of `preprocessing`.
RESERVED = (
    *("features", "labels", "initializer", "keras", "keras_rs", "tf", "model", "outputs"),
    *("preprocess", "build_model", "compile_model", "targets", "main", "LABEL_VOCABULARY"),
    *(
        "zeros",
        "inputs",
        "HERE",
        "WEIGHTS",
        "TABLES",
        "CLASSES",
        "pathlib",
        "collections",
        "itertools",
        "math",
        "Any",
    ),
    *readings.TENSORFLOW.names(),
    *readings.NUMPY.names(),
    *("np", "re", "Callable", "Mapping", "NamedTuple", "Sequence", "farmhash", "FEATURES"),
    *("vocabulary_path", "numeric", "buckets", "categories", "crosses", "sequences"),
    *("torch", "nn", "functional", "layers", "self", "heads", "optimizers", "tensors"),
)

# Names of layers that no column's layer or input has: those of the model itself, and those that
# Keras gives to layers and functions without one. A number may follow.
_OTHER_LAYERS = re.compile(
    r"(input_layer|sequence_input|hiddenlayer|batchnorm|logits_layer|summed_logits|linear_sum"
    r"|linear_bias|baseline|distributed_embedding|argmax|category_encoding|concatenate|dropout|exp"
    r"|expand_dims|flatten|get_item|identity|multiply|one_hot|re_lu|relu|sigmoid|softmax|softplus"
    r"|split|square|sum|tanh|zeros_like)(_\d+)?"
)


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of the Keras model: a tensor that the reading of features returns.

    Attributes:
        shape: without the batch.
        dtype: its dtype.
        layer: the name of its layer, which may be another one than the tensor's.
    """

    shape: tuple[int | None, ...]
    dtype: str
    layer: str = ""


@dataclasses.dataclass(frozen=True)
class ModelVariable:
    """A variable of a layer whose value is in the checkpoint.

    Attributes:
        layer: name of the layer.
        attribute: the layer's attribute, such as 'kernel'.
        shape: its shape; None: of any size.
        sources: how the names of the checkpoint's variable may end, best first.
        within: name of the `DistributedEmbedding` whose table `layer` is; '' for a layer.
        part: scope of the part of a canned model that trains it, such as 'dnn'; '' for columns.
        trainable: whether it trains.
    """

    layer: str
    attribute: str
    shape: tuple[int | None, ...]
    sources: tuple[str, ...]
    within: str = ""
    part: str = ""
    trainable: bool = True


@dataclasses.dataclass(frozen=True)
class Difference:
    """Difference between the layers and the columns.

    Attributes:
        column: name of the column, or the part of the model.
        what: the argument or the situation.
        text: what is different, and by how much.
        of_keras: whether it is one of Keras' layers only.
    """

    column: str
    what: str
    text: str
    of_keras: bool = False


@dataclasses.dataclass(frozen=True)
class Origin:
    """Column and the layers that replace it, for the report.

    Attributes:
        column: name of the column.
        kind: the function that makes such columns.
        reading: the functions that read its features.
        layers: the Keras layers, with their arguments.
        variables: names of the plan's layers.
    """

    column: str
    kind: str
    reading: str
    layers: str
    variables: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ColumnConversion:
    """Record of a conversion of feature columns.

    Attributes:
        origins: how each column became layers.
        differences: what isn't equal.
        variables: names of the checkpoint's variables by those of the result.
    """

    origins: tuple[Origin, ...]
    differences: tuple[Difference, ...]
    variables: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Objective:
    """Labels, weights and outputs of one head, for its losses and metrics.

    Attributes:
        head: the head's name in a model with several, else ''.
        outputs: names of its outputs.
        labels: expression of the labels as numbers.
        weights: expression of the examples' weights, or None.
        class_names: labels of the classes, or None.
        classes: name of the constant with them.
        description: the head.
        of_classes: expression of the predictions of classes besides, of `outputs`; or None.
    """

    head: str
    outputs: tuple[str, ...]
    labels: Any
    weights: Any
    class_names: tuple[str, ...] | None
    classes: str
    description: HeadDescription
    of_classes: Any = None


@dataclasses.dataclass
class ModelPlan:
    """A model to be made of feature columns.

    Attributes:
        constants: expressions of lookup tables, by the name of the constant.
        groups: expressions of dicts of tensors, by the name of the function that returns them.
        inputs: inputs of the model by name: the tensors of all groups.
        layers: (variable, expression) in the order of their calls.
        outputs: what the model returns, by name.
        variables: what the checkpoint has to hold.
        differences: what isn't equal.
        origins: how each column became layers.
        examples: tf.io's feature configuration by key.
        crossed: keys of features that are crossed.
        typed: keys of features whose type a column states; crosses take text and numbers.
        vocabularies: words, or the path of their file, by the name of the file to be written.
        words: words of long vocabularies without a file, by the name that the source has for them.
        functions: functions of the program, likewise.
        loss: expressions of losses by output.
        loss_weights: factors of losses by output, where they aren't 1.
        metrics: expressions of metrics by output.
        objectives: of each head; empty without one.
        losses: loss functions of the program, by the name that the source has for them.
        rates: expressions of learning rates, of `STEP`, by the name of their function.
        optimizers: expressions of Keras' optimizers by scope of the part; empty without one.
        generation: that of the canned model.
        slots: how the names of slots end in the checkpoint, by a part's scope and Keras' names.
        lookups: results of a `DistributedEmbedding` by scope and name of the column.
        slot_factors: by a part's scope, what its slots are multiplied by, where it isn't 1.
        table_uses: how many lookups train a table, by name of its layer.
        linear_layers: layers of the weights of a linear model, by name of the column.
        inline_words: the longest vocabulary that is written into the source: others become files.
            None: `words` has long ones.
        scope: variable scope of the columns that are being added; '' if it is unknown.
        part: scope of the part of a canned model that is being added; '' without one.
    """

    constants: dict[str, Any] = dataclasses.field(default_factory=dict)
    groups: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    inputs: dict[str, Input] = dataclasses.field(default_factory=dict)
    layers: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    outputs: dict[str, Name] = dataclasses.field(default_factory=dict)
    variables: list[ModelVariable] = dataclasses.field(default_factory=list)
    differences: list[Difference] = dataclasses.field(default_factory=list)
    origins: list[Origin] = dataclasses.field(default_factory=list)
    examples: dict[str, Any] = dataclasses.field(default_factory=dict)
    crossed: set[str] = dataclasses.field(default_factory=set)
    typed: set[str] = dataclasses.field(default_factory=set)
    vocabularies: dict[str, Any] = dataclasses.field(default_factory=dict)
    words: dict[str, Any] = dataclasses.field(default_factory=dict)
    functions: dict[str, Any] = dataclasses.field(default_factory=dict)
    loss: dict[str, Any] = dataclasses.field(default_factory=dict)
    loss_weights: dict[str, float] = dataclasses.field(default_factory=dict)
    metrics: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    objectives: list[Objective] = dataclasses.field(default_factory=list)
    losses: dict[str, Any] = dataclasses.field(default_factory=dict)
    rates: dict[str, Any] = dataclasses.field(default_factory=dict)
    optimizers: dict[str, FunctionCall] = dataclasses.field(default_factory=dict)
    generation: int = 2
    slots: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    slot_factors: dict[str, float] = dataclasses.field(default_factory=dict)
    lookups: dict[tuple[str, str], DictItem] = dataclasses.field(default_factory=dict)
    table_uses: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    linear_layers: dict[str, str] = dataclasses.field(default_factory=dict)
    inline_words: int | None = None
    scope: str = ""
    part: str = ""
    _layer_names: dict[str, Any] = dataclasses.field(default_factory=dict)
    _names: dict[str, Any] = dataclasses.field(default_factory=lambda: dict.fromkeys(RESERVED))

    def identifier(
        self, wanted: str, owner: Any, suffixes: tuple[str, ...] = ("",), kind: str = "variable"
    ) -> str:
        """Returns a Python name for an object, the same one for an equal object.

        Args:
            wanted: what it is called in the program.
            owner: the object, or what identifies it.
            suffixes: what follows the name where it is used.
            kind: 'variable' or 'layer': a layer may have the name of a variable.
        """
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII).strip("_") or "column"
        is_layer = kind == "layer"
        if name[0].isdigit() or keyword.iskeyword(name):
            name = f"column_{name}"
        if is_layer and _OTHER_LAYERS.fullmatch(name):
            name = f"column_{name}"
        names = self._layer_names if is_layer else self._names
        found, number = name, 1
        while any(names.get(found + suffix, owner) != owner for suffix in suffixes):
            number += 1
            found = f"{name}_{number}"
        names.update({found + suffix: owner for suffix in suffixes})
        return found

    def named(self, known: dict[str, Any], wanted: str, value: Any) -> Name:
        """Returns the program's name of a value, with which `known`, a dict of the plan, gets it.

        Args:
            known: such as `functions`.
            wanted: what the value is called in the program.
            value: the value.
        """
        found = self.identifier(wanted, (id(known), value))
        known[found] = value
        return Name(found)

    def normalizer(self, column: Any) -> Name:
        """Returns the program's name of a numeric column's normalizer."""
        return self.named(self.functions, f"{column.key}_normalizer", column.normalizer_fn)

    def read(self, group: str, expression: Any, inputs: dict[str, Input]) -> None:
        """Adds tensors to a group, unless it has them.

        Args:
            group: name of the function that returns them.
            expression: of a dict with a tensor for each input.
            inputs: inputs of the model by name.
        """
        if not inputs.keys() <= self.inputs.keys():
            self.groups.setdefault(group, []).append(expression)
            for name, made in inputs.items():
                layer = self.identifier(name, ("input", name), kind="layer")
                self.inputs[name] = dataclasses.replace(made, layer=layer)

    def variable(
        self,
        layer: str,
        attribute: str,
        shape: tuple[int | None, ...],
        sources: tuple[str, ...],
        within: str = "",
        trainable: bool = True,
    ) -> None:
        """Adds a variable of a layer, unless the plan has it; arguments as in `ModelVariable`."""
        if all((layer, attribute) != (each.layer, each.attribute) for each in self.variables):
            new = ModelVariable(layer, attribute, shape, sources, within, self.part, trainable)
            self.variables.append(new)

    def layer(self, variable: str, expression: Any, *inputs: Any) -> Name:
        """Adds a statement to the model, of a layer that is called if it has inputs.

        Returns:
            Its variable.
        """
        expression = FunctionCall(expression, inputs) if inputs else expression
        found = self.identifier(variable, expression)
        if all(found != name for name, _ in self.layers):
            self.layers.append((found, expression))
        return Name(found)

    @property
    def optimizer(self) -> FunctionCall | None:
        """Expression of the one optimizer of Keras, or None."""
        found = list(self.optimizers.values())
        if len(found) < 2:
            return found[0] if found else None
        wide = [each.layer for each in self.variables if each.part == "linear"]
        return call("wide_and_deep", self.optimizers["dnn"], self.optimizers["linear"], wide)

    def compiled(self, optimizer: Any) -> dict[str, Any]:
        """Returns the arguments of `compile`, with the expression of an optimizer."""
        weights = {"loss_weights": self.loss_weights} if self.loss_weights else {}
        losses = {"loss": self.loss, **weights}
        return {"optimizer": optimizer, **losses, "weighted_metrics": self.metrics}

    def differ(self, column: str, what: str, text: str, of_keras: bool = False) -> None:
        """Adds a difference, once."""
        difference = Difference(column, what, text, of_keras)
        if difference not in self.differences:
            self.differences.append(difference)


def output_name(head: str, key: str) -> str:
    """Returns the name of a head's output, as exports of a model with several heads have it."""
    return f"{head}/{key}" if head else key


def feature(key: str) -> DictItem:
    """Returns the expression of a raw feature."""
    return DictItem(FEATURES, key)
