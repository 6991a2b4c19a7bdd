# SPDX-License-Identifier: Apache-2.0
"""From an estimator to a SavedModel: the exporting half of `Estimator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec import updates
from estimator_spec.driver import checkpoint_state, quantized_export, saved_model_writing
from estimator_spec.driver.graphs import ModelGraphs
from estimator_spec.model.model_spec import ModeKeys
from tpu_columns import placement, storage

tf1 = tf.compat.v1


class ModelExports(ModelGraphs):
    """How `Estimator` exports."""

    def export_saved_model(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
        *,
        tables: str = "float32",
    ) -> bytes:
        """Writes a SavedModel of one mode.

        Args:
            export_dir_base: the SavedModel becomes a directory below it, named by the time.
            serving_input_receiver_fn: returns a `ServingInputReceiver` (or another receiver).
            assets_extra: files to copy, by their destination below `assets.extra`.
            as_text: writes the graph as text.
            checkpoint_path: which checkpoint. None: the latest.
            experimental_mode: another mode of the model, with a receiver that has labels.
            tables: what the numbers of embedding tables are stored as: 'float32' (the default),
                'float16' (half the size), or 'int8' (a quarter, and 4 bytes a row: each row has a
                scale of its own). What that loses is logged, and written to
                `assets.extra/tables.json`.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: no receiver function, no checkpoint, or variables that it doesn't have; or
                narrow tables of a model that has none, or is trained, or has its own saver.
            CheckpointError: the checkpoint is missing or damaged.
        """
        if serving_input_receiver_fn is None:
            raise ValueError("An input_receiver_fn must be defined.")
        # Subclasses that override the method may not know it.
        narrow: Any = {} if tables == "float32" else {"tables": tables}
        return self._export_all_saved_models(
            export_dir_base,
            {experimental_mode: serving_input_receiver_fn},
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            **narrow,
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
    ) -> bytes:
        """Writes one SavedModel with a graph for each mode.

        Args:
            export_dir_base: as for `export_saved_model`.
            input_receiver_fn_map: receiver functions by mode.
            assets_extra: as for `export_saved_model`.
            as_text: as for `export_saved_model`.
            checkpoint_path: as for `export_saved_model`.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: no known mode, no checkpoint, or variables that it doesn't have.
            CheckpointError: the checkpoint is missing or damaged.
        """
        return self._export_all_saved_models(
            export_dir_base,
            input_receiver_fn_map,
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
        )

    def export_savedmodel(
        self,
        export_dir_base: Any,
        serving_input_receiver_fn: Callable[[], Any] | None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = False,
    ) -> bytes:
        """The older name of `export_saved_model`; it keeps default attributes in the graph.

        Args:
            export_dir_base: as for `export_saved_model`.
            serving_input_receiver_fn: as for `export_saved_model`.
            assets_extra: as for `export_saved_model`.
            as_text: as for `export_saved_model`.
            checkpoint_path: as for `export_saved_model`.
            strip_default_attrs: leaves out attributes that have their default value, so that
                older servers can read the graph.

        Returns:
            The path of the SavedModel, as bytes.

        Raises:
            ValueError: as for `export_saved_model`.
            CheckpointError: as for `export_saved_model`.
        """
        if serving_input_receiver_fn is None:
            raise ValueError("An input_receiver_fn must be defined.")
        return self._export_all_saved_models(
            export_dir_base,
            {ModeKeys.PREDICT: serving_input_receiver_fn},
            assets_extra=assets_extra,
            as_text=as_text,
            checkpoint_path=checkpoint_path,
            strip_default_attrs=strip_default_attrs,
        )

    def _export_all_saved_models(
        self,
        export_dir_base: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: str | None = None,
        strip_default_attrs: bool = True,
        tables: str = "float32",
    ) -> bytes:
        stored = storage.TableStorage(dtype=tables)
        checkpoint = checkpoint_state.choose_checkpoint(checkpoint_path, self._model_dir)
        if checkpoint is None and self._warm_start_settings:
            checkpoint = saved_model_writing.warm_start_checkpoint(self._warm_start_settings)
        if checkpoint is None:
            raise ValueError(
                f"Couldn't find trained model at {self._model_dir}. Train first, or give "
                "checkpoint_path."
            )
        modes = saved_model_writing.modes_in_order(input_receiver_fn_map)
        if tables != "float32" and modes != [ModeKeys.PREDICT]:
            raise ValueError(
                f"tables={tables!r} is for serving: such tables can't be trained. Export "
                f"{ModeKeys.PREDICT!r} only, not {modes}."
            )
        with (
            saved_model_writing.directory(export_dir_base, assets_extra) as writing,
            storage.storing(stored),
        ):
            builder = tf1.saved_model.Builder(writing.temporary)
            for mode in modes:
                losses = self._add_meta_graph_for_mode(
                    builder,
                    input_receiver_fn_map,
                    checkpoint,
                    save_variables=mode == modes[0],
                    mode=mode,
                    strip_default_attrs=strip_default_attrs,
                )
            builder.save(as_text)
            quantized_export.report_losses(losses or {}, tables, writing.temporary)
        return tf.compat.as_bytes(writing.final)

    def _add_meta_graph_for_mode(
        self,
        builder: Any,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        checkpoint_path: str,
        save_variables: bool = True,
        mode: str = ModeKeys.PREDICT,
        strip_default_attrs: bool = True,
    ) -> Any:
        """Builds the graph of a mode anew, and adds it; returns what narrow tables lose."""
        with tf.Graph().as_default() as graph:
            self._start(graph)
            self._before_receivers()
            with self._users_code(placement.Mode.SERVE):
                receiver = input_receiver_fn_map[mode]()
                labels = getattr(receiver, "labels", None)
                spec = self._call_model_fn(receiver.features, labels, mode, self.config)
            if self._fast_updates:
                updates.sum_from_tables(graph)
            return saved_model_writing.add_graph(
                builder,
                spec,
                receiver,
                mode=mode,
                session_config=self._session_config,
                checkpoint=checkpoint_path,
                save_variables=save_variables,
                strip_default_attrs=strip_default_attrs,
            )
