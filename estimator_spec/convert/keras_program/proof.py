# SPDX-License-Identifier: Apache-2.0
"""Compares the written model with the estimator: each column, the predictions, loss and metrics."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tpu_columns
from estimator_spec.canned import input_layer, linear_model
from estimator_spec.compare.comparison import Comparison, Item, Side
from estimator_spec.compare.stages import Stage, Tolerance, Tolerances
from estimator_spec.compare.values import compare_arrays
from estimator_spec.convert.keras_columns import assembly
from estimator_spec.convert.keras_columns.dense import is_sequence
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_program import training
from estimator_spec.convert.keras_program.batches import Batch, Feeding
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.recording import ProofRecording
from estimator_spec.convert.keras_program.written import WrittenProgram
from estimator_spec.core.driver.estimator_base import copy_with

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
        except EstimatorRefusesError as error:
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


class EstimatorRefusesError(ValueError):
    """The estimator, and not the written model, can't take a batch."""

    def __init__(self, error: tf.errors.OpError) -> None:
        # TensorFlow's reason follows the place in the program and the line "Node: NAME".
        _, _, after = error.message.rpartition("\nNode: ")
        reason = after.partition("\n")[2] or error.message
        line = reason.partition("\n\t")[0].strip()
        super().__init__(f"the estimator refuses a batch: {line}")


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
        expected = _run(functools.partial(_feature_layers, columns), sources, batch)
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


def _run(build: Any, sources: WrittenProgram, batch: Batch) -> dict[str, np.ndarray]:
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
            try:
                values: dict[str, np.ndarray] = session.run(tensors)
            except tf.errors.InvalidArgumentError as error:
                raise EstimatorRefusesError(error) from None
            return values


def _stored_name(name: str, sources: WrittenProgram) -> str:
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
    use: EstimatorUse,
    sources: WrittenProgram,
    module: Any,
    model: Any,
    batch: Batch,
    recording: ProofRecording,
) -> Iterator[tuple[str, Any, Any]]:
    """Yields the predictions of both."""

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors(batch.tensors())

    whole = use.estimator.predict(
        input_fn, checkpoint_path=sources.checkpoint, yield_single_examples=False
    )
    try:
        expected = next(whole)
    except tf.errors.InvalidArgumentError as error:
        raise EstimatorRefusesError(error) from None
    whole.close()
    # An estimator with several heads has tuples for names.
    expected = {"/".join(k) if isinstance(k, tuple) else k: v for k, v in expected.items()}
    recording.add_outputs(batch, expected)
    outputs = model(module.preprocess(sources.inputs(batch)[0]))
    if hasattr(module, "with_classes"):
        outputs = module.with_classes(outputs)
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
    feeding = Feeding(batches)
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        # An evaluation writes summaries; the program's directory is the user's.
        estimator = copy_with(use.estimator, model_dir=directory)
        expected = estimator.evaluate(
            feeding.input_fn, len(batches), [feeding], checkpoint_path=sources.checkpoint
        )
    if sources.plan.optimizer is None:
        module.compile_model(model, None)
    model.reset_metrics()
    results: dict[str, Any] = {}
    for batch in batches:
        given = module.training_batch(*sources.inputs(batch))
        results = model.test_step(given)  # test_on_batch has the metrics of one batch only
    names = {name: _metric_name(sources.plan, name, expected) for name in results}
    found = {names[name]: value for name, value in results.items()}
    del expected["global_step"]
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
