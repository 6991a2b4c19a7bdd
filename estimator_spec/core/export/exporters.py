# SPDX-License-Identifier: Apache-2.0
"""Exports SavedModels after evaluations of `train_and_evaluate`: each, the last or the best."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.common import argument_rules
from estimator_spec.core.common.signatures import argument_names
from estimator_spec.core.export import event_files, listed_files

tf1 = tf.compat.v1

_LOSS = "loss"
_VERSION_DIGITS = 10  # seconds since 1970, until the year 2286


class Exporter(abc.ABC):
    """Abstract base class of exporters."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Directory of the exports, below `<model_dir>/export`."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Exports the checkpoint of an evaluation, or skips it.

        Args:
            estimator: the `Estimator`.
            export_path: directory of the exports.
            checkpoint_path: the evaluated checkpoint.
            eval_result: the metrics of the evaluation, as `Estimator.evaluate` returns them.
            is_the_final_export: whether training has reached `TrainSpec.max_steps`.

        Returns:
            The path of the export, or None.
        """


class _SavedModelExporter(Exporter):
    """Base class of exporters that write a SavedModel after the evaluations that they want."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        argument_rules.check("Exporter", locals())
        self._name = name
        self._serving_input_receiver_fn = serving_input_receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text
        self._exports_to_keep = exports_to_keep

    @property
    def name(self) -> str:
        """Directory of the exports, below `<model_dir>/export`."""
        return self._name

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Mapping[str, Any],
        is_the_final_export: bool,
    ) -> Any:
        """Exports the checkpoint, or skips it; see the class and `Exporter.export`.

        Then it deletes the oldest of its exports beyond `exports_to_keep`, but not files that
        somebody added to them. Directories that no exporter of this version wrote stay.
        """
        export_path = os.fspath(export_path)
        if not self._wants(estimator, export_path, eval_result, is_the_final_export):
            return None
        written = estimator.export_saved_model(
            export_path,
            self._serving_input_receiver_fn,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )
        if self._exports_to_keep is not None:
            _list_files(tf.compat.as_str_any(written), export_path)
            remove_old_exports(export_path, self._exports_to_keep)
        return written

    def _wants(
        self, estimator: Any, export_path: str, eval_result: Mapping[str, Any], is_final: bool
    ) -> bool:
        """Returns whether the checkpoint of an evaluation is exported."""
        return True


def _list_files(export: str, directory: str) -> None:
    """Lists the files of an export, unless it is elsewhere: an estimator may return any path."""
    paths = (os.path.dirname(export), directory.rstrip("/"))
    if "://" not in export:
        paths = (os.path.dirname(os.path.realpath(export)), os.path.realpath(directory))
    if paths[0] == paths[1] and tf.io.gfile.isdir(export):
        listed_files.list_files(export)


def remove_old_exports(directory: str, exports_to_keep: int) -> None:
    """Deletes a directory's oldest exports; those without a list of files don't count.

    Args:
        directory: directory of an exporter.
        exports_to_keep: number of exports to keep, at least 1.
    """
    own = [path for path in list_exports(directory) if listed_files.has_list(path)]
    for path in own[:-exports_to_keep]:
        try:
            listed_files.remove_listed(path)
        except tf.errors.NotFoundError as error:  # Another process deleted it.
            tf1.logging.warning("Can not delete %s recursively: %s", path, error.message)


def list_exports(directory: str) -> list[str]:
    """Returns the SavedModels in a directory, oldest first.

    Args:
        directory: directory of an exporter, which need not exist.

    Returns:
        Paths whose last part is a timestamp of ten digits.
    """
    if not tf.io.gfile.isdir(directory):
        return []
    # Object stores list directories with a trailing slash.
    names = [name.rstrip("/") for name in tf.io.gfile.listdir(directory)]
    versions = [name for name in names if len(name) == _VERSION_DIGITS and name.isdigit()]
    return [os.path.join(directory, name) for name in sorted(versions)]


class FinalExporter(_SavedModelExporter):
    """Exports once, when training has reached `TrainSpec.max_steps`; never without `max_steps`.

    Args:
        name: directory of the export, below `<model_dir>/export`.
        serving_input_receiver_fn: returns a `ServingInputReceiver`.
        assets_extra: files to copy, by their paths below `assets.extra` in the SavedModel.
        as_text: whether the graph is written as text.
    """

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, None)

    def _wants(
        self, estimator: Any, export_path: str, eval_result: Mapping[str, Any], is_final: bool
    ) -> bool:
        if is_final:
            tf1.logging.info("Performing the final export in the end of training.")
        return is_final


