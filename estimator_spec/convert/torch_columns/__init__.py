# SPDX-License-Identifier: Apache-2.0
"""Writes programs of PyTorch of feature columns and canned estimators, without torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from estimator_spec.convert.keras_columns import planned, program_files
from estimator_spec.convert.keras_columns.plan import ColumnConversion
from estimator_spec.convert.torch_columns import written


class TorchConversion(ColumnConversion):
    """Record of a conversion to a program of PyTorch; variables by name in the model's state."""


def to_torch(
    source: Any,
    directory: str | os.PathLike[str],
    checkpoint: Any = None,
    *,
    layer: str | None = None,
    units: int = 1,
    sparse_combiner: str = "sum",
    variable_names: Mapping[str, str] | None = None,
) -> TorchConversion:
    """Writes a program of PyTorch of feature columns, with their trained tables.

    The program needs torch, numpy and pyfarmhash; this function doesn't. In its directory
    `model.load_model()` returns the `torch.nn.Module`, `reading.preprocess(features)` its inputs as
    arrays, `model.load_optimizers(module)` the optimizers with the checkpoint's slots.
    `python -m estimator_spec to-torch` writes the same, and a comparison with the estimator.

    Args:
        source: feature columns of `tf.feature_column` or `tpu_columns`; an `EmbeddingConfigSpec` of
            columns, whose tables get its optimizers; or a canned estimator.
        directory: a new or empty directory.
        checkpoint: prefix of a checkpoint, or a directory, whose latest one is taken. None: the
            estimator's `model_dir`.
        layer: 'input_layer' for dense columns, concatenated in the order of their names;
            'linear_model' for logits; 'sequence_input_layer' for sequences and their lengths. None:
            the one that fits the columns, and both if some are sequences.
        units: logits of a linear model.
        sparse_combiner: of a linear model: how the weights of several ids are combined.
        variable_names: names of the checkpoint's variables by name of the layer, where they
            aren't found by the names of the columns.

    Raises:
        CheckpointError: the checkpoint is missing or damaged, or that of another model.
        ValueError: something can't move, there is no checkpoint, or the directory isn't empty.
    """
    directory, checkpoint = os.fspath(directory), planned.checkpoint_of(source, checkpoint)
    if checkpoint is None:
        raise ValueError("to_torch needs the checkpoint that the columns were trained in.")
    if os.path.lexists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
        raise ValueError(f"The directory {directory!r} isn't empty. Name a new one.")
    plan = planned.plan_source(
        source, layer, units, sparse_combiner, inline_words=program_files.INLINE_WORDS
    )
    title = type(source).__name__ if hasattr(source, "canned_model") else "feature columns"
    program = written.plan_program(source, plan, title, checkpoint, variable_names)
    for name in written.OF_THE_PROOF:
        del program.texts[name]
    os.makedirs(directory, exist_ok=True)
    written.write_program(program, directory)
    names = {program.names[variable]: name for variable, name in program.found.items()}
    return TorchConversion(tuple(plan.origins), tuple(plan.differences), names)


__all__ = ["TorchConversion", "to_torch"]
