# SPDX-License-Identifier: Apache-2.0
"""Writes a program of PyTorch of a plan, with its trained values. It needs no torch itself."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from estimator_spec.convert.keras_columns import program_files, trained_values
from estimator_spec.convert.keras_columns.plan import ModelPlan, ModelVariable
from estimator_spec.convert.torch_columns import model_source, table_optimizers
from estimator_spec.convert.torch_columns.files import tensors
from estimator_spec.convert.torch_columns.translation import Translation
from estimator_spec.core.checkpoints.bundle import Checkpoint
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec

# What compares with an estimator's recorded outputs.
OF_THE_PROOF = ("check.py", "recorded.py")
WEIGHTS, SLOTS = "weights.safetensors", "optimizer.safetensors"
_FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files")
_ALWAYS = ("check.py", "heads.py", "layers.py", "optimizers.py", "serve.py", "steps.py")
_WITH_HEADS = ("train.py",)


class TorchProgram(NamedTuple):
    """Contents of a program's files, before they are written.

    Attributes:
        plan: the plan of the model, whose origins and differences are those of PyTorch.
        checkpoint: the checkpoint's prefix.
        found: the checkpoint's variables.
        texts: texts of files by name.
        names: names of the variables in the model's state.
    """

    plan: ModelPlan
    checkpoint: str
    found: dict[ModelVariable, str]
    texts: dict[str, str]
    names: dict[ModelVariable, str]


def plan_program(
    source: Any,
    plan: ModelPlan,
    title: str,
    checkpoint: Any,
    given: Mapping[str, str] | None = None,
) -> TorchProgram:
    """Returns the program of a plan; writes nothing.

    Args:
        source: what was planned; a specification's tables get its optimizers.
        plan: the plan. Its origins and differences become those of PyTorch.
        title: what it is a model of, such as "census.py's LinearClassifier".
        checkpoint: prefix of the checkpoint, or a directory, whose latest one is taken.
        given: names of the checkpoint's variables, as for `trained_values.find_variables`.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, or that of another model.
        ValueError: something of the model has no counterpart in PyTorch, or no source.
    """
    if isinstance(source, EmbeddingConfigSpec):
        table_optimizers.add_optimizers(plan, source)
    found = trained_values.find_variables(plan, checkpoint, given)
    with Checkpoint(checkpoint) as opened:
        shapes = {each: tuple(opened.variables[name].shape) for each, name in found.items()}
        prefix = opened.prefix
    model = Translation(plan, shapes)
    names = {each: model.state_name(each) for each in found}
    return TorchProgram(plan, prefix, found, program_texts(model, title), names)


def program_texts(model: Translation, title: str) -> dict[str, str]:
    """Returns the texts of a program's files by their names; arguments as for `plan_program`."""
    plan = model.plan
    names = [*_ALWAYS, "tensors.py", *(_WITH_HEADS if plan.objectives else ())]
    paths = [os.path.join(_FILES, name) for name in names]
    paths += [program_files.RECORDS, program_files.RECORDED]
    copied = {os.path.basename(path): program_files.module_text(path) for path in paths}
    plan.differences = [each for each in plan.differences if not each.of_keras]
    plan.origins = [
        dataclasses.replace(each, layers=model.constructors(each.variables) or each.layers)
        for each in plan.origins
    ]
    return {
        "model.py": model_source.write_model(model, title),
        "reading.py": model_source.write_reading(plan, title),
        "tf_examples.py": model_source.write_examples(plan),
        **copied,
    }


def write_program(program: TorchProgram, directory: str) -> None:
    """Writes a program, and its checkpoint's values, into an empty directory.

    Its plan gets the differences of what the checkpoint hasn't.
    """
    plan, prefix, found, texts, names = program
    program_files.write_files(texts, plan, directory)
    with Checkpoint(prefix) as opened:
        weights = {
            names[variable]: _in_torch(variable, np.concatenate([rows for _, rows in blocks]))
            for variable, blocks in trained_values.read_variables(opened, found)
        }
        tensors.write(os.path.join(directory, WEIGHTS), weights)
        if plan.objectives or plan.optimizers:
            slots = {"step": np.array(opened.read_global_step() or 0, np.int64)}
            for slot in trained_values.stored_slots(plan, opened, found):
                name = f"{names[slot.variable]}/{slot.name}"
                slots[name] = _in_torch(slot.variable, slot.read(opened))
            tensors.write(os.path.join(directory, SLOTS), slots)


def _in_torch(variable: ModelVariable, values: np.ndarray) -> np.ndarray:
    """Returns a variable's values, or those of a slot, in PyTorch's order."""
    return values.T if variable.attribute == "kernel" else values
