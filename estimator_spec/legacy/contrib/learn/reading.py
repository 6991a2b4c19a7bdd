# SPDX-License-Identifier: Apache-2.0
"""Reads batches of files by queues, and CSV files, as `tf.contrib.learn` does."""

from __future__ import annotations

import csv
import os
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def read_keyed_batch_examples(
    file_pattern: Any,
    batch_size: int,
    reader: Callable[[], Any],
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = 10000,
    num_threads: int = 1,
    read_batch_size: int = 1,
    parse_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """Returns tensors of a batch of records and of their keys, filled by queues.

    Args:
        file_pattern: pattern of files, or a list of patterns.
        batch_size: records of a batch; without `num_epochs` all batches have so many.
        reader: class of the reader, such as `tf.compat.v1.TFRecordReader`.
        randomize_input: whether files and records are shuffled.
        num_epochs: number of times that each file is read. None: the input never ends.
        queue_capacity: records of the queue.
        num_threads: number of readers.
        read_batch_size: records of one read.
        parse_fn: function of records that returns what a batch has, or None.
        name: name of the scope, or None.
        seed: seed of the order, or None.

    Returns:
        (keys, what `parse_fn` returns or else strings), [batch] each.

    Raises:
        ValueError: there is no file, or a size is wrong.
    """
    files = _files(file_pattern)
    if not 0 < batch_size <= queue_capacity:
        raise ValueError(
            f"batch_size must be at least 1 and at most queue_capacity={queue_capacity}. Got "
            f"{batch_size}."
        )
    if not num_threads > 0:
        raise ValueError(f"num_threads must be at least 1. Got {num_threads}.")
    with tf1.name_scope(name, "read_batch_examples"):
        file_queue = tf1.train.string_input_producer(
            files, num_epochs, shuffle=randomize_input, seed=seed
        )
        read = []
        for _ in range(num_threads):
            keys, records = reader().read_up_to(file_queue, read_batch_size)
            read.append((keys, records if parse_fn is None else parse_fn(records)))
        ends = num_epochs is not None
        if randomize_input:
            least = max(queue_capacity - (num_threads + 3) * batch_size, batch_size)
            options = {"min_after_dequeue": min(least, queue_capacity - 1), "seed": seed}
            queue = tf1.train.shuffle_batch_join
        else:
            options, queue = {}, tf1.train.batch_join
        return queue(  # type: ignore[no-any-return]
            read,
            batch_size,
            capacity=queue_capacity,
            enqueue_many=True,
            allow_smaller_final_batch=ends,
            **options,
        )


def read_batch_examples(*args: Any, **kwargs: Any) -> Any:
    """Returns the records of `read_keyed_batch_examples`, which has the arguments."""
    return read_keyed_batch_examples(*args, **kwargs)[1]


def read_batch_features(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Any],
    reader: Callable[[], Any],
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = 10000,
    feature_queue_capacity: int = 100,
    reader_num_threads: int = 1,
    num_queue_runners: int | None = None,
    parse_fn: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Returns the features of a batch of serialized examples, by name.

    Args:
        file_pattern: as for `read_keyed_batch_examples`, as the arguments not listed here.
        batch_size: see there.
        features: specification of the features for `tf.io.parse_example`.
        reader: see there.
        randomize_input: see there.
        num_epochs: see there.
        queue_capacity: see there.
        feature_queue_capacity: ignored; parsed batches have no queue of their own.
        reader_num_threads: `num_threads` there.
        num_queue_runners: ignored.
        parse_fn: see there.
        name: see there.
    """
    del feature_queue_capacity, num_queue_runners
    examples = read_batch_examples(
        *(file_pattern, batch_size, reader, randomize_input, num_epochs, queue_capacity),
        *(reader_num_threads, 1, parse_fn, name),
    )
    return tf1.parse_example(examples, dict(features))  # type: ignore[no-any-return]


def read_batch_record_features(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Any],
    randomize_input: bool = True,
    num_epochs: int | None = None,
    queue_capacity: int = 10000,
    reader_num_threads: int = 1,
    name: str | None = "dequeue_record_examples",
) -> dict[str, Any]:
    """Returns the features of a batch of TFRecord files, by name; see `read_batch_features`."""
    return read_batch_features(
        *(file_pattern, batch_size, features, tf1.TFRecordReader, randomize_input, num_epochs),
        queue_capacity=queue_capacity,
        reader_num_threads=reader_num_threads,
        name=name,
    )


def _files(file_pattern: Any) -> list[str]:
    """Returns the files of a pattern, or of a list of patterns."""
    patterns = [file_pattern] if isinstance(file_pattern, str) else list(file_pattern)
    files = [path for pattern in patterns for path in sorted(tf.io.gfile.glob(pattern))]
    if not files:
        raise ValueError(f"No files match {file_pattern}.")
    return files


class Dataset(NamedTuple):
    """Examples of a file.

    Attributes:
        data: features, [examples, features].
        target: labels, [examples].
    """

    data: Any
    target: Any


class Datasets(NamedTuple):
    """Examples for training, validation and test; each a `Dataset` or None."""

    train: Any
    validation: Any
    test: Any


def load_csv_with_header(
    filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1
) -> Dataset:
    """Returns the examples of a CSV file whose first line has their number and that of features.

    Args:
        filename: the file.
        target_dtype: dtype of the labels.
        features_dtype: dtype of the features.
        target_column: column of the labels.
    """
    with tf.io.gfile.GFile(filename) as file:
        rows = list(csv.reader(file))
    count, width = int(rows[0][0]), int(rows[0][1])
    found = _dataset(rows[1:], target_dtype, features_dtype, target_column)
    if found.data.shape != (count, width):
        raise ValueError(
            f"{filename} has {found.data.shape} examples and features, but its first line says "
            f"{(count, width)}."
        )
    return found


def load_csv_without_header(
    filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1
) -> Dataset:
    """Returns the examples of a CSV file; the arguments are those of `load_csv_with_header`."""
    with tf.io.gfile.GFile(filename) as file:
        return _dataset(list(csv.reader(file)), target_dtype, features_dtype, target_column)


def _dataset(rows: list[list[str]], target_dtype: Any, dtype: Any, column: int) -> Dataset:
    rows = [list(row) for row in rows if row]
    target = np.array([row.pop(column) for row in rows]).astype(target_dtype)
    return Dataset(np.array(rows).astype(dtype), target)


def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """Downloads a file unless it is there, and returns its path.

    Args:
        filename: its name.
        work_directory: its directory, made if there is none.
        source_url: its address.
    """
    os.makedirs(work_directory, exist_ok=True)
    path = os.path.join(work_directory, filename)
    if not os.path.exists(path):
        temporary = f"{path}.{os.getpid()}.tmp"
        urllib.request.urlretrieve(source_url, temporary)
        os.replace(temporary, path)
    return path
