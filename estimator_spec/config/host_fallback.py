# SPDX-License-Identifier: Apache-2.0
"""Decides whether a program written for a TPU runs on the host instead.

`use_tpu=True` without a TPU is an error, unless the host was chosen: by `run --cpu`, by
`choose_host`, or by the environment variable TPU_COLUMNS_CPU ('1', or 'auto' for machines without a
TPU), which child processes inherit.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator

import tensorflow as tf

from estimator_spec import environment
from estimator_spec._tensorflow import private

tf1 = tf.compat.v1


class Host(enum.Enum):
    """When a program of a TPU runs on the host instead."""

    NEVER = "0"
    ALWAYS = "1"
    WITHOUT_TPU = "auto"


def choose_host(when: Host) -> None:
    """Says when programs of a TPU run on the host, in this process and its children.

    Args:
        when: always, on a machine without a TPU, or never.
    """
    environment.write(environment.CPU, when.value)


def host_instead_of_tpu() -> bool:
    """Whether `use_tpu=True` runs on the host.

    Raises:
        ValueError: the environment variable says something else than '1', 'auto' or '0'.
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


class _Told:
    """Whether the user has read the warning."""

    once = False


def warn_once(has_tables: bool) -> None:
    """Tells the user, once in a process, that the host stands in for a TPU.

    Args:
        has_tables: whether there are TPU embeddings, which are trained in another way here.
    """
    if _Told.once:
        return
    _Told.once = True
    tables = (
        " Embedding tables are trained by the model_fn's optimizer, like its other variables."
        if has_tables
        else ""
    )
    tf1.logging.warning(
        "use_tpu=True runs on this host instead of a TPU, as it was told to: one replica gets the "
        "whole batch, whatever num_shards says.%s",
        tables,
    )


@contextlib.contextmanager
def one_replica() -> Iterator[None]:
    """Around a `model_fn` for a TPU: TensorFlow knows that it is built for one replica."""
    if private.tpu_function.get_tpu_context().number_of_shards is not None:
        yield
        return
    with private.tpu_function.tpu_shard_context(1):
        yield
