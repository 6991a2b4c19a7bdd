# SPDX-License-Identifier: Apache-2.0
"""Compares the written model with the estimator: each column, the predictions, loss and metrics."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import tpu_columns
from estimator_spec.canned import input_layer, linear_model
from estimator_spec.compare import gaps
from estimator_spec.compare.comparison import Comparison, Item, Outcome, Side
from estimator_spec.compare.stages import Stage, Tolerance, Tolerances
from estimator_spec.compare.values import describe_gap
from estimator_spec.convert.keras_columns import assembly
from estimator_spec.convert.keras_columns.dense import is_sequence
from estimator_spec.driver import evaluation
from estimator_spec.to_keras.batches import Batch, as_tensor
from estimator_spec.to_keras.first_use import Use
from estimator_spec.to_keras.written import Sources

tf1 = tf.compat.v1

_RULES = (
    ("forward-pass/*", Tolerance(1e-6, 1e-6)),
    ("predictions/*", Tolerance(1e-5, 1e-5)),
    ("metrics/*", Tolerance(1e-4, 1e-5)),
)


def compare(
    use: Use,
    sources: Sources,
    module: Any,
    model: Any,
    batches: list[Batch],
    rules: list[tuple[str, Tolerance]],
) -> Comparison:
    """Compares an estimator and the written model on batches.

    Args:
        use: the use of the estimator.
        sources: the sources of the written program.
        module: its module.
        model: the trained model.
        batches: the batches; the first ones are the program's own.
        rules: tolerances by name, as those of `compare`.
    """
    tolerances = Tolerances(*_RULES, *rules)
    items: list[Item] = []
    for batch in batches:
        inputs = module.preprocess(batch.tensors())
        for name, old, new in _columns(use, sources, model, inputs, batch):
            items.append(_item(Stage.FORWARD_PASS, f"{batch.name}: {name}", old, new, tolerances))
    if use.model is not None:
        for batch in batches:
            for name, old, new in _predictions(use, sources, module, model, batch):
                label = f"{batch.name}: {name}"
                items.append(_item(Stage.PREDICTIONS, label, old, new, tolerances))
        if batches and batches[0].labels is not None:
            for name, old, new in _metrics(use, sources, module, model, batches[0]):
                items.append(_item(Stage.METRICS, name, old, new, tolerances))
    notes = [] if batches else ["The program gave no input, so nothing was compared."]
    items.sort(key=lambda item: list(Stage).index(item.stage))
    old_side = Side(sources.shown, f"TensorFlow {tf.__version__}")
    return Comparison(old_side, Side("model.py"), tuple(items), tuple(notes))


def _item(stage: Stage, name: str, old: Any, new: Any, tolerances: Tolerances) -> Item:
    """Returns the comparison of two arrays."""
    old, new = np.asarray(old), np.asarray(new)
    tolerance = tolerances.of(stage, name)
    if old.shape != new.shape:
        text = f"shapes {list(old.shape)} and {list(new.shape)}"
        return Item(stage, name, Outcome.DIFFERS, text)
    if old.dtype.kind not in "fiub":
        same = bool(np.array_equal(old, new))
        text = "" if same else "other values"
        return Item(stage, name, Outcome.AGREES if same else Outcome.DIFFERS, text)
    old, new = old.astype(np.float64), new.astype(np.float64)
    gap = gaps.measure(old, new, tolerance)
    text = "" if gap.agrees else describe_gap(gap, old, new)
    return Item(
        stage, name, Outcome.AGREES if gap.agrees else Outcome.DIFFERS, text, gap, tolerance
    )


def _columns(
    use: Use, sources: Sources, model: Any, inputs: Any, batch: Batch
) -> Iterator[tuple[str, Any, Any]]:
    """Yields what each column gives in a graph of columns, and in the written model."""
    import keras  # of the written model

    if use.model is None:
        columns = assembly.check_columns(use.columns)
        expected = _run(functools.partial(_feature_layers, columns), sources, batch)
        found = model(inputs)
        found = found if isinstance(found, dict) else dict.fromkeys(expected, found)
        for name, values in expected.items():
            if name == "sequence_length":
                yield name, values, found[name]
                continue
            steps = name == "sequence_input"
            own = [column for column in columns if is_sequence(column) == steps]
            old, new = _by_column(own, values), _by_column(own, found[name])
            for column in own:
                yield column.name, old[column.name], new[column.name]
        return
    for part in use.model.parts:
        if part.scope == "baseline":
            continue
        columns = assembly.check_columns(part.columns)
        expected = _run(_part_columns(part, columns), sources, batch)
        if part.scope == "linear":
            for column in columns:
                layer = model.get_layer(sources.plan.linear_layers[column.name])
                outputs = keras.Model(model.inputs, layer.output)(inputs)
                yield f"linear {column.name}", expected[column.name], outputs
            continue
        values = keras.Model(model.inputs, model.get_layer("input_layer").output)(inputs)
        for name, part in _by_column(columns, values).items():
            yield name, expected[name], part


def _part_columns(part: Any, columns: list[Any]) -> Any:
    """Returns a function that builds each column of a part in a graph."""
    units = 1

    def build(features: Any, units: int = units) -> dict[str, Any]:
        found = {}
        for column in columns:
            if part.scope == "linear":
                with tf1.variable_scope("linear", reuse=tf1.AUTO_REUSE):
                    output = linear_model.build(features, [column], units, part.sparse_combiner)
                found[column.name] = output.logits - output.bias
            else:
                scope = f"dnn/{input_layer.SCOPE}"
                with tf1.variable_scope(scope, reuse=tf1.AUTO_REUSE):
                    found[column.name] = input_layer.build(features, [column])
        return found

    return build


def _feature_layers(columns: list[Any], features: Any) -> dict[str, Any]:
    """Returns what the feature layers return, by the names of the model's outputs."""
    sequences = [column for column in columns if is_sequence(column)]
    others = [column for column in columns if not is_sequence(column)]
    tensors = {}
    if others:
        tensors["input_layer"] = tpu_columns.input_layer(features, others)
    if sequences:
        steps, lengths = tpu_columns.sequence_input_layer(features, sequences)
        tensors.update(sequence_input=steps, sequence_length=lengths)
    return tensors


