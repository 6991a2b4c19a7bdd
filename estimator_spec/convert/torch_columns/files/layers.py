# SPDX-License-Identifier: Apache-2.0
"""Layers with the arithmetic of TensorFlow's feature columns and canned estimators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Tables(nn.Module):
    """Embedding tables of one width, in one parameter: their rows are looked up together.

    The state of the module has an entry for each table, by its name. The gradient is sparse: it has
    the rows that a step looks up.

    Args:
        dimension: width of a row.
        tables: number of rows and combiner of each table, by its name. A combiner is 'sum'; 'mean',
            divided by the sum of the weights; or 'sqrtn', by the root of the sum of their squares.
        max_norm: rows are clipped to this norm when they are looked up; None: they aren't.
        trainable: whether they train.
        unique: whether the gradient has each row of a lookup once, as TensorFlow clips it.

    Attributes:
        places: rows of the parameter, by name of the table.
    """

    def __init__(
        self,
        dimension: int,
        tables: Mapping[str, tuple[int, str]],
        max_norm: float | None = None,
        trainable: bool = True,
        unique: bool = False,
    ) -> None:
        super().__init__()
        self.max_norm, self.unique = max_norm, unique
        self.combiners = {name: combiner for name, (_, combiner) in tables.items()}
        self.places: dict[str, slice] = {}
        rows = 0
        for name, (size, _) in tables.items():
            self.places[name] = slice(rows, rows + size)
            rows += size
        self.weight = nn.Parameter(torch.zeros(rows, dimension), requires_grad=trainable)

    def __getitem__(self, name: str) -> torch.Tensor:
        """Returns a table, [rows, dimension]: a part of the parameter, not a copy."""
        return self.weight[self.places[name]]

    def forward(
        self, lookups: Mapping[str, tuple[str, torch.Tensor, torch.Tensor]]
    ) -> dict[str, torch.Tensor]:
        """Returns combined rows, [..., dimension], by name of the lookup.

        Args:
            lookups: table, ids, [..., n], and weights, [..., n], by name. A weight is 0.0 where
                there is no id.
        """
        if self.training and self.weight.requires_grad:
            return self._trained_sums(lookups)
        found = {}
        for name, (table, ids, weights) in lookups.items():
            rows = self._clipped(functional.embedding(ids, self[table]))
            found[name] = weighted_sum(rows, row_factors(weights, self.combiners[table]))
        return found

    def _trained_sums(
        self, lookups: Mapping[str, tuple[str, torch.Tensor, torch.Tensor]]
    ) -> dict[str, torch.Tensor]:
        """Does what `forward` does, by one lookup of all rows: steps take a third less time."""
        groups: dict[Any, list[str]] = {}
        for name, (table, ids, _) in lookups.items():
            shape = name if self.unique else ids.shape
            groups.setdefault((shape, self.combiners[table]), []).append(name)
        places, factors = [], []
        for (_, combiner), names in groups.items():
            tables, ids, weights = zip(*map(lookups.__getitem__, names), strict=True)
            places.append(self._places(tables, torch.stack(ids)))
            factors.append(row_factors(torch.stack(weights), combiner))
        flat, orders = [each.flatten() for each in places], []
        if self.unique:
            found_once = [torch.unique(each, return_inverse=True) for each in flat]
            flat, orders = map(list, zip(*found_once, strict=True))
        rows = self._clipped(functional.embedding(torch.cat(flat), self.weight, sparse=True))
        parts = rows.split([len(each) for each in flat])
        if self.unique:
            parts = [part.index_select(0, order) for part, order in zip(parts, orders, strict=True)]
        found: dict[str, torch.Tensor] = {}
        for names, part, factor in zip(groups.values(), parts, factors, strict=True):
            sums = weighted_sum(part.view(*factor.shape, rows.shape[1]), factor)
            found.update(zip(names, sums.unbind(), strict=True))
        return found

    def _places(self, tables: Sequence[str], ids: torch.Tensor) -> torch.Tensor:
        """Returns the rows of the parameter that are those of tables' ids, [tables, ..., n]."""
        places = [self.places[table] for table in tables]
        form = (-1, *[1] * (ids.dim() - 1))
        first = ids.new_tensor([each.start for each in places]).view(form)
        found = ids + first
        wrong = (ids < 0) | (found >= ids.new_tensor([each.stop for each in places]).view(form))
        if wrong.any():
            number = int(wrong.nonzero()[0, 0])
            table, value = tables[number], int(ids[number][wrong[number]][0])
            rows = places[number].stop - places[number].start
            raise IndexError(f"Table {table!r}: the id {value} is outside of [0, {rows}).")
        return found

    def _clipped(self, rows: torch.Tensor) -> torch.Tensor:
        if self.max_norm is None:
            return rows
        squares = rows.square().sum(-1, keepdim=True)
        norms = torch.where(squares > 0.0, squares, 1.0).sqrt()
        norms = torch.where(squares > 0.0, norms, squares)
        return rows * self.max_norm / norms.clamp_min(self.max_norm)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name in self.places:
            destination[prefix + name] = self[name] if keep_vars else self[name].detach()

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        given = {key: value for key, value in state_dict.items() if key.startswith(prefix)}
        for name in self.places:
            key, table = prefix + name, self[name].detach()
            values = given.pop(key, None)
            if values is None:
                missing_keys.append(key)
            elif values.shape != table.shape:
                shapes = f"{list(values.shape)}, the table has {list(table.shape)}"
                error_msgs.append(f"The values of {key} have the shape {shapes}.")
            else:
                table.copy_(values)
        unexpected_keys.extend(given)


def row_factors(weights: torch.Tensor, combiner: str) -> torch.Tensor:
    """Returns the factor of each row, [..., n], of weights, [..., n]."""
    if combiner == "sum":
        return weights
    if combiner == "mean":
        divisor = weights.sum(-1, keepdim=True)
    else:
        divisor = weights.square().sum(-1, keepdim=True).sqrt()
    return weights / divisor.masked_fill(divisor == 0.0, math.inf)


def weighted_sum(rows: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Returns sums, [..., d], of rows, [..., n, d], times their factors, [..., n]."""
    products = rows * factors.unsqueeze(-1)
    return products.squeeze(-2) if products.shape[-2] == 1 else products.sum(-2)


def variables_of(model: nn.Module) -> Iterator[tuple[str, nn.Parameter, slice]]:
    """Yields the names that variables have in a model's state, the parameter and its rows."""
    for prefix, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix, recurse=False):
            if isinstance(module, Tables):
                for table, rows in module.places.items():
                    yield f"{prefix}.{table}", parameter, rows
            else:
                yield name, parameter, slice(None)


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


def total(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns the sum of tensors of one shape."""
    return torch.stack(tensors).sum(0)


def count_ids(ids: torch.Tensor, weights: torch.Tensor, size: int) -> torch.Tensor:
    """Returns the sum of the weights of each id, [..., size], for ids and weights [..., n]."""
    zeros = weights.new_zeros((*ids.shape[:-1], size))
    return zeros.scatter_add(-1, ids, weights)


def one_hot(ids: torch.Tensor, size: int) -> torch.Tensor:
    """Returns the one-hot vectors of all ids of an example, one after the other, [B, k * size]."""
    return functional.one_hot(ids.long(), size).flatten(1).float()
