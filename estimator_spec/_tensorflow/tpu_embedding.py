# SPDX-License-Identifier: Apache-2.0
"""Drives `tf.tpu.experimental.embedding.TPUEmbedding` from a TF1 graph and session.

TensorFlow drives it in eager mode only, so this uses the object's private methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


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