def _by_column(columns: list[Any], values: Any) -> dict[str, Any]:
    """Returns the part of each column of concatenated ones."""
    sizes = [assembly.dense_size(column) for column in columns]
    parts = np.split(np.asarray(values), np.cumsum(sizes)[:-1], axis=-1)
    return dict(zip([column.name for column in columns], parts, strict=True))


def _run(build: Any, sources: Sources, batch: Batch) -> dict[str, np.ndarray]:
    """Runs columns in a graph with the checkpoint's variables."""
    units = next(
        (v.shape[0] for v in sources.found if v.attribute == "bias" and "linear" in v.layer), None
    )
    with tf.Graph().as_default():
        features = batch.tensors()
        tensors = build(features) if units in (None, 1) else build(features, units)
        variables = {
            _stored_name(variable.op.name, sources): variable for variable in tf1.global_variables()
        }
        saver = tf1.train.Saver(variables) if variables else None
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            if saver is not None:
                saver.restore(session, sources.checkpoint)
            values: dict[str, np.ndarray] = session.run(tensors)
            return values


def _stored_name(name: str, sources: Sources) -> str:
    """Returns the checkpoint's name of a variable."""
    names = sorted(set(sources.found.values()))
    if name in names:
        return name
    for length in (2, 1):
        ending = "/".join(name.split("/")[-length:])
        matches = [other for other in names if other == ending or other.endswith(f"/{ending}")]
        if len(matches) == 1:
            return matches[0]
    return name


def _predictions(
    use: Use, sources: Sources, module: Any, model: Any, batch: Batch
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the predictions of both."""

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors(batch.tensors())

    rows = list(use.estimator.predict(input_fn, checkpoint_path=sources.checkpoint))
    outputs = model(module.preprocess(batch.tensors()))
    if hasattr(module, "with_classes"):
        outputs = module.with_classes(outputs)
    # An estimator with several heads has tuples for names.
    first = rows[0] if rows else {}
    names = {"/".join(key) if isinstance(key, tuple) else key: key for key in first}
    for key, value in outputs.items():
        if key in names:
            yield key, np.array([row[names[key]] for row in rows]), value


def _metrics(
    use: Use, sources: Sources, module: Any, model: Any, batch: Batch
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the loss and the mean metrics of both."""

    def input_fn() -> Any:
        labels = (
            {key: as_tensor(value) for key, value in batch.labels.items()}
            if isinstance(batch.labels, dict)
            else as_tensor(batch.labels)
        )
        return tf.data.Dataset.from_tensors((batch.tensors(), labels))

    with tempfile.TemporaryDirectory() as directory:
        # An evaluation writes summaries; the program's directory is the user's.
        estimator = evaluation.in_directory(use.estimator, directory)
        expected = estimator.evaluate(input_fn, steps=1, checkpoint_path=sources.checkpoint)
    found = model.evaluate(input_fn().map(module.training_batch), return_dict=True, verbose=0)
    outputs = list(model.output)
    of_heads = {
        f"{output}_loss": f"loss/{objective.head}"
        for objective in sources.plan.objectives
        for output in objective.outputs
        if objective.head
    }
    for name, value in found.items():
        if name in of_heads:
            yield of_heads[name], expected[of_heads[name]], value
            continue
        for output in ("", *(f"{output}_" for output in outputs)):
            key = name.removeprefix(output)
            # The first generation adds up the area under a curve in another way.
            if key in expected and key != "auc_precision_recall":
                yield key, expected[key], value
                break
