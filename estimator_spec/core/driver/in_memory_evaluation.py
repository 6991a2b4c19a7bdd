# SPDX-License-Identifier: Apache-2.0
"""Evaluates during training without checkpoints: `InMemoryEvaluatorHook`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimator_spec.core.cores import stacked_tables
from estimator_spec.core.driver import evaluation
from estimator_spec.core.driver import hooks as hooks_lib
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.estimator_base import setup_of
from estimator_spec.core.user_functions.model_spec import ModeKeys
from tpu_columns.checks import is_number

tf1 = tf.compat.v1


class InMemoryEvaluatorHook(tf1.train.SessionRunHook):
    """Hook that evaluates before the first step, every N steps, and at the end of training.

    Values of variables are copied in memory; the metrics are logged, and written to the directory
    of the evaluation. The evaluation graph is built once. The hook supports a single process, and
    models whose evaluation has no saver or `init_fn` of its own.

    Args:
        estimator: the `Estimator` that trains.
        input_fn: as for `Estimator.evaluate`.
        steps: as for `Estimator.evaluate`.
        hooks: as for `Estimator.evaluate`; `begin` is called in every evaluation, but can add to
            the graph in the first one only.
        name: as for `Estimator.evaluate`.
        every_n_iter: training steps between two evaluations. Default 100.

    Raises:
        ValueError: `every_n_iter` isn't positive, TF_CONFIG describes several processes, or, when
            training begins, the model has state that the hook can't copy.
        TypeError: a hook or the estimator has another type.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[tf1.train.SessionRunHook] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ) -> None:
        if not isinstance(estimator, Estimator):
            raise TypeError(f"`estimator` must have type `Estimator`. Got: {type(estimator)}")
        if not is_number(every_n_iter) or every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter!r}: it must be at least 1.")
        config = estimator.config
        if config.num_ps_replicas > 0 or config.num_worker_replicas > 1:
            raise ValueError(
                "InMemoryEvaluator supports only single machine (aka Local) setting. Use "
                "train_and_evaluate in a cluster."
            )
        hooks_lib.check_steps(steps)
        self._setup = setup_of(estimator)
        self._input_fn = input_fn
        self._output_dir = estimator.eval_dir(name)
        self._hooks = hooks_lib.check_hooks(hooks)
        self._hooks.extend(self._setup.evaluation_hooks(steps))
        self._timer = tf1.train.SecondOrStepTimer(every_steps=every_n_iter)

    def begin(self) -> None:
        """Builds the evaluation graph."""
        self._timer.reset()
        self._iterations = 0
        self._setup.check(ModeKeys.EVAL, self._input_fn)
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._evaluation = evaluation.EvaluationGraph(
                self._setup, self._input_fn, self._hooks, one_device=True
            )
            scaffold = self._evaluation.built.spec.scaffold
            self._scaffold = evaluation.add_default_local_init(scaffold)
            for what in ("saver", "init_fn"):
                if getattr(scaffold, what) is not None:
                    raise ValueError(
                        f"InMemoryEvaluator does not support custom {what}. Evaluate checkpoints, "
                        "or leave it out of the Scaffold in evaluation."
                    )
            self._eval_variables = {v.name: v for v in tf1.global_variables()}

    def after_create_session(self, session: tf1.Session, coord: tf.train.Coordinator) -> None:
        """Evaluates the initial variables."""
        graph = tf1.get_default_graph()
        saveables = tf1.get_collection(tf1.GraphKeys.SAVEABLE_OBJECTS)
        if len(saveables) > len(stacked_tables.variables(graph)):
            raise ValueError(
                "InMemoryEvaluator does not support saveables other than global variables."
            )
        trained = {v.name: v for v in tf1.global_variables()}
        trained.update({f"{name}:0": v for name, v in stacked_tables.slices(graph).items()})
        self._trained = {name: trained[name] for name in self._eval_variables if name in trained}
        with self._graph.as_default():
            self._fed = {
                name: tf1.placeholder(variable.dtype.base_dtype)
                for name, variable in self._trained.items()
            }
            self._assign = tf.group(
                *[tf1.assign(self._eval_variables[name], fed) for name, fed in self._fed.items()]
            )
        self._evaluate(session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evaluates every N steps."""
        self._iterations += 1
        if self._timer.should_trigger_for_step(self._iterations):
            self._evaluate(run_context.session)

    def end(self, session: tf1.Session) -> None:
        """Evaluates the trained model."""
        self._evaluate(session)

    def _evaluate(self, train_session: Any) -> None:
        """Copies the variables of the training session, and evaluates."""
        values = train_session.run(self._trained)
        feed = {self._fed[name]: value for name, value in values.items()}
        with self._graph.as_default():
            scaffold = tf1.train.Scaffold(
                init_fn=lambda scaffold, session: session.run(self._assign, feed_dict=feed),
                copy_from_scaffold=self._scaffold,
            )
            results = self._evaluation.run(scaffold)
            evaluation.write_summaries(self._output_dir, results, None)
        self._timer.update_last_triggered_step(self._iterations)
