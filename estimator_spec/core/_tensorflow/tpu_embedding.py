# SPDX-License-Identifier: Apache-2.0
"""Runs `tf.tpu.experimental.embedding.TPUEmbedding` in a TF1 graph and session.

Its public methods work in eager mode only, so this uses private ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def configure_tpu_embedding(embedding: Any, batch_size: int) -> Any:
    """Prepares a `TPUEmbedding` for `enqueue`, `dequeue` and `apply_gradients` in a TF1 graph.

    Its own `build` runs ops eagerly: it starts the embedding core and creates variables. Here a
    session starts the core with the returned message, and the caller creates the variables, whose
    names must be those of a legacy checkpoint.

    Args:
        embedding: a `TPUEmbedding` that isn't built, made under a `TPUStrategy`.
        batch_size: examples of a step on one replica.

    Returns:
        The `TPUEmbeddingConfiguration` message.
    """
    embedding._get_and_update_output_shapes_from_input(None, batch_size)
    embedding._config_proto = embedding._create_config_proto()
    embedding._built = True
    return embedding._config_proto


def load_tpu_embedding(embedding: Any, shards: Any) -> Any:
    """Returns the op that loads tables into the embedding core.

    Args:
        embedding: a `TPUEmbedding` after `configure_tpu_embedding`.
        shards: by table and slot (named as in the mid-level API), the variables of the hosts.
    """

    def load(table: Any, variables: dict[str, Any], where: dict[str, Any]) -> Any:
        names = ["parameters", *table.optimizer._slot_names()]
        like = variables["parameters"]
        given = {name: variables.get(name, tf.zeros_like(like)) for name in names}
        return table.optimizer._load()(**given, **where)

    return _for_each_table(embedding, shards, load)


def retrieve_tpu_embedding(embedding: Any, shards: Any) -> Any:
    """Returns the op that stores the embedding core's tables; see `load_tpu_embedding`."""

    def retrieve(table: Any, variables: dict[str, Any], where: dict[str, Any]) -> Any:
        found = table.optimizer._retrieve()(**where)
        found = found if isinstance(found, tuple) else (found,)
        names = ["parameters", *table.optimizer._slot_names()]
        pairs = [(variables.get(name), value) for name, value in zip(names, found, strict=True)]
        return tf.group(*[v.assign(value).op for v, value in pairs if v is not None])

    return _for_each_table(embedding, shards, retrieve)


def _for_each_table(embedding: Any, shards: Any, build: Callable[..., Any]) -> Any:
    """Returns a group of the ops built for each table on each host, in sequence."""
    ops: list[Any] = []
    config = embedding._config_proto.SerializeToString()
    for shard, host in enumerate(embedding._hosts):
        for table in embedding._table_config:
            variables = {name: found[shard] for name, found in shards[table.name].items()}
            where = {"table_name": table.name, "num_shards": len(embedding._hosts)}
            with tf.device(host), tf.control_dependencies(ops[-1:]):
                ops.append(build(table, variables, {**where, "shard_id": shard, "config": config}))
            config = None  # one op needs the long message
    return tf.group(*ops)


def ops_created_by(build: Callable[[], Any], prefix: str) -> list[Any]:
    """Returns the ops of some types that a function adds to the default graph.

    `TPUEmbedding`'s methods return no ops: a tf.function runs them without. In a TF1 graph a
    session must fetch them.

    Args:
        build: the function.
        prefix: of the ops' types.
    """
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    build()
    return [op for op in graph.get_operations()[before:] if op.type.startswith(prefix)]


def is_on_tpu(embedding: Any) -> bool:
    """Returns whether a `TPUEmbedding` was made in the scope of a `TPUStrategy`."""
    return bool(embedding._using_tpu)


def is_built(embedding: Any) -> bool:
    """Returns whether an embedding object has its variables."""
    return bool(embedding._built)


def table_configs(embedding: Any) -> list[Any]:
    """Returns the tables of an embedding object, in the order of their first features."""
    return list(embedding._table_config)


def variables(embedding: Any) -> dict[str, dict[str, Any]]:
    """Returns the variables of a built embedding object by table and slot, 'parameters' its own.

    The public `embedding_tables` has the tables without their slots.
    """
    return embedding._variables  # type: ignore[no-any-return]


def initialize_base(embedding: Any, kind: Any, features: Any, optimizer: Any) -> None:
    """Calls the initializer of the base class of `TPUEmbeddingV2`, which needs no TPU.

    It checks optimizers and names of tables.

    Args:
        embedding: an instance.
        kind: TensorFlow's `TPUEmbeddingV2`.
        features: structure of `FeatureConfig`s.
        optimizer: optimizer of the tables without one.
    """
    super(kind, embedding).__init__(features, optimizer)  # type: ignore[misc, arg-type]


def add_variable(embedding: Any, name: str, shape: Any, initializer: Any) -> Any:
    """Returns a new variable, which a checkpoint of an embedding object has by its name.

    Args:
        embedding: the object.
        name: name of the variable.
        shape: its shape.
        initializer: its initializer.
    """
    # No public method of a trackable object takes a name with slashes and restores a variable
    # when it is made.
    return embedding._add_variable_with_custom_getter(
        name=name,
        shape=shape,
        dtype=tf.float32,
        initializer=initializer,
        trainable=False,
        getter=_get_variable,
    )


def _get_variable(
    name: str, shape: Any, dtype: Any, initializer: Any, trainable: bool, **more: Any
) -> Any:
    return tf.Variable(
        lambda: initializer(shape, dtype=dtype), trainable=trainable, name=name, shape=shape
    )


def create_slots(optimizer: Any, table: Any, create: Callable[[str, Any], Any]) -> dict[str, Any]:
    """Returns new slot variables by slot: those of a Keras optimizer, or what `create` makes.

    Args:
        optimizer: optimizer of the mid-level API.
        table: the table's variable.
        create: makes a variable of a slot's name and initializer.
    """
    return optimizer._create_slots(table, create)  # type: ignore[no-any-return]


def preprocessing_method(embedding: Any) -> Callable[..., Any]:
    """Returns the `preprocess_features` of a `TPUEmbeddingV2`, whose name was private at first."""
    public = getattr(embedding, "preprocess_features", None)
    return public or embedding._preprocess_features  # type: ignore[no-any-return]
