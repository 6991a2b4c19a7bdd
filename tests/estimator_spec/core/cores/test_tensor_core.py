# SPDX-License-Identifier: Apache-2.0
"""Ids made fit for the tensor core: padded to a fixed width, with their mask beside them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tpu_columns
from estimator_spec.core.cores import tensor_core

fc = tf.feature_column


def column(shape, weighted=False):
    """A column for the tensor core."""
    categorical = fc.categorical_column_with_identity("word", 9)
    if weighted:
        categorical = fc.weighted_categorical_column(categorical, "weight")
    return tpu_columns.embedding_column(
        categorical, 2, embedding_lookup_device="tpu_tensor_core", tensor_core_shape=shape
    )


def sparse(values, dtype=np.int64):
    """Two rows: two entries and one."""
    return tf.SparseTensor([[0, 0], [0, 1], [1, 0]], np.array(values, dtype), [2, 2])


@pytest.mark.parametrize("batch", [None, -1, 2])
def test_ids_are_padded(batch):
    """None and -1 are batches of any size; other features stay as they are."""
    given = {"word": sparse([5, 6, 7]), "other": tf.constant([1.0])}
    found = tensor_core.pad([column([batch, 3])], given)
    assert found["word"].numpy().tolist() == [[5, 6, 0], [7, 0, 0]]
    assert found["word__TENSOR_CORE_MASK"].numpy().tolist() == [[1, 1, 0], [1, 0, 0]]
    assert sorted(found) == ["other", "word", "word__TENSOR_CORE_MASK"]
    assert sorted(given) == ["other", "word"]


def test_weights_become_the_mask():
    """Weights, of integers too, are the mask and leave the features."""
    given = {"word": sparse([5, 6, 7]), "weight": sparse([2, 3, 4])}
    found = tensor_core.pad([column([None, 2], weighted=True)], given)
    assert found["word__TENSOR_CORE_MASK"].dtype == tf.float32
    assert found["word__TENSOR_CORE_MASK"].numpy().tolist() == [[2, 3], [4, 0]]
    assert "weight" not in found


def test_zeros_of_dense_ids_are_padding():
    """A zero has the mask 0; ids behind it move to the front no more than they did."""
    found = tensor_core.pad([column([None, 3])], {"word": tf.constant([[0, 4], [5, 0]])})
    assert found["word"].numpy().tolist() == [[0, 4, 0], [5, 0, 0]]
    assert found["word__TENSOR_CORE_MASK"].numpy().tolist() == [[0, 1, 0], [1, 0, 0]]


def test_another_batch_is_refused():
    """A batch of another size than the column's is named."""
    with pytest.raises(
        ValueError, match="word_embedding has tensor_core_shape .4, 3., but .* 2 rows"
    ):
        tensor_core.pad([column([4, 3])], {"word": tf.constant([[1], [2]])})


def test_a_mask_of_that_name_is_refused():
    """The mask's key must be free."""
    given = {"word": sparse([5, 6, 7]), "word__TENSOR_CORE_MASK": tf.constant([1.0])}
    with pytest.raises(
        ValueError, match="word__TENSOR_CORE_MASK for Tensor Core .* already in use"
    ):
        tensor_core.pad([column([None, 3])], given)
