# SPDX-License-Identifier: Apache-2.0
"""Defines an estimator whose model is that of a SavedModel, which an estimator has exported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import private
from estimator_spec.core.driver import saved_models
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys

tf1 = tf.compat.v1

_MODES = (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT)
_METHODS = {
    ModeKeys.TRAIN: "tensorflow/supervised/training",
    ModeKeys.EVAL: "tensorflow/supervised/eval",
}
# Collections by which an exported graph names its parts. An export of the loaded graph fills them
# anew, so they must be empty.
_MAIN_OP = "saved_model_main_op"
_PARTS = (_MAIN_OP, "legacy_init_op", saved_models.TRAIN_OP_COLLECTION, "saved_model_assets")
_VALUE, _UPDATE = "/value", "/update_op"


class SavedModelEstimator(Estimator):
    """An estimator that trains, evaluates and predicts with the graphs of a SavedModel.

    The SavedModel is one of `Estimator.experimental_export_all_saved_models`, or, for predictions
    alone, of `Estimator.export_saved_model`. The names of features are those of its inputs, such as
    'examples' of a receiver that parses tf.Examples. Training begins with its variables.

    Args:
        saved_model_dir: directory of the SavedModel.
        model_dir: directory of checkpoints and summaries. None: a temporary one.

    Attributes:
        saved_model_dir: the argument.

    Raises:
        OSError: there is no SavedModel.
        ValueError: the SavedModel has no variables.
    """

    def __init__(self, saved_model_dir: Any, model_dir: Any = None) -> None:
        self.saved_model_dir = tf.compat.as_str_any(os.fspath(saved_model_dir))
        self._loader = private.saved_model_loader.SavedModelLoader(self.saved_model_dir)
        self._variables = os.path.join(self.saved_model_dir, "variables", "variables")
        if not tf.io.gfile.exists(self._variables + ".index"):
            raise ValueError(
                f"Directory provided has an invalid SavedModel format: {self.saved_model_dir} has "
                "no variables/variables.index. Give the directory of an estimator's export, which "
                "has a file saved_model.pb."
            )
        super().__init__(self._build_model, model_dir)
        self._signatures = {mode: self._find_signature(mode) for mode in _MODES}
        found = [mode for mode, signature in self._signatures.items() if signature is not None]
        tf1.logging.info("Available modes for Estimator: %s", found)

    def latest_checkpoint(self) -> str | None:
        """Returns the path of the latest checkpoint in `model_dir`, or else of the SavedModel's."""
        return super().latest_checkpoint() or self._variables

    def _find_signature(self, mode: str) -> Any:
        """Returns the signature of a mode, or None."""
        try:
            meta_graph = self._loader.get_meta_graph_def_from_tags(saved_models.TAGS[mode])
        except RuntimeError:
            tf1.logging.warning("%s mode not found in SavedModel.", mode)
            return None
        default = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        key = default if mode == ModeKeys.PREDICT else mode
        if key not in meta_graph.signature_def:
            tf1.logging.warning(
                "Metagraph for mode %s was found, but SignatureDef with key %r is missing.",
                mode,
                key,
            )
            return None
        return meta_graph.signature_def[key]

    def _build_model(self, features: Any, labels: Any, mode: str) -> EstimatorSpec:
        """Loads the graph of a mode into the default graph: a `model_fn`."""
        signature = self._signatures[mode]
        if signature is None:
            raise RuntimeError(
                f"{mode} mode is not available in the SavedModel {self.saved_model_dir}. Export it "
                "with experimental_export_all_saved_models; saved_model_cli shows what it has."
            )
        graph = tf1.get_default_graph()
        if tf1.train.get_global_step(graph) is not None:
            raise RuntimeError(
                "Graph must not contain a global step tensor before the SavedModel is loaded: it "
                "has its own. Leave it out of the input_fn."
            )
        meta_graph = self._loader.get_meta_graph_def_from_tags(saved_models.TAGS[mode])
        # The graph's own constants have the files' paths at the time of the first export.
        files = private.saved_model_loader.get_asset_tensors(self.saved_model_dir, meta_graph)
        assets = {name: tf.constant(path) for name, path in files.items()}
        names = [info.name for info in signature.outputs.values()]
        _, tensors = self._loader.load_graph(
            graph,
            saved_models.TAGS[mode],
            input_map={**assets, **_replacements_of_inputs(signature, features, labels)},
            return_elements=names,
        )
        outputs = dict(zip(signature.outputs, tensors, strict=True))
        parts = _parts_of_spec(mode, outputs, signature.method_name)
        scaffold, train_op = self._scaffold(meta_graph.saver_def), _train_op()
        for name in _PARTS:
            tf1.get_collection_ref(name).clear()
        tf1.get_collection_ref(tf1.GraphKeys.ASSET_FILEPATHS)[:] = assets.values()
        return EstimatorSpec(mode=mode, scaffold=scaffold, train_op=train_op, **parts)

    def _scaffold(self, saver_def: Any) -> tf1.train.Scaffold:
        """Returns the initializers and the saver of the loaded graph."""
        main_ops = tf1.get_collection(_MAIN_OP)

        def restore(scaffold: tf1.train.Scaffold, session: tf1.Session) -> None:
            scaffold.saver.restore(session, self._variables)

        return tf1.train.Scaffold(
            local_init_op=main_ops[0] if main_ops else None,
            saver=tf1.train.Saver(saver_def=saver_def),
            init_fn=None if super().latest_checkpoint() else restore,
        )

    # Methods of `Estimator` that the SavedModel changes.

    def _create_and_assert_global_step(self, graph: tf.Graph) -> Any:
        """Returns None: the global step is part of the SavedModel."""
        del graph

    def _checkpoint_for(self, task: str, checkpoint_path: str | None) -> str | None:
        """Returns the prefix of the checkpoint to evaluate or predict with."""
        return super()._checkpoint_for(task, checkpoint_path or self.latest_checkpoint())

    def _export_all_saved_models(self, *args: Any, **kwargs: Any) -> bytes:
        """Writes one SavedModel; without a checkpoint it has this SavedModel's variables."""
        kwargs["checkpoint_path"] = kwargs.get("checkpoint_path") or self.latest_checkpoint()
        return super()._export_all_saved_models(*args, **kwargs)


