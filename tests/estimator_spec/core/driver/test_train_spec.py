# SPDX-License-Identifier: Apache-2.0
"""TrainSpec and EvalSpec; the same tests run on TensorFlow 2.15's classes."""

from __future__ import annotations

import pytest
import tensorflow as tf

import estimator_spec as es

tf1 = tf.compat.v1


class Hook(tf1.train.SessionRunHook):
    pass


class Listener(tf1.train.CheckpointSaverListener):
    pass


def named(api, name):
    """Returns an exporter with a name."""

    class Named(api.Exporter):
        def __init__(self):
            self.exported = []

        @property
        def name(self):
            return name

        def export(self, *args, **kwargs):
            self.exported.append(kwargs)

    return Named()


def test_train_spec_defaults(api):
    """Only input_fn is required."""
    spec = api.TrainSpec(len)
    assert spec == (len, None, (), ())
    assert spec._fields == ("input_fn", "max_steps", "hooks", "saving_listeners")


def test_train_spec_keeps_what_it_is_given(api):
    """All arguments can be given by position; lists become tuples."""
    hook, listener = Hook(), Listener()
    spec = api.TrainSpec(len, 7, [hook], iter([listener]))
    assert spec.max_steps == 7
    assert spec.hooks == (hook,)
    assert spec.saving_listeners == (listener,)


def test_eval_spec_defaults(api):
    """Defaults: 100 batches, a delay of two minutes, ten minutes between evaluations."""
    spec = api.EvalSpec(len)
    assert spec._asdict() == {
        "input_fn": len,
        "steps": 100,
        "name": None,
        "hooks": (),
        "exporters": (),
        "start_delay_secs": 120,
        "throttle_secs": 600,
    }


def test_eval_spec_keeps_what_it_is_given(api):
    """All arguments can be given by position; a single exporter becomes a tuple."""
    hook, exporter = Hook(), named(api, "a")
    spec = api.EvalSpec(len, None, "test", [hook], exporter, 0, 0)
    assert spec == (len, None, "test", (hook,), (exporter,), 0, 0)
    both = [exporter, named(api, "b")]
    assert api.EvalSpec(len, exporters=both).exporters == tuple(both)


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"input_fn": "data.csv"}, TypeError, "`input_fn` must be callable, given: data.csv"),
        ({"max_steps": 0}, ValueError, "Must specify max_steps > 0, given: 0"),
        ({"max_steps": -1}, ValueError, "Must specify max_steps > 0, given: -1"),
        ({"hooks": [Hook]}, TypeError, "All hooks must be `SessionRunHook` instances, given:"),
        (
            {"saving_listeners": [Hook()]},
            TypeError,
            "All saving_listeners must be `CheckpointSaverListener` instances, given:",
        ),
    ],
)
def test_train_spec_refuses(api, kwargs, error, message):
    """Wrong values are refused when the spec is made."""
    with pytest.raises(error, match=message):
        api.TrainSpec(**{"input_fn": len, **kwargs})


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"input_fn": None}, TypeError, "`input_fn` must be callable, given: None"),
        ({"steps": 0}, ValueError, "Must specify steps > 0, given: 0"),
        ({"name": 5}, TypeError, "`name` must be string, given: 5"),
        ({"hooks": ["h"]}, TypeError, "All hooks must be `SessionRunHook` instances, given: h"),
        ({"start_delay_secs": -1}, ValueError, "Must specify start_delay_secs >= 0, given: -1"),
        ({"throttle_secs": -1}, ValueError, "Must specify throttle_secs >= 0, given: -1"),
        ({"exporters": object()}, TypeError, "`exporters` must be an Exporter, an iterable of"),
        ({"exporters": [object()]}, TypeError, "`exporters` must be an Exporter, an iterable of"),
        ({"exporters": "latest"}, TypeError, "`exporters` must be an Exporter, an iterable of"),
    ],
)
def test_eval_spec_refuses(api, kwargs, error, message):
    """Wrong values are refused when the spec is made."""
    with pytest.raises(error, match=message):
        api.EvalSpec(**{"input_fn": len, **kwargs})


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([None], "cannot have a name that is `None` or empty"),
        (["a", ""], "cannot have a name that is `None` or empty.*'a', ''"),
        ([1], "must have a string name. Given: <class 'int'>"),
        (["a", "b", "a"], "must have unique names.*'a', 'b', 'a'"),
    ],
)
def test_exporters_need_names(api, names, message):
    """Names of exporters must be present, strings and unique."""
    with pytest.raises(ValueError, match=message):
        api.EvalSpec(len, exporters=[named(api, name) for name in names])


def test_tensorflow_s_own_exporters(old_estimator):
    """TensorFlow 2.15's exporters are accepted."""
    exporter = old_estimator.FinalExporter("final", lambda: None)
    assert es.EvalSpec(len, exporters=exporter).exporters == (exporter,)


def test_an_exporter_exports():
    """A subclass of Exporter without `export` can't be instantiated."""

    class Nothing(es.Exporter):
        name = "nothing"

    with pytest.raises(TypeError, match="export"):
        Nothing()
