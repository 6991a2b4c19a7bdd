# SPDX-License-Identifier: Apache-2.0
"""What TensorFlow's own log leaves out, and what stays in it."""

from __future__ import annotations

import io
import logging
import os
import sys
import warnings

import pytest
import tensorflow as tf
from absl import logging as absl_logging

import tpu_columns
from tpu_columns import log_messages

TENSORFLOW = os.path.join(os.path.dirname(tf.__file__), "python", "training", "adagrad.py")
# The wrapper of all ops: who calls them isn't known.
DISPATCH = os.path.join(os.path.dirname(tf.__file__), "python", "util", "dispatch.py")
NOTICE = "From %s: %s (from %s) is deprecated and will be removed %s.\n%s"
FUTURE = ("in a future version", "Use another.")


@pytest.fixture
def printed(monkeypatch):
    """Returns the stream to which TensorFlow's own handler prints, instead of standard error."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    monkeypatch.setattr(tf.get_logger(), "handlers", [handler])
    monkeypatch.setattr(tf.get_logger(), "level", logging.WARNING)
    tf.get_logger().manager._clear_cache()
    # Filters that another test has installed are not installed twice.
    absl = absl_logging.get_absl_handler().python_handler
    monkeypatch.setattr(absl, "filters", [])
    with warnings.catch_warnings():
        log_messages.install()
        yield stream
    tf.get_logger().manager._clear_cache()


@pytest.mark.parametrize(
    ("place", "name", "module", "is_printed"),
    [
        ("model.py:3", "to_float", "tensorflow.python.ops.math_ops", True),
        (f"{DISPATCH}:9", "to_float", "tensorflow.python.ops.math_ops", True),
        (f"{DISPATCH}:9", "auc", "tensorflow.python.ops.metrics_impl", False),
        ("model.py:3", "numeric_column", "tensorflow.python.feature_column.f", False),
        ("model.py:3", "auc", "tensorflow.python.ops.metrics_impl", False),
        ("model.py:3", "dense", "tensorflow.python.layers.core", False),
        (f"{TENSORFLOW}:138", "Constant.__init__", "tensorflow.python.ops.init_ops", False),
        (f"{tpu_columns.__file__}:9", "to_float", "tensorflow.python.ops.math_ops", False),
    ],
)
def test_notices_that_ask_for_nothing_are_not_printed(printed, place, name, module, is_printed):
    """A notice is printed if the program's own line can do without the deprecated name."""
    tf.get_logger().warning(NOTICE, place, name, module, *FUTURE)
    assert (name in printed.getvalue()) == is_printed


def test_what_is_no_notice_is_printed(printed):
    """Warnings of the program and of these packages are printed, whatever their text."""
    tf.get_logger().warning("From %s: read %s", TENSORFLOW, "the file")
    tf.get_logger().warning("deprecated and removed")
    tf.get_logger().error(TENSORFLOW)
    assert len(printed.getvalue().splitlines()) == 2
    assert "deprecated and removed" in printed.getvalue()


def test_debug_and_other_handlers_get_every_notice(printed):
    """A program that asks for DEBUG, or that adds a handler, gets all notices."""
    own = io.StringIO()
    values = (f"{TENSORFLOW}:1", "auc", "tensorflow.python.ops.metrics_impl", *FUTURE)
    tf.get_logger().addHandler(logging.StreamHandler(own))
    tf.get_logger().warning(NOTICE, *values)
    assert "auc" in own.getvalue()
    assert "auc" not in printed.getvalue()
    tf.get_logger().setLevel(logging.DEBUG)
    tf.get_logger().warning(NOTICE, *values)
    assert "auc" in printed.getvalue()


def test_a_real_notice_is_not_printed(printed, monkeypatch):
    """TensorFlow's own notices of feature columns and metrics aren't printed, others are."""
    all_of_them = io.StringIO()
    tf.get_logger().addHandler(logging.StreamHandler(all_of_them))
    deprecation = sys.modules["tensorflow.python.util.deprecation"]
    monkeypatch.setattr(deprecation, "_PRINTED_WARNING", {})  # each is printed once in a process
    with tf.Graph().as_default():
        tf.feature_column.numeric_column("x")
        labels = tf.constant([0.0, 1.0])
        tf.compat.v1.metrics.auc(labels, labels)
        assert all_of_them.getvalue().count("deprecated") >= 2
        assert printed.getvalue() == ""
        tf.compat.v1.to_float(labels)  # tf.cast does it in every TensorFlow
        assert "to_float" in printed.getvalue()


def test_absl_does_not_print_a_line_twice(printed, monkeypatch, capsys):
    """With absl's handler, which `app.run` adds, TensorFlow's lines stand once, others too."""
    handler = absl_logging.get_absl_handler()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    monkeypatch.setattr(handler.python_handler, "stream", printed)
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    tf.get_logger().warning("of TensorFlow")
    logging.getLogger("absl").error("of absl")
    both = printed.getvalue() + capsys.readouterr().err
    assert both.count("of TensorFlow") == 1
    assert both.count("of absl") == 1
    # To a file, as with `--log_dir`, absl writes all; before flags are parsed, to standard error.
    file = io.StringIO()
    monkeypatch.setattr(handler.python_handler, "stream", file)
    tf.get_logger().warning("of TensorFlow")
    assert "of TensorFlow" in file.getvalue() + capsys.readouterr().err


def test_warnings_of_layers_follow_the_user_filters(printed):
    """`tf.layers`' warnings are ignored, unless a filter of the user's wants them."""
    text = "`tf.layers.dense` is deprecated and will be removed in a future version."
    with warnings.catch_warnings(record=True) as found:
        warnings.resetwarnings()
        log_messages.install()
        warnings.warn(text, stacklevel=1)
        assert not found
        warnings.warn("another", stacklevel=1)
        assert len(found) == 1
        warnings.simplefilter("always")
        warnings.warn(text, stacklevel=1)
        assert len(found) == 2
