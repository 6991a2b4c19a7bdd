# SPDX-License-Identifier: Apache-2.0
"""Restores tables that columns of canned models share, from any checkpoint that has them.

Former releases gave the tables of `tf.feature_column.shared_embeddings` another name; and the
second generation's models of TensorFlow 2.15.1 don't train shared tables, whose slots their
checkpoints lack. The values of such a checkpoint are fed to the saver's graph, which can't be
changed when a session restores it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from tpu_columns import shared_state

tf1 = tf.compat.v1


def add(name: str, former_name: str) -> None:
    """Adds a shared table of the default graph.

    Args:
        name: its name in checkpoints.
        former_name: its name in those of former releases.
    """
    _names_in(tf1.get_default_graph()).setdefault(name, former_name)


def _names_in(graph: tf.Graph) -> dict[str, str]:
    return shared_state.graph_dict(graph, shared_state.FORMER_NAMES)


def are_in(graph: tf.Graph) -> bool:
    """Returns whether a graph has shared tables of a canned model."""
    return bool(_names_in(graph))


def former_names(names: Iterable[str], saved: Mapping[str, Any]) -> dict[str, str]:
    """Returns the former names that a checkpoint has for variables of the default graph.

    Args:
        names: variables, of any kind.
        saved: the variables of the checkpoint.
    """
    tables = _names_in(tf1.get_default_graph())
    sources = {name: _source(name, tables, saved) for name in names}
    return {name: source for name, source in sources.items() if source != name and source in saved}


def restore(saver: tf1.train.Saver, graph: tf.Graph, session: tf1.Session, prefix: str) -> bool:
    """Restores a checkpoint whose shared tables have other names than the graph's, or no slots.

    Slots that the checkpoint lacks get their initial values.

    Args:
        saver: the saver of the graph.
        graph: the graph.
        session: the session.
        prefix: checkpoint prefix.

    Returns:
        Whether this is such a checkpoint; if not, nothing is restored.
    """
    reader = tf.train.load_checkpoint(prefix)
    saved = reader.get_variable_to_shape_map()
    tables = _names_in(graph)
    # Not those in several parts: the first generation's slots are in every checkpoint.
    variables = {
        each.op.name: each for each in graph.get_collection(tf1.GraphKeys.GLOBAL_VARIABLES)
    }
    feeds: dict[Any, Any] = {}
    new: set[str] = set()
    for op in graph.get_operations():
        if op.type != "RestoreV2" or op.inputs[0].name != saver.saver_def.filename_tensor_name:
            continue
        names, slices = (
            [text.decode() for text in tf.get_static_value(each)] for each in op.inputs[1:]
        )
        sources = []
        for name in names:
            table = _table_of(name, tables)
            source = _source(name, tables, saved)
            if name in variables and table is not None and source not in saved:
                new.add(name)
                source = table if table in saved else tables[table]  # of a slot's shape
            sources.append(source)
        if sources != names:
            feeds |= {
                output: reader.get_tensor(source)[_parsed_slice(text)]
                for output, source, text in zip(op.outputs, sources, slices, strict=True)
                if source in saved
            }
    if not feeds:
        return False
    session.run(
        saver.saver_def.restore_op_name, {saver.saver_def.filename_tensor_name: prefix} | feeds
    )
    session.run([variables[name].initializer for name in new])
    if new:
        tf1.logging.info("%s has no values of %s, which begin anew.", prefix, sorted(new))
    return True


def _parsed_slice(text: str) -> Any:
    """Returns the part of a variable that a saver reads, as an index of an array.

    >>> _parsed_slice("5 3 2,2:-")
    (slice(2, 4, None), slice(None, None, None))

    Args:
        text: the shape, and the first index and length in each dimension; '' is all.
    """
    index = []
    for extent in text.rpartition(" ")[2].split(":") if text else []:
        start, _, length = extent.partition(",")
        index.append(slice(None) if extent == "-" else slice(int(start), int(start) + int(length)))
    return tuple(index)


def _table_of(name: str, former_names: Mapping[str, str]) -> str | None:
    """Returns the shared table of which a variable is the values or a slot, or None."""
    return next((table for table in former_names if f"/{table}/" in f"/{name}/"), None)


def _source(name: str, former_names: Mapping[str, str], saved: Mapping[str, Any]) -> str:
    """Returns the name to look for in a checkpoint: a former one of a shared table's variable."""
    table = _table_of(name, former_names)
    if name in saved or table is None:
        return name
    return f"/{name}/".replace(f"/{table}/", f"/{former_names[table]}/")[1:-1]
