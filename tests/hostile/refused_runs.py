# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of the methods of estimators, and of what programs pass to them."""

from __future__ import annotations

import tempfile

import numpy as np
import tensorflow as tf

import estimator_spec as es
from refusal import (
    INF,
    NAN,
    each,
    estimator,
    in_graph,
    input_fn,
    model_fn,
    refused,
)

tf1 = tf.compat.v1
METHODS = [
    *(
        refusal
        for name in ("steps", "max_steps")
        for refusal in (
            *each(
                name, [0, -1, NAN], lambda v, n=name: _train(**{n: v}), ValueError, f"{name} > 0"
            ),
            *each(name, ["5", [1]], lambda v, n=name: _train(**{n: v}), TypeError, name),
        )
    ),
    refused("both steps", lambda: _train(steps=1, max_steps=1), ValueError, "both steps and max_s"),
    *each("evaluate steps", [0, NAN, -INF], lambda v: _evaluate(v), ValueError, "steps > 0"),
    *each(
        "evaluate name",
        [3, ["a"]],
        lambda v: estimator().evaluate(input_fn, 1, name=v),
        TypeError,
        "name must be a string",
    ),
    *each(
        "name of InMemoryEvaluatorHook",
        [3],
        lambda v: es.InMemoryEvaluatorHook(estimator(), input_fn, name=v),
        TypeError,
        "name must be a string",
    ),
    *each("evaluate steps", ["5"], lambda v: _evaluate(v), TypeError, "steps must be a number"),
    *each(
        "input_fn",
        [None, "f", 3, ()],
        lambda v: estimator().train(v, steps=1),
        TypeError,
        "input_fn must be callable",
    ),
    refused(
        "evaluate None", lambda: estimator().evaluate(None), TypeError, "input_fn must be call"
    ),
    refused(
        "predict None", lambda: list(estimator().predict(None)), TypeError, "input_fn must be call"
    ),
    refused(
        "input_fn without params",
        lambda: estimator().train(lambda: 0, steps=1),
        ValueError,
        "does not include params argument",
    ),
    *each(
        "result of input_fn",
        [None, (None, 1), (1, 2, 3)],
        lambda v: estimator().train(lambda params: v, steps=1),
        ValueError,
        "input_fn",
        "eatures",
    ),
    *each(
        "result of model_fn",
        [None, 3, {}],
        lambda v: estimator(model_fn=lambda features, labels, params: v).train(input_fn, steps=1),
        ValueError,
        "model_fn should return an EstimatorSpec",
    ),
    *each(
        "hooks",
        [3, [3], tf1.train.SessionRunHook()],
        lambda v: _train(steps=1, hooks=v),
        TypeError,
        "Hooks must be a SessionRunHook",
    ),
    refused(
        "listeners", lambda: _train(steps=1, saving_listeners=3), TypeError, "saving_listeners"
    ),
    refused(
        "missing checkpoint",
        lambda: estimator().evaluate(input_fn, 1, checkpoint_path="/nowhere/model.ckpt-1"),
        es.CheckpointError,
        "/nowhere/model.ckpt-1",
    ),
    refused(
        "export without a receiver",
        lambda: estimator().export_saved_model(tempfile.mkdtemp(), None),
        ValueError,
        "input_receiver_fn must be defined",
    ),
    refused(
        "export before training",
        lambda: estimator().export_saved_model(tempfile.mkdtemp(), input_fn),
        ValueError,
        "Couldn't find trained model",
    ),
    refused(
        "dtype of exported tables",
        lambda: estimator().export_saved_model(tempfile.mkdtemp(), input_fn, tables="int4"),
        ValueError,
        "int4",
        "float16",
    ),
    refused("variables", lambda: estimator().get_variable_names(), ValueError, "trained model"),
]

