# SPDX-License-Identifier: Apache-2.0
"""Runs the estimator of a program on batches: its columns, predictions and evaluation."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import tpu_columns
from estimator_spec.canned import input_layer, linear_model
from estimator_spec.convert.keras_columns import assembly
from estimator_spec.convert.keras_columns.dense import is_sequence
from estimator_spec.convert.keras_program.batches import Batch, Feeding, as_tensor
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.written import WrittenProgram
from estimator_spec.core.driver import errors
from estimator_spec.core.driver.estimator_base import copy_with

tf1 = tf.compat.v1


class EstimatorRefusesError(ValueError):
    """The estimator, and not the written model, can't take a batch."""

    def __init__(self, error: tf.errors.OpError) -> None:
        super().__init__(f"the estimator refuses a batch: {errors.first_line(error)}")


def accepted(
    batches: Sequence[Batch], outputs: Callable[[Batch], Any], notes: list[str]
) -> Iterator[tuple[Batch, Any]]:
    """Yields batches, and what a function of them returns, but for made ones that are refused.

    Args:
        batches: the batches.
        outputs: runs the estimator.
        notes: gets a note on each batch that is refused, and on no batch at all.

    Raises:
        EstimatorRefusesError: it can't take a batch of the program's own.
    """
    if not batches:
        notes.append("The program gave no input.")
    for batch in batches:
        try:
            found = outputs(batch)
        except EstimatorRefusesError as error:
            if not batch.is_made:
                raise
            notes.append(f"The {batch.name} weren't compared: {error}.")
            continue
        yield batch, found


def feature_layers(
    use: EstimatorUse, sources: WrittenProgram, batch: Batch
) -> dict[str, np.ndarray]:
    """Returns what the feature layers of a use's columns return, by the model's outputs."""
    columns = assembly.check_columns(use.columns)

    def build(features: Any) -> dict[str, Any]:
        sequences = [column for column in columns if is_sequence(column)]
        others = [column for column in columns if not is_sequence(column)]
        tensors = {}
        if others:
            tensors["input_layer"] = tpu_columns.input_layer(features, others)
        if sequences:
            steps, lengths = tpu_columns.sequence_input_layer(features, sequences)
            tensors.update(sequence_input=steps, sequence_length=lengths)
        return tensors

    return _run(build, sources, batch)


def part_columns(part: Any, sources: WrittenProgram, batch: Batch) -> dict[str, np.ndarray]:
    """Returns what each column of a part of a canned model returns, by its name."""
    columns = assembly.check_columns(part.columns)
    biases = (v for v in sources.found if v.attribute == "bias" and "linear" in v.layer)
    units: Any = next((bias.shape[0] for bias in biases), 1)

    def build(features: Any) -> dict[str, Any]:
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

    return _run(build, sources, batch)


def predictions(use: EstimatorUse, checkpoint: str, batch: Batch) -> dict[str, np.ndarray]:
    """Returns the predictions of a canned estimator; those of several heads by HEAD/KEY.

    Raises:
        EstimatorRefusesError: it can't take the batch.
    """

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors(batch.converted(as_tensor)[0])

    whole = use.estimator.predict(input_fn, checkpoint_path=checkpoint, yield_single_examples=False)
    try:
        expected = next(whole)
    except tf.errors.InvalidArgumentError as error:
        raise EstimatorRefusesError(error) from None
    whole.close()
    return {"/".join(k) if isinstance(k, tuple) else k: v for k, v in expected.items()}


def metrics(
    use: EstimatorUse, sources: WrittenProgram, batches: Sequence[Batch], scratch: str | None
) -> dict[str, Any]:
    """Returns the loss and the metrics of a canned estimator."""
    feeding = Feeding(batches)
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        # An evaluation writes summaries; the program's directory is the user's.
        estimator = copy_with(use.estimator, model_dir=directory)
        expected = estimator.evaluate(
            feeding.input_fn, len(batches), [feeding], checkpoint_path=sources.checkpoint
        )
    del expected["global_step"]
    return expected


def _run(build: Any, sources: WrittenProgram, batch: Batch) -> dict[str, np.ndarray]:
    """Runs columns in a graph with the checkpoint's variables."""
    with tf.Graph().as_default():
        tensors = build(batch.converted(as_tensor)[0])
        variables = {
            _stored_name(variable.op.name, sources): variable for variable in tf1.global_variables()
        }
        saver = tf1.train.Saver(variables) if variables else None
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            if saver is not None:
                saver.restore(session, sources.checkpoint)
            try:
                with errors.explain_batch_errors(session.graph):
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
