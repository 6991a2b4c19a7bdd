# SPDX-License-Identifier: Apache-2.0
"""Checks the values of `RunConfig`: a condition and an error message for each property."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.common.signatures import argument_names


class _Unset:
    """Default of the two checkpoint intervals; its meaning depends on the other one."""

    def __repr__(self) -> str:
        return "<600 seconds, unless the other one is given>"

    def __deepcopy__(self, memo: Any) -> _Unset:
        return self


UNSET: Any = _Unset()
BOTH_INTERVALS = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."


def _not_negative(value: Any) -> bool:
    return value >= 0


def _positive(value: Any) -> bool:
    return value > 0


def _is_integer(value: Any) -> bool:
    return isinstance(value, int)


# property -> (condition on values other than None, error message)
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "model_dir": (
        lambda path: isinstance(path, str) and bool(path),
        "model_dir should be non-empty, a string or path",
    ),
    "save_summary_steps": (_not_negative, "save_summary_steps should be >= 0"),
    "save_checkpoints_steps": (_not_negative, "save_checkpoints_steps should be >= 0"),
    "save_checkpoints_secs": (_not_negative, "save_checkpoints_secs should be >= 0"),
    "session_config": (
        lambda config: isinstance(config, tf.compat.v1.ConfigProto),
        "session_config must be instance of ConfigProto",
    ),
    "keep_checkpoint_max": (_not_negative, "keep_checkpoint_max should be >= 0"),
    "keep_checkpoint_every_n_hours": (_positive, "keep_checkpoint_every_n_hours should be > 0"),
    "log_step_count_steps": (_positive, "log_step_count_steps should be > 0"),
    "tf_random_seed": (_is_integer, "tf_random_seed must be integer"),
    "experimental_max_worker_delay_secs": (
        _is_integer,
        "experimental_max_worker_delay_secs must be an integer if set",
    ),
    "session_creation_timeout_secs": (_positive, "session_creation_timeout_secs should be > 0"),
    "device_fn": (
        lambda fn: callable(fn) and argument_names(fn) == ("op",),
        'device_fn must be callable with exactly one argument "op"',
    ),
    "protocol": (
        lambda protocol: protocol in ("grpc", "grpc+verbs"),
        "protocol should be grpc or grpc+verbs",
    ),
}


def check(name: str, value: Any) -> None:
    """Checks the value of a property.

    Raises:
        ValueError: the value is invalid.
        TypeError: the value can't be compared with its limit.
    """
    if value is None or name not in _RULES:
        return
    holds, message = _RULES[name]
    try:
        accepted = holds(value)
    except TypeError as error:
        raise TypeError(f"{message}. Got {value!r}, a {type(value).__name__}.") from error
    if not accepted:
        raise ValueError(f"{message}. Got {value!r}.")


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
