# SPDX-License-Identifier: Apache-2.0
"""Makes the batches of a workload as a dataset, for every side that runs TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from training_time import workloads
from training_time.workloads import Workload


def dataset_of(workload: Workload, size: int, give: Callable[[dict[str, Any]], Any]) -> Any:
    """Returns a dataset of batches that are made once and kept in memory.

    Args:
        workload: whose features.
        size: of a batch.
        give: from the tensors of a batch's arrays, by name, to an element of the dataset.
    """
    example = workloads.batch_of(workload, 0, 1)
    names = sorted(example)

    def make(number: Any) -> list[Any]:
        arrays = workloads.batch_of(workload, int(number), size)
        return [arrays[name] for name in names]

    def load(number: Any) -> Any:
        types = [tf.as_dtype(example[name].dtype) for name in names]
        arrays = dict(zip(names, tf.numpy_function(make, [number], types), strict=True))
        for name in names:
            arrays[name].set_shape([size, *example[name].shape[1:]])
        return give(arrays)

    return tf.data.Dataset.range(workloads.BATCHES).map(load).cache()
