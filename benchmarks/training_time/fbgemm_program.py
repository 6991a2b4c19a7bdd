# SPDX-License-Identifier: Apache-2.0
"""Trains the embeddings alone in FBGEMM: one operator for all tables, exact Adagrad, CPU."""

from __future__ import annotations

import time
from typing import Any

import fbgemm_gpu
import numpy as np
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    SplitTableBatchedEmbeddingBagsCodegen,
)

from training_time import clocks, workloads
from training_time.workloads import Workload

RATE = 0.05


def batches_of(workload: Workload) -> list[tuple[Any, Any]]:
    """Returns the concatenated ids of all features, and the offset of each row."""
    found = []
    for number in range(workloads.BATCHES):
        arrays = workloads.batch_of(workload, number, workload.batch_size)
        ids = np.concatenate([arrays[f.name].ravel() for f in workload.features])
        count = len(workload.features) * workload.batch_size
        offsets = np.arange(count + 1, dtype=np.int64) * workload.features[0].ids
        found.append((torch.from_numpy(ids), torch.from_numpy(offsets)))
    return found


def run(workload: Workload) -> dict[str, Any]:
    """Returns milliseconds of 100 steps: lookup, gradient 1 for each activation, update."""
    before = clocks.resident()
    begin = time.perf_counter()
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [
            (feature.rows, feature.width, EmbeddingLocation.HOST, ComputeDevice.CPU)
            for feature in workload.features
        ],
        optimizer=EmbOptimType.EXACT_ADAGRAD,
        learning_rate=RATE,
        pooling_mode=PoolingMode.MEAN,
    )
    batches = batches_of(workload)
    width = sum(feature.width for feature in workload.features)
    gradient = torch.ones(workload.batch_size, width)
    marks = []
    steps = workloads.STEPS_PER_LOG * (workload.intervals + 1)
    for step in range(steps + 1):
        tables(*batches[step % len(batches)]).backward(gradient)
        if step % workloads.STEPS_PER_LOG == 0:
            marks.append((step, time.perf_counter()))
    version = f"FBGEMM {fbgemm_gpu.__version__}, torch {torch.__version__}"
    return {
        "ms": clocks.milliseconds(marks),
        "first_step_s": marks[0][1] - begin,
        "imported_mib": before,
        "version": version,
    }