SPECS = [
    refused("loss", lambda: es.EstimatorSpec("train", loss=1.0), ValueError, "Missing train_op"),
    refused("no loss", in_graph(lambda: es.EstimatorSpec("eval")), ValueError, "Missing loss"),
    refused("float", in_graph(lambda: es.EstimatorSpec("eval", loss=1.0)), TypeError, "loss must"),
    refused("no predictions", lambda: es.EstimatorSpec("infer"), ValueError, "Missing predictions"),
    refused(
        "list", lambda: es.EstimatorSpec("infer", [1]), TypeError, "predictions must be Tensor"
    ),
    *each(
        "hooks of a spec",
        [3, [3]],
        lambda v: es.TPUEstimatorSpec("other", prediction_hooks=v),
        TypeError,
        "All hooks must be SessionRunHook",
    ),
    refused(
        "metrics", lambda: es.EstimatorSpec("x", eval_metric_ops=[1]), TypeError, "eval_metric"
    ),
    refused("eval_metrics", lambda: es.TPUEstimatorSpec("x", eval_metrics=3), ValueError, "tuple"),
    refused(
        "host_call", lambda: es.TPUEstimatorSpec("x", host_call=(3, [])), TypeError, "callable"
    ),
    refused("scaffold_fn", lambda: es.TPUEstimatorSpec("x", scaffold_fn=3), TypeError, "scaffold"),
    refused(
        "estimator",
        lambda: es.train_and_evaluate(3, es.TrainSpec(input_fn), es.EvalSpec(input_fn)),
        TypeError,
        "`estimator` must",
    ),
    refused(
        "estimator of a hook", lambda: es.InMemoryEvaluatorHook(3, input_fn), TypeError, "estimator"
    ),
    *each(
        "every_n_iter",
        [0, None, "3"],
        lambda v: es.InMemoryEvaluatorHook(estimator(), input_fn, every_n_iter=v),
        ValueError,
        "every_n_iter",
    ),
    refused("logit_fn", lambda: es.call_logit_fn(None, 1, "train", 1, 1), TypeError, "logit_fn"),
    refused(
        "early stopping",
        lambda: es.make_early_stopping_hook(estimator(), 3),
        TypeError,
        "should_stop_fn",
    ),
]

INPUTS = [
    *each(
        "shuffle",
        [None, "no", 1],
        lambda v: es.numpy_input_fn({"x": np.zeros(3)}, shuffle=v),
        ValueError,
        "shuffle must be provided",
    ),
    refused("no arrays", lambda: es.numpy_input_fn({}, shuffle=False)(), ValueError, "empty dict"),
    refused("list", lambda: es.numpy_input_fn([1], shuffle=False)(), TypeError, "dict or array"),
    refused(
        "lengths of arrays",
        lambda: es.numpy_input_fn({"x": np.zeros(3), "z": np.zeros(4)}, shuffle=False)(),
        ValueError,
        "mismatched",
        "(4,)",
    ),
    refused(
        "no features", lambda: es.ServingInputReceiver(None, None), ValueError, "features must be"
    ),
    refused(
        "feature of a receiver",
        lambda: es.ServingInputReceiver({"x": np.zeros(2)}, None),
        ValueError,
        "feature x must be a Tensor",
    ),
    *each(
        "raw receiver",
        [[1], {"x": 3}],
        lambda v: in_graph(es.build_raw_serving_input_receiver_fn(v))(),
        TypeError,
        "Receivers of raw inputs need tensors",
    ),
    refused("regression", lambda: es.RegressionOutput(None), ValueError, "float32 Tensor"),
    refused("classification", es.ClassificationOutput, ValueError, "`scores` and `classes`"),
    refused(
        "warm start", lambda: es.WarmStartSettings(None), ValueError, "ckpt_to_initialize_from"
    ),
]


def _train(**arguments):
    return estimator(model_fn=model_fn).train(input_fn, **arguments)


def _evaluate(steps):
    return estimator().evaluate(input_fn, steps)


REFUSALS = [*METHODS, *SPECS, *INPUTS]
