# SPDX-License-Identifier: Apache-2.0
"""Compares this directory's model with recorded outputs of the estimator.

Exit status: 0 if they agree, 1 if they differ. It needs torch, NumPy and pyfarmhash only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

import model as columns
import reading
import recorded
import steps


def predictions(
    values: recorded.CheckValues, trained: nn.Module, entries: Any
) -> Iterator[tuple[str, Any, Any]]:
    """Yields names, expected and found values of the predictions."""
    for each in entries:
        features, _ = values.batches[each["batch"]]
        found = steps.predict(trained, features)
        for key, value in values.read(each["values"]).items():
            yield f"{each['name']}: {key}", value, found.get(key)


def metrics(values: recorded.CheckValues, trained: nn.Module) -> Iterator[tuple[str, Any, Any]]:
    """Yields names, expected and found values of the loss and the metrics."""
    contents = values.contents["metrics"]
    if contents is None:
        return
    given = (reading.training_batch(*values.batches[number]) for number in contents["batches"])
    found = steps.evaluate(trained, map(steps.as_tensors, given))
    for key, value in values.read(contents["values"]).items():
        yield key, value, found.get(key)


def losses(values: recorded.CheckValues, trained: nn.Module) -> Iterator[tuple[str, Any, Any]]:
    """Yields the estimator's losses of further steps, and those of this model, which it trains."""
    contents = values.contents["training"]
    if contents is None:
        return
    for module in trained.modules():
        if isinstance(module, nn.Dropout):  # random choices can't be equal: all are kept
            module.forward = scaled(module)
    optimizers = columns.load_optimizers(trained)
    found = []
    trained.train()
    for number in contents["batches"]:
        batch = steps.as_tensors(reading.training_batch(*values.batches[number]))
        found.append(steps.train_step(trained, optimizers, batch).item())
    trained.eval()
    yield f"{len(found)} further steps", values.read(contents["losses"]), np.array(found, "f4")


def scaled(dropout: nn.Dropout) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns what dropout does that keeps all elements."""
    return lambda inputs: inputs / (1.0 - dropout.p) if dropout.training else inputs


def main() -> int:
    """Compares, prints a line for each value, and returns the exit status."""
    values = recorded.CheckValues(recorded.HERE / "check.npz")
    trained = columns.load_model()
    stages = (
        ("predictions", predictions(values, trained, values.contents["outputs"])),
        ("metrics", metrics(values, trained)),
        ("losses", losses(values, trained)),
        ("trained", predictions(values, trained, values.contents["trained"])),
    )
    return recorded.report(values, stages, f"torch {torch.__version__}")


if __name__ == "__main__":
    sys.exit(main())