class LatestExporter(_SavedModelExporter):
    """Exports after each evaluation.

    Args:
        name: directory of the exports, below `<model_dir>/export`.
        serving_input_receiver_fn: returns a `ServingInputReceiver`.
        assets_extra: files to copy, by their paths below `assets.extra` in the SavedModel.
        as_text: whether the graph is written as text.
        exports_to_keep: number of exports to keep; older ones are deleted. None keeps all.
            Default 5.

    Raises:
        ValueError: `exports_to_keep` isn't positive.
    """


def _loss_smaller(
    best_eval_result: Mapping[str, Any] | None, current_eval_result: Mapping[str, Any] | None
) -> bool:
    """Returns whether the second result has the smaller loss."""
    for name, result in (
        ("best_eval_result", best_eval_result),
        ("current_eval_result", current_eval_result),
    ):
        if not result or _LOSS not in result:
            raise ValueError(f"{name} cannot be empty or no loss is found in it. Got {result}.")
    return bool(best_eval_result[_LOSS] > current_eval_result[_LOSS])  # type: ignore[index]


def _check_compare_fn(compare_fn: Any) -> None:
    argument_rules.check("Exporter", {"compare_fn": compare_fn})
    wanted = ("best_eval_result", "current_eval_result")
    names = argument_names(compare_fn)
    for name in wanted:
        if name not in names:
            raise ValueError(f"compare_fn ({compare_fn}) must include {name} argument.")
    unknown = [name for name in names if name not in wanted]
    if unknown:
        raise ValueError(f"compare_fn ({compare_fn}) has following not expected args: {unknown}")


class BestExporter(_SavedModelExporter):
    """Exports after each evaluation that is better than all before.

    After a restart the best result of earlier processes is read from the event files in
    `model_dir`. If there are exports of earlier processes, the first evaluation is exported only if
    it is better than that result. (TensorFlow 2.15 exports it in any case, and may then delete a
    better model.)

    Args:
        name: directory of the exports, below `<model_dir>/export`.
        serving_input_receiver_fn: returns a `ServingInputReceiver`.
        event_file_pattern: event files of earlier evaluations, relative to `model_dir`. An
            evaluation with a name writes to 'eval_<name>'; its pattern is
            'eval_<name>/*.tfevents.*'. None ignores earlier processes.
        compare_fn: function of `best_eval_result` and `current_eval_result`, metrics by name, that
            returns whether the current result is better. Default: its loss is smaller.
        assets_extra: files to copy, by their paths below `assets.extra` in the SavedModel.
        as_text: whether the graph is written as text.
        exports_to_keep: number of exports to keep; older ones are deleted. None keeps all.
            Default 5.

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
        argument_rules.check("Exporter", {"event_file_pattern": event_file_pattern})
        _check_compare_fn(compare_fn)
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        self._compare_fn = compare_fn
        self._event_file_pattern = event_file_pattern
        self._model_dir: str | None = None
        self._best: Mapping[str, Any] | None = None

    def _wants(
        self, estimator: Any, export_path: str, eval_result: Mapping[str, Any], is_final: bool
    ) -> bool:
        if self._event_file_pattern and self._model_dir != estimator.model_dir:
            self._model_dir = estimator.model_dir
            self._best = self._best_before(export_path, eval_result)
        if self._best is not None and not self._better(self._best, eval_result):
            return False
        tf1.logging.info("Performing best model export.")
        self._best = eval_result
        return True

    def _best_before(
        self, export_path: str, eval_result: Mapping[str, Any]
    ) -> Mapping[str, Any] | None:
        """Returns the best earlier evaluation, if there are exports and it is better; else None."""
        if not list_exports(export_path):
            return None
        tf1.logging.info("Loading best metric from event files.")
        best: Mapping[str, Any] | None = None
        pattern = os.path.join(str(self._model_dir), str(self._event_file_pattern))
        for _, found in event_files.read_scalars(pattern):
            if self._comparable(found) and (best is None or self._better(best, found)):
                best = found
        # The files have this evaluation too, as 32-bit floats; it must not count as better.
        current = {
            name: float(np.float32(value)) if isinstance(value, (float, np.floating)) else value
            for name, value in (eval_result or {}).items()
        }
        if best is not None and self._better(current, best):
            return best
        return None

    def _better(self, best: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
        """Returns whether `current` is better than `best`."""
        return bool(self._compare_fn(best_eval_result=best, current_eval_result=current))

    def _comparable(self, found: Mapping[str, Any]) -> bool:
        """Returns whether scalars are an evaluation's metrics, not a model's own summaries."""
        try:
            self._better(found, found)
        except (KeyError, TypeError, ValueError):
            return False
        return True
