# SPDX-License-Identifier: Apache-2.0
"""Functions of a program are written as functions of their own, or refused."""

from __future__ import annotations

import functools
import math
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.convert.keras_columns.function_source import write_function

MEAN, SCALES = np.float32(3.0), [1.0, 2.0]
UNPLAIN = {}
# `tf` as a program of TensorFlow 1 has it under `run`.
old_tf = types.ModuleType("tensorflow")
vars(old_tf).update(vars(tf), log=tf.compat.v1.log, to_float=tf.compat.v1.to_float)
vars(old_tf).update(expand_dims=tf.compat.v1.expand_dims, gone=lambda value: value)
log, log1p, maths = 7, tf.math.log1p, tf.math


def by_global(value):
    """Reads numbers of the module."""
    scaled = value - MEAN
    return scaled / SCALES[1]


def by_closure(mean):
    """Returns a function that reads a variable around it."""
    return lambda value: value * mean + math.pi


def by_default(value, mean=2.0):
    """Has another argument."""
    return tf.cast(value, tf.float32) - mean


def by_defaults(value=0.0, by=3.0, *, dtype=tf.float32, function=tf.math.log1p):
    """Has further arguments, of which nobody gives a value."""
    return function(tf.cast(value, dtype)) / by


def by_the_rest(value, *more, **options):
    """Has arguments that nobody names."""
    return value * options.get("by", 1.0) + len(more)


def by_position(value, /, by=2.0):
    """Has an argument that has no name for callers."""
    return value / by


def by_other(value):
    """Calls another function of the module."""
    return by_global(value)


@pytest.mark.parametrize(
    "function",
    [
        by_global,
        by_closure(4.0),
        by_default,
        by_defaults,
        by_the_rest,
        by_position,
        functools.partial(by_the_rest, by=3.0),
        functools.partial(by_default, mean=7.0),
        functools.partial(by_defaults, function=tf.math.exp, by=SCALES[1]),
        lambda x, mean=MEAN: x - mean,
        lambda x: tf.math.log1p(x) / 4.0,
        lambda x: tf.math.log(x + 1.0),
        lambda x: log1p(x) + maths.exp(x),
        lambda x: sum([(lambda y: y * MEAN)(x) for scale in SCALES if scale > MEAN / 3]),
        lambda x: old_tf.log(x) + old_tf.to_float(x) / old_tf.cast(MEAN, old_tf.float32),
        lambda x: old_tf.math.log(old_tf.expand_dims(x, dim=0)),
        tf.math.log1p,
        functools.partial(tf.clip_by_value, clip_value_min=0.0, clip_value_max=SCALES[0]),
    ],
)
def test_written_functions_return_the_same(function):
    """The written function has no name of the program, and returns the same."""
    names: dict = {"Any": object, "tf": tf}
    exec(write_function(function, "normalizer", "it"), names)
    np.testing.assert_array_equal(names["normalizer"](3.5), function(3.5))


def test_names_of_tensorflow_1_become_those_of_2():
    """What TensorFlow 2 has by another name is written by that one."""
    text = write_function(lambda x: old_tf.log(x) + old_tf.exp(x), "normalizer", "it")
    assert "old_tf.math.log(x) + old_tf.exp(x)" in text


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (by_other, "'by_global'"),
        (lambda x: x + len(UNPLAIN), "'UNPLAIN'"),
        (lambda x: old_tf.gone(x) + 1.0, "'old_tf.gone', which TensorFlow 2 doesn't have"),
        (np.log1p, "isn't Python"),
        (lambda x, y: x, "one argument"),
        (functools.partial(by_default, 3.0), "positional"),
    ],
)
def test_others_are_refused(function, words):
    """What can't be written by itself is named."""
    with pytest.raises(ValueError, match=words):
        write_function(function, "normalizer", "it")
