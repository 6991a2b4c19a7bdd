# SPDX-License-Identifier: Apache-2.0
"""Host calls without a TPU: calls in every step, and summaries on disk."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_spec import ModeKeys, TPUEstimatorSpec
from estimator_spec.core.user_functions.host_call import HostCallHook

tf1 = tf.compat.v1
WEIGHT = 2.0


@pytest.fixture(autouse=True)
def graph():
    """Default graph of each test."""
    with tf.Graph().as_default() as graph:
        yield graph


def train(host_call, steps=3, **hooks):
    """Trains a model that counts steps."""
    step = tf1.train.get_or_create_global_step()
    train_op = tf1.assign_add(step, 1, use_locking=True).op
    spec = TPUEstimatorSpec(
        ModeKeys.TRAIN, loss=tf.constant(0.0), train_op=train_op, host_call=host_call, **hooks
    ).as_estimator_spec()
    with tf1.train.MonitoredSession(hooks=spec.training_hooks) as session:
        for _ in range(steps):
            session.run(spec.train_op)
    return spec


def written(directory):
    """Returns (step, value) of every summary in a directory."""
    found = []
    for path in sorted(directory.glob("events*")):
        for record in tf1.io.tf_record_iterator(str(path)):
            event = tf1.Event.FromString(record)
            found += [
                (event.step, float(tf.make_ndarray(value.tensor))) for value in event.summary.value
            ]
    return found


def test_summaries_are_written(tmp_path):
    """A summary writer of a host call is opened, written to in every step, and flushed."""

    def host_fn(step, value):
        writer = tf.summary.create_file_writer(str(tmp_path), max_queue=1000)
        with writer.as_default(), tf.summary.record_if(True):
            tf.summary.write("value", tf.reduce_sum(value), step=tf.reduce_min(step))
            return tf1.summary.all_v2_summary_ops()

    ones = tf.ones([4], tf.int64)
    train((host_fn, [5 * ones, tf.constant([WEIGHT])]), steps=3)
    assert written(tmp_path) == [(5, WEIGHT)] * 3


class Read(tf1.train.SessionRunHook):
    """Reads a variable at the end."""

    def __init__(self, variable):
        self.variable = variable
        self.value = None

    def end(self, session):
        self.value = session.run(self.variable)


@pytest.mark.parametrize("by_name", [True, False])
def test_it_runs_in_every_step(by_name):
    """Results run once per step; tensors are passed by name or by position."""
    zeros = tf1.zeros_initializer()
    total = tf1.get_variable("total", [], initializer=zeros, use_resource=True)

    def host_fn(value):
        return [total.assign_add(tf.reduce_sum(value)).op]

    value = tf.constant([WEIGHT])
    read = Read(total)
    train((host_fn, {"value": value} if by_name else [value]), steps=4, training_hooks=[read])
    assert read.value == 4 * WEIGHT


@pytest.mark.parametrize("mode", ["training", "evaluation", "prediction"])
def test_it_is_a_hook_of_every_mode(mode):
    """The hook follows the model's own hooks."""
    own = tf1.train.SessionRunHook()
    spec = TPUEstimatorSpec(
        ModeKeys.EVAL,
        loss=tf.constant(0.0),
        host_call=(lambda x: x, [tf.constant([1])]),
        **{f"{mode}_hooks": [own]},
    ).as_estimator_spec()
    hooks = getattr(spec, f"{mode}_hooks")
    assert hooks[0] is own
    assert isinstance(hooks[-1], HostCallHook)
    assert len(hooks) == 2


def test_it_is_called_once():
    """The function, which may return None, builds its ops once, not for each mode."""
    calls = []
    train((lambda x: calls.append(x), [tf.constant([1])]), steps=2)
    assert len(calls) == 1