def _by_key(tensors: Any, key: str) -> dict[str, Any]:
    """Returns tensors by name; a single one has a name that exports give it."""
    return dict(tensors) if isinstance(tensors, Mapping) else {key: tensors}


def _replacements_of_inputs(signature: Any, features: Any, labels: Any) -> dict[str, Any]:
    """Returns the tensors that replace the inputs of a signature, by the names to replace."""
    given = {} if labels is None else _by_key(labels, "label")
    given.update(_by_key(features, "feature"))
    replacements = {}
    for key, info in signature.inputs.items():
        if key not in given:
            raise ValueError(
                f'Key "{key}" not found in features or labels passed in to the model function: '
                f"there are {sorted(given)}. All required keys: {sorted(signature.inputs)}"
            )
        tensor = given[key]
        dtype, shape = tf.as_dtype(info.dtype), tf.TensorShape(info.tensor_shape)
        wrong = []
        if tensor.dtype != dtype:
            wrong.append(f"Expected dtype: {dtype.name}, Got: {tensor.dtype.name}")
        if not tensor.shape.is_compatible_with(shape):
            wrong.append(f"Expected shape: {shape}, Got: {tensor.shape}")
        if wrong:
            raise ValueError(
                f"Tensor shape and/or dtype validation failed for input {key}: what input_fn "
                f"returned isn't what the SavedModel takes. {'; '.join(wrong)}."
            )
        for name, part in _dense_parts(info, tensor).items():
            replacements[name] = part
            replacements["^" + name.partition(":")[0]] = part  # as a control dependency
    return replacements


def _dense_parts(info: Any, tensor: Any) -> dict[str, Any]:
    """Returns the dense tensors of an input by their names in the SavedModel."""
    if info.WhichOneof("encoding") != "coo_sparse":
        return {info.name: tensor}
    names = info.coo_sparse
    return {
        names.indices_tensor_name: tensor.indices,
        names.values_tensor_name: tensor.values,
        names.dense_shape_tensor_name: tensor.dense_shape,
    }


def _train_op() -> Any:
    """Returns the training op of the loaded graph, or None."""
    train_ops = tf1.get_collection(saved_models.TRAIN_OP_COLLECTION)
    if len(train_ops) > 1:
        raise RuntimeError(
            f"The SavedModel has {len(train_ops)} ops in the collection "
            f"{saved_models.TRAIN_OP_COLLECTION!r}, expected one. Export the model anew."
        )
    return train_ops[0] if train_ops else None


def _parts_of_spec(mode: str, outputs: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Returns loss, predictions and metrics, as arguments of an `EstimatorSpec`."""
    if mode == ModeKeys.PREDICT:
        return {"predictions": dict(outputs)}
    if method != _METHODS[mode]:
        raise RuntimeError(
            f"Invalid SignatureDef method name for mode {mode}.\n\tExpected: {_METHODS[mode]}\n\t"
            f"Got: {method}\nExport the SavedModel with experimental_export_all_saved_models."
        )
    metrics = {
        name: (outputs[name + _VALUE], outputs[name + _UPDATE])
        for name in (key.removesuffix(_VALUE) for key in outputs if key.endswith(_VALUE))
        if name.startswith("metrics") and name + _UPDATE in outputs
    }
    predictions = {key: value for key, value in outputs.items() if key.startswith("predictions")}
    return {"loss": outputs["loss"], "predictions": predictions, "eval_metric_ops": metrics}
