# SPDX-License-Identifier: Apache-2.0
"""Switches of all optimizations: those in use for a graph, and their environment variables."""

from __future__ import annotations

import contextlib
import contextvars
import enum
from collections.abc import Iterator

from tpu_columns import environment


class Optimization(enum.Enum):
    """An optimization; its value is the environment variable that turns it off, set to 0.

    `docs/speed.md` says what each does and gains.
    """

    LOOKUPS = "TPU_COLUMNS_FAST_LOOKUPS"
    INPUT_LAYERS = "TPU_COLUMNS_FAST_INPUT_LAYERS"
    NATIVE_KERNELS = "TPU_COLUMNS_NATIVE_KERNELS"
    FUSED_ADAM = "TPU_COLUMNS_FUSED_ADAM"
    DIRECT_SUMS = "TPU_COLUMNS_DIRECT_SUMS"
    JOINED_TRANSFERS = "TPU_COLUMNS_JOINED_TRANSFERS"
    INITIAL_VALUES = "TPU_COLUMNS_INITIAL_VALUES"
    SKIPPED_HOOKS = "TPU_COLUMNS_SKIP_HOOKS"
    STACKED_TABLES = "TPU_COLUMNS_STACKED_TABLES"
    SAVES_IN_PLACE = "TPU_COLUMNS_SAVES_IN_PLACE"


# Those that rewrite a finished graph.
REWRITES = frozenset(
    {
        Optimization.NATIVE_KERNELS,
        Optimization.FUSED_ADAM,
        Optimization.DIRECT_SUMS,
        Optimization.JOINED_TRANSFERS,
    }
)

_current: contextvars.ContextVar[frozenset[Optimization] | None] = contextvars.ContextVar(
    "tpu_columns.optimizations", default=None
)


def choose(
    plain: bool | None = None,
    fast_updates: bool | None = None,
    stacked_tables: bool | None = None,
) -> frozenset[Optimization]:
    """Returns the optimizations that arguments and environment leave on.

    Args:
        plain: whether all are off; None leaves it to the environment variable TPU_COLUMNS_PLAIN.
        fast_updates: whether `REWRITES` may be on; None leaves it to TPU_COLUMNS_FAST_UPDATES.
        stacked_tables: whether `STACKED_TABLES` is on; None leaves it to its variable.

    Raises:
        ValueError: an environment variable isn't a boolean, or `plain` and another argument are
            true.
    """
    for name, value in (("fast_updates", fast_updates), ("stacked_tables", stacked_tables)):
        if plain and value:
            raise ValueError(
                f"plain=True turns off all optimizations, and {name}=True turns some on; set one."
            )
    if plain is None:
        plain = environment.is_on(environment.PLAIN, default=False)
    if fast_updates is None:
        fast_updates = environment.is_on(environment.FAST_UPDATES)
    chosen = frozenset(each for each in Optimization if environment.is_on(each.value))
    if plain:
        return frozenset()
    if stacked_tables is not None:
        chosen -= {Optimization.STACKED_TABLES}
        chosen |= {Optimization.STACKED_TABLES} if stacked_tables else set()
    return chosen if fast_updates else chosen - REWRITES


@contextlib.contextmanager
def using(chosen: frozenset[Optimization]) -> Iterator[None]:
    """Sets the optimizations of lookups that are built within this context.

    Args:
        chosen: the result of `choose`.
    """
    token = _current.set(chosen)
    try:
        yield
    finally:
        _current.reset(token)


def is_used(optimization: Optimization) -> bool:
    """Returns whether the innermost `using` has an optimization; outside, the environment decides.

    Args:
        optimization: the optimization.
    """
    chosen = _current.get()
    return optimization in (choose() if chosen is None else chosen)
