# SPDX-License-Identifier: Apache-2.0
"""Vocabularies of columns, as expressions of a plan."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.convert.keras_columns import program_files
from estimator_spec.convert.keras_columns.expressions import FunctionCall, call
from estimator_spec.convert.keras_columns.plan import ModelPlan


def initializer_of(column: Any, plan: ModelPlan) -> FunctionCall:
    """Returns the expression of the initializer of a vocabulary column's table.

    Args:
        column: a column with a list of words or a file.
        plan: its `inline_words` says which lists become files.

    Raises:
        ValueError: the file is missing, or has fewer words than the column.
    """
    if not hasattr(column, "vocabulary_file"):
        words = [_plain(word) for word in column.vocabulary_list]
        if plan.inline_words is None and len(words) > program_files.INLINE_WORDS:
            return call("words_in_order", plan.named(plan.words, f"{column.key}_words", words))
        if plan.inline_words is None or len(words) <= plan.inline_words or not _are_lines(words):
            return call("words_in_order", words)
        return _file_of(column, words, len(words), plan)
    path, size = os.fspath(column.vocabulary_file), int(column.vocabulary_size)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"The vocabulary file {path!r} of column {column.name!r} doesn't exist. Put it there, "
            "or run the program where it is."
        )
    if column.file_format == "tfrecord_gzip":
        records = tf.data.TFRecordDataset(path, compression_type="GZIP").take(size)
        words = [_record(record, column.dtype) for record in records.as_numpy_iterator()]
        _check_size(column, path, len(words))
        return call("words_in_order", words)
    with tf.io.gfile.GFile(path, "rb") as lines:
        _check_size(column, path, sum(1 for _ in zip(lines, range(size), strict=False)))
    if plan.inline_words is None:
        return call("words_in_file", path, size, *_dtype(column))
    return _file_of(column, path, size, plan)


def _file_of(column: Any, words: Any, size: int, plan: ModelPlan) -> FunctionCall:
    name = plan.identifier(column.key, ("file", column))
    plan.vocabularies[f"{name}.txt"] = words
    path = call("vocabulary_path", f"{name}.txt")
    return call("words_in_file", path, size, *_dtype(column))


def _dtype(column: Any) -> tuple[str, ...]:
    return () if column.dtype == tf.string else ("int64",)


def _check_size(column: Any, path: str, found: int) -> None:
    if found < column.vocabulary_size:
        raise ValueError(
            f"The vocabulary file {path!r} of column {column.name!r} has {found} words, but the "
            f"column's vocabulary_size is {column.vocabulary_size}. Give the column the file that "
            "the model was trained with."
        )


def _plain(word: Any) -> Any:
    if isinstance(word, (str, bytes)):
        return word.item() if isinstance(word, np.generic) else word
    return int(word)


def _record(record: bytes, dtype: Any) -> Any:
    return record if dtype == tf.string else int(record)


def _are_lines(words: list[Any]) -> bool:
    """Returns whether a file with a word a line has these words."""
    texts = [word.decode("utf-8", "ignore") if isinstance(word, bytes) else word for word in words]
    # TensorFlow's reader refuses empty lines.
    return all(str(text) and not set("\r\n") & set(str(text)) for text in texts)
