# SPDX-License-Identifier: Apache-2.0
"""Checks what concerns several arguments of `RunConfig` at once, and its strategies."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class _Unset:
    """Default of the two checkpoint intervals; its meaning depends on the other one."""

    def __repr__(self) -> str:
        return "<600 seconds, unless the other one is given>"

    def __deepcopy__(self, memo: Any) -> _Unset:
        return self


UNSET: Any = _Unset()
BOTH_INTERVALS = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."


def checkpoint_intervals(steps: Any, secs: Any) -> tuple[Any, Any]:
    """Returns the two checkpoint intervals (steps, seconds): 600 seconds if neither is given.

    Raises:
        ValueError: both are given.
    """
    if steps is UNSET:
        return None, 600 if secs is UNSET else secs
    if secs is UNSET:
        return steps, None
    if steps is not None and secs is not None:
        raise ValueError(BOTH_INTERVALS)
    return steps, secs


def check_strategy(strategy: Any) -> None:
    """Checks that a strategy isn't TF2's parameter server strategy, which has no sessions.

    Raises:
        ValueError: it is.
    """
    # The class is loaded only if there is a strategy: most runs have none.
    if strategy is None:
        return
    newer = getattr(tf.compat.v2.distribute.experimental, "ParameterServerStrategy", None)
    if type(strategy) is newer:
        raise ValueError(
            "Please use `tf.compat.v1.distribute.experimental.ParameterServerStrategy` for "
            "parameter server strategy with estimator."
        )


def is_host_strategy(strategy: Any) -> bool:
    """Returns whether a `tf.distribute.Strategy` is given that isn't a TPU's."""
    return bool(strategy) and not type(strategy).__name__.startswith("TPUStrategy")
