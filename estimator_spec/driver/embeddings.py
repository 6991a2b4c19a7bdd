# SPDX-License-Identifier: Apache-2.0
"""What happens to embedding features around a `model_fn`: nothing, dict-mode lookups, or a core."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec import placing
from estimator_spec.cores import tensor_core
from estimator_spec.cores.host import HELD_UPDATES, HostCore
from estimator_spec.driver import dict_mode
from estimator_spec.model_spec import ModeKeys
from estimator_spec.spec import tables_and_features
from tpu_columns import placement
from tpu_columns.placement import Hardware, Mode

tf1 = tf.compat.v1

CORES = (None, "host")


class PlainEmbeddings:
    """Tables are ordinary variables of the model: columns look up by ops, dict mode before it.

    Args:
        spec: an `EmbeddingConfigSpec`, or None.
    """

    def __init__(self, spec: Any) -> None:
        self._spec = spec

    def hardware(self, mode: Mode) -> Hardware:
        """What columns are told to run on."""
        del mode
        return Hardware.CPU

    def listeners(self, config: Any) -> list[Any]:
        """What must hear of checkpoints, if the configuration asks for any."""
        del config
        return []

    def before_receivers(self) -> None:
        """Makes tables named by dictionaries before a receiver takes the name of one.

        Receivers are named as their features, and a variable whose name is taken gets another one,
        which no checkpoint has.
        """
        if self._spec is not None and self._spec.feature_to_config_dict:
            dict_mode.make_tables(tables_and_features(self._spec)[0])

    def call_model(self, model: Any, features: Any, mode: str, exporting: bool) -> Any:
        """Builds the model on what it expects to find in its features.

        Args:
            model: function of features that returns an `EstimatorSpec`.
            features: of `input_fn`, or of the receivers of an export.
            mode: one of `ModeKeys`.
            exporting: the graph is for a SavedModel.

        Returns:
            The `EstimatorSpec`.
        """
        del mode, exporting
        if self._spec is not None and self._spec.feature_to_config_dict:
            features = dict_mode.look_up(self._spec, features)
        return model(features)


class HostEmbeddings(PlainEmbeddings):
    """Tables belong to the host core: looked up and trained as on a TPU. Exports are plain."""

    def hardware(self, mode: Mode) -> Hardware:
        """A TPU's, but in a graph that is exported for serving on a CPU."""
        return Hardware.CPU if mode is Mode.SERVE else Hardware.TPU

    def listeners(self, config: Any) -> list[Any]:
        """A pipelined core applies what it holds back before a checkpoint is written."""
        saves = config.save_checkpoints_secs or config.save_checkpoints_steps
        pipelined = self._spec.pipeline_execution_with_tensor_core
        return [ApplyHeldUpdates()] if saves and pipelined else []

    def call_model(self, model: Any, features: Any, mode: str, exporting: bool) -> Any:
        """As `PlainEmbeddings`; in training, the train_op trains the tables too."""
        if exporting:
            return super().call_model(model, features, mode, exporting)
        training = mode == ModeKeys.TRAIN
        spec = placing.for_embedding_core(self._spec, Mode(mode))
        core = None if spec is None else HostCore(spec, training)
        features = tensor_core.pad(self._spec.tensor_core_feature_columns or (), features)
        if core is not None:
            features = core.look_up(features, tf1.train.get_global_step())
        small = placing.tensor_core_tables(self._spec)
        with placement.running(Mode(mode), self.hardware(Mode(mode)), small):
            built = model(features)
        if core is None:
            return built
        core.attach()
        if not training:
            return built
        return built._replace(train_op=tf.group(built.train_op, core.update(built.loss)))


def choose(spec: Any, core: str | None, use_tpu: bool) -> PlainEmbeddings:
    """Returns what `TPUEstimator`'s arguments ask for.

    Args:
        spec: the `EmbeddingConfigSpec`, or None.
        core: None or 'host'.
        use_tpu: whether the program runs on a TPU, which has its own core.

    Raises:
        ValueError: an unknown core, or a core without a spec, or beside a TPU's.
    """
    if core is None:
        return PlainEmbeddings(spec)
    if core not in CORES:
        raise ValueError(f"embedding_core must be one of {CORES}, got {core!r}.")
    if spec is None:
        raise ValueError(
            f"embedding_core={core!r} needs an embedding_config_spec: it says which tables there "
            "are and how they are trained."
        )
    if use_tpu:
        raise ValueError(
            f"embedding_core={core!r} runs on the host, but use_tpu is True, and a TPU has an "
            "embedding core of its own. Set use_tpu=False."
        )
    return HostEmbeddings(spec)


class ApplyHeldUpdates(tf1.train.CheckpointSaverListener):
    """Applies, before a checkpoint is written, what a pipelined core holds back."""

    def begin(self) -> None:
        """Finds the ops in the finished graph."""
        self._ops = tf1.get_collection(HELD_UPDATES)

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Applies them."""
        del global_step_value
        if self._ops:
            session.run(self._ops)
