# SPDX-License-Identifier: Apache-2.0
"""Layers with the arithmetic of TensorFlow's feature columns and canned estimators."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class BatchIds:
    """Ids of a batch and their weights.

    Args:
        ids: [..., n], int64.
        weights: [..., n]; 0.0 where there is no id.
    """

    def __init__(self, ids: torch.Tensor, weights: torch.Tensor) -> None:
        self.ids, self.weights = ids, weights

    @functools.cached_property
    def unique(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Ids, each once, in order, and the place of each id among them; for all their tables."""
        ids, places = torch.unique(self.ids, return_inverse=True)
        return ids, places

    def factors(self, combiner: str) -> torch.Tensor:
        """Returns the factor of each id's row, [..., n]; a combiner is that of a table."""
        if combiner == "sum":
            return self.weights
        if combiner == "mean":
            divisor = self.weights.sum(-1, keepdim=True)
        else:
            divisor = self.weights.square().sum(-1, keepdim=True).sqrt()
        return self.weights / divisor.masked_fill(divisor == 0.0, math.inf)


class RowSums(torch.autograd.Function):
    """Sums of a table's rows, with a gradient that is faster than that of its operations."""

    @staticmethod
    def forward(
        ctx: Any, table: torch.Tensor, ids: BatchIds, factors: torch.Tensor
    ) -> torch.Tensor:
        """Returns the sums of the rows of ids times their factors."""
        ctx.ids, ctx.factors, ctx.shape = ids, factors, table.shape
        return weighted_sum(functional.embedding(ids.ids, table), factors)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """Returns the gradient of the table, sparse: each row once, in order."""
        rows, places = ctx.ids.unique
        entries = gradient.unsqueeze(-2) * ctx.factors.unsqueeze(-1)
        values = gradient.new_zeros(len(rows), ctx.shape[1])
        values.index_add_(0, places.flatten(), entries.flatten(0, -2))
        found = torch.sparse_coo_tensor(rows[None], values, ctx.shape, check_invariants=False)
        return found, None, None


def weighted_sum(rows: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Returns sums, [..., d], of rows, [..., n, d], times their factors, [..., n]."""
    return (rows * factors.unsqueeze(-1)).sum(-2)


class WeightedEmbedding(nn.Module):
    """Table of embeddings, whose rows are combined for each example by weights.

    Its gradient is sparse: it has the rows that a step looks up.

    Args:
        rows: number of rows.
        dimension: width of a row.
        combiner: 'sum'; 'mean', divided by the sum of the weights; 'sqrtn', by the root of the sum
            of their squares.
        max_norm: rows are clipped to this norm when they are looked up; None: they aren't.
        trainable: whether it trains.
    """

    def __init__(
        self,
        rows: int,
        dimension: int,
        combiner: str = "mean",
        max_norm: float | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        self.combiner, self.max_norm = combiner, max_norm
        self.weight = nn.Parameter(torch.zeros(rows, dimension), requires_grad=trainable)

    def forward(self, ids: BatchIds) -> torch.Tensor:
        """Returns the combined rows, [..., dimension]."""
        factors = ids.factors(self.combiner)
        if not (self.training and self.weight.requires_grad):
            rows = self._clipped(functional.embedding(ids.ids, self.weight))
        elif self.max_norm is None:
            return RowSums.apply(self.weight, ids, factors)
        else:
            # TensorFlow looks up each row once: gradients have one entry for it.
            unique, places = ids.unique
            rows = self._clipped(functional.embedding(unique, self.weight, sparse=True))
            rows = functional.embedding(places, rows)
        return weighted_sum(rows, factors)

    def _clipped(self, rows: torch.Tensor) -> torch.Tensor:
        if self.max_norm is None:
            return rows
        squares = rows.square().sum(-1, keepdim=True)
        norms = torch.where(squares > 0.0, squares, 1.0).sqrt()
        norms = torch.where(squares > 0.0, norms, squares)
        return rows * self.max_norm / norms.clamp_min(self.max_norm)


class Bias(nn.Module):
    """Adds a bias.

    Args:
        size: number of its elements.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the sum of inputs and bias."""
        return inputs + self.bias


class BatchNorm(nn.Module):
    """Batch normalization as TensorFlow's: the moving variance is that of the whole batch.

    Args:
        size: number of inputs.
        momentum: share of the old moving values in the new ones.
        epsilon: added to the variance.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, size: int, momentum: float, epsilon: float) -> None:
        super().__init__()
        self.momentum, self.epsilon = momentum, epsilon
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.register_buffer("running_mean", torch.zeros(size))
        self.register_buffer("running_var", torch.ones(size))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the normalized inputs, [B, size]; in training by the mean of the batch."""
        mean, variance = self.running_mean, self.running_var
        if self.training:
            mean, variance = inputs.mean(0), inputs.var(0, correction=0)
            with torch.no_grad():
                self.running_mean.lerp_(mean, 1.0 - self.momentum)
                self.running_var.lerp_(variance, 1.0 - self.momentum)
        scale = torch.rsqrt(variance + self.epsilon) * self.weight
        return inputs * scale + (self.bias - mean * scale)


def count_ids(ids: torch.Tensor, weights: torch.Tensor, size: int) -> torch.Tensor:
    """Returns the sum of the weights of each id, [..., size], for ids and weights [..., n]."""
    zeros = weights.new_zeros((*ids.shape[:-1], size))
    return zeros.scatter_add(-1, ids, weights)


def one_hot(ids: torch.Tensor, size: int) -> torch.Tensor:
    """Returns the one-hot vectors of all ids of an example, one after the other, [B, k * size]."""
    return functional.one_hot(ids.long(), size).flatten(1).float()
