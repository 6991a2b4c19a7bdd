# SPDX-License-Identifier: Apache-2.0
"""Runs the `Experiment` that a function makes, by the task of this process in TF_CONFIG."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_spec.core.cluster import roles
from estimator_spec.core.run_config import RunConfig, TaskType
from estimator_spec.legacy.contrib.learn.experiment import Experiment

_SCHEDULES = {
    TaskType.MASTER: "train_and_evaluate",
    TaskType.CHIEF: "train_and_evaluate",
    TaskType.PS: "run_std_server",
    TaskType.WORKER: "train",
    TaskType.EVALUATOR: "continuous_eval",
}


def run(
    experiment_fn: Callable[..., Experiment],
    output_dir: Any = None,
    schedule: str | None = None,
    run_config: RunConfig | None = None,
    hparams: Any = None,
) -> Any:
    """Makes an experiment, and calls one of its methods.

    Args:
        experiment_fn: function of `output_dir`, or of `run_config` and `hparams`, that returns an
            `Experiment`.
        output_dir: directory of checkpoints, instead of `run_config`.
        schedule: name of the method. None: without a cluster `train_and_evaluate`; in one 'train'
            for workers, 'run_std_server' for parameter servers and so on.
        run_config: a `RunConfig` with a `model_dir`.
        hparams: an `HParams`, or None.

    Returns:
        The result of the method.

    Raises:
        ValueError: arguments exclude each other, or there is no such method.
        TypeError: the function returned no `Experiment`, or isn't callable.
    """
    if output_dir is not None and run_config is not None:
        raise ValueError("Cannot provide both `output_dir` and `run_config`.")
    if not callable(experiment_fn):
        raise TypeError(f"Experiment builder `{experiment_fn!r}` is not callable.")
    if run_config is None:
        if not output_dir:
            raise ValueError("Must specify an output directory: output_dir, or run_config.")
        if hparams is not None:
            raise ValueError("Must set `run_config` for experiment_fn with `hparams`.")
        experiment = experiment_fn(output_dir)
    else:
        if not isinstance(run_config, RunConfig):
            raise ValueError(
                f"`run_config` must be a `tf.contrib.learn.RunConfig` instance. Got {run_config!r}."
            )
        if not run_config.model_dir:
            raise ValueError("Must specify a model directory `model_dir` in `run_config`.")
        experiment = experiment_fn(run_config, hparams)
    if not isinstance(experiment, Experiment):
        raise TypeError(f"Experiment builder did not return an Experiment: {experiment!r}.")
    return _method(experiment, schedule or _default_schedule(experiment.estimator.config))()


def tune(experiment_fn: Callable[..., Experiment], tuner: Any) -> None:
    """Runs an experiment for each trial of a tuner.

    Args:
        experiment_fn: function of `run_config` and `hparams` that returns an `Experiment`.
        tuner: object with `next_trial()`, which returns whether there is another trial, and
            `run_experiment(experiment_fn)`, which runs it.
    """
    while tuner.next_trial():
        tuner.run_experiment(experiment_fn)


def _default_schedule(config: RunConfig) -> str:
    return _SCHEDULES[config.task_type] if roles.is_distributed(config) else "train_and_evaluate"


def _method(experiment: Experiment, schedule: str) -> Callable[[], Any]:
    """Returns a method of an experiment by its name."""
    kind = type(experiment)
    # Of the class: input functions aren't methods.
    methods = [
        name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))
    ]
    if schedule not in methods:
        raise ValueError(
            f"Schedule references non-existent task {schedule}. Experiment has "
            f"{', '.join(methods)}."
        )
    return getattr(experiment, schedule)  # type: ignore[no-any-return]
