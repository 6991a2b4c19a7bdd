# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of the methods of estimators, and of what programs pass to them.

`user_functions/` and `export/` have what specs, arrays, outputs and receivers refuse.
"""

from __future__ import annotations

import tempfile

import tensorflow as tf

import estimator_spec as es
from constructors import bad
from refusal import INF, NAN, case, each, estimator, in_graph, input_fn, model_fn

tf1 = tf.compat.v1
NOWHERE = "/nowhere/model.ckpt-1"


def _train(input_fn=input_fn, model_fn=model_fn, **arguments):
    return estimator(model_fn=model_fn).train(input_fn, **arguments)


def _train_step(**arguments):
    return _train(steps=1, **arguments)


def _evaluate(input_fn=input_fn, steps=1, **arguments):
    return estimator().evaluate(input_fn, steps, **arguments)


def _predict(input_fn=input_fn, **arguments):
    return list(estimator().predict(input_fn, **arguments))


def _export(receiver_fn=input_fn, **arguments):
    return estimator().export_saved_model(tempfile.mkdtemp(), receiver_fn, **arguments)


def _evaluate_in_memory(estimator=None, input_fn=input_fn, **arguments):
    return es.InMemoryEvaluatorHook(estimator or globals()["estimator"](), input_fn, **arguments)


def _batches_without_params():
    """An input_fn without params."""


METHODS = [
    *(
        refusal
        for name in ("steps", "max_steps")
        for refusal in (
            *bad(_train, name, [0, -1, NAN], f"Must specify {name} > 0"),
            *bad(_train, name, ["5", [1]], name, TypeError),
        )
    ),
    *bad(_train_step, "max_steps", [1], "Can not provide both steps and max_steps"),
    *bad(
        _evaluate, "steps", [0, -1, NAN, -INF], "Must specify steps > 0, given … must be positive"
    ),
    *bad(_evaluate, "steps", ["5"], "steps must be a number", TypeError),
    *bad(_evaluate, "name", [3, ["a"]], "name must be a string", TypeError),
    *(
        refusal
        for run in (_train_step, _evaluate, _predict)
        for refusal in (
            *bad(run, "input_fn", [None, "f", 3, ()], "input_fn must be callable", TypeError),
            *bad(
                run,
                "input_fn",
                [_batches_without_params, lambda mode, config: None],
                "does not include params argument, required by TPUEstimator",
            ),
            *bad(
                run,
                "hooks",
                [3, ["a hook"], tf1.train.SessionRunHook()],
                "Hooks must be a SessionRunHook",
                TypeError,
            ),
        )
    ),
    *each(
        "result of input_fn",
        [(1, 2, 3), tf.data.Dataset.from_tensors],
        lambda v: _train_step(input_fn=lambda params: v((1.0, 2.0, 3.0)) if callable(v) else v),
        "(features, labels) as a len 2 tuple",
    ),
    *each(
        "result of input_fn",
        [None, (None, 1)],
        lambda v: _train_step(input_fn=lambda params: v),
        "input_fn … returned None … eatures",
    ),
    *each(
        "result of model_fn",
        [None, 3, {}, {"loss": 1}],
        lambda v: _train_step(model_fn=lambda features, labels, params: v),
        "model_fn should return an EstimatorSpec",
    ),
    *bad(
        _train_step,
        "saving_listeners",
        [3, [print]],
        "saving_listeners must be a list of CheckpointSaverListener",
        TypeError,
    ),
    *each(
        "missing checkpoint",
        [_evaluate, _predict, _export],
        lambda run: run(checkpoint_path=NOWHERE),
        NOWHERE,
        es.CheckpointError,
    ),
    *bad(_export, "receiver_fn", [None], "An input_receiver_fn must be defined"),
    case("export before training", _export, "Couldn't find trained model at"),
    *bad(_export, "tables", ["int4"], "int4 … float16"),
    *each(
        "variables of an untrained model",
        [lambda made: made.get_variable_names(), lambda made: made.get_variable_value("w")],
        lambda ask: ask(estimator()),
        "Could not find trained model in model_dir",
    ),
]

SPECS = [
    *bad(
        es.TPUEstimatorSpec,
        "prediction_hooks",
        [3, [3]],
        "All hooks must be SessionRunHook",
        TypeError,
        mode="other",
    ),
    case(
        "estimator",
        lambda: es.train_and_evaluate(3, es.TrainSpec(input_fn), es.EvalSpec(input_fn)),
        "`estimator` must",
        TypeError,
    ),
    *bad(_evaluate_in_memory, "estimator", [3], "estimator", TypeError),
    *bad(_evaluate_in_memory, "name", [3], "name must be a string", TypeError),
    *bad(_evaluate_in_memory, "every_n_iter", [0, -1, None, "3"], "invalid every_n_iter="),
    case("logit_fn", lambda: es.call_logit_fn(None, 1, "train", 1, 1), "logit_fn", TypeError),
    case(
        "early stopping",
        lambda: es.make_early_stopping_hook(estimator(), 3),
        "should_stop_fn",
        TypeError,
    ),
]

INPUTS = [
    *each(
        "raw receiver",
        [[1], {"x": 3}],
        lambda v: in_graph(es.build_raw_serving_input_receiver_fn(v))(),
        "Receivers of raw inputs need tensors",
        TypeError,
    )
]

REFUSALS = [*METHODS, *SPECS, *INPUTS]
