# SPDX-License-Identifier: Apache-2.0
"""The only door of `estimator_spec` to TensorFlow's private modules.

Each name says why no public one serves. Tried on TensorFlow 2.15.1, 2.16 and 2.21.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# The messages that configure an embedding core: no public module has them.
from tensorflow.core.protobuf.tpu import (
    optimization_parameters_pb2,
    tpu_embedding_configuration_pb2,
)

# The dense columns that a spec accepts beside TPU columns. Only the functions that make them are
# public. Both modules are loaded by `import tensorflow`.
from tensorflow.python.feature_column.feature_column import (
    _SharedEmbeddingColumn as SharedEmbeddingColumnV1,
)
from tensorflow.python.feature_column.feature_column_v2 import (
    EmbeddingColumn,
    NumericColumn,
    SharedEmbeddingColumn,
)

# Whether `tf.config.experimental.enable_op_determinism` was called; only that is public.
from tensorflow.python.framework.config import is_op_determinism_enabled

# What tensorflow.contrib.lookup and tensorflow.contrib.summary were: the v1 signatures (`family`,
# the step of the graph) and the tables of ids have no public names.
from tensorflow.python.ops import lookup_ops
from tensorflow.python.ops import summary_ops_v2 as summary_ops

# How many replicas a computation is built for, and the loops of tensorflow.contrib.tpu: neither
# has a public name.
from tensorflow.python.tpu import tpu_function, training_loop

# The step counter's readable copy: MonitoredSession's hooks make it when they begin. A legacy
# Estimator makes it before the model, which op seeds that nobody set depend on (they are the
# number of ops in the graph).
from tensorflow.python.training.training_util import (
    _get_or_create_global_step_read as get_or_create_global_step_read,
)

DENSE_COLUMNS = (NumericColumn, EmbeddingColumn, SharedEmbeddingColumn, SharedEmbeddingColumnV1)


def keras_is_chosen() -> bool:
    """Whether `tf.keras` was used already: TensorFlow reads TF_USE_LEGACY_KERAS at that time.

    Asking the lazy loader the usual way would load Keras.
    """
    loader = vars(tf).get("keras")
    # From 2.16 on this is a loader until it has been used, then the module itself.
    return vars(loader).get("_tfll_initialized", True) if loader is not None else False


def look_for_keras_in(package: str) -> None:
    """Makes `import tensorflow.keras` and its like find this package's Keras.

    TensorFlow puts the directories of one Keras into the paths of its modules when it is imported,
    by the value that TF_USE_LEGACY_KERAS has then.
    """
    spec = importlib.util.find_spec(package)
    home = os.path.dirname(str(spec.origin)) if spec is not None else ""
    for name in ("", "._api.v2.compat.v1", ".compat.v1", "._api.v2.compat.v2", ".compat.v2"):
        module = sys.modules.get("tensorflow" + name)
        if module is None:
            continue
        face = "_v1" if name.endswith("v1") else "_v2"
        folder = os.path.join(home, "api", face)
        if os.path.isdir(folder) and folder not in module.__path__:
            module.__path__ = [folder, *module.__path__]


class _StringView(ctypes.Structure):
    """A C++ string_view, as libstdc++ lays it out."""

    _fields_ = (("size", ctypes.c_size_t), ("data", ctypes.c_void_p))


# The checksum of checkpoints, which TensorFlow computes ten times faster than Python could: no
# Python name has it. A mangled name holds the types of the arguments, and Abseil's its version.
_CRC32C = "_ZN3tsl6crc32c6ExtendEjPKcm"  # TensorFlow 2.15.1
_ABSL_CRC32C = (  # TensorFlow 2.21
    "_ZN4absl12lts_2025081412crc_internal20ExtendCrc32cInternal"
    "ENS0_8crc32c_tESt17basic_string_viewIcSt11char_traitsIcEE"
)


def native_crc32c() -> Callable[[int, int, int], int] | None:
    """TensorFlow's CRC-32C, if this version shows it: (crc so far, address, bytes) -> crc."""
    libraries = tf.sysconfig.get_lib()
    for file in ("libtensorflow_framework.so.2", "libtensorflow_framework.2.dylib"):
        try:
            library = ctypes.CDLL(os.path.join(libraries, file))
        except OSError:
            continue
        if hasattr(library, _CRC32C):
            plain = library[_CRC32C]
            plain.argtypes = (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t)
            plain.restype = ctypes.c_uint32
            return lambda crc, address, size: int(plain(crc, address, size))
        if hasattr(library, _ABSL_CRC32C):
            viewing = library[_ABSL_CRC32C]
            viewing.argtypes = (ctypes.c_uint32, _StringView)
            viewing.restype = ctypes.c_uint32
            return lambda crc, address, size: int(viewing(crc, _StringView(size, address)))
    return None


def sparse_core_layout_stacker(**arguments: Any) -> Any:
    """What lays tables out on SparseCores; TensorFlow from 2.18 or so on has it.

    `TPUEmbeddingV2` calls it with the samples of its first feature only, so we call it ourselves;
    its layouts can be handed over by the public `TableConfig(layout=…)`.
    """
    # The class is TensorFlow's own, in C++; no public name leads to it.
    from tensorflow.python.tpu import _pywrap_sparse_core_layout

    return _pywrap_sparse_core_layout.SparseCoreLayoutStacker(**arguments)


