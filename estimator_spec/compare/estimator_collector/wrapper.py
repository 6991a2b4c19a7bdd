# SPDX-License-Identifier: Apache-2.0
"""Wraps the methods of estimator classes, so that their calls are recorded."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from .options import RecordingOptions
from .recorder import Recorder, load_checkpoint, load_initial_values
from .saved_models import read_signatures
from .watch import Values, Watch

_EXPORTS = ("export_saved_model", "export_savedmodel", "experimental_export_all_saved_models")


class Wrapper:
    """Wraps the methods of estimator classes to record their calls.

    Args:
        recorder: the recorder.
        options: the options of the recording.
        default_config: returns the configuration of an `Estimator` that was given none.
    """

    def __init__(
        self, recorder: Recorder, options: RecordingOptions, default_config: Callable[[], Any]
    ) -> None:
        self._recorder = recorder
        self._options = options
        self._default_config = default_config
        self._thread = threading.local()
        self._is_trained = False
        self._folders: dict[str, str] = {}

    def wrap(self, *roots: type) -> None:
        """Wraps the methods of classes and of their bases, where each is defined."""
        replacements = {
            "__init__": self._init,
            "train": self._train,
            "evaluate": self._evaluate,
            "predict": self._predict,
            **dict.fromkeys(_EXPORTS, self._export),
        }
        for owner in {base for root in roots for base in root.__mro__ if base is not object}:
            for name, replacement in replacements.items():
                method = vars(owner).get(name)
                if inspect.isfunction(method):
                    setattr(owner, name, self._wrapped(method, replacement))

    def _wrapped(self, method: Any, replacement: Callable[..., Any]) -> Any:
        """Returns a method that calls the replacement, except from within such a call."""
        signature = inspect.signature(method)

        @functools.wraps(method)
        def call(estimator: Any, *args: Any, **kwargs: Any) -> Any:
            key = (id(estimator), replacement.__name__)
            if key in self._running():
                return method(estimator, *args, **kwargs)  # by super(), or by another name
            try:
                bound = signature.bind(estimator, *args, **kwargs)
            except TypeError:
                return method(estimator, *args, **kwargs)  # the method's own error
            with self._within(key):
                return replacement(method, estimator, bound)

        return call

    def _running(self) -> set[tuple[int, str]]:
        running: set[tuple[int, str]] = self._thread.__dict__.setdefault("running", set())
        return running

    @contextlib.contextmanager
    def _within(self, key: tuple[int, str]) -> Iterator[None]:
        self._running().add(key)
        try:
            yield
        finally:
            self._running().discard(key)

    def _init(self, method: Any, estimator: Any, bound: inspect.BoundArguments) -> None:
        """Sets the seed if there is none, and moves `model_dir` into the run's directory."""
        arguments, takes = bound.arguments, bound.signature.parameters
        config = arguments.get("config")
        if config is None and "config" in takes and "use_tpu" not in takes:
            config = self._default_config()
        if config is not None:
            changes: dict[str, Any] = {}
            if config.tf_random_seed is None:
                changes["tf_random_seed"] = self._options.seed
            if config.model_dir:
                changes["model_dir"] = self._inside(config.model_dir)
            arguments["config"] = config.replace(**changes)
        if arguments.get("model_dir"):
            arguments["model_dir"] = self._inside(os.fspath(arguments["model_dir"]))
        method(*bound.args, **bound.kwargs)

    def _train(self, method: Any, estimator: Any, bound: inspect.BoundArguments) -> Any:
        call = self._recorder.begin("train", estimator=type(estimator).__name__)
        self._is_trained = True
        watch = Watch(
            self._recorder,
            call,
            steps=self._options.steps,
            start=self._start(call["number"]),
            from_checkpoint=self._options.checkpoint is not None,
        )
        _add_hook(bound, watch)
        result = method(*bound.args, **bound.kwargs)
        self._recorder.write()
        return result

    def _evaluate(self, method: Any, estimator: Any, bound: inspect.BoundArguments) -> Any:
        name = bound.arguments.get("name")
        call = self._recorder.begin("evaluate", estimator=type(estimator).__name__, name=name)
        call["after_training"] = self._is_trained
        self._prepare(call, bound)
        limit, own = self._options.eval_steps, bound.arguments.get("steps")
        if limit is not None:
            bound.arguments["steps"] = limit if own is None else min(limit, own)
        metrics = method(*bound.args, **bound.kwargs)
        call["metrics"] = self._recorder.arrays(dict(metrics))
        self._recorder.write()
        return metrics

    def _predict(self, method: Any, estimator: Any, bound: inspect.BoundArguments) -> Any:
        call = self._recorder.begin("predict", estimator=type(estimator).__name__)
        call["after_training"] = self._is_trained
        self._prepare(call, bound)
        key = (id(estimator), "_predict")
        return self._recorded(call, method(*bound.args, **bound.kwargs), key)

    def _recorded(
        self, call: dict[str, Any], predictions: Iterator[Any], key: tuple[int, str]
    ) -> Iterator[Any]:
        """Yields predictions; records the first ones, and how many there are."""
        kept: list[Any] = []
        count = 0
        try:
            while True:
                # A method that is a generator calls super() in here.
                with self._within(key):
                    try:
                        prediction = next(predictions)
                    except StopIteration:
                        return
                count += 1
                if len(kept) < self._options.examples:
                    kept.append(prediction)
                yield prediction
        finally:
            columns: dict[str, list[Any]] = {}
            for prediction in kept:
                by_key = prediction if isinstance(prediction, dict) else {"": prediction}
                for name, value in by_key.items():
                    columns.setdefault(str(name), []).append(np.asarray(value))
            stacked = {"number of predictions": np.array(count)}
            for name, values in columns.items():
                stacked.update(_stack(name, values))
            call["predictions"] = self._recorder.arrays(stacked)
            self._recorder.write()

    def _export(self, method: Any, estimator: Any, bound: inspect.BoundArguments) -> Any:
        call = self._recorder.begin("export", estimator=type(estimator).__name__)
        base = os.fspath(bound.arguments["export_dir_base"])
        bound.arguments["export_dir_base"] = self._inside(base)
        path = method(*bound.args, **bound.kwargs)
        call["signatures"] = read_signatures(tf.compat.as_str_any(path))
        self._recorder.write()
        return path

    def _start(self, number: int) -> Callable[[], Values] | None:
        """Returns the function that reads the values that a training starts with, or None."""
        if self._options.checkpoint is not None and number == 1:
            return functools.partial(load_checkpoint, self._options.checkpoint)
        if self._options.initial_values is not None:
            return functools.partial(load_initial_values, self._options.initial_values, number)
        return None

    def _prepare(self, call: dict[str, Any], bound: inspect.BoundArguments) -> None:
        """Adds the hook of an evaluation or prediction, and the checkpoint before training."""
        if self._options.checkpoint is not None and not self._is_trained:
            bound.arguments["checkpoint_path"] = self._options.checkpoint
        _add_hook(bound, Watch(self._recorder, call, with_values=not self._is_trained))

    def _inside(self, folder: str) -> str:
        """Returns a directory within the run's own: the program's others stay as they are."""
        root = os.path.realpath(self._options.run_dir)
        if "://" not in folder:
            real = os.path.realpath(folder)
            if os.path.commonpath([root, real]) == root:
                return folder
        if folder not in self._folders:
            name = f"{len(self._folders)}_{os.path.basename(folder.rstrip('/'))}"
            self._folders[folder] = os.path.join(root, "moved", name)
        return self._folders[folder]


def _add_hook(bound: inspect.BoundArguments, hook: Watch) -> None:
    bound.arguments["hooks"] = [*(bound.arguments.get("hooks") or ()), hook]


def _stack(name: str, values: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Returns arrays stacked if they have one shape, else their elements and their shapes."""
    if len({value.shape for value in values}) == 1:
        return {name: np.stack(values)}
    shapes = np.array([str(list(value.shape)) for value in values])
    flat = np.concatenate([value.reshape(-1) for value in values])
    return {name: flat, f"{name} (shapes)": shapes}
