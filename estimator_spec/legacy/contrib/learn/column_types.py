# SPDX-License-Identifier: Apache-2.0
"""Defines the classes of the feature columns of `tf.contrib.layers`.

A layer sorts its columns by `key`, which begins with the name of the column's class in TensorFlow
1.15: the order of the concatenated inputs, so of the rows of the first layer's weights.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True, repr=False)
class FeatureColumn:
    """A column of one or more features."""

    @property
    def name(self) -> str:
        """Name of the column, and of its variables' scope."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """Text by which a layer sorts its columns."""
        return repr(self)

    @property
    def config(self) -> dict[str, Any]:
        """Parsing specification of the column's features, by feature."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._text(repr)

    def _text(self, format_value: Any, left_out: str = "") -> str:
        """Returns the class and its fields, as a named tuple's text has them."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        shown = (f"{name}={format_value(v)}" for name, v in values.items() if name != left_out)
        return f"_{type(self).__name__}({', '.join(shown)})"


@dataclasses.dataclass(frozen=True, repr=False)
class IdLookup:
    """Vocabulary of a sparse column: keys, or the lines of a file."""

    vocabulary_file: str | None = None
    keys: tuple[Any, ...] | None = None
    num_oov_buckets: int = 0
    vocab_size: int | None = None
    default_value: int = -1

    def __repr__(self) -> str:
        values = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"_SparseIdLookupConfig({', '.join(values)})"


@dataclasses.dataclass(frozen=True, repr=False)
class SparseColumn(FeatureColumn):
    """A column of ids, several or none in an example."""

    column_name: str
    is_integerized: bool = False
    bucket_size: int | None = None
    lookup_config: IdLookup | None = None
    combiner: str = "sum"
    dtype: Any = tf.string

    @property
    def name(self) -> str:
        """The feature."""
        return self.column_name

    @property
    def config(self) -> dict[str, Any]:
        """See the base class."""
        return {self.column_name: tf.io.VarLenFeature(self.dtype)}

    @property
    def length(self) -> int:
        """Number of ids."""
        if self.lookup_config is None:
            return int(self.bucket_size or 0)
        return int(self.lookup_config.vocab_size or 0) + self.lookup_config.num_oov_buckets


class SparseColumnIntegerized(SparseColumn):
    """A column of integers; the ids are their remainders."""


class SparseColumnHashed(SparseColumn):
    """A column whose ids are hashes."""


class SparseColumnKeys(SparseColumn):
    """A column whose ids are positions in a list of keys."""


class SparseColumnVocabulary(SparseColumn):
    """A column whose ids are lines of a vocabulary file."""


@dataclasses.dataclass(frozen=True, repr=False)
class WeightedSparseColumn(FeatureColumn):
    """A sparse column whose ids have weights."""

    sparse_id_column: SparseColumn
    weight_column_name: str
    dtype: Any = tf.float32

    @property
    def name(self) -> str:
        """Name of the ids and of the weights."""
        return f"{self.sparse_id_column.name}_weighted_by_{self.weight_column_name}"

    @property
    def config(self) -> dict[str, Any]:
        """See the base class."""
        return {
            **self.sparse_id_column.config,
            self.weight_column_name: tf.io.VarLenFeature(self.dtype),
        }

    @property
    def length(self) -> int:
        """Number of ids."""
        return self.sparse_id_column.length

    @property
    def combiner(self) -> str:
        """Combiner of the ids."""
        return self.sparse_id_column.combiner


@dataclasses.dataclass(frozen=True, repr=False)
class OneHotColumn(FeatureColumn):
    """A dense column of counts of ids."""

    sparse_id_column: Any

    @property
    def name(self) -> str:
        """Name of the ids with '_one_hot'."""
        return f"{self.sparse_id_column.name}_one_hot"

    @property
    def config(self) -> dict[str, Any]:
        """See the base class."""
        return self.sparse_id_column.config  # type: ignore[no-any-return]

    @property
    def length(self) -> int:
        """Number of ids."""
        return int(self.sparse_id_column.length)


@dataclasses.dataclass(frozen=True, repr=False)
class EmbeddingColumn(FeatureColumn):
    """A dense column of embeddings of ids."""

    sparse_id_column: Any
    dimension: int
    combiner: str
    initializer: Any
    ckpt_to_load_from: str | None = None
    tensor_name_in_ckpt: str | None = None
    shared_embedding_name: str | None = None
    shared_vocab_size: int | None = None
    max_norm: float | None = None
    trainable: bool = True

    @property
    def name(self) -> str:
        """Name of the ids with '_embedding'."""
        kind = "embedding" if self.shared_embedding_name is None else "shared_embedding"
        return f"{self.sparse_id_column.name}_{kind}"

    @property
    def key(self) -> str:
        """See the base class; the initializer has no part in it."""
        return self._text(str, "initializer")

    @property
    def config(self) -> dict[str, Any]:
        """See the base class."""
        return self.sparse_id_column.config  # type: ignore[no-any-return]

    @property
    def length(self) -> int:
        """Number of rows of the table."""
        return int(self.shared_vocab_size or self.sparse_id_column.length)


@dataclasses.dataclass(frozen=True, repr=False)
class RealValuedColumn(FeatureColumn):
    """A dense column of numbers."""

    column_name: str
    dimension: int
    default_value: Any
    dtype: Any
    normalizer: Any

    @property
    def name(self) -> str:
        """The feature."""
        return self.column_name

    @property
    def key(self) -> str:
        """See the base class; the normalizer has no part in it."""
        return self._text(str, "normalizer")

    @property
    def config(self) -> dict[str, Any]:
        """See the base class."""
        default = None if self.default_value is None else list(self.default_value)
        return {self.column_name: tf.io.FixedLenFeature([self.dimension], self.dtype, default)}


@dataclasses.dataclass(frozen=True, repr=False)
class BucketizedColumn(FeatureColumn):
    """A column of the buckets that numbers fall in, as ids or as dense one-hot vectors."""

    source_column: RealValuedColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        """Name of the numbers with '_bucketized'."""
        return f"{self.source_column.name}_bucketized"

    @property
    def config(self) -> dict[str, Any]:
        """See the base class."""
        return self.source_column.config

    @property
    def length(self) -> int:
        """Number of intervals."""
        return len(self.boundaries) + 1


@dataclasses.dataclass(frozen=True, repr=False)
class CrossedColumn(FeatureColumn):
    """A column whose ids are hashes of combinations of other columns' values."""

    columns: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None
    combiner: str = "sum"
    ckpt_to_load_from: str | None = None
    tensor_name_in_ckpt: str | None = None

    @property
    def name(self) -> str:
        """Names of the columns, sorted and joined by '_X_'."""
        return "_X_".join(sorted(column.name for column in self.columns))

    @property
    def config(self) -> dict[str, Any]:
        """See the base class."""
        return {name: spec for column in self.columns for name, spec in column.config.items()}

    @property
    def length(self) -> int:
        """Number of ids."""
        return self.hash_bucket_size
