# SPDX-License-Identifier: Apache-2.0
"""Writes the Keras 3 program of `to-keras`."""

from __future__ import annotations

import argparse
import os

from estimator_spec.compare.comparison import Comparison
from estimator_spec.convert.keras_columns import readings
from estimator_spec.convert.keras_program import command, proof, report, written
from estimator_spec.convert.keras_program.recording import ProofRecording
from estimator_spec.convert.optional_packages import check_keras, load_extra
from estimator_spec.core.common import own_files


class KerasTarget:
    """Programs of Keras 3."""

    command = "to-keras"
    may_skip = False

    def check(self, options: argparse.Namespace) -> None:
        """Checks that Keras 3, and for programs without TensorFlow pyfarmhash, are there."""
        check_keras()
        if options.without_tensorflow:
            load_extra("farmhash", "without-tensorflow")

    def write(self, request: command.Request, directory: str) -> Comparison:
        """Writes the program, and compares its model with the estimator."""
        use, options = request.use, request.options
        reading = readings.NUMPY if options.without_tensorflow else readings.TENSORFLOW
        names = (request.checkpoint, request.program, request.shown)
        sources = written.plan_program(use, *names, options.embeddings, reading)
        recording = ProofRecording()
        found, trained = command.read_input(request)
        program = written.write_program(sources, directory)
        rest = (request.rules, trained, recording, request.scratch)
        result = proof.compare(use, program, found, *rest)
        if reading == readings.NUMPY:
            own_files.write_file(os.path.join(directory, "check.npz"), recording.to_bytes())
        report.write(use, sources, result, report.of_keras(use, sources), directory)
        return result
