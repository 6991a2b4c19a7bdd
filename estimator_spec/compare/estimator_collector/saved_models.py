# SPDX-License-Identifier: Apache-2.0
"""Reads the signatures of a SavedModel."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1


def read_signatures(path: str) -> dict[str, Any]:
    """Returns method, inputs and outputs of the serving signatures by key; {} without any.

    Args:
        path: directory of the SavedModel.
    """
    with tf1.Session(graph=tf.Graph()) as session:
        try:
            loaded = tf1.saved_model.load(session, [tf.saved_model.SERVING], path)
        except RuntimeError:  # only the graphs of other modes were exported
            return {}
    return {
        key: {
            "method": signature.method_name,
            "inputs": {name: _text(info) for name, info in signature.inputs.items()},
            "outputs": {name: _text(info) for name, info in signature.outputs.items()},
        }
        for key, signature in sorted(loaded.signature_def.items())
    }


def _text(info: Any) -> str:
    """Returns dtype and shape of a signature's tensor, such as 'float32 [?, 3]'."""
    dtype = tf.dtypes.as_dtype(info.dtype).name
    if info.tensor_shape.unknown_rank:
        return f"{dtype} of unknown rank"
    sizes = ("?" if dim.size < 0 else str(dim.size) for dim in info.tensor_shape.dim)
    return f"{dtype} [{', '.join(sizes)}]"
