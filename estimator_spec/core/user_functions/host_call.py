# SPDX-License-Identifier: Apache-2.0
"""Checks and calls the host functions of a TPU program: `eval_metrics` and `host_call`.

Each is a pair of a function and its tensors. A TPU concatenates the tensors of all cores first;
here the function is called on the tensors themselves.
"""

from __future__ import annotations

import inspect
from typing import Any

import tensorflow as tf

from estimator_spec.core.common.signatures import argument_names, takes_any_positional
from estimator_spec.core.user_functions.skippable_hooks import SkippableHook

# Ops that open a summary writer, which is their first input.
_WRITER_OPS = ("CreateSummaryFileWriter", "CreateSummaryDbWriter")


def check(name: str, call: Any) -> None:
    """Checks the function and tensors of a host call.

    Args:
        name: 'eval_metrics' or 'host_call', for the messages.
        call: the pair, or None.

    Raises:
        ValueError: it is no pair, or the tensors are neither in a list nor in a dictionary.
        TypeError: the function is not callable.
        RuntimeError: the function takes another number of tensors.
    """
    if call is None:
        return
    if not isinstance(call, (tuple, list)):
        raise ValueError(f"{name} should be tuple or list; got {call!r}.")
    if len(call) != 2:
        raise ValueError(f"{name} should have two elements. Got {len(call)}.")
    fn, tensors = call
    if not callable(fn):
        raise TypeError(f"{name}[0] should be callable. Got {fn!r}.")
    if not isinstance(tensors, (tuple, list, dict)):
        raise ValueError(f"{name}[1] should be tuple or list, or dict. Got {tensors!r}.")
    if isinstance(tensors, dict) or takes_any_positional(fn):
        return
    takes = len(argument_names(fn))
    if takes != len(tensors):
        raise RuntimeError(
            f"In TPUEstimatorSpec.{name}, length of tensors {len(tensors)} does not match method "
            f"args of the function, which takes {takes}."
        )


def run(name: str, call: Any) -> Any:
    """Calls the function on its tensors and returns the result; None without a call.

    Args:
        name: 'eval_metrics' or 'host_call', for the messages.
        call: the pair, or None.

    Raises:
        TypeError: the names of the tensors are not the function's arguments.
        ValueError, RuntimeError: as `check`.
    """
    check(name, call)
    if call is None:
        return None
    fn, tensors = call
    if not isinstance(tensors, dict):
        return fn(*tensors)
    try:
        # Checked before the call, so that TypeErrors of the function itself aren't caught.
        inspect.signature(fn, follow_wrapped=False).bind(**tensors)
    except ValueError:  # a builtin without a signature
        pass
    except TypeError as error:
        raise TypeError(
            f"{name}[0] cannot be called with the tensors of {name}[1] ({sorted(tensors)}): "
            f"{error}. Its arguments are {list(argument_names(fn))}."
        ) from error
    return fn(**tensors)


class HostCallHook(SkippableHook):
    """Fetches a host call's results in every step; opens and flushes the graph's summary writers.

    Steps that no hook needs run with the same fetches.

    Args:
        fetches: results of the host call, tensors or ops in any structure; or None.
    """

    def __init__(self, fetches: Any) -> None:
        self._fetches = fetches
        self._open: list[Any] = []
        self._flush: list[Any] = []

    def begin(self) -> None:
        """Creates the ops that open and flush the graph's summary writers."""
        graph = tf.compat.v1.get_default_graph()
        found = [op for op in graph.get_operations() if op.type in _WRITER_OPS]
        if found == self._open:
            return  # A second session of the same graph, which is finalized.
        self._open = found
        self._flush = [tf.raw_ops.FlushSummaryWriter(writer=op.inputs[0]) for op in found]

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Opens the writers."""
        session.run(self._open)

    def before_run(self, run_context: Any) -> Any:
        """Requests the host call's results."""
        if self._fetches is None:
            return None
        return tf.compat.v1.train.SessionRunArgs(self._fetches)

    def end(self, session: Any) -> None:
        """Flushes the writers."""
        session.run(self._flush)
