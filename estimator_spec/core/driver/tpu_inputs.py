# SPDX-License-Identifier: Apache-2.0
"""Checks what a replica's model gets and returns, as a TPU requires it.

A TPU compiles tensors of static shapes only. `TPUConfig.input_partition_dims` says how each input
is cut among the cores of a replica: here nothing is cut, but what a TPU would refuse is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.run_config.tpu_config import TPUConfig


def check_static(features: Any, labels: Any) -> None:
    """Checks that the dense inputs of a model have static shapes.

    Args:
        features: features of a replica; sparse ones are for an embedding core, which looks them up.
        labels: its labels, or None.

    Raises:
        ValueError: a tensor hasn't.
    """
    for name, given in (("features", features), ("labels", labels)):
        for key, value in given.items() if isinstance(given, Mapping) else [(None, given)]:
            for tensor in tf.nest.flatten(value):
                if isinstance(tensor, tf.Tensor) and not tensor.shape.is_fully_defined():
                    of_key = "" if key is None else f"Key: {key!r}, "
                    raise ValueError(
                        f"The {name} to the model returned by input_fn must have static shape on a "
                        f"TPU. {of_key}Tensor: {tensor}. Set the sizes in input_fn: "
                        "batch(…, drop_remainder=True), tf.ensure_shape."
                    )


def check_static_predictions(predictions: Any) -> None:
    """Checks that the number of a replica's predictions is known in the graph.

    Raises:
        ValueError: it isn't.
    """
    for key, tensor in predictions.items() if isinstance(predictions, Mapping) else []:
        sizes = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
        if None in sizes[:1]:
            raise ValueError(
                f"The tensor with key ({key}) in TPUEstimatorSpec.predictions has dynamic shape "
                f"(should be static). Tensor: {tensor}"
            )


def check_partition(config: TPUConfig, features: Any, labels: Any) -> None:
    """Checks that `input_partition_dims` fits the inputs.

    Args:
        config: the configuration of the run.
        features: features of a replica.
        labels: its labels, or None.

    Raises:
        ValueError: names, structure or dimensions don't fit.
    """
    dims = config.input_partition_dims
    if dims is None:
        return
    cores = config.num_cores_per_replica
    for number, (name, given) in enumerate((("feature", features), ("label", labels))):
        wanted = dims[number] if number < len(dims) else None
        if wanted is not None:
            where = f"TPUConfig.input_partition_dims[{number}]"
            _check_part(wanted, given, cores, where, (f"{name} keys", f"the structure of {name}s"))


def _check_part(
    wanted: Any, given: Any, cores: int | None, where: str, names: tuple[str, str]
) -> None:
    """Checks the dimensions of an input or of a structure of them.

    Args:
        wanted: numbers of parts of a tensor's dimensions, in the structure of the input.
        given: the input.
        cores: number of cores of a replica.
        where: beginning of messages.
        names: what doesn't match if the keys don't: here, and further inside.
    """
    if not isinstance(given, Mapping) and not isinstance(wanted, Mapping):
        _check_dims(wanted, given, cores, where)
        return
    keys = sorted(given) if isinstance(given, Mapping) else []
    if not isinstance(wanted, Mapping) or sorted(wanted) != keys:
        raise ValueError(f"{where} mismatched {names[0]}. Expected the keys {keys}, got {wanted}.")
    for key, value in given.items():
        _check_part(wanted[key], value, cores, where, (names[1], names[1]))


def _check_dims(dims: Any, tensor: Any, cores: int | None, where: str) -> None:
    """Checks the numbers of parts of a tensor's dimensions; None: it isn't cut."""
    if dims is None or not tf.is_tensor(tensor):
        return
    if any(each <= 0 for each in dims):
        raise ValueError(f"All input partition dims must be >= 1. {where} has {dims}.")
    if tensor.shape.rank is not None and len(dims) != tensor.shape.rank:
        raise ValueError(
            "Input partition dims must have the same number of dimensions as the tensor to be "
            f"partitioned. {where} has {dims} for a tensor of shape {tensor.shape}."
        )
    if math.prod(dims) != cores:
        raise ValueError(
            "The product of each input partition dim should equal to num_cores_per_replica. "
            f"{where} has {dims}, and num_cores_per_replica is {cores}."
        )
