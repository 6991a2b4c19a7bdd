# SPDX-License-Identifier: Apache-2.0
"""Arguments that users' functions accept."""

from __future__ import annotations

import functools

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.core.common.signatures import (
    argument_names,
    takes_any_keyword,
    takes_any_positional,
)


class Model:
    """Callables of several kinds."""

    def __call__(self, features, labels):
        """Callable object."""

    def method(self, features, mode):
        """Method."""

    @staticmethod
    def static(features):
        """Static method."""

    @classmethod
    def of_class(cls, features):
        """Class method."""


def plain(features, labels, mode, params=None, *, config=None, **rest):
    """Function with arguments of every kind."""


@pytest.mark.parametrize(
    "function, names",
    [
        (plain, ("features", "labels", "mode", "params")),
        (Model(), ("features", "labels")),
        (Model().method, ("features", "mode")),
        (Model.method, ("self", "features", "mode")),
        (Model.static, ("features",)),
        (Model.of_class, ("features",)),
        (lambda *args: None, ()),
        (functools.partial(plain, 1), ("labels", "mode", "params")),
        (functools.partial(plain, mode="train"), ("features", "labels", "params")),
        (functools.partial(functools.partial(plain, 1), params=2), ("labels", "mode")),
        (functools.partial(Model().method, mode=1), ("features",)),
    ],
)
def test_argument_names(function, names):
    """Unbound positional arguments, without self and arguments that a partial binds."""
    assert argument_names(function) == names


def test_a_wrapper_is_called_with_its_own_arguments():
    """A `functools.wraps` wrapper has its own arguments, a `tf.function` those of its function."""

    @functools.wraps(plain)
    def wrapper(*args, **kwargs):
        return plain(*args, **kwargs)

    assert argument_names(wrapper) == ()
    assert takes_any_positional(wrapper)
    assert takes_any_keyword(wrapper)
    assert argument_names(tf.function(lambda features, mode: None)) == ("features", "mode")


@pytest.mark.parametrize(
    "function, positional, keyword",
    [
        (plain, False, True),
        (lambda *args: None, True, False),
        (functools.partial(lambda *args, **kwargs: None, 1), True, True),
        (Model(), False, False),
    ],
)
def test_open_ends(function, positional, keyword):
    """`*args` and `**kwargs` are found, also in partials."""
    assert takes_any_positional(function) is positional
    assert takes_any_keyword(function) is keyword


@given(bound=st.sets(st.sampled_from("abcd")), first=st.integers(0, 4))
def test_partials(bound, first):
    """A partial can be called with exactly the returned names."""

    def function(a, b, c, d):
        return (a, b, c, d)

    by_name = {name: 0 for name in bound if "abcd".index(name) >= first}
    partial = functools.partial(function, *range(first), **by_name)
    names = argument_names(partial)
    assert set(names) == set("abcd"[first:]) - set(by_name)
    partial(**dict.fromkeys(names, 0))


@pytest.mark.reference
def test_against_tensorflows_reader():
    """TensorFlow's private function returns the same names."""
    function_utils = pytest.importorskip("tensorflow.python.util.function_utils")
    model = Model()
    for function in (plain, model, model.method, Model.static, functools.partial(plain, 1, mode=2)):
        assert argument_names(function) == function_utils.fn_args(function)
