# SPDX-License-Identifier: Apache-2.0
"""Decides whether a program with `use_tpu=True` runs on the host.

Without a TPU it is an error, unless the host was chosen: by `run --cpu`, by `choose_host`, or by
the environment variable TPU_COLUMNS_CPU ('1', 'auto' for machines without a TPU, or 'replicas'),
which child processes inherit.
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
    REPLICAS = "replicas"  # always, with a TPU's replicas and loops


def choose_host(when: Host) -> None:
    """Sets the condition under which TPU programs run on the host, also in child processes."""
    environment.write(environment.CPU, when.value)


def host_instead_of_tpu() -> bool:
    """Returns whether `use_tpu=True` runs on the host.

    Raises:
        ValueError: the environment variable is not '1', 'auto', 'replicas' or '0'.
    """
    when = _chosen()
    if when is Host.WITHOUT_TPU:
        return not tf.config.list_physical_devices("TPU")
    return when is not Host.NEVER


def replicas_instead_of_tpu() -> bool:
    """Returns whether `use_tpu=True` runs on the host with a TPU's replicas and loops.

    Raises:
        ValueError: as `host_instead_of_tpu`.
    """
    return _chosen() is Host.REPLICAS


def _chosen() -> Host:
    """Returns what the environment variable says."""
    value = environment.read(environment.CPU, Host.NEVER.value)
    try:
        return Host(value)
    except ValueError:
        raise ValueError(
            f"The environment variable {environment.CPU} is {value!r}. It may be '1' (run programs "
            "of a TPU on the host), 'auto' (if the machine has no TPU), 'replicas' (with a TPU's "
            "replicas and loops) or '0'."
        ) from None


class _HostWarning:
    """State of the warning of this process."""

    logged = False


def warn_once(has_tables: bool, replicas: int | None = None) -> None:
    """Logs a warning that the host replaces a TPU, once in a process.

    Args:
        has_tables: whether there are TPU embeddings.
        replicas: number of a TPU's replicas that run here; None: the host is one replica, whose
            optimizer trains the tables.
    """
    if _HostWarning.logged:
        return
    _HostWarning.logged = True
    how, tables = "one replica gets the whole batch, whatever num_shards says.", ""
    if replicas is not None:
        how = f"{replicas} replicas share each batch, in loops of iterations_per_loop steps."
    elif has_tables:
        tables = " Embedding tables are trained by the model_fn's optimizer, like other variables."
    tf.compat.v1.logging.warning(
        "use_tpu=True runs on this host instead of a TPU, as it was told to: %s%s", how, tables
    )


def one_replica() -> AbstractContextManager[None]:
    """Tells TensorFlow that a TPU `model_fn`, called within, is built for one replica."""
    if private.tpu_function.get_tpu_context().number_of_shards is not None:
        return contextlib.nullcontext()
    return private.tpu_function.tpu_shard_context(1)
