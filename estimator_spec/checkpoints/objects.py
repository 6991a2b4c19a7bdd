# SPDX-License-Identifier: Apache-2.0
"""Names tables as `tf.train.Checkpoint` does for TensorFlow's TPU embedding objects.

A `tf.train.Checkpoint(embedding=…)` names each variable by its path of attributes, and stores the
graph of objects. That graph doesn't depend on the sizes of tables, so TensorFlow itself writes it,
for the same objects with tables of one row; the real rows are then streamed under the same names.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core.checkpoints import slots, variable_roles
from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec, table_name, tensor_core_tables

TPU_EMBEDDING, SERVING = "tpu_embedding", "serving"
TARGETS = (TPU_EMBEDDING, SERVING)

# The variable in which tf.train.Checkpoint stores the graph of objects.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
SAVE_COUNTER = "save_counter/.ATTRIBUTES/VARIABLE_VALUE"

# TensorFlow's optimizer with exactly these slots.
_OPTIMIZERS = {
    frozenset(): "SGD",
    frozenset({"accumulators"}): "Adagrad",
    frozenset({"accumulators", "momenta"}): "AdagradMomentum",
    frozenset({"momenta", "velocities"}): "Adam",
    frozenset({"accumulators", "linears"}): "FTRL",
}


@dataclasses.dataclass(frozen=True)
class ObjectSlot:
    """A slot variable that an embedding object has.

    Attributes:
        name: name in the source.
        suffix: suffix of that name.
        naming: the optimizer that it belongs to in the source.
        attribute: name in the object, such as 'momenta'.
    """

    name: str
    suffix: str
    naming: slots.SlotNaming
    attribute: str


class ObjectCheckpoint:
    """The embedding object that a conversion writes, and the names of its variables.

    Args:
        target: one of `TARGETS`.
        root: keyword of `tf.train.Checkpoint` for the object.
        spec: the spec, or None; identifies the tables of the tensor core.

    Raises:
        ValueError: the target is unknown, or the root isn't a valid keyword.
    """

    def __init__(self, target: str, root: str, spec: EmbeddingConfigSpec | None) -> None:
        if target not in TARGETS:
            raise ValueError(f"objects must be one of {TARGETS}, got {target!r}.")
        if not root.isidentifier() or root == "save_counter":
            raise ValueError(
                f"root must be a keyword of tf.train.Checkpoint, such as 'embedding', got {root!r}."
            )
        self._target = target
        self._root = root
        self._spec = spec
        self._slots: dict[str, list[str]] = {}

    def key(self, table: variable_roles.CheckpointTable) -> str:
        """Returns the table's key, by which the object names it.

        Raises:
            ValueError: the key is unknown.
        """
        if table.key is None:
            raise ValueError(
                f"The object of {table.name!r} is named by the table's key in the spec, which "
                "neither a spec nor the record beside the checkpoint tells. Give the spec."
            )
        return table.key

    def is_left_out(self, table: variable_roles.CheckpointTable) -> bool:
        """Returns whether the object lacks a table, as it does those of the tensor core."""
        if self._target == SERVING or self._spec is None:
            return False
        small = {table_name(name) for name in tensor_core_tables(self._spec)}
        return table.key in small

    def slots_of(
        self, table: variable_roles.CheckpointTable, kept: Mapping[str, str]
    ) -> list[ObjectSlot]:
        """Returns the slots of a table that the object has: all of its optimizer's, or none.

        Args:
            table: the table.
            kept: suffixes of the slots that may be used, by full name.
        """
        if self._target == SERVING:
            return []
        wanted = table.in_spec.optimizer if table.in_spec else None
        found, _, _ = slots.recognize_optimizers(kept.values())
        for naming in found:
            parameters = wanted or slots.DEFAULTS.get(naming.optimizer)
            if parameters is None:
                continue
            if type(parameters).__name__.removesuffix("Parameters") != naming.optimizer:
                continue
            attributes = mid_level_slot_names(parameters)
            by_suffix = {naming.suffixes[slot]: name for slot, name in attributes.items()}
            result = [
                ObjectSlot(name, suffix, naming, by_suffix[suffix])
                for name, suffix in sorted(kept.items())
                if suffix in by_suffix
            ]
            if len(result) == len(by_suffix) and frozenset(by_suffix.values()) in _OPTIMIZERS:
                return result
        return []

    def add_variable(self, key: str, attribute: str = "") -> str:
        """Adds a variable and returns its name in the checkpoint; the table before its slots.

        Args:
            key: key of the table.
            attribute: name of the slot in the object; '' for the table itself.
        """
        slots_of_table = self._slots.setdefault(key, [])
        if attribute:
            slots_of_table.append(attribute)
        return self._named(key, attribute)

    def _named(self, key: str, attribute: str = "") -> str:
        local = f"{key}/{attribute}" if attribute else key
        escaped = local.replace(".", "..").replace("/", ".S")
        return f"{self._root}/{escaped}/.ATTRIBUTES/VARIABLE_VALUE"

    def graph(self) -> bytes:
        """Returns the serialized graph of objects with the variables added so far.

        Raises:
            ValueError: TensorFlow names them differently, or eager execution is disabled.
        """
        with tf.init_scope():
            if not tf.executing_eagerly():
                raise ValueError(
                    "TF2 objects need eager execution, which this program has switched off. "
                    "Convert in a process of its own: python -m estimator_spec checkpoint convert."
                )
            with tempfile.TemporaryDirectory(prefix="objects-") as directory:
                checkpoint = tf.train.Checkpoint(**{self._root: self._object()})
                prefix = checkpoint.save(os.path.join(directory, "objects"))
                reader = tf.train.load_checkpoint(prefix)
                found = set(reader.get_variable_to_shape_map())
                graph = bytes(reader.get_tensor(OBJECT_GRAPH))
        named = {
            self._named(key, slot) for key, all_ in self._slots.items() for slot in ("", *all_)
        }
        if found != {*named, OBJECT_GRAPH, SAVE_COUNTER}:
            raise ValueError(
                f"TensorFlow {tf.__version__} names the variables of its objects {sorted(found)}, "
                f"not {sorted(named)}. Use estimator_spec.convert and tf.train.Checkpoint."
            )
        return graph

    def _object(self) -> Any:
        """Returns the object with tables of one element."""
        library = tf.tpu.experimental.embedding
        features = []
        for key, kept in sorted(self._slots.items()):
            optimizer = None
            if self._target == TPU_EMBEDDING:
                name = _OPTIMIZERS[frozenset(kept)]
                more = {"momentum": 0.9} if name == "AdagradMomentum" else {}
                optimizer = getattr(library, name)(learning_rate=0.1, **more)
            config = library.TableConfig(1, 1, optimizer=optimizer, name=key)
            features.append(library.FeatureConfig(config, name=key))
        if self._target == SERVING:
            embedding = library.TPUEmbeddingForServing(features, None)
        else:
            embedding = library.TPUEmbedding(features, None)
        embedding.build()
        return embedding
