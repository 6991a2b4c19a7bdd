# SPDX-License-Identifier: Apache-2.0
"""Defines samples of the ids that a program's input looks up."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class FeatureIds:
    """The ids of one feature in one batch.

    Attributes:
        examples: number of the example of each id, int64 [n].
        ids: the ids, int64 [n].
        steps: step of each id in the sequence of its example, int64 [n]; None: it is no sequence.
    """

    examples: np.ndarray
    ids: np.ndarray
    steps: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class SampledBatch:
    """The ids of one batch: all examples of a training step, on all cores.

    Attributes:
        size: number of examples.
        features: ids by feature key.
    """

    size: int
    features: Mapping[str, FeatureIds]

    def ids_of(self, features: Collection[str], rows: int) -> FeatureIds:
        """Returns the ids of some features together, those outside of a table left out.

        Args:
            features: keys of the features; those that aren't sampled have no ids.
            rows: number of rows of the table.

        Returns:
            The ids; those of different features, or of different steps, differ in their step.
        """
        parts = [np.zeros((3, 0), np.int64)]
        begin = 0
        for found in (self.features[key] for key in features if key in self.features):
            steps = np.zeros_like(found.ids) if found.steps is None else found.steps
            parts.append(np.stack([found.examples, found.ids, steps + begin]))
            begin += steps.max(initial=0) + 1
        every = np.concatenate(parts, 1)
        return FeatureIds(*every[:, (every[1] >= 0) & (every[1] < rows)])


@dataclasses.dataclass(frozen=True)
class IdSample:
    """The ids of a few batches of a program's input.

    `sample_ids` reads them from an `input_fn`, `from_arrays` from arrays.

    Attributes:
        batches: the batches.
    """

    batches: tuple[SampledBatch, ...]

    @classmethod
    def from_arrays(
        cls, batches: Iterable[Mapping[str, Any]], sequences: Collection[str] = ()
    ) -> IdSample:
        """Returns a sample of batches of dense ids.

        >>> sample = IdSample.from_arrays([{"word": [[3, 5], [3, -1]]}])
        >>> sample.ids_of(["word"]).tolist()
        [3, 5, 3]

        Args:
            batches: for each batch integers [B] or [B, n] by feature key; -1 stands for no id.
            sequences: keys of the features that are sequences, of n steps.

        Raises:
            ValueError: a feature has another shape or other values, or the features of a batch
                differ in their number of examples.
        """
        numbered = enumerate(batches)
        return cls(tuple(_batch_of_arrays(number, each, sequences) for number, each in numbered))

    def ids_of(self, features: Collection[str]) -> np.ndarray:
        """Returns all ids of some features: int64 [n].

        Args:
            features: keys of the features; those that aren't sampled have no ids.
        """
        found = [
            batch.features[key].ids
            for batch in self.batches
            for key in features
            if key in batch.features
        ]
        return np.concatenate(found) if found else np.zeros(0, np.int64)


def _batch_of_arrays(
    number: int, batch: Mapping[str, Any], sequences: Collection[str]
) -> SampledBatch:
    features, size = {}, None
    for key, values in batch.items():
        ids = np.asarray(values)
        if ids.ndim not in (1, 2) or not np.issubdtype(ids.dtype, np.integer):
            raise ValueError(
                f"Feature {key!r} of batch {number} must be integers of shape [B] or [B, n], got "
                f"{ids.dtype} of shape {list(ids.shape)}."
            )
        if size is not None and len(ids) != size:
            raise ValueError(
                f"Feature {key!r} of batch {number} has {len(ids)} examples, but the features "
                f"before it have {size}."
            )
        size = len(ids)
        matrix = ids.reshape(size, -1) if size else ids.reshape(0, 1)
        examples, places = np.nonzero(matrix >= 0)
        features[key] = FeatureIds(
            examples.astype(np.int64),
            matrix[examples, places].astype(np.int64),
            places.astype(np.int64) if key in sequences else None,
        )
    return SampledBatch(size or 0, features)
