# SPDX-License-Identifier: Apache-2.0
"""Decides whether a program with `use_tpu=True` runs on the host.

Without a TPU it is an error, unless the host was chosen: by `run --cpu`, by `choose_host`, or by
the environment variable TPU_COLUMNS_CPU ('1', or 'auto' for machines without a TPU), which child
processes inherit.
"""

from __future__ import annotations

import contextlib
import enum
from contextlib import AbstractContextManager

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from tpu_columns import environment


class Host(enum.Enum):
    """Condition under which a TPU program runs on the host."""

    NEVER = "0"
    ALWAYS = "1"
    WITHOUT_TPU = "auto"


def choose_host(when: Host) -> None:
    """Sets the condition under which TPU programs run on the host, also in child processes."""
    environment.write(environment.CPU, when.value)


def host_instead_of_tpu() -> bool:
    """Returns whether `use_tpu=True` runs on the host.

    Raises:
        ValueError: the environment variable is not '1', 'auto' or '0'.
    """
    value = environment.read(environment.CPU, Host.NEVER.value)
    try:
        when = Host(value)
    except ValueError:
        raise ValueError(
            f"The environment variable {environment.CPU} is {value!r}. It may be '1' (run programs "
            "of a TPU on the host), 'auto' (if the machine has no TPU) or '0'."
        ) from None
    if when is Host.WITHOUT_TPU:
        return not tf.config.list_physical_devices("TPU")
    return when is Host.ALWAYS


class _HostWarning:
    """State of the warning of this process."""

    logged = False


def warn_once(has_tables: bool) -> None:
    """Logs a warning that the host replaces a TPU, once in a process.

    Args:
        has_tables: whether there are TPU embeddings, which the model's optimizer trains here.
    """
    if _HostWarning.logged:
        return
    _HostWarning.logged = True
    tables = (
        " Embedding tables are trained by the model_fn's optimizer, like its other variables."
        if has_tables
        else ""
    )
    tf.compat.v1.logging.warning(
        "use_tpu=True runs on this host instead of a TPU, as it was told to: one replica gets the "
        "whole batch, whatever num_shards says.%s",
        tables,
    )


def one_replica() -> AbstractContextManager[None]:
    """Tells TensorFlow that a TPU `model_fn`, called within, is built for one replica."""
    if private.tpu_function.get_tpu_context().number_of_shards is not None:
        return contextlib.nullcontext()
    return private.tpu_function.tpu_shard_context(1)
