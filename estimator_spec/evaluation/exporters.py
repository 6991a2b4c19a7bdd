# SPDX-License-Identifier: Apache-2.0
"""Exporters: what `train_and_evaluate` does with a model after each evaluation."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.evaluation import event_files
from estimator_spec.validation.signatures import argument_names

tf1 = tf.compat.v1

_LOSS = "loss"
_VERSION_DIGITS = 10  # seconds since 1970, until the year 2286


class Exporter(abc.ABC):
    """One kind of export. Subclass it for a kind of your own."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The directory of these exports, below `<model_dir>/export`."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Exports a checkpoint that was just evaluated, or decides not to.

        Args:
            estimator: the `Estimator`.
            export_path: the directory of these exports.
            checkpoint_path: the checkpoint.
            eval_result: what `Estimator.evaluate` returned for it.
            is_the_final_export: whether training has reached `TrainSpec.max_steps`.

        Returns:
            The path of the export, or None.
        """


class _SavedModelExporter(Exporter):
    """Writes SavedModels; the base of the three exporters below."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = None,
    ) -> None:
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError(
                "`exports_to_keep`, if provided, must be a positive number. Got "
                f"{exports_to_keep}. None keeps all exports."
            )
        self._name = name
        self._serving_input_receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        """The directory of these exports, below `<model_dir>/export`."""
        return self._name

    def _write(self, estimator: Any, export_path: str, checkpoint_path: str) -> Any:
        """Writes a SavedModel, then deletes the oldest ones that are too many."""
        written = estimator.export_saved_model(
            export_path,
            self._serving_input_receiver_fn,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )
        if self._exports_to_keep is not None:
            for path in exports(export_path)[: -self._exports_to_keep]:
                try:
                    tf.io.gfile.rmtree(path)
                except tf.errors.NotFoundError as error:  # Another process was faster.
                    tf1.logging.warning("Can not delete %s recursively: %s", path, error.message)
        return written


def exports(directory: str) -> list[str]:
    """The SavedModels in a directory, oldest first; other files are none of our business.

    Args:
        directory: it need not exist.

    Returns:
        Paths whose last part is a time: ten digits.
    """
    if not tf.io.gfile.isdir(directory):
        return []
    # Object stores list directories with a slash at the end.
    names = [name.rstrip("/") for name in tf.io.gfile.listdir(directory)]
    versions = [name for name in names if len(name) == _VERSION_DIGITS and name.isdigit()]
    return [os.path.join(directory, name) for name in sorted(versions)]


class FinalExporter(_SavedModelExporter):
    """Exports once, when training has reached `TrainSpec.max_steps`.

    Without `max_steps` it never exports.

    Args:
        name: the directory of the export, below `<model_dir>/export`.
        serving_input_receiver_fn: returns a `ServingInputReceiver`.
        assets_extra: files to copy, by their place below `assets.extra` in the SavedModel.
        as_text: writes the graph as text.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Exports at the end; see `Exporter.export`."""
        del eval_result
        if not is_the_final_export:
            return None
        tf1.logging.info("Performing the final export in the end of training.")
        return self._write(estimator, export_path, checkpoint_path)


class LatestExporter(_SavedModelExporter):
    """Exports after each evaluation.

    Args:
        name: the directory of the exports, below `<model_dir>/export`.
        serving_input_receiver_fn: returns a `ServingInputReceiver`.
        assets_extra: files to copy, by their place below `assets.extra` in the SavedModel.
        as_text: writes the graph as text.
        exports_to_keep: how many stay; older ones are deleted. None keeps all. Default 5.

    Raises:
        ValueError: `exports_to_keep` isn't positive.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Exports; see `Exporter.export`."""
        del eval_result, is_the_final_export
        return self._write(estimator, export_path, checkpoint_path)


