# SPDX-License-Identifier: Apache-2.0
"""Runs the models of `tf.contrib.learn` by the `Estimator` of `estimator_spec`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.user_functions.model_spec import EstimatorSpec
from estimator_spec.legacy.contrib.learn.model_fn_ops import ModeKeys, ModelFnOps

tf1 = tf.compat.v1


class NotFittedError(ValueError, AttributeError):
    """An estimator was used that has no checkpoint."""


class Core(Estimator):
    """The estimator that runs a model of `tf.contrib.learn`.

    Attributes:
        outer: the estimator of the program.
        metrics: metrics that this evaluation adds.
        outputs: names of the predictions to return; None: all.
        has_labels: whether the model of a prediction gets placeholders of labels.
        ops: the last built model.
    """

    outer: Any
    metrics: Mapping[Any, Any] | None = None
    outputs: Iterable[str] | None = None
    has_labels: bool = False
    ops: ModelFnOps

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        if mode == ModeKeys.INFER and self.has_labels:
            labels = self.outer.label_placeholders()
        ops = self.outer.call_model_fn(features, labels, mode, config, self.metrics)
        self.ops = ops
        spec = ops.estimator_spec()
        if mode == ModeKeys.INFER and self.outputs and isinstance(ops.predictions, dict):
            kept = {key: ops.predictions[key] for key in self.outputs if key in ops.predictions}
            if not kept:
                raise ValueError(
                    f"Expected to run at least one output from {sorted(ops.predictions)}, "
                    f"provided {list(self.outputs)}."
                )
            spec = spec._replace(predictions=kept)
        return spec

    def export(self, *args: Any, **kwargs: Any) -> bytes:
        """Writes a SavedModel; the arguments are those of `driver.saved_models.export`."""
        return self._export_all_saved_models(*args, **kwargs)


class StopAfterConstants(tf1.train.SessionRunHook):
    """Ends predictions after one batch if the graph has no queue, as `tf.contrib.learn` does."""

    def begin(self) -> None:
        """Looks for queues, and for datasets of an input_fn, which are iterated by ours."""
        graph = tf1.get_default_graph()
        self._is_constant = not graph.get_collection(tf1.GraphKeys.QUEUE_RUNNERS) and not any(
            op.type.startswith(("IteratorGetNext", "IteratorFromString"))
            for op in graph.get_operations()
        )

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops."""
        del run_values
        if self._is_constant:
            run_context.request_stop()
