# SPDX-License-Identifier: Apache-2.0
"""The field's own classes, where the running TensorFlow still has them."""

from __future__ import annotations

import inspect
import logging
import re
import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import export
from estimator_spec.core.run_config import run_config
from estimator_spec.core.user_functions import arrays

tf1 = tf.compat.v1


@pytest.fixture(scope="session")
def old_estimator():
    """`tf.compat.v1.estimator` of TensorFlow 2.15."""
    if not hasattr(tf.compat.v1, "estimator"):
        pytest.skip(f"TensorFlow {tf.__version__} has no tf.estimator to compare with (2.15 has)")
    return tf.compat.v1.estimator


@pytest.fixture
def no_tf_config(monkeypatch):
    """No cluster in the environment."""
    monkeypatch.delenv("TF_CONFIG", raising=False)


class Comparison:
    """Comparisons of our functions with the old ones."""

    @staticmethod
    def parameters(function):
        """(name, kind, default) of each argument; a default that is only a sign is `...`."""
        found = []
        for parameter in inspect.signature(function).parameters.values():
            default = parameter.default
            if not isinstance(default, (type(None), bool, int, float, str, type)):
                default = ...
            found.append((parameter.name, parameter.kind, default))
        return found

    @staticmethod
    def outcome(function, *args, **kwargs):
        """What a call gives: (value, None), or (None, the error)."""
        try:
            return function(*args, **kwargs), None
        except Exception as error:  # the kind of error is what is compared
            return None, error

    def refuse_alike(self, ours, theirs, key_words, *args, **kwargs):
        """Both refuse, with the same kind of error and the same key words."""
        for function in (ours, theirs):
            value, error = self.outcome(function, *args, **kwargs)
            assert error is not None, f"{function} accepted {args} {kwargs} as {value}"
            assert re.search(key_words, str(error)), f"{function} said: {error}"
        assert type(self.outcome(ours, *args, **kwargs)[1]) is type(error)


@pytest.fixture(scope="session")
def compare():
    """The comparisons."""
    return Comparison()


def _names_of(estimator, config, inputs_room, export_room, experimental_room):
    """The names that a model_fn program uses, wherever they come from."""
    return types.SimpleNamespace(
        **{
            name: getattr(room, name)
            for room, names in (
                (estimator, "Estimator EstimatorSpec ModeKeys WarmStartSettings VocabInfo"),
                (estimator, "TrainSpec EvalSpec train_and_evaluate"),
                (estimator, "Exporter LatestExporter FinalExporter BestExporter"),
                (config, "RunConfig"),
                (inputs_room, "numpy_input_fn pandas_input_fn"),
                (export_room, "ServingInputReceiver build_raw_serving_input_receiver_fn"),
                (experimental_room, "build_raw_supervised_input_receiver_fn"),
                (experimental_room, "make_early_stopping_hook make_stop_at_checkpoint_step_hook"),
                (experimental_room, "stop_if_higher_hook stop_if_lower_hook InMemoryEvaluatorHook"),
                (
                    experimental_room,
                    "stop_if_no_increase_hook stop_if_no_decrease_hook call_logit_fn",
                ),
            )
            for name in names.split()
        }
    )


_OURS = _names_of(estimator_spec, run_config, arrays, export, estimator_spec)
_APIS = ["ours"]
if hasattr(tf1, "estimator"):
    _APIS.append(pytest.param("reference", marks=pytest.mark.reference))


@pytest.fixture(params=_APIS, scope="session")
def api(request):
    """Our names, and with TensorFlow 2.15 the field's own: what a test shows holds for both."""
    if request.param == "ours":
        return _OURS
    old = request.getfixturevalue("old_estimator")
    return _names_of(old, old, old.inputs, old.export, old.experimental)


class Line:
    """y = 3x + 1, a plain Estimator's model of it, and its input.

    Args:
        api: where the names come from.
        model_dir: of the estimators.
    """

    x = np.linspace(-1, 1, 32, dtype=np.float32)[:, np.newaxis]
    y = 3 * x + 1

    def __init__(self, api, model_dir):
        self.api = api
        self.model_dir = model_dir

    def input_fn(self, mode=None):
        """Batches of 8; endless in training."""
        data = tf.data.Dataset.from_tensor_slices(({"x": self.x}, self.y))
        if mode == "train":
            data = data.repeat()
        return data.batch(8)

    def model_fn(self, features, labels, mode):
        """A weight of 0.5 and a bias of 0, at first."""
        weight = tf1.get_variable("weight", [1, 1], initializer=tf1.constant_initializer(0.5))
        bias = tf1.get_variable("bias", [1], initializer=tf1.zeros_initializer())
        predictions = tf.matmul(features["x"], weight) + bias
        spec = {"mode": mode, "predictions": {"y": predictions}}
        if mode != "infer":
            spec["loss"] = tf1.losses.mean_squared_error(labels, predictions)
            spec["eval_metric_ops"] = {"mae": tf1.metrics.mean_absolute_error(labels, predictions)}
        if mode == "train":
            optimizer = tf1.train.GradientDescentOptimizer(0.1)
            spec["train_op"] = optimizer.minimize(spec["loss"], tf1.train.get_global_step())
        return self.api.EstimatorSpec(**spec)

    def estimator(self, model_fn=None, config=None, **kwargs):
        """An Estimator; `config` are arguments of its RunConfig."""
        options = {"model_dir": str(self.model_dir), "tf_random_seed": 1, **(config or {})}
        run_config = self.api.RunConfig(**options)
        return self.api.Estimator(model_fn or self.model_fn, config=run_config, **kwargs)

    def receiver_fn(self):
        """What an exported model is fed."""
        fed = tf1.placeholder(tf.float32, [None, 1], name="x")
        return self.api.build_raw_serving_input_receiver_fn({"x": fed})()


@pytest.fixture
def fit(api, tmp_path, no_tf_config):
    """The line, by our names and by the field's own."""
    return Line(api, tmp_path / "model")


@pytest.fixture
def ours(tmp_path, no_tf_config):
    """The line by our names only, for what the field's own can't do."""
    return Line(_OURS, tmp_path / "model")


@pytest.fixture
def tf_log():
    """TensorFlow's log of this test, a list of lines."""
    lines = []

    class Lines(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    logger = logging.getLogger("tensorflow")
    handler, level = Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def events():
    """Reads the summaries of a directory: a dict of tag to {step: value}."""

    def read(directory):
        found = {}
        for path in sorted(tf.io.gfile.glob(f"{directory}/events.out.tfevents.*")):
            for event in tf1.train.summary_iterator(path):
                for value in event.summary.value:
                    kind = value.WhichOneof("value")
                    found.setdefault(value.tag, {})[event.step] = getattr(value, kind)
        return found

    return read