def _loss_smaller(
    best_eval_result: Mapping[str, Any] | None, current_eval_result: Mapping[str, Any] | None
) -> bool:
    """Whether the loss of the second result is the smaller one."""
    for name, result in (
        ("best_eval_result", best_eval_result),
        ("current_eval_result", current_eval_result),
    ):
        if not result or _LOSS not in result:
            raise ValueError(f"{name} cannot be empty or no loss is found in it. Got {result}.")
    return bool(best_eval_result[_LOSS] > current_eval_result[_LOSS])  # type: ignore[index]


def _check_compare_fn(compare_fn: Any) -> None:
    if compare_fn is None:
        raise ValueError("`compare_fn` must not be None.")
    wanted = ("best_eval_result", "current_eval_result")
    names = argument_names(compare_fn)
    for name in wanted:
        if name not in names:
            raise ValueError(f"compare_fn ({compare_fn}) must include {name} argument.")
    unknown = [name for name in names if name not in wanted]
    if unknown:
        raise ValueError(f"compare_fn ({compare_fn}) has following not expected args: {unknown}")


class BestExporter(_SavedModelExporter):
    """Exports whenever an evaluation is better than all before it.

    A program that was stopped and started again goes on from where it was: evaluations of earlier
    processes are found in the event files of `model_dir`. If there are earlier exports too, the
    first evaluation is exported only if none of those was better. (TensorFlow 2.15 exports it in
    any case, and may so delete a better model.)

    Args:
        name: the directory of the exports, below `<model_dir>/export`.
        serving_input_receiver_fn: returns a `ServingInputReceiver`.
        event_file_pattern: where the earlier evaluations are, relative to `model_dir`. An
            evaluation with a name writes below 'eval_<name>', so give 'eval_<name>/*.tfevents.*'
            then. None forgets earlier processes.
        compare_fn: function of `best_eval_result` and `current_eval_result`, two dicts of metrics
            by name; whether the current one is better. By default the smaller loss is.
        assets_extra: files to copy, by their place below `assets.extra` in the SavedModel.
        as_text: writes the graph as text.
        exports_to_keep: how many stay; older ones are deleted. None keeps all. Default 5.

    Raises:
        ValueError: `compare_fn` has other arguments, or `exports_to_keep` isn't positive.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Callable[..., Any] = _loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        _check_compare_fn(compare_fn)
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        self._compare_fn = compare_fn
        self._event_file_pattern = event_file_pattern
        self._model_dir: str | None = None
        self._best: Mapping[str, Any] | None = None

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Exports if this is the best one so far; see `Exporter.export`."""
        del is_the_final_export
        if self._event_file_pattern and self._model_dir != estimator.model_dir:
            self._model_dir = estimator.model_dir
            self._best = self._best_before(export_path, eval_result)
        if self._best is not None and not self._better(self._best, eval_result):
            return None
        tf1.logging.info("Performing best model export.")
        self._best = eval_result
        return self._write(estimator, export_path, checkpoint_path)

    def _best_before(
        self, export_path: str, eval_result: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """The best earlier evaluation, if it was exported and is better than this one."""
        if not exports(export_path):
            return None
        tf1.logging.info("Loading best metric from event files.")
        best: Mapping[str, Any] | None = None
        pattern = os.path.join(str(self._model_dir), str(self._event_file_pattern))
        for _, found in event_files.scalars(pattern):
            if self._comparable(found) and (best is None or self._better(best, found)):
                best = found
        # This evaluation is in the files too, as 32-bit floats. It must not beat itself.
        now = {
            name: float(np.float32(value)) if isinstance(value, (float, np.floating)) else value
            for name, value in eval_result.items()
        }
        if best is not None and self._better(now, best):
            return best
        return None

    def _better(self, best: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
        return bool(self._compare_fn(best_eval_result=best, current_eval_result=current))

    def _comparable(self, found: Mapping[str, Any]) -> bool:
        """Whether these are an evaluation's metrics; a model's own summaries may be there too."""
        try:
            self._better(found, found)
        except (KeyError, TypeError, ValueError):
            return False
        return True
