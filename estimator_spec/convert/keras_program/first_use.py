# SPDX-License-Identifier: Apache-2.0
"""Runs a program until it first uses an estimator whose model has feature columns."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from estimator_spec.convert.keras_columns import distributed
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.tpu_estimator import TPUEstimator
from estimator_spec.core.user_functions.model_spec import ModeKeys
from estimator_spec.heads.canned_model import CannedModel
from estimator_spec.legacy import run
from estimator_spec.legacy.contrib.learn.core import Core

_MODES = {"train": ModeKeys.TRAIN, "evaluate": ModeKeys.EVAL, "predict": ModeKeys.PREDICT}


class EstimatorUse(NamedTuple):
    """The first use of an estimator.

    Attributes:
        estimator: the estimator.
        model: its model, if it is a canned one.
        columns: the columns of an estimator with a model_fn of the user's.
        spec: the specification of a TPUEstimator, or None.
        input_fn: the input of this use, or None for an export.
        mode: mode of the input.
        make_batches: returns a number of batches where there is no input to read; or None.
    """

    estimator: Any
    model: CannedModel | None
    columns: tuple[Any, ...]
    spec: Any
    input_fn: Callable[..., Any] | None
    mode: str
    make_batches: Callable[[int], list[Any]] | None = None

    @property
    def source(self) -> Any:
        """The source of a plan: the estimator, its specification, or its columns."""
        if self.model is not None:
            return self.estimator
        of_spec = self.spec is not None and self.spec.feature_columns is not None
        return self.spec if of_spec else list(self.columns)


class _EstimatorFound(BaseException):
    """Ends the program; no `except Exception` of the program stops it.

    Attributes:
        use: the use that was looked for; None if the program has an estimator that can't move.
    """

    def __init__(self, use: EstimatorUse | None, text: str = "estimator found") -> None:
        super().__init__(text)
        self.use = use


def find_use(program: Sequence[str], number: int = 1) -> EstimatorUse:
    """Runs a program until it uses an estimator, and returns that use.

    Args:
        program: as for `python -m estimator_spec run`: options, script and arguments.
        number: 1 for the first such estimator of the program, 2 for the second; those before run.

    Raises:
        ValueError: the program ended without such a use, uses an estimator of contrib.learn, or
            is a file of a package that it can't find.
        UsageError: an option is wrong.
    """
    command = run.parse(program)
    seen: list[Any] = []
    specs: dict[int, Any] = {}
    try:
        with _watching(functools.partial(_stop_at, number, seen, specs), specs):
            run.run(command)
    except _EstimatorFound as stop:
        if stop.use is None:
            raise ValueError(str(stop)) from None
        return stop.use
    except ModuleNotFoundError as error:
        folder = os.path.dirname(os.path.realpath(command.program))
        if command.is_module or os.path.basename(folder) != error.name:
            raise
        module = f"{error.name}.{os.path.basename(command.program).removesuffix('.py')}"
        raise ValueError(
            f"{command.program} imports the package that it is in, {error.name!r}, which `python "
            f"{command.program}` doesn't find, either. Name the module, in the directory with "
            f"{error.name}: -m {module}."
        ) from error
    except SystemExit as end:
        if end.code:
            raise ValueError(
                f"{command.program} ended with {end.code!r} before it used an estimator with "
                "feature columns. Give it the arguments with which it trains."
            ) from None
    raise ValueError(
        f"{command.program} used {len(seen)} estimators with feature columns, and not number "
        f"{number}. A canned estimator has them, a TPUEstimator with an embedding_config_spec, and "
        "one whose params hold them; give the program the arguments with which it trains."
    )


def _stop_at(
    number: int,
    seen: list[Any],
    specs: dict[int, Any],
    estimator: Any,
    method: str,
    given: Mapping[str, Any],
) -> None:
    if isinstance(estimator, Core):
        raise _EstimatorFound(
            None,
            f"{type(estimator.outer).__name__} is an estimator of tf.contrib.learn, which has no "
            f"counterpart: the program was stopped before it could {method}, and its "
            "model_dir is as it was. Use the estimator of tf.estimator with the same columns, "
            "train it, and convert that.",
        )
    model = getattr(estimator, "canned_model", None)
    spec = specs.get(id(estimator))
    columns = () if model is not None else _columns_of(estimator, spec)
    if model is None and not columns:
        if method == "train":
            sys.stderr.write(
                f"note: feature columns move, and {type(estimator).__name__} has none: "
                f"it trains as in the program, in {estimator.model_dir}.\n"
            )
        return
    if all(known is not estimator for known in seen):
        seen.append(estimator)
    if len(seen) == number and estimator is seen[-1]:
        mode = _MODES.get(method, ModeKeys.PREDICT)
        raise _EstimatorFound(
            EstimatorUse(estimator, model, columns, spec, given.get("input_fn"), mode)
        )


def _columns_of(estimator: Any, spec: Any) -> tuple[Any, ...]:
    """Returns the columns of a specification, or of the hyperparameters."""
    if spec is not None and spec.feature_columns is not None:
        return tuple(distributed.columns_of(spec))
    params = estimator.params
    values = params.values() if isinstance(params, Mapping) else ()
    found: dict[str, Any] = {}
    for value in values:
        for item in value if isinstance(value, list) else [value]:
            if hasattr(item, "parse_example_spec") and hasattr(item, "name"):
                found[item.name] = item
    return tuple(found.values())


@contextlib.contextmanager
def _watching(use: Callable[..., None], specs: dict[int, Any]) -> Iterator[None]:
    """Calls a function before each use of an estimator; records specs of TPUEstimators."""
    saved: list[tuple[type, str, Any]] = []

    def replace(owner: type, name: str, act: Callable[[Any, str, Mapping[str, Any]], None]) -> None:
        method = vars(owner).get(name)
        if method is None:
            return
        signature = inspect.signature(method)

        @functools.wraps(method)
        def call(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(estimator, *args, **kwargs)
            act(estimator, method.__name__, bound.arguments)
            return method(estimator, *args, **kwargs)

        saved.append((owner, name, method))
        setattr(owner, name, call)

    def record(estimator: Any, _: str, given: Mapping[str, Any]) -> None:
        specs[id(estimator)] = given.get("embedding_config_spec")

    for owner in (Estimator, TPUEstimator):
        for name in (*_MODES, "export_saved_model", "export_savedmodel"):
            replace(owner, name, use)
    replace(TPUEstimator, "__init__", record)
    try:
        yield
    finally:
        for owner, name, method in reversed(saved):
            setattr(owner, name, method)
