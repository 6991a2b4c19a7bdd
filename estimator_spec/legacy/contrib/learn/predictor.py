# SPDX-License-Identifier: Apache-2.0
"""Defines the predictor of an estimator of `tf.contrib.learn`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core.driver import checkpoint_state
from estimator_spec.core.driver.estimator import Estimator as CoreEstimator
from estimator_spec.core.driver.predictor import Predictor
from estimator_spec.legacy.contrib.learn import exports
from estimator_spec.legacy.contrib.learn.estimator import Estimator
from estimator_spec.legacy.contrib.learn.model_fn_ops import ModeKeys, get_output_alternatives

tf1 = tf.compat.v1


class ContribEstimatorPredictor(Predictor):
    """Predictor of the latest checkpoint of an estimator of `tf.contrib.learn`.

    Args:
        estimator: the estimator.
        prediction_input_fn: function that returns an `InputFnOps`.
        input_alternative_key: name of the inputs. None: its `default_inputs`.
        output_alternative_key: name of the outputs of a model that has several.
        graph: graph in which the model is built. None: a new one.
        config: `tf.compat.v1.ConfigProto` of the session.

    Raises:
        TypeError: `estimator` is another object.
        KeyError: there are no such inputs.
        ValueError: there are no such outputs.
        CheckpointError: the checkpoint is damaged.
    """

    def __init__(
        self,
        estimator: Any,
        prediction_input_fn: Callable[[], Any],
        input_alternative_key: str | None = None,
        output_alternative_key: str | None = None,
        graph: tf.Graph | None = None,
        config: Any = None,
    ) -> None:
        if not isinstance(estimator, Estimator):
            hint = ""
            if isinstance(estimator, CoreEstimator):
                hint = " You likely want to call from_estimator."
            raise TypeError(
                "Expected estimator to be of type tf.contrib.learn.Estimator, but got type "
                f"{type(estimator).__module__}.{type(estimator).__name__}.{hint}"
            )
        checkpoint = checkpoint_state.find_latest(estimator.model_dir)
        self.graph = graph or tf.Graph()
        with self.graph.as_default():
            tf1.train.get_or_create_global_step()
            inputs = exports.receiver_fn(prediction_input_fn)().inputs
            labels = estimator.label_placeholders()
            ops = estimator.call_model_fn(inputs.features, labels, ModeKeys.INFER, estimator.config)
            alternatives, _ = exports.get_input_alternatives(inputs)
            key = input_alternative_key or exports.DEFAULT_INPUT_KEY
            if key not in alternatives:
                raise KeyError(f"input_alternative_key must be one of {sorted(alternatives)}.")
            self.feed_tensors = alternatives[key]
            outputs, default = get_output_alternatives(ops, output_alternative_key)
            self.fetch_tensors = outputs[default][1]
            creator = tf1.train.ChiefSessionCreator(
                ops.scaffold, config=config, checkpoint_filename_with_path=checkpoint
            )
            with checkpoint_state.explain_damage(checkpoint):
                self.session = tf1.train.MonitoredSession(creator)


from_contrib_estimator = ContribEstimatorPredictor
