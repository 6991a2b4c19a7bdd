# SPDX-License-Identifier: Apache-2.0
"""Switches of all optimizations: those in use for a graph, and their environment variables."""

from __future__ import annotations

import enum
from contextlib import AbstractContextManager

from tpu_columns import environment, shared_state


class Optimization(enum.Enum):
    """An optimization; its value is the environment variable that turns it off, set to 0.

    `docs/speed.md` says what each does and gains.
    """

    NATIVE_KERNELS = "TPU_COLUMNS_NATIVE_KERNELS"
    LOOKUPS = "TPU_COLUMNS_FAST_LOOKUPS"
    UPDATES = "TPU_COLUMNS_FAST_UPDATES"
    STACKED_TABLES = "TPU_COLUMNS_STACKED_TABLES"
    MEMORY = "TPU_COLUMNS_LESS_MEMORY"
    HUGE_PAGES = "TPU_COLUMNS_HUGE_PAGES"
    SKIPPED_HOOKS = "TPU_COLUMNS_SKIP_HOOKS"


def choose(
    plain: bool | None = None,
    fast_updates: bool | None = None,
    stacked_tables: bool | None = None,
) -> frozenset[Optimization]:
    """Returns the optimizations that arguments and environment leave on.

    Args:
        plain: whether all are off; None leaves it to the environment variable TPU_COLUMNS_PLAIN.
        fast_updates: whether `UPDATES` is on; None leaves it to its variable.
        stacked_tables: whether `STACKED_TABLES` is on; None leaves it to its variable.

    Raises:
        ValueError: an environment variable isn't a boolean, or `plain` and another argument are
            true.
    """
    arguments = {
        Optimization.UPDATES: ("fast_updates", fast_updates),
        Optimization.STACKED_TABLES: ("stacked_tables", stacked_tables),
    }
    for name, value in arguments.values():
        if plain and value:
            raise ValueError(
                f"plain=True turns off all optimizations, and {name}=True turns some on; set one."
            )
    if plain is None:
        plain = environment.is_on(environment.PLAIN, default=False)
    chosen = {each: environment.is_on(each.value) for each in Optimization}
    chosen |= {each: value for each, (_, value) in arguments.items() if value is not None}
    return frozenset() if plain else frozenset(each for each, is_on in chosen.items() if is_on)


def using(chosen: frozenset[Optimization]) -> AbstractContextManager[None]:
    """Sets the optimizations of lookups that are built within this context.

    Args:
        chosen: the result of `choose`.
    """
    return shared_state.setting(shared_state.OPTIMIZATIONS, chosen)


def is_used(optimization: Optimization) -> bool:
    """Returns whether the innermost `using` has an optimization; outside, the environment decides.

    Args:
        optimization: the optimization.
    """
    return optimization in current()


def current() -> frozenset[Optimization]:
    """Returns the optimizations of the innermost `using`; outside, those of the environment."""
    chosen = shared_state.OPTIMIZATIONS.get()
    return choose() if chosen is None else chosen
