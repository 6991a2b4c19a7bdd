# SPDX-License-Identifier: Apache-2.0
"""Compares the written model with the estimator: each column, the predictions, loss and metrics."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.compare.comparison import Comparison, Item, Side
from estimator_spec.compare.stages import Stage, Tolerance, Tolerances
from estimator_spec.compare.values import compare_arrays
from estimator_spec.convert.keras_columns import assembly
from estimator_spec.convert.keras_columns.dense import is_sequence
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_program import estimator_side, training
from estimator_spec.convert.keras_program.batches import Batch
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.recording import ProofRecording
from estimator_spec.convert.keras_program.written import WrittenProgram

tf1 = tf.compat.v1

RULES = (
    ("forward-pass/*", Tolerance(1e-6, 1e-6)),
    ("predictions/*", Tolerance(1e-5, 1e-5)),
    ("metrics/*", Tolerance(1e-4, 1e-5)),
    ("losses/*", Tolerance(1e-4, 1e-6)),
    ("trained-values/*", Tolerance(1e-3)),
)


def compare(
    use: EstimatorUse,
    sources: WrittenProgram,
    module: Any,
    model: Any,
    batches: list[Batch],
    rules: list[tuple[str, Tolerance]],
    training_batches: Sequence[Batch] = (),
    recording: ProofRecording | None = None,
    scratch: str | None = None,
) -> Comparison:
    """Compares an estimator and the written model on batches.

    Args:
        use: the use of the estimator.
        sources: the sources of the written program.
        module: its module.
        model: the trained model.
        batches: the batches; the first ones are the program's own.
        rules: tolerances by name, as those of `compare`.
        training_batches: batches of the program's own for further steps of training, after which
            the model isn't the checkpoint's; empty: training isn't compared.
        recording: gets the batches, and what the estimator gives for them.
        scratch: directory for the files of estimators; None: the system's.
    """
    tolerances = Tolerances(*RULES, *rules)
    recording = recording or ProofRecording()
    recording.stated = _stated(sources.plan, "the metrics") | training.stated(sources.plan)
    items: list[Item] = []
    notes = [] if batches else ["The program gave no input."]

    def add(stage: Stage, prefix: str, arrays: Iterator[tuple[str, Any, Any]]) -> None:
        for name, *sides in arrays:
            old, new = (None if side is None else np.asarray(side) for side in sides)
            items.append(compare_arrays(stage, f"{prefix}{name}", old, new, tolerances))

    for batch in batches:
        before = len(items)
        try:
            for stage, arrays in _outputs(use, sources, module, model, batch, recording):
                add(stage, f"{batch.name}: ", arrays)
        except estimator_side.EstimatorRefusesError as error:
            if not batch.is_made:
                raise
            del items[before:]
            notes.append(f"The {batch.name} weren't compared: {error}")
    own = [batch for batch in batches if batch.labels is not None and not batch.is_made]
    # Keras' loss of several batches is another mean where their sizes differ; the report says so.
    own = [batch for batch in own if batch.size == own[0].size]
    if use.model is not None and own:
        add(Stage.METRICS, "", _metrics(use, sources, module, model, own, recording, scratch))
    if training_batches:
        more = training.compare(
            use, sources, module, model, training_batches, tolerances, recording, scratch
        )
        items += more[0]
        notes += more[1]
    recording.notes = list(notes)
    items.sort(key=lambda item: list(Stage).index(item.stage))
    old_side = Side(sources.shown, f"TensorFlow {tf.__version__}")
    return Comparison(old_side, Side("model.py"), tuple(items), tuple(notes))


def _outputs(
    use: EstimatorUse,
    sources: WrittenProgram,
    module: Any,
    model: Any,
    batch: Batch,
    recording: ProofRecording,
) -> Iterator[tuple[Stage, Iterator[tuple[str, Any, Any]]]]:
    """Yields what the columns, and the model, give for a batch."""
    inputs = module.preprocess(sources.inputs(batch)[0])
    yield Stage.FORWARD_PASS, _columns(use, sources, model, inputs, batch, recording)
    if use.model is not None:
        yield Stage.PREDICTIONS, _predictions(use, sources, module, model, batch, recording)


def _columns(
    use: EstimatorUse,
    sources: WrittenProgram,
    model: Any,
    inputs: Any,
    batch: Batch,
    recording: ProofRecording,
) -> Iterator[tuple[str, Any, Any]]:
    """Yields what each column gives in a graph of columns, and in the written model."""
    import keras  # of the written model

    if use.model is None:
        columns = assembly.check_columns(use.columns)
        expected = estimator_side.feature_layers(use, sources, batch)
        recording.add_outputs(batch, expected)
        found = model(inputs)
        found = found if isinstance(found, dict) else dict.fromkeys(expected, found)
        for name in {**expected, **found}:
            values = expected.get(name)
            if values is None or name not in found or name == "sequence_length":
                yield name, values, found.get(name)
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
        expected = estimator_side.part_columns(part, sources, batch)
        if part.scope == "linear":
            for column in columns:
                layer = model.get_layer(sources.plan.linear_layers[column.name])
                outputs = keras.Model(model.inputs, layer.output)(inputs)
                yield f"linear {column.name}", expected[column.name], outputs
            continue
        values = keras.Model(model.inputs, model.get_layer("input_layer").output)(inputs)
        for name, part in _by_column(columns, values).items():
            yield name, expected[name], part


def _by_column(columns: list[Any], values: Any) -> dict[str, Any]:
    """Returns the part of each column of concatenated ones."""
    sizes = [assembly.dense_size(column) for column in columns]
    parts = np.split(np.asarray(values), np.cumsum(sizes)[:-1], axis=-1)
    return dict(zip([column.name for column in columns], parts, strict=True))


def _predictions(
    use: EstimatorUse,
    sources: WrittenProgram,
    module: Any,
    model: Any,
    batch: Batch,
    recording: ProofRecording,
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the predictions of both."""
    expected = estimator_side.predictions(use, sources.checkpoint, batch)
    recording.add_outputs(batch, expected)
    outputs = model(module.preprocess(sources.inputs(batch)[0]))
    if hasattr(module, "with_classes"):
        outputs = module.with_classes(outputs)
    if use.make_batches is not None:  # a SavedModel has the outputs of its signature only
        outputs = {key: outputs[key] for key in expected if key in outputs}
    yield from _partners(sources.plan, "the predictions", expected, outputs)


