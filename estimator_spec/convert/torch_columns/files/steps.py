# SPDX-License-Identifier: Apache-2.0
"""Predicts, evaluates, and trains a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

import heads
import model as columns
import optimizers
import reading

Batch = tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], dict[str, torch.Tensor]]


def as_tensors(batch: Sequence[Mapping[str, np.ndarray]]) -> Batch:
    """Returns the inputs, labels and weights of `reading.training_batch` as tensors.

    Raises:
        ValueError: a label isn't one of its head.
    """
    examples = len(next(iter(batch[0].values())))
    for head in columns.HEADS:
        head.check_labels(batch[1][head.name])
        for what, values in (("labels", batch[1]), ("weights", batch[2])):
            if head.name in values and len(values[head.name]) != examples:
                raise ValueError(
                    f"There are {len(values[head.name])} {what} of {examples} examples."
                )
    found = [{key: torch.as_tensor(value) for key, value in part.items()} for part in batch]
    return found[0], found[1], found[2]


@torch.no_grad()
def predict(model: nn.Module, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Returns the estimator's predictions of raw features."""
    inputs = {key: torch.as_tensor(value) for key, value in reading.preprocess(features).items()}
    if model.training:
        model.eval()
    outputs = {key: value.cpu().numpy() for key, value in model(inputs).items()}
    return reading.predictions(outputs)


@torch.no_grad()
def evaluate(model: nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
    """Returns the loss and the metrics of batches, by the estimator's names."""
    model.eval()
    found = heads.Metrics(columns.HEADS)
    for inputs, labels, weights in batches:
        found.add(model(inputs), labels, weights)
    return found.result()


def keep_memory() -> None:
    """Makes glibc keep the memory that a step frees for the next one, which takes less time.

    It keeps as much as it has seen freed at once. Other C libraries may not.
    """
    torch.empty(30 * 2**20, dtype=torch.uint8)


def train_step(
    model: nn.Module, rules: Sequence[optimizers.RowOptimizer], batch: Batch
) -> torch.Tensor:
    """Trains a step, and returns the loss before it."""
    inputs, labels, weights = batch
    model.zero_grad()
    loss = heads.total_loss(columns.HEADS, model(inputs), labels, weights)
    loss.backward()
    for rule in rules:
        rule.step()
    return loss.detach()
