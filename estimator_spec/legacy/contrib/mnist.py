# SPDX-License-Identifier: Apache-2.0
"""Reimplements `tensorflow.examples.tutorials.mnist.input_data`; reads local files only."""

from __future__ import annotations

import gzip
import math
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.legacy.contrib.learn.reading import Datasets

tf1 = tf.compat.v1

_IMAGES, _LABELS = 2051, 2049  # the first four bytes of the files
_FILES = {
    "train-images-idx3-ubyte.gz": _IMAGES,
    "train-labels-idx1-ubyte.gz": _LABELS,
    "t10k-images-idx3-ubyte.gz": _IMAGES,
    "t10k-labels-idx1-ubyte.gz": _LABELS,
}


class DataSet:
    """Images and labels, which are read in batches.

    As in TensorFlow 1, its order is that of NumPy's global random state, which this seeds.

    Args:
        images: uint8 of shape [examples, rows, columns, 1].
        labels: a label of each.
        fake_data: whether every batch has the same made-up example.
        one_hot: form of the labels of `fake_data`.
        dtype: uint8, or float32 for values from 0 to 1.
        reshape: whether each image becomes one row.
        seed: seed of the order. None: the graph's.

    Raises:
        TypeError: `dtype` is another one.
        ValueError: there are more or fewer images than labels.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        fake_data: bool = False,
        one_hot: bool = False,
        dtype: Any = tf.float32,
        reshape: bool = True,
        seed: int | None = None,
    ) -> None:
        of_graph, of_op = tf1.get_seed(seed)
        np.random.seed(of_graph if seed is None else of_op)
        dtype = tf.as_dtype(dtype).base_dtype
        if dtype not in (tf.uint8, tf.float32):
            raise TypeError(f"Invalid image dtype {dtype!r}, expected uint8 or float32")
        if not fake_data:
            if len(images) != len(labels):
                raise ValueError(f"{len(images)} images have {len(labels)} labels.")
            if reshape:
                images = images.reshape(len(images), -1)
            if dtype == tf.float32:
                images = np.multiply(images.astype(np.float32), 1.0 / 255.0)
        self._fake_label: Any = [1] + [0] * 9 if one_hot else 0
        self._images, self._labels = images, labels
        self._num_examples = 10000 if fake_data else len(images)
        self._epochs_completed = self._next = 0

    @property
    def images(self) -> Any:
        """The images, in the order of the present epoch."""
        return self._images

    @property
    def labels(self) -> Any:
        """The labels, in the order of the present epoch."""
        return self._labels

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return self._num_examples

    @property
    def epochs_completed(self) -> int:
        """Number of epochs that are finished."""
        return self._epochs_completed

    def next_batch(self, batch_size: int, fake_data: bool = False, shuffle: bool = True) -> Any:
        """Returns the images and labels of the next batch, which may reach into the next epoch.

        Args:
            batch_size: number of examples.
            fake_data: whether they are made up.
            shuffle: whether an epoch that begins gets an order of its own.
        """
        if fake_data:
            return [[1] * 784] * batch_size, [self._fake_label] * batch_size
        start, end = self._next, self._next + batch_size
        if not self._epochs_completed and not start and shuffle:
            self._shuffle()
        if end <= self._num_examples:
            self._next = end
            return self._images[start:end], self._labels[start:end]
        rest = self._images[start:], self._labels[start:]
        self._epochs_completed += 1
        if shuffle:
            self._shuffle()
        self._next = end - self._num_examples
        more = self._images[: self._next], self._labels[: self._next]
        return tuple(np.concatenate(pair) for pair in zip(rest, more, strict=True))

    def _shuffle(self) -> None:
        order = np.arange(self._num_examples)
        np.random.shuffle(order)
        self._images, self._labels = self._images[order], self._labels[order]


def extract_images(f: Any) -> Any:
    """Returns the images of a gzipped file that is open, uint8 [examples, rows, columns, 1].

    Raises:
        ValueError: it is no file of images, or ends early.
    """
    return _extract(f, _IMAGES)[..., np.newaxis]


def extract_labels(f: Any, one_hot: bool = False, num_classes: int = 10) -> Any:
    """Returns the labels of a gzipped file that is open, uint8, or floats if `one_hot`.

    Raises:
        ValueError: it is no file of labels, or ends early.
    """
    labels = _extract(f, _LABELS)
    return dense_to_one_hot(labels, num_classes) if one_hot else labels


def dense_to_one_hot(labels_dense: Any, num_classes: int) -> Any:
    """Returns a row for each label, with 1 in its place."""
    return np.eye(num_classes)[labels_dense.ravel()]


def _extract(file: Any, kind: int) -> Any:
    """Returns the array of an IDX file."""
    with gzip.GzipFile(fileobj=file) as stream:
        (magic,) = np.frombuffer(stream.read(4), ">u4", 1)
        if magic != kind:
            what = "image" if kind == _IMAGES else "label"
            raise ValueError(f"Invalid magic number {magic} in MNIST {what} file: {file.name}")
        shape = np.frombuffer(stream.read(4 * (kind & 3)), ">u4").astype(int)
        size = math.prod(shape.tolist())
        content = stream.read(size)
    if len(content) != size:
        raise ValueError(f"{file.name} ends early: {len(content)} bytes of {size}.")
    return np.frombuffer(content, np.uint8).reshape(shape)


def read_data_sets(
    train_dir: str,
    fake_data: bool = False,
    one_hot: bool = False,
    dtype: Any = tf.float32,
    reshape: bool = True,
    validation_size: int = 5000,
    seed: int | None = None,
    source_url: str | None = None,
) -> Datasets:
    """Reads the four files of the digits in a directory; it downloads none.

    Args:
        train_dir: directory of the files.
        fake_data: whether to make examples up, without files.
        one_hot: whether labels are rows with a 1.
        dtype: as for `DataSet`.
        reshape: as for `DataSet`.
        validation_size: number of examples of the training file that are for validation.
        seed: as for `DataSet`.
        source_url: not used.

    Raises:
        FileNotFoundError: the directory lacks a file.
        ValueError: a file is damaged, or there are fewer than `validation_size` examples.
    """
    del source_url
    options: dict[str, Any] = {"dtype": dtype, "reshape": reshape, "seed": seed}
    if fake_data:
        parts = [DataSet([], [], True, one_hot, dtype, seed=seed) for _ in range(3)]
        return Datasets(*parts)
    paths = {name: f"{train_dir}/{name}" for name in _FILES}
    missing = [name for name, path in paths.items() if not tf.io.gfile.exists(path)]
    if missing:
        raise FileNotFoundError(
            f"{train_dir} lacks {', '.join(missing)}. TensorFlow 1 downloaded these files; this "
            "doesn't. Put them there, or read the digits by tf.keras.datasets.mnist."
        )
    arrays = []
    for name, kind in _FILES.items():
        with tf.io.gfile.GFile(paths[name], "rb") as file:
            arrays.append(
                extract_images(file) if kind == _IMAGES else extract_labels(file, one_hot)
            )
    images, labels, test_images, test_labels = arrays
    if not 0 <= validation_size <= len(images):
        raise ValueError(
            f"Validation size should be between 0 and {len(images)}. Received: {validation_size}."
        )
    return Datasets(
        DataSet(images[validation_size:], labels[validation_size:], **options),
        DataSet(images[:validation_size], labels[:validation_size], **options),
        DataSet(test_images, test_labels, **options),
    )
