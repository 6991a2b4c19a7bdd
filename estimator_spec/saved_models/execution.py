# SPDX-License-Identifier: Apache-2.0
"""Runs the graph of a SavedModel on features, as the model of a program's estimator runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.saved_models import files, head_recovery
from estimator_spec.saved_models.graph import NodeGraph
from estimator_spec.saved_models.recovery import RecoveredModel

tf1 = tf.compat.v1


class ExportedModel:
    """A SavedModel that predicts features, which it parses from tf.Examples or takes as they are.

    Args:
        path: directory of the SavedModel.
        tag: of its graph. None: 'serve', or the only one there is.
        model: what is recovered of it.

    Attributes:
        model_dir: the argument `path`.
        checkpoint: prefix of its variables.
        canned_model: the model, as canned estimators have it.

    Raises:
        SavedModelError: it is a training's graph, or has no variables.
        UnknownPartError: something of it wasn't recovered.
    """

    def __init__(self, path: str, tag: str | None, model: RecoveredModel) -> None:
        file = files.load(path)
        if not file.is_saved_model:
            raise files.SavedModelError(
                f"{file.path} is a training's graph, which predicts nothing. Export the model, and "
                "name the SavedModel's directory."
            )
        self.model_dir = path
        self.checkpoint = os.path.join(file.directory, "variables", "variables")
        if not tf.io.gfile.exists(f"{self.checkpoint}.index"):
            raise files.SavedModelError(
                f"{path} has no variables/variables.index: its variables are missing. Copy it anew."
            )
        self._model = model
        self.canned_model = model.canned_model
        meta = file.meta_graph(tag)
        self._tags = list(meta.meta_info_def.tags)
        graph = NodeGraph(file, meta)
        signature = head_recovery.prediction_signature(graph)
        self._outputs = head_recovery.outputs_of(graph, signature, model.heads)
        self._inputs = meta.signature_def[signature.name].inputs

    def predict(
        self, input_fn: Callable[[], Any], **ignored: Any
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields the predictions of each batch of a dataset of features, by name."""
        with tf.Graph().as_default() as graph, tf1.Session() as session:
            tf1.saved_model.load(session, self._tags, self.model_dir)
            features = tf1.data.make_one_shot_iterator(input_fn()).get_next()
            while True:
                try:
                    values = session.run(features)
                except tf.errors.OutOfRangeError:
                    return
                found = session.run(self._outputs, self._feed(values, graph))
                yield {key: self._shaped(key, value) for key, value in found.items()}

    def _shaped(self, key: str, value: np.ndarray) -> np.ndarray:
        """Returns an output in the shape that heads give it: [batch, size]."""
        is_renamed = any(head.output == key for head in self._model.heads)
        return value.reshape(len(value), -1) if is_renamed else value

    def _feed(self, features: Mapping[str, Any], graph: tf.Graph) -> dict[str, Any]:
        """Returns what is fed for features, by the names of tensors."""
        feed: dict[str, Any] = {}
        given = {
            feature.fed_as: features[key]
            for key, feature in self._model.features.items()
            if key in features
        }
        for key, info in self._inputs.items():
            if info.WhichOneof("encoding") == "coo_sparse":
                value = given[key]
                names = info.coo_sparse
                feed[names.indices_tensor_name] = value.indices
                feed[names.values_tensor_name] = value.values
                feed[names.dense_shape_tensor_name] = value.dense_shape
            elif key in given and not self._model.parsing_spec:
                shape = graph.get_tensor_by_name(info.name).shape
                feed[info.name] = given[key].reshape(-1) if shape.rank == 1 else given[key]
            else:
                feed[info.name] = serialize(given)
        return feed


def serialize(features: Mapping[str, Any]) -> list[bytes]:
    """Returns the tf.Examples of a batch of features, dense arrays or `SparseTensorValue`s."""
    rows: dict[str, list[list[Any]]] = {}
    for key, value in features.items():
        if isinstance(value, tf1.SparseTensorValue):
            found: list[list[Any]] = [[] for _ in range(int(value.dense_shape[0]))]
            for (row, _), each in zip(value.indices.tolist(), value.values.tolist(), strict=True):
                found[row].append(each)
            rows[key] = found
        else:
            rows[key] = [np.ravel(each).tolist() for each in value]
    count = len(next(iter(rows.values()), []))
    return [_example({key: values[row] for key, values in rows.items()}) for row in range(count)]


def _example(row: Mapping[str, list[Any]]) -> bytes:
    example = tf.train.Example()
    for key, values in row.items():
        if not values:
            continue
        feature = example.features.feature[key]
        if isinstance(values[0], bytes):
            feature.bytes_list.value.extend(values)
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.int64_list.value.extend(values)
    return bytes(example.SerializeToString())
