# SPDX-License-Identifier: Apache-2.0
"""Keeps messages that a user can't act on out of what TensorFlow prints.

Programs for TPUEstimator are made of names that TensorFlow calls deprecated: feature columns,
`tf.compat.v1.metrics`, `tf.compat.v1.layers`. What replaces them can't be used in an Estimator, so
the notices ask for nothing that can be done; those of calls in TensorFlow's own files neither.
Notices of all other names are printed, and everything is at the level DEBUG. Handlers that a
program adds to TensorFlow's logger get every record. The first use of a public name of this project
calls `install`; importing a module doesn't.
"""

from __future__ import annotations

import logging
import os
import warnings

import tensorflow as tf
from absl import logging as absl_logging

_OWN_FILES = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), package) + os.sep
    for package in ("tpu_columns", "estimator_spec")
)
_TENSORFLOW_FILES = os.path.dirname(os.path.abspath(tf.__file__)) + os.sep
# Notices of many ops name the wrapper of all ops as the place, whoever calls them.
_WRAPPERS = os.path.join(_TENSORFLOW_FILES, "python", "util", "")

# What functions of an Estimator are made of, by the modules that notices name.
_WITHOUT_SUCCESSOR = (
    "tensorflow.python.data.ops.",  # iterators of one session
    "tensorflow.python.feature_column.",
    "tensorflow.python.keras.legacy_tf_layers.",
    "tensorflow.python.layers.",
    "tensorflow.python.ops.metrics_impl",
    "tensorflow.python.saved_model.",
    "tensorflow.python.training.",
)


def install() -> None:
    """Adds the filters to TensorFlow's own handler, to absl's, and to Python's warnings.

    Where the program has configured logging before it imported TensorFlow, there is no handler of
    TensorFlow's, and its messages are the program's to filter.
    """
    logger = tf.get_logger()
    own = [handler for handler in logger.handlers if type(handler) is logging.StreamHandler]
    for handler in own:
        handler.addFilter(_is_useful)
    if own:
        absl_logging.get_absl_handler().python_handler.addFilter(_is_printed_once)
    # At the end of the list: a filter of the user's comes first.
    layers = r"`tf\.layers\.\w+` is deprecated"
    warnings.filterwarnings("ignore", layers, category=UserWarning, append=True)


def _is_useful(record: logging.LogRecord) -> bool:
    """Returns whether a record is to be printed: it isn't a notice that asks for nothing."""
    text, values = str(record.msg), record.args
    if not text.startswith("From %s: ") or not isinstance(values, tuple):
        return True
    if tf.get_logger().isEnabledFor(logging.DEBUG):
        return True
    place, *names = map(str, values)
    if place.startswith((_TENSORFLOW_FILES, *_OWN_FILES)) and not place.startswith(_WRAPPERS):
        return False
    return not any(name.startswith(_WITHOUT_SUCCESSOR) for name in names[:2])


def _is_printed_once(record: logging.LogRecord) -> bool:
    """Returns whether absl's handler, which `app.run` adds, prints a record.

    It doesn't print TensorFlow's to the stream to which TensorFlow's own handler does.
    """
    if record.name != "tensorflow":
        return True
    stream = absl_logging.get_absl_handler().python_handler.stream
    return all(getattr(each, "stream", None) is not stream for each in tf.get_logger().handlers)
