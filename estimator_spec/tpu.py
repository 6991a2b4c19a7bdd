# SPDX-License-Identifier: Apache-2.0
"""Functions of `tf.compat.v1.tpu` for programs that run on a TPU and without one.

    optimizer = estimator_spec.tpu.CrossShardOptimizer(optimizer)
    resolver = estimator_spec.tpu.TPUClusterResolver(FLAGS.tpu)

`CrossShardOptimizer` works everywhere: on one replica it calls the wrapped optimizer. All other
names are TensorFlow's own, unless the environment variable TPU_COLUMNS_CPU makes the host replace
the TPU (`1`, or `auto` for machines without one). Then the host is one replica: `cross_replica_sum`
is its argument, and `TPUClusterResolver` an empty cluster.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.core.run_config import host_fallback
from estimator_spec.legacy import tpu_stand_ins
from estimator_spec.legacy.tpu_stand_ins import CrossShardOptimizer

_OF_TPU = (
    "batch_parallel",
    "cross_replica_sum",
    "initialize_system",
    "outside_compilation",
    "replicate",
    "rewrite",
    "shard",
    "shutdown_system",
)

__all__ = ["CrossShardOptimizer"]


def __getattr__(name: str) -> Any:
    """Returns TensorFlow's function, or the host's."""
    if name != "TPUClusterResolver" and name not in _OF_TPU:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if host_fallback.host_instead_of_tpu():
        return getattr(tpu_stand_ins, name)
    if name == "TPUClusterResolver":
        return tf.distribute.cluster_resolver.TPUClusterResolver
    return getattr(tf.compat.v1.tpu, name)


def __dir__() -> list[str]:
    """Returns the public names."""
    return sorted([*__all__, "TPUClusterResolver", *_OF_TPU])
