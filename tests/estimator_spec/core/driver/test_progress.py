# SPDX-License-Identifier: Apache-2.0
"""Tests the progress line, which only long trainings on a terminal show."""

from __future__ import annotations

import io
import sys

import pytest
import tensorflow as tf

from estimator_spec.core.driver import progress

tf1 = tf.compat.v1


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """A clock that advances by a step at each call."""

    def __init__(self, step=1.0):
        self.now = 0.0
        self.step = step

    def __call__(self):
        self.now += self.step
        return self.now


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    """Sets a terminal that supports control codes."""
    monkeypatch.setenv("TERM", "xterm")


def train(hook, steps=20, first=0):
    """Runs a training loop without a model."""
    with tf.Graph().as_default():
        step = tf1.train.create_global_step()
        loss = tf.constant(0.25)
        tf1.losses.add_loss(loss)
        train_op = tf1.assign_add(step, 1)
        begin = tf1.assign(step, first)
        start = tf1.train.Scaffold(init_fn=lambda _, session: session.run(begin))
        creator = tf1.train.ChiefSessionCreator(start)
        stop = tf1.train.StopAtStepHook(num_steps=steps)
        with tf1.train.MonitoredSession(creator, [hook, stop]) as session:
            while not session.should_stop():
                session.run(train_op)


def shown(stream):
    """Returns the texts that the line showed."""
    return [text for text in stream.getvalue().replace("\x1b[2K", "").split("\r") if text]


def test_the_line_of_a_long_training():
    """The line shows step, total, speed, time left and loss, and is erased at the end."""
    stream = Terminal()
    train(progress.ProgressLine(steps=20, stream=stream, clock=Clock(0.5)))
    texts = shown(stream)
    assert texts[0].startswith("step ")
    assert "/20 (" in texts[0]
    assert "steps/s" in texts[0]
    assert " left " in texts[0]
    assert texts[0].endswith("loss 0.25")
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_max_steps_are_counted_from_the_checkpoint():
    """Steps are counted from the start of this call."""
    stream = Terminal()
    hook = progress.ProgressLine(max_steps=120, stream=stream, clock=Clock(0.5))
    train(hook, steps=20, first=100)
    assert shown(stream)
    assert all("/20 (" in text for text in shown(stream))


def test_without_an_end():
    """Without a number of steps there is no total, and no time left."""
    stream = Terminal()
    train(progress.ProgressLine(stream=stream, clock=Clock()))
    assert "/" not in shown(stream)[0].split("  ")[0]
    assert "left" not in shown(stream)[0]


def test_short_trainings_show_nothing():
    """The line doesn't appear in the first seconds."""
    stream = Terminal()
    train(progress.ProgressLine(steps=20, stream=stream, clock=Clock(0.001)))
    assert stream.getvalue() == ""


def test_files_and_pipes_show_nothing(monkeypatch):
    """Streams other than terminals get no line."""
    stream = io.StringIO()
    train(progress.ProgressLine(steps=20, stream=stream, clock=Clock()))
    assert stream.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", None)
    train(progress.ProgressLine(steps=20, clock=Clock()))


def test_train_has_one(make, line, monkeypatch):
    """An Estimator's training shows the line on standard error."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(
        progress.ProgressLine.__init__,
        "__kwdefaults__",
        {"after": 0.0, "every": 0.0, "stream": None, "clock": Clock()},
    )
    make().train(line.input_fn, max_steps=3)
    assert "step 2/3 (66%)" in stream.getvalue() or "step 3/3 (100%)" in stream.getvalue()


@pytest.mark.parametrize(
    "seconds, text", [(59.6, "1:00"), (3599, "59:59"), (7265, "2:01:05"), (0, "0:00")]
)
def test_time_left(seconds, text):
    """The time left is in minutes and seconds, with hours if there are any."""
    assert f"  {text} left" in progress.line(1, 2, seconds or 1e-9, 0.0)
