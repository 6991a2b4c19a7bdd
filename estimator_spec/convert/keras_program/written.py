# SPDX-License-Identifier: Apache-2.0
"""Writes the program: model.py, its weights, vocabularies and serve.py; imports it again."""

from __future__ import annotations

import os
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from estimator_spec.convert.keras_columns import (
    distributed,
    live,
    planned,
    program_files,
    readings,
    serving_source,
    source,
    trained_values,
)
from estimator_spec.convert.keras_columns.plan import ModelPlan, ModelVariable
from estimator_spec.convert.keras_program.batches import Batch, as_array, as_tensor
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.core.checkpoints.bundle import Checkpoint

_CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")


class WrittenProgram(NamedTuple):
    """Contents of the program's files, before they are written.

    Attributes:
        plan: the plan of the model.
        checkpoint: the checkpoint's prefix.
        found: the checkpoint's variables.
        texts: texts of files by name.
        shown: what the user calls the checkpoint.
        reading: how the program reads features.
    """

    plan: ModelPlan
    checkpoint: str
    found: dict[ModelVariable, str]
    texts: dict[str, str]
    shown: str = ""
    reading: readings.Reading = readings.TENSORFLOW

    def inputs(self, batch: Batch) -> tuple[dict[str, Any], Any]:
        """Returns the features and labels of a batch as the program takes them."""
        return batch.converted(as_tensor if self.reading == readings.TENSORFLOW else as_array)


def plan_model(
    use: EstimatorUse, program: str, embeddings: str = distributed.LAYERS
) -> tuple[ModelPlan, str]:
    """Returns the plan of an estimator's model, and what it is called.

    Args:
        use: the use of the estimator.
        program: name of the program.
        embeddings: one of `distributed.EMBEDDINGS`.

    Raises:
        ValueError: something has no counterpart.
    """
    title = f"the feature columns of {program}"
    if use.model is not None:
        title = f"{program}'s {type(use.estimator).__name__}"
    words = program_files.INLINE_WORDS
    return planned.plan_source(use.source, None, 1, "sum", embeddings, words), title


def plan_program(
    use: EstimatorUse,
    checkpoint: str,
    program: str,
    shown: str,
    embeddings: str = distributed.LAYERS,
    reading: readings.Reading = readings.TENSORFLOW,
) -> WrittenProgram:
    """Plans the model of an estimator and its files; writes nothing.

    Args:
        use: the use of the estimator.
        checkpoint: its checkpoint, or a directory with the latest one.
        program: name of the program.
        shown: what the user calls the checkpoint.
        embeddings: one of `distributed.EMBEDDINGS`.
        reading: how the program reads features.

    Raises:
        ValueError: something has no counterpart, or no source.
        CheckpointError: the checkpoint isn't that of this model.
    """
    plan, title = plan_model(use, program, embeddings)
    texts = {
        "model.py": source.write_model(plan, title, reading),
        "serve.py": serving_source.write_serving(plan, reading),
    }
    if reading == readings.NUMPY:
        for path in (program_files.RECORDS, program_files.RECORDED, _CHECK):
            texts[os.path.basename(path)] = program_files.module_text(path)
    found = trained_values.find_variables(plan, checkpoint)
    with Checkpoint(checkpoint) as opened:
        return WrittenProgram(plan, opened.prefix, found, texts, os.fspath(shown), reading)


class LoadedProgram(NamedTuple):
    """A program that was imported, with its trained model.

    Attributes:
        sources: its sources.
        module: the module of model.py.
        model: the model, compiled if its optimizer moved.
    """

    sources: WrittenProgram
    module: Any
    model: Any

    def preprocess(self, batch: Batch) -> Any:
        """Returns what the model takes, of the features of a batch."""
        return self.module.preprocess(self.sources.inputs(batch)[0])

    def training_batch(self, batch: Batch) -> Any:
        """Returns what the model trains and is evaluated with, of a batch."""
        return self.module.training_batch(*self.sources.inputs(batch))

    def predictions(self, batch: Batch) -> dict[str, Any]:
        """Returns what the model predicts for a batch, classes among them."""
        outputs = dict(self.model(self.preprocess(batch)))
        module = self.module
        return module.with_classes(outputs) if hasattr(module, "with_classes") else outputs


def write_program(sources: WrittenProgram, directory: str) -> LoadedProgram:
    """Writes the files into a directory, and the trained weights; returns the program."""
    program_files.write_files(sources.texts, sources.plan, directory)
    program = load_program(sources, load_module(directory))
    program.model.save(os.path.join(directory, "weights.keras"))
    return program


def load_program(sources: WrittenProgram, module: Any) -> LoadedProgram:
    """Returns the program of a module of model.py, with the checkpoint's values and slots."""
    # Random values would take the memory of a table twice more.
    model = live.build_core(module, "zeros")
    trained_values.load(model, sources.checkpoint, sources.found)
    if sources.plan.optimizer is not None:
        module.compile_model(model)
        trained_values.load_slots(sources.plan, model, sources.checkpoint, sources.found)
    return LoadedProgram(sources, module, model)


def load_module(directory: str, given: Mapping[str, Any] = types.MappingProxyType({})) -> Any:
    """Imports the model.py of a directory, under a name of its own.

    Args:
        directory: the directory.
        given: what names of the module are, in place of what the file imports or defines.
    """
    path = os.path.join(directory, "model.py")
    # Not by an import, which may leave a __pycache__ there.
    with open(path, encoding="utf-8") as file:
        return live.run_program(file.read(), path, given)