def _metrics(
    use: EstimatorUse,
    sources: WrittenProgram,
    module: Any,
    model: Any,
    batches: Sequence[Batch],
    recording: ProofRecording,
    scratch: str | None,
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the loss and the metrics of both."""
    expected = estimator_side.metrics(use, sources, batches, scratch)
    if sources.plan.optimizer is None:
        module.compile_model(model, None)
    model.reset_metrics()
    results: dict[str, Any] = {}
    for batch in batches:
        given = module.training_batch(*sources.inputs(batch))
        results = model.test_step(given)  # test_on_batch has the metrics of one batch only
    names = {name: _metric_name(sources.plan, name, expected) for name in results}
    found = {names[name]: value for name, value in results.items()}
    recording.add_metrics(batches, expected, names)
    yield from _partners(sources.plan, "the metrics", expected, found)


def _metric_name(plan: ModelPlan, name: str, expected: Container[str]) -> str:
    """Returns the estimator's name of a metric of Keras, which adds that of the output."""
    for objective in plan.objectives:
        for output in objective.outputs:
            if objective.head and name == f"{output}_loss":
                return f"loss/{objective.head}"
            if name.removeprefix(f"{output}_") in expected:
                return name.removeprefix(f"{output}_")
    return name


def _stated(plan: ModelPlan, what: str) -> dict[str, str]:
    """Returns how values differ that the plan says aren't equal, by name."""
    return {
        "/".join(filter(None, (difference.what, objective.head))): difference.text
        for difference in plan.differences
        for objective in plan.objectives
        if difference.column in (what, f"{what} of {objective.head}")
    }


def _partners(
    plan: ModelPlan, what: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the values of both sides by name, but for those that the plan says aren't equal."""
    stated = _stated(plan, what)
    for name in {**old, **new}:
        if name not in stated:
            yield name, old.get(name), new.get(name)
