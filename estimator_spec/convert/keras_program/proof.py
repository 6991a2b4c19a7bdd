# SPDX-License-Identifier: Apache-2.0
"""Compares the written model with the estimator: each column, the predictions, loss and metrics."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple

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
from estimator_spec.convert.keras_program.written import LoadedProgram
from estimator_spec.heads.canned_model import ModelPart

tf1 = tf.compat.v1

_Values = Iterable[tuple[str, Any, Any]]  # of the estimator, and of the written program, by name
RULES = (
    ("forward-pass/*", Tolerance(1e-6, 1e-6)),
    ("predictions/*", Tolerance(1e-5, 1e-5)),
    ("metrics/*", Tolerance(1e-4, 1e-5)),
    ("losses/*", Tolerance(1e-4, 1e-6)),
    ("trained-values/*", Tolerance(1e-3)),
)


def compare(
    use: EstimatorUse,
    program: LoadedProgram,
    batches: list[Batch],
    rules: list[tuple[str, Tolerance]],
    training_batches: Sequence[Batch] = (),
    recording: ProofRecording | None = None,
    scratch: str | None = None,
) -> Comparison:
    """Compares an estimator and the written model on batches.

    Args:
        use: the use of the estimator.
        program: the written program.
        batches: the batches; the first ones are the program's own.
        rules: tolerances by name, as those of `compare`.
        training_batches: batches of the program's own for further steps of training, after which
            the model isn't the checkpoint's; empty: training isn't compared.
        recording: gets the batches, and what the estimator gives for them.
        scratch: directory for the files of estimators; None: the system's.
    """
    tolerances = Tolerances(*RULES, *rules)
    recording = recording or ProofRecording()
    sides = _Sides(use, program, recording)
    items: list[Item] = []
    notes: list[str] = []

    def add(stage: Stage, prefix: str, arrays: _Values) -> None:
        for name, *sides in arrays:
            old, new = (None if side is None else np.asarray(side) for side in sides)
            items.append(compare_arrays(stage, f"{prefix}{name}", old, new, tolerances))

    for batch, outputs in estimator_side.accepted(batches, sides.outputs, notes):
        for stage, arrays in outputs:
            add(stage, f"{batch.name}: ", arrays)
    own = [batch for batch in batches if batch.labels is not None and not batch.is_made]
    # Keras' loss of several batches is another mean where their sizes differ; the report says so.
    own = [batch for batch in own if batch.size == own[0].size]
    if use.model is not None and own:
        add(Stage.METRICS, "", sides.metrics(own, scratch))
    if training_batches:
        more = training.compare(use, program, training_batches, tolerances, recording, scratch)
        items += more[0]
        notes += more[1]
    recording.notes = list(notes)
    items.sort(key=lambda item: list(Stage).index(item.stage))
    old_side = Side(program.sources.shown, f"TensorFlow {tf.__version__}")
    return Comparison(old_side, Side("model.py"), tuple(items), tuple(notes))


class _Sides(NamedTuple):
    """The estimator, whose values are recorded, and the written program."""

    use: EstimatorUse
    program: LoadedProgram
    recording: ProofRecording

    def outputs(self, batch: Batch) -> list[tuple[Stage, _Values]]:
        """Returns what the columns, and the model, give for a batch."""
        inputs = self.program.preprocess(batch)
        if self.use.model is None:
            return [(Stage.FORWARD_PASS, [*self._feature_layers(inputs, batch)])]
        columns = [*self._columns(self.use.model.parts, inputs, batch)]
        return [(Stage.FORWARD_PASS, columns), (Stage.PREDICTIONS, [*self._predictions(batch)])]

    def _feature_layers(self, inputs: Any, batch: Batch) -> _Values:
        """Yields what each column gives in feature layers, and in the written model."""
        columns = assembly.check_columns(self.use.columns)
        expected = estimator_side.feature_layers(self.use, self.program.sources, batch)
        self.recording.add_outputs(batch, expected)
        found = self.program.model(inputs)
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

    def _columns(self, parts: Iterable[ModelPart], inputs: Any, batch: Batch) -> _Values:
        """Yields what each column of a canned model gives in a graph, and in the written model."""
        import keras  # of the written model

        sources, model = self.program.sources, self.program.model
        for part in parts:
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

    def _predictions(self, batch: Batch) -> _Values:
        """Yields the predictions of both."""
        expected = estimator_side.predictions(self.use, self.program.sources.checkpoint, batch)
        self.recording.add_outputs(batch, expected)
        found = self.program.predictions(batch)
        if self.use.make_batches is not None:  # a SavedModel has the outputs of its signature only
            found = {name: found[name] for name in expected if name in found}
        for name in {**expected, **found}:
            yield name, expected.get(name), found.get(name)

    def metrics(self, batches: Sequence[Batch], scratch: str | None) -> _Values:
        """Yields the loss and the metrics of both."""
        sources, module, model = self.program
        expected = estimator_side.metrics(self.use, sources, batches, scratch)
        if sources.plan.optimizer is None:
            module.compile_model(model, None)
        model.reset_metrics()
        results: dict[str, Any] = {}
        for batch in batches:
            # test_on_batch has the metrics of one batch only
            results = model.test_step(self.program.training_batch(batch))
        names = {name: _metric_name(sources.plan, name, expected) for name in results}
        found = {names[name]: value for name, value in results.items()}
        self.recording.add_metrics(batches, expected, names)
        stated = _stated(sources.plan)
        for name in {**expected, **found}:
            if name not in stated:
                yield name, expected.get(name), found.get(name)
            elif name in found:
                self.recording.state(name, stated[name], found[name])


def _by_column(columns: list[Any], values: Any) -> dict[str, Any]:
    """Returns the part of each column of concatenated ones."""
    sizes = [assembly.dense_size(column) for column in columns]
    parts = np.split(np.asarray(values), np.cumsum(sizes)[:-1], axis=-1)
    return dict(zip([column.name for column in columns], parts, strict=True))


def _metric_name(plan: ModelPlan, name: str, expected: Container[str]) -> str:
    """Returns the estimator's name of a metric of Keras, which adds that of the output."""
    for objective in plan.objectives:
        for output in objective.outputs:
            if objective.head and name == f"{output}_loss":
                return f"loss/{objective.head}"
            if name.removeprefix(f"{output}_") in expected:
                return name.removeprefix(f"{output}_")
    return name


def _stated(plan: ModelPlan) -> dict[str, str]:
    """Returns how metrics differ that the plan says aren't equal, by name."""
    return {
        "/".join(filter(None, (difference.what, objective.head))): difference.text
        for difference in plan.differences
        for objective in plan.objectives
        if difference.column in ("the metrics", f"the metrics of {objective.head}")
    }
