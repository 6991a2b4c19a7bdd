# SPDX-License-Identifier: Apache-2.0
"""Defines `TrainSpec` and `EvalSpec`, the arguments of `train_and_evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.common.checks import check_instances
from estimator_spec.core.export.exporters import Exporter


class _TrainFields(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[Any, ...]
    saving_listeners: tuple[Any, ...]


class TrainSpec(_TrainFields):
    """Training arguments of `train_and_evaluate`.

    Args:
        input_fn: as for `Estimator.train`.
        max_steps: global step at which training stops. None: at the end of the input; then no
            export is the final one, and an evaluator in its own process never stops.
        hooks: session hooks of training.
        saving_listeners: `CheckpointSaverListener`s, called at every checkpoint before its
            evaluation.

    Raises:
        TypeError: `input_fn` is not callable, or a hook or listener has another type.
        ValueError: `max_steps` isn't positive.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> TrainSpec:
        """Checks the values; see the class."""
        argument_rules.check("TrainSpec", locals())
        rule = "All saving_listeners must be `CheckpointSaverListener` instances"
        kind = tf.compat.v1.train.CheckpointSaverListener
        listeners = tuple(check_instances(saving_listeners or (), kind, rule))
        return super().__new__(cls, input_fn, max_steps, _check_hooks(hooks), listeners)


class _EvalFields(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[Any, ...]
    exporters: tuple[Any, ...]
    start_delay_secs: float
    throttle_secs: float


class EvalSpec(_EvalFields):
    """Evaluation and export arguments of `train_and_evaluate`.

    Args:
        input_fn: as for `Estimator.evaluate`.
        steps: greatest number of batches of an evaluation. Default 100. None: all.
        name: name of the evaluation, as for `Estimator.evaluate`.
        hooks: session hooks of evaluation.
        exporters: one `Exporter` or several with different names.
        start_delay_secs: delay in seconds of the first evaluation of an evaluator in its own
            process. Default 120. No effect if one process trains and evaluates.
        throttle_secs: least number of seconds between the starts of two evaluations, except for the
            last one. Default 600. Checkpoints in between aren't evaluated.

    Raises:
        TypeError: `input_fn` is not callable, or the name, a hook or an exporter has another type.
        ValueError: `steps` isn't positive, a number of seconds is negative, or names of exporters
            are missing or equal.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[Any] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> EvalSpec:
        """Checks the values; see the class."""
        argument_rules.check("EvalSpec", locals())
        return super().__new__(
            cls,
            input_fn,
            steps,
            name,
            _check_hooks(hooks),
            _check_exporters(exporters),
            start_delay_secs,
            throttle_secs,
        )


def _check_hooks(hooks: Iterable[Any] | None) -> tuple[Any, ...]:
    rule = "All hooks must be `SessionRunHook` instances"
    return tuple(check_instances(hooks, tf.compat.v1.train.SessionRunHook, rule))


def _is_exporter(value: Any) -> bool:
    # TensorFlow 2.15's own exporters are accepted, for programs that changed some imports only.
    return isinstance(value, Exporter) or (
        hasattr(type(value), "name") and callable(getattr(value, "export", None))
    )


def _check_exporters(exporters: Any) -> tuple[Any, ...]:
    """Checks and returns the exporters; their names must be present and different."""
    if not exporters:
        return ()
    if _is_exporter(exporters):
        exporters = (exporters,)
    found = tuple(exporters) if isinstance(exporters, Iterable) else (None,)
    if not all(_is_exporter(exporter) for exporter in found):
        raise TypeError(
            "`exporters` must be an Exporter, an iterable of Exporter, or `None`, found "
            f"{exporters}."
        )
    names = [exporter.name for exporter in found]
    for name in names:
        if not name:
            raise ValueError(
                "An Exporter cannot have a name that is `None` or empty. All exporter names: "
                f"{names}"
            )
        if not isinstance(name, str):
            raise ValueError(f"An Exporter must have a string name. Given: {type(name)}")
    if len(set(names)) < len(names):
        raise ValueError(
            f"`exporters` must have unique names, each is a directory. All exporter names: {names}"
        )
    return found
