# SPDX-License-Identifier: Apache-2.0
"""Checks the arguments of `TPUEstimator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.common.checks import check_callable
from estimator_spec.core.common.signatures import argument_names
from estimator_spec.core.embedding.spec import (
    EmbeddingConfigSpec,
    spec_of_embedding_core,
    tables_and_features,
)
from estimator_spec.core.run_config import InputPipelineConfig
from estimator_spec.core.run_config.tpu_config import TPUConfig, check_positive_integer
from tpu_columns.checks import check_name
from tpu_columns.column_types import SharedEmbeddingColumn, TPUEmbeddingColumn
from tpu_columns.placement import Mode


def check_params(params: Any, reserved: Sequence[str]) -> None:
    """Checks that an estimator can add its own entries to a program's params.

    Args:
        params: a dict, an HParams object, another object with item assignment, or None.
        reserved: keys that the estimator sets.

    Raises:
        TypeError: `params` is no such object.
        ValueError: it has a reserved key.
    """
    if params is None:
        return
    holds_items = hasattr(params, "set_hparam") or hasattr(params, "__setitem__")
    if isinstance(params, (Sequence, np.ndarray)) or not holds_items:
        if isinstance(params, Sequence) and not params:
            return  # replaced by an empty dict
        raise TypeError(
            f"params must be a dict of hyperparameters by name, got {params!r}. TPUEstimator adds "
            "params['batch_size']."
        )
    if any(key in params for key in reserved):
        raise ValueError(f"{reserved} are reserved keys but existed in params {params}.")


def check_batch_axis(batch_axis: Any) -> None:
    """Checks that `batch_axis` is None or a list of dimensions.

    Raises:
        TypeError: it isn't a tuple or list of ints.
        ValueError: a dimension is negative.
    """
    if batch_axis is None:
        return
    if not isinstance(batch_axis, (tuple, list)) or not all(
        isinstance(axis, (int, np.integer)) for axis in batch_axis
    ):
        raise TypeError(
            "batch_axis must be a tuple or list of ints, the batch dimension of each input "
            f"tensor; got {batch_axis!r}."
        )
    if any(axis < 0 for axis in batch_axis):
        raise ValueError(f"batch_axis must not be negative; got {batch_axis!r}.")


def check_batch_sizes(batch_sizes: Mapping[str, Any], use_tpu: bool) -> None:
    """Checks the batch sizes of `TPUEstimator`, by 'train', 'eval' and 'predict'.

    Raises:
        TypeError: one is neither None nor an int.
        ValueError: one isn't positive, or a TPU's training has none.
    """
    if use_tpu and batch_sizes["train"] is None:
        raise ValueError("`train_batch_size` cannot be `None`")
    for name, size in batch_sizes.items():
        if size is not None:
            check_positive_integer(size, f"{name}_batch_size")


def check_input_pipeline(
    tpu_config: TPUConfig, embedding_config_spec: EmbeddingConfigSpec | None
) -> None:
    """Checks that `per_host_input_for_training` fits the other options.

    Raises:
        ValueError: it doesn't support model parallelism or embeddings.
    """
    deployment = tpu_config.per_host_input_for_training
    if deployment == InputPipelineConfig.PER_SHARD_V1 and tpu_config.num_cores_per_replica:
        raise ValueError(
            "Model parallelism only supports per host input for training. Please adjust "
            "TPURunconfig.per_host_input_for_training."
        )
    per_host = (InputPipelineConfig.PER_HOST_V1, InputPipelineConfig.PER_HOST_V2)
    if embedding_config_spec and deployment not in per_host:
        raise ValueError(
            "Only PER_HOST_V1 and PER_HOST_V2 is supported when using TPU Embedding; got "
            f"{deployment}."
        )


def check_embeddings(tpu_config: TPUConfig, embedding_config_spec: Any) -> None:
    """Checks the embedding specification, and that the TPU configuration supports it.

    Raises:
        TypeError: `embedding_config_spec` has another type.
        ValueError: its dictionaries don't fit together, a name is invalid, or `num_shards` is 1.
    """
    if embedding_config_spec is None:
        return
    if not isinstance(embedding_config_spec, EmbeddingConfigSpec):
        raise TypeError(
            "embedding_config_spec must be an estimator_spec.EmbeddingConfigSpec, got "
            f"{type(embedding_config_spec)}."
        )
    if embedding_config_spec.feature_to_config_dict:
        tables, _ = tables_and_features(embedding_config_spec)
        for key in tables:
            check_name(key, "Table of table_to_config_dict")
    for column in (
        *(embedding_config_spec.feature_columns or ()),
        *(embedding_config_spec.tensor_core_feature_columns or ()),
    ):
        if isinstance(column, TPUEmbeddingColumn):
            key = column.get_feature_key_name()
            check_name(column.name, f"Column of feature {key!r}", in_scope=True)
        if isinstance(column, SharedEmbeddingColumn):
            name = column.shared_embedding_collection_name
            check_name(name, "shared_embedding_collection_name", in_scope=True)
    if tpu_config.num_shards == 1 and tpu_config.num_cores_per_replica is None:
        raise ValueError(
            "Setting TPUConfig.num_shards==1 is unsupported when embedding_config_spec is not "
            "None. Leave num_shards out."
        )


def check_columns(embedding_config_spec: EmbeddingConfigSpec | None, mode: str) -> None:
    """Checks that an embedding core can look up the columns of a spec, before inputs are made.

    Raises:
        TypeError, ValueError: as `tables_and_features`.
    """
    spec = embedding_config_spec and spec_of_embedding_core(embedding_config_spec, Mode(mode))
    if spec is not None:
        tables_and_features(spec)


def check_host_replicas(
    replicas: Any, use_tpu: bool, batch_sizes: Mapping[str, int | None], tpu_config: TPUConfig
) -> None:
    """Checks the argument `host_replicas` of `TPUEstimator`.

    Args:
        replicas: number of replicas.
        use_tpu: whether the program runs on a TPU.
        batch_sizes: examples of a step, by 'train', 'eval' and 'predict'.
        tpu_config: how batches are distributed.

    Raises:
        TypeError: `replicas` isn't an int.
        ValueError: it isn't positive, doesn't divide a batch size, or is given with `use_tpu`.
    """
    check_positive_integer(replicas, "host_replicas")
    if use_tpu:
        raise ValueError("host_replicas runs a TPU's loop on the host. Set use_tpu=False.")
    if tpu_config.per_host_input_for_training == InputPipelineConfig.BROADCAST:
        batch_sizes = {}  # each replica gets the whole batch
    for name, size in batch_sizes.items():
        if size is not None and size % replicas:
            raise ValueError(
                f"{name} batch size {size} must be divisible by number of replicas {replicas}."
            )
    if tpu_config.input_partition_dims is not None:
        tf.compat.v1.logging.info(
            "TPUConfig.input_partition_dims has no effect: a replica on the host is one device and "
            "gets whole tensors."
        )


def check_takes_params(kind: str, fn: Callable[..., Any]) -> None:
    """Checks that a user's function has an argument `params`.

    Args:
        kind: 'model_fn' or 'input_fn'.
        fn: the function.

    Raises:
        ValueError: it has none.
        TypeError: `fn` isn't callable.
    """
    check_callable(kind, fn)
    if "params" not in argument_names(fn):
        raise ValueError(
            f"{kind} ({fn}) does not include params argument, required by TPUEstimator to pass "
            "batch size as params['batch_size']"
        )
