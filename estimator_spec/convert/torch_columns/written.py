# SPDX-License-Identifier: Apache-2.0
"""Writes a program of PyTorch of a plan, with its trained values. It needs no torch itself."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping

import numpy as np

from estimator_spec.convert.keras_columns import program_files, trained_values
from estimator_spec.convert.keras_columns.plan import ModelPlan, ModelVariable
from estimator_spec.convert.torch_columns import model_source
from estimator_spec.convert.torch_columns.files import tensors
from estimator_spec.convert.torch_columns.table_groups import group_tables
from estimator_spec.convert.torch_columns.translation import Translation, state_name
from estimator_spec.core.checkpoints.bundle import Checkpoint

# What compares with an estimator's recorded outputs.
OF_THE_PROOF = ("check.py", "recorded.py")
WEIGHTS, SLOTS = "weights.safetensors", "optimizer.safetensors"
_FILES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "files")
_ALWAYS = ("check.py", "heads.py", "layers.py", "optimizers.py", "serve.py", "steps.py")
_WITH_HEADS = ("train.py",)


def program_texts(
    plan: ModelPlan, title: str, shapes: Mapping[ModelVariable, tuple[int, ...]]
) -> dict[str, str]:
    """Returns the texts of a program's files by their names.

    Args:
        plan: the plan. Its origins and differences become those of PyTorch.
        title: what it is a model of, such as "census.py's LinearClassifier".
        shapes: shapes of the plan's variables.

    Raises:
        ValueError: something of the model has no counterpart in PyTorch, or no source.
    """
    sizes = {(each.layer, each.attribute): shape for each, shape in shapes.items()}
    names = [*_ALWAYS, "tensors.py", *(_WITH_HEADS if plan.objectives else ())]
    paths = [os.path.join(_FILES, name) for name in names]
    paths += [program_files.RECORDS, program_files.RECORDED]
    copied = {os.path.basename(path): program_files.module_text(path) for path in paths}
    model = Translation(plan, sizes)
    plan.differences = [each for each in plan.differences if not each.of_keras]
    plan.origins = [
        dataclasses.replace(each, layers=model.constructors(each.variables) or each.layers)
        for each in plan.origins
    ]
    return {
        "model.py": model_source.write_model(plan, title, model),
        "reading.py": model_source.write_reading(plan, title),
        "tf_examples.py": model_source.write_examples(plan),
        **copied,
    }


def shapes_of(
    checkpoint: str, found: Mapping[ModelVariable, str]
) -> dict[ModelVariable, tuple[int, ...]]:
    """Returns the shapes of a plan's variables in a checkpoint.

    Args:
        checkpoint: its prefix.
        found: result of `trained_values.find_variables`.
    """
    with Checkpoint(checkpoint) as opened:
        return {variable: tuple(opened.variables[name].shape) for variable, name in found.items()}


def write_program(
    texts: Mapping[str, str],
    plan: ModelPlan,
    checkpoint: str,
    found: Mapping[ModelVariable, str],
    directory: str,
) -> None:
    """Writes a program, and a checkpoint's values, into a directory.

    Args:
        texts: result of `program_texts`.
        plan: the plan. It gets the differences of what the checkpoint hasn't.
        checkpoint: prefix of the checkpoint.
        found: result of `trained_values.find_variables`.
        directory: an empty directory.
    """
    program_files.write_files(texts, plan, directory)
    groups = group_tables(plan)
    weights = {state_name(each, groups): value for each, value in _weights(checkpoint, found)}
    tensors.write(os.path.join(directory, WEIGHTS), weights)
    if plan.objectives or plan.optimizers:
        slots = {
            f"{state_name(variable, groups)}/{slot}": value
            for variable, slot, value in _slots(plan, checkpoint, found)
        }
        tensors.write(os.path.join(directory, SLOTS), {"step": _step(checkpoint), **slots})


def _weights(
    checkpoint: str, found: Mapping[ModelVariable, str]
) -> Iterator[tuple[ModelVariable, np.ndarray]]:
    tables = [name for variable, name in found.items() if variable.attribute == "embeddings"]
    with Checkpoint(checkpoint) as opened:
        for variable, name in found.items():
            if variable.attribute == "embeddings":
                blocks = trained_values.table_rows(checkpoint, name, tables)
                values = np.concatenate([rows for _, rows in blocks])
            else:
                values = trained_values.read_values(opened, [name])
            yield variable, _in_torch(variable, values)


def _in_torch(variable: ModelVariable, values: np.ndarray) -> np.ndarray:
    """Returns a variable's values, or those of a slot, in PyTorch's order."""
    return values.T if variable.attribute == "kernel" else values


def _slots(
    plan: ModelPlan, checkpoint: str, found: Mapping[ModelVariable, str]
) -> Iterator[tuple[ModelVariable, str, np.ndarray]]:
    with Checkpoint(checkpoint) as opened:
        for variable, slot, sources in trained_values.slots_of(opened, found, plan.slots):
            if not sources:
                plan.differ(
                    "the optimizer", found[variable], "no slots in the checkpoint: initial values"
                )
                continue
            factor = np.float32(plan.slot_factors.get(variable.part, 1.0))
            values = trained_values.read_values(opened, sources) * factor
            yield variable, slot, _in_torch(variable, values)


def _step(checkpoint: str) -> np.ndarray:
    with Checkpoint(checkpoint) as opened:
        return np.array(opened.read_global_step() or 0, np.int64)
