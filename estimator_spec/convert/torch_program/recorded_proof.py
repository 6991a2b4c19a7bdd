# SPDX-License-Identifier: Apache-2.0
"""Records what an estimator gives for batches, for the check.py of a program."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

import numpy as np

from estimator_spec.convert.keras_program import estimator_side, training
from estimator_spec.convert.keras_program.batches import Batch
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.recording import ProofRecording
from estimator_spec.convert.keras_program.written import WrittenProgram


def record(
    use: EstimatorUse,
    sources: WrittenProgram,
    batches: Sequence[Batch],
    training_batches: Sequence[Batch],
    scratch: str | None = None,
) -> ProofRecording:
    """Returns the recording of an estimator's predictions, metrics and further steps.

    Args:
        use: the use of the estimator.
        sources: the sources of the written program.
        batches: the batches; the first ones are the program's own.
        training_batches: batches of the program's own for further steps; empty: none are recorded.
        scratch: directory for the files of estimators; None: the system's.

    Raises:
        EstimatorRefusesError: it can't take a batch of the program's own.
    """
    recording = ProofRecording()

    def outputs(batch: Batch) -> dict[str, np.ndarray]:
        if use.model is None:
            return estimator_side.feature_layers(use, sources, batch)
        return estimator_side.predictions(use, sources.checkpoint, batch)

    for batch, found in estimator_side.accepted(batches, outputs, recording.notes):
        recording.add_outputs(batch, found)
    own = [batch for batch in batches if batch.labels is not None and not batch.is_made]
    if use.model is not None and own:
        expected = estimator_side.metrics(use, sources, own, scratch)
        recording.add_metrics(own, expected, {})
    if training_batches:
        why = training.why_not(use, sources, training_batches)
        if why is not None:
            recording.notes.append(why)
            return recording
        with tempfile.TemporaryDirectory(dir=scratch) as directory:
            trained = training.train_estimator(use, sources, training_batches, directory)
        recording.add_training(trained.batches, trained.losses, trained.predictions)
    return recording
