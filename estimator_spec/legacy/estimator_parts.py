# SPDX-License-Identifier: Apache-2.0
"""Private functions and classes of the old Estimator, as aliases of what does the work here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.canned.keras_models import model_to_estimator as keras_model_to_estimator
from estimator_spec.core.driver import evaluation, input_pipeline
from estimator_spec.core.export import receivers
from estimator_spec.core.export.exporters import _SavedModelExporter
from estimator_spec.core.user_functions import batches

tf1 = tf.compat.v1

LOSS_METRIC_KEY = "loss"
AVERAGE_LOSS_METRIC_KEY = "average_loss"
MAX_DIRECTORY_CREATION_ATTEMPTS = 10
# Only an input_fn on a TPU's host could run in a loop. Setting it has no effect.
WRAP_INPUT_FN_INTO_WHILE_LOOP = False


# estimator


def load_global_step_from_checkpoint_dir(checkpoint_dir: Any) -> Any:
    """Returns the global step of the latest checkpoint in a directory; 0 if none can be read."""
    try:
        reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(checkpoint_dir))
        return reader.get_tensor(tf1.GraphKeys.GLOBAL_STEP)
    except Exception:  # The old function, too, takes every error for "no checkpoint".
        return 0


def write_dict_to_summary(
    output_dir: str, dictionary: Mapping[str, Any], current_global_step: int
) -> None:
    """Logs metrics, values by name, and writes them to an event file."""
    values = {**dictionary, tf1.GraphKeys.GLOBAL_STEP: current_global_step}
    evaluation.write_summaries(output_dir, values, None)


# util


def parse_input_fn_result(result: Any) -> tuple[Any, Any, list[Any]]:
    """Returns (features, labels or None, hooks) from the result of an `input_fn`."""
    return input_pipeline.parse_result(result, parse_input_fn_result)


def parse_iterator_result(result: Any) -> tuple[Any, Any]:
    """Returns (features, labels or None) from an element of a dataset."""
    return batches.split_labels(result, parse_iterator_result)


class MultiHostDatasetInitializerHook(tf1.train.SessionRunHook):
    """Runs initializers of datasets when a session is created.

    Args:
        dataset_initializers: the ops.
    """

    def __init__(self, dataset_initializers: Any) -> None:
        self._initializers = dataset_initializers

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the initializers."""
        del coord
        session.run(self._initializers)


# export, exporter


def build_supervised_input_receiver_fn_from_input_fn(
    input_fn: Callable[..., Any], **input_fn_args: Any
) -> Callable[[], receivers.SupervisedInputReceiver]:
    """Returns a receiver function with placeholders for what an `input_fn` returns.

    Args:
        input_fn: the function; called in a graph of its own.
        **input_fn_args: its arguments.
    """
    with tf.Graph().as_default():
        features, labels, _ = input_pipeline.parse_result(input_fn(**input_fn_args), input_fn)
    return receivers.build_raw_supervised_input_receiver_fn(features, labels)


class SavedModelExporter(_SavedModelExporter):
    """Exports a SavedModel whenever it is called; takes the arguments of `FinalExporter`."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)


# keras_lib


def model_to_estimator(
    keras_model: Any = None,
    keras_model_path: Any = None,
    custom_objects: Mapping[str, Any] | None = None,
    model_dir: Any = None,
    config: Any = None,
    checkpoint_format: str | None = None,
    use_v2_estimator: bool = False,
    metric_names_map: Mapping[str, str] | None = None,
    export_outputs: Mapping[str, Any] | None = None,
) -> Any:
    """Makes an estimator of a Keras model; see `estimator_spec.model_to_estimator`.

    `checkpoint_format=None` means 'saver', or 'checkpoint' with `use_v2_estimator`, which the
    function of TensorFlow 2 passes.
    """
    return keras_model_to_estimator(
        keras_model,
        keras_model_path,
        custom_objects,
        model_dir,
        config,
        checkpoint_format or ("checkpoint" if use_v2_estimator else "saver"),
        metric_names_map,
        export_outputs,
    )


# tpu_estimator


class BatchConfig(NamedTuple):
    """Options of batching in inference on a TPU; exports for a CPU don't use them.

    Attributes:
        num_batch_threads: number of threads that form batches.
        max_batch_size: largest batch.
        batch_timeout_micros: microseconds until an incomplete batch is computed.
        allowed_batch_sizes: sizes that batches are padded to.
        max_enqueued_batches: largest number of waiting batches.
    """

    num_batch_threads: int
    max_batch_size: int
    batch_timeout_micros: int
    allowed_batch_sizes: Any
    max_enqueued_batches: int = 100


# estimator_export


def estimator_export(*names: str, **options: Any) -> Callable[[Any], Any]:
    """Returns a decorator that returns its argument: names are published by the tables here."""
    del names, options
    return lambda decorated: decorated
