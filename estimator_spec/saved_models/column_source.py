# SPDX-License-Identifier: Apache-2.0
"""Writes feature columns as the source text that makes them."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.convert.keras_columns.expressions import FunctionCall, Name, call
from estimator_spec.convert.keras_columns.kind import class_name, unknown_column
from estimator_spec.saved_models.columns import RecoveredColumn

_V1 = "tf.compat.v1.feature_column"
_ALWAYS = object()  # the default of an option that is always written
_VOCABULARY = {"dtype": tf.string, "num_oov_buckets": 0, "default_value": -1}


class ColumnArguments(NamedTuple):
    """Arguments of the function that makes a column, by the names of its attributes.

    Attributes:
        function: the function, of `tf.feature_column`.
        needed: positional arguments.
        options: others, with their defaults.
    """

    function: str
    needed: tuple[str, ...]
    options: Mapping[str, Any] = types.MappingProxyType({})


_ARGUMENTS = {
    "NumericColumn": ColumnArguments(
        "numeric_column",
        ("key",),
        {"shape": (1,), "default_value": None, "dtype": tf.float32, "normalizer_fn": None},
    ),
    "BucketizedColumn": ColumnArguments("bucketized_column", ("source_column", "boundaries")),
    "IdentityCategoricalColumn": ColumnArguments(
        "categorical_column_with_identity", ("key", "number_buckets"), {"default_value": None}
    ),
    "HashedCategoricalColumn": ColumnArguments(
        "categorical_column_with_hash_bucket", ("key", "hash_bucket_size"), {"dtype": tf.string}
    ),
    "VocabularyListCategoricalColumn": ColumnArguments(
        "categorical_column_with_vocabulary_list", ("key", "vocabulary_list"), _VOCABULARY
    ),
    "VocabularyFileCategoricalColumn": ColumnArguments(
        "categorical_column_with_vocabulary_file",
        ("key", "vocabulary_file", "vocabulary_size"),
        _VOCABULARY,
    ),
    "CrossedColumn": ColumnArguments(
        "crossed_column", ("keys", "hash_bucket_size"), {"hash_key": None}
    ),
    "WeightedCategoricalColumn": ColumnArguments(
        "weighted_categorical_column", ("categorical_column", "weight_feature_key")
    ),
    "IndicatorColumn": ColumnArguments("indicator_column", ("categorical_column",)),
    "EmbeddingColumn": ColumnArguments(
        "embedding_column",
        ("categorical_column", "dimension"),
        {"combiner": _ALWAYS, "max_norm": None, "use_safe_embedding_lookup": True},
    ),
}


class ColumnWriter:
    """Writes columns.

    Args:
        path_of: returns the expression of a vocabulary file's path.
    """

    def __init__(self, path_of: Callable[[str], Any] = str) -> None:
        self._path_of = path_of

    def expression(self, column: Any) -> FunctionCall:
        """Returns the call that makes a column.

        Raises:
            ValueError: the column is of an unknown class.
        """
        if table_of(column) is not None:
            return self.shared([column])
        made = _ARGUMENTS.get(class_name(column))
        if made is None:
            raise unknown_column(column)
        needed = [self._argument(column, name) for name in made.needed]
        changed = [name for name, value in made.options.items() if getattr(column, name) != value]
        named = {name: self._argument(column, name) for name in changed}
        return call(f"fc.{made.function}", *needed, **named)

    def expressions(
        self, columns: Iterable[RecoveredColumn]
    ) -> Iterator[tuple[RecoveredColumn, FunctionCall]]:
        """Yields the calls that make columns; one, with the first column, for a shared table."""
        groups: dict[Any, list[RecoveredColumn]] = {}
        for place, found in enumerate(columns):
            table = table_of(found.column)
            groups.setdefault(place if table is None else table, []).append(found)
        for table, group in groups.items():
            made = [each.column for each in group]
            is_shared = isinstance(table, str)
            yield group[0], self.shared(made) if is_shared else self.expression(made[0])

    def _argument(self, column: Any, name: str) -> Any:
        value = getattr(column, name)
        if name == "vocabulary_file":
            return self._path_of(value)
        if name == "normalizer_fn":
            return Name(inspect.getsource(value).strip())
        return self._plain(value)

    def _plain(self, value: Any) -> Any:
        if hasattr(value, "parse_example_spec"):
            return self.expression(value)
        if isinstance(value, tf.DType):
            return Name(f"tf.{value.name}")
        return [*map(self._plain, value)] if isinstance(value, (list, tuple)) else value

    def shared(self, group: Sequence[Any]) -> FunctionCall:
        """Returns the call that makes the columns of a shared table."""
        first = group[0]
        inner = [self.expression(column.categorical_column) for column in group]
        if class_name(first) == "_SharedEmbeddingColumn":
            dimension, function = first.dimension, f"{_V1}.shared_embedding_columns"
        else:
            creator = first.shared_embedding_column_creator
            dimension, function = creator.dimension, "fc.shared_embeddings"
        named = {"combiner": first.combiner, "shared_embedding_collection_name": table_of(first)}
        if first.max_norm is not None:
            named["max_norm"] = first.max_norm
        return call(function, inner, dimension, **named)


def table_of(column: Any) -> str | None:
    """Returns the name of the table that a column shares; None if it shares none."""
    kind = class_name(column)
    if kind == "_SharedEmbeddingColumn":
        return str(column.shared_embedding_collection_name)
    if kind != "SharedEmbeddingColumn":
        return None
    with tf.Graph().as_default():  # the one public way to the name of the table
        return str(column.shared_embedding_column_creator.embedding_weights.op.name)