def replace_input(op: Any, value: Any, position: int = 0) -> None:
    """Makes an op read `value` as one of its inputs.

    The name of an embedding core's table is known only after the model used its column, and a
    variable can't be renamed; so the model is built on stand-ins. And updates of tables are made
    faster in the finished graph. TensorFlow's own while loops are built in the same way, by the
    same method.
    """
    op._update_input(position, value)


def replace_output(old: Any, new: Any) -> None:
    """Makes all ops that read the tensor `old` read `new`; see `replace_input`."""
    for user in old.consumers():
        for position, value in enumerate(user.inputs):
            if value is old:
                replace_input(user, new, position)


def replace_control_inputs(op: Any, ops: list[Any]) -> None:
    """Makes an op wait for these ops, and for no others. No public method changes a graph."""
    op._remove_all_control_inputs()
    op._add_control_inputs(ops)


def wait_for_replacements(op: Any, replacements: dict[Any, Any]) -> None:
    """Makes an op wait for the replacements of what it waits for; see `replace_control_inputs`."""
    waits_for = op.control_inputs
    if any(other in replacements for other in waits_for):
        instead = dict.fromkeys(replacements.get(other, other) for other in waits_for)
        replace_control_inputs(op, list(instead))


def add_control_input(op: Any, other: Any) -> None:
    """Makes an op wait for one more; see `replace_control_inputs`."""
    op._add_control_input(other)


def control_flow_context(op: Any) -> Any:
    """The `tf.cond` or `tf.while_loop` of TF1 that an op is within, or None."""
    return op._get_control_flow_context()


def configure_tpu_embedding(embedding: Any, batch_size: int) -> Any:
    """Makes a `TPUEmbedding` ready for `enqueue`, `dequeue` and `apply_gradients` in a TF1 graph.

    Its own `build` runs ops at once, which a graph can't: it starts the embedding core and makes
    variables. Here a session starts the core, with the message that is returned, and the variables
    are ours, because they have names of their own.

    Args:
        embedding: a `TPUEmbedding` that isn't built, made under a `TPUStrategy`.
        batch_size: examples of a step on one replica.
    """
    embedding._get_and_update_output_shapes_from_input(None, batch_size)
    embedding._config_proto = embedding._create_config_proto()
    embedding._built = True
    return embedding._config_proto


def load_tpu_embedding(embedding: Any, shards: Any) -> Any:
    """The op that brings tables to the embedding core: `TPUEmbedding` has it for eager mode only.

    Args:
        embedding: from `configure_tpu_embedding`.
        shards: by table and slot (in the API's words), the variables of the hosts.
    """

    def load(table: Any, variables: dict[str, Any], where: dict[str, Any]) -> Any:
        names = ["parameters", *table.optimizer._slot_names()]
        like = variables["parameters"]
        given = {name: variables.get(name, tf.zeros_like(like)) for name in names}
        return table.optimizer._load()(**given, **where)

    return _for_each_table(embedding, shards, load)


def retrieve_tpu_embedding(embedding: Any, shards: Any) -> Any:
    """The op that brings tables back from the embedding core; see `load_tpu_embedding`."""

    def retrieve(table: Any, variables: dict[str, Any], where: dict[str, Any]) -> Any:
        found = table.optimizer._retrieve()(**where)
        found = found if isinstance(found, tuple) else (found,)
        names = ["parameters", *table.optimizer._slot_names()]
        pairs = [(variables.get(name), value) for name, value in zip(names, found, strict=True)]
        return tf.group(*[v.assign(value).op for v, value in pairs if v is not None])

    return _for_each_table(embedding, shards, retrieve)


def _for_each_table(embedding: Any, shards: Any, do: Callable[..., Any]) -> Any:
    """Does something for each table on each host, one after the other."""
    ops: list[Any] = []
    config = embedding._config_proto.SerializeToString()
    for shard, host in enumerate(embedding._hosts):
        for table in embedding._table_config:
            variables = {name: found[shard] for name, found in shards[table.name].items()}
            where = {"table_name": table.name, "num_shards": len(embedding._hosts)}
            with tf.device(host), tf.control_dependencies(ops[-1:]):
                ops.append(do(table, variables, {**where, "shard_id": shard, "config": config}))
            config = None  # it is long, and one op has it
    return tf.group(*ops)


def ops_made_by(build: Callable[[], Any], kind: str) -> list[Any]:
    """The ops whose type begins with `kind` that `build` adds to the default graph.

    `TPUEmbedding`'s methods return nothing, since a tf.function runs their ops anyway. In a graph
    somebody must ask for them.
    """
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    build()
    return [op for op in graph.get_operations()[before:] if op.type.startswith(kind)]


__all__ = [
    "DENSE_COLUMNS",
    "configure_tpu_embedding",
    "control_flow_context",
    "get_or_create_global_step_read",
    "is_op_determinism_enabled",
    "keras_is_chosen",
    "load_tpu_embedding",
    "look_for_keras_in",
    "lookup_ops",
    "native_crc32c",
    "ops_made_by",
    "optimization_parameters_pb2",
    "replace_control_inputs",
    "replace_input",
    "retrieve_tpu_embedding",
    "sparse_core_layout_stacker",
    "summary_ops",
    "tpu_embedding_configuration_pb2",
    "tpu_function",
    "training_loop",
    "wait_for_replacements",
]
