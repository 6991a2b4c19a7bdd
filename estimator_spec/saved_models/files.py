# SPDX-License-Identifier: Apache-2.0
"""Reads the graphs of a SavedModel, or of a training's files; runs nothing of them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import tensorflow as tf
from google.protobuf import message, text_format

from estimator_spec.core._tensorflow import private

SERVING = "serve"
_GRAPH, _TEXT, _CHUNKS = "saved_model.pb", "saved_model.pbtxt", "saved_model.cpb"
_TRAINING_GRAPH = "graph.pbtxt"

# What a path has that is a model of something else, and what that is.
_OTHERS = {
    "config.json": "a model of Keras 3, unpacked",
    "data_spec.pb": "a model of Yggdrasil Decision Forests",
    "model.json": "a model of TensorFlow.js",
    "pytorch_model.bin": "a model of PyTorch",
}
_ENDINGS = {
    ".keras": "a model of Keras 3",
    ".h5": "a Keras model in HDF5",
    ".hdf5": "a Keras model in HDF5",
    ".tflite": "a model of TensorFlow Lite",
    ".onnx": "an ONNX model",
    ".pt": "a model of PyTorch",
    ".pth": "a model of PyTorch",
    ".safetensors": "a file of weights alone",
}


class SavedModelError(ValueError):
    """A SavedModel is missing, damaged, or of another kind than what was asked for."""


class GraphPlace(NamedTuple):
    """The nodes of a graph, or of one of its functions.

    Attributes:
        name: name of the function; '' for the graph itself.
        nodes: the nodes, which can be changed.
    """

    name: str
    nodes: Any


@dataclasses.dataclass(frozen=True)
class GraphFile:
    """The file that a path leads to, and the graphs in it.

    Attributes:
        path: the file.
        directory: the SavedModel's directory, or that of the training.
        content: the SavedModel message; one with a single graph for files of a training.
        is_saved_model: whether it isn't a file of a training.
    """

    path: str
    directory: str
    content: Any
    is_saved_model: bool = True

    def meta_graph(self, tag: str | None = None) -> Any:
        """Returns the MetaGraphDef with a tag.

        Args:
            tag: the tag. None: 'serve', or the only one there is.

        Raises:
            SavedModelError: no graph has it.
        """
        metas = list(self.content.meta_graphs)
        if tag is None and len(metas) == 1:
            return metas[0]
        wanted = SERVING if tag is None else tag
        exact = [meta for meta in metas if list(meta.meta_info_def.tags) == [wanted]]
        found = exact or [meta for meta in metas if wanted in meta.meta_info_def.tags]
        if not found:
            tags = sorted({",".join(sorted(meta.meta_info_def.tags)) for meta in metas})
            raise SavedModelError(
                f"{self.path} has no graph with the tag {wanted!r}; its tags are {tags}. Name one "
                "of them with --tag."
            )
        return found[0]


def graphs_of(meta_graph: Any) -> Iterator[GraphPlace]:
    """Yields the graph of a MetaGraphDef, then each function of its library."""
    yield GraphPlace("", meta_graph.graph_def.node)
    for function in meta_graph.graph_def.library.function:
        yield GraphPlace(function.signature.name, function.node_def)


def load(path: Any) -> GraphFile:
    """Reads a SavedModel, the `.meta` file of a checkpoint, or a training's graph.

    Args:
        path: directory of a SavedModel; a `model.ckpt-N.meta`; or a `model_dir` with `graph.pbtxt`.

    Raises:
        SavedModelError: there is none, or it can't be read.
    """
    path = tf.compat.as_str_any(os.fspath(path)).rstrip("/") or "/"
    if not tf.io.gfile.exists(path):
        raise SavedModelError(f"{path} doesn't exist. Name the directory of a SavedModel.")
    if not tf.io.gfile.isdir(path):
        return _load_file(path)
    for name in (_GRAPH, _TEXT):
        file = os.path.join(path, name)
        if tf.io.gfile.exists(file):
            return GraphFile(file, path, _parse(file, private.saved_model_pb2.SavedModel()))
    if tf.io.gfile.exists(os.path.join(path, _CHUNKS)):
        raise SavedModelError(
            f"{path} has its graph in pieces ({_CHUNKS}), as tf.saved_model.save writes those over "
            "2 GB. An estimator's export has none."
        )
    file = os.path.join(path, _TRAINING_GRAPH)
    if tf.io.gfile.exists(file):
        return _load_file(file)
    raise SavedModelError(_refusal(path))


def _load_file(path: str) -> GraphFile:
    directory, name = os.path.split(path)
    if name in (_GRAPH, _TEXT):
        return load(directory)
    content = private.saved_model_pb2.SavedModel()
    if name.endswith(".meta"):
        _parse(path, content.meta_graphs.add())
    elif name == _TRAINING_GRAPH:
        _parse(path, content.meta_graphs.add().graph_def)
    else:
        kind = _ENDINGS.get(os.path.splitext(name)[1], "no SavedModel")
        raise SavedModelError(
            f"{path} is {kind}. Name the directory of a SavedModel, or a model.ckpt-N.meta."
        )
    return GraphFile(path, directory, content, is_saved_model=False)


def _parse(path: str, content: Any) -> Any:
    """Fills a message with a file's content, and returns it."""
    with tf.io.gfile.GFile(path, "rb") as file:
        data = file.read()
    try:
        if path.endswith(".pbtxt"):
            text_format.Parse(data.decode(), content, allow_unknown_field=True)
        else:
            content.ParseFromString(data)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise SavedModelError(
            f"{path} ({len(data)} bytes) is cut or damaged: {str(error).splitlines()[0]}. Copy it "
            "anew."
        ) from None
    if not getattr(content, "meta_graphs", data):
        raise SavedModelError(f"{path} ({len(data)} bytes) has no graph. Copy it anew.")
    return content


def _refusal(path: str) -> str:
    """Returns why a directory is no SavedModel."""
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(path))
    for name in names:
        kind = _OTHERS.get(name) or _ENDINGS.get(os.path.splitext(name)[1])
        if kind:
            return f"{path} is {kind} (it has {name}), no SavedModel. Only SavedModels are read."
    exports = [name for name in names if tf.io.gfile.exists(os.path.join(path, name, _GRAPH))]
    if exports:
        latest = max(exports, key=lambda name: (len(name), name))
        return f"{path} holds SavedModels, and is none: name one, such as {path}/{latest}."
    return (
        f"{path} has no {_GRAPH}, nor the {_TRAINING_GRAPH} of a training. Name the directory of a "
        "SavedModel."
    )
