# SPDX-License-Identifier: Apache-2.0
"""Names the dead ops of a SavedModel, and writes a copy of it without those that can be replaced.

A copy has the files of the model as they are, but for its graph, and for the fingerprint, which is
one of the graph that was.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from google.protobuf import text_format

from estimator_spec.core._tensorflow import private
from estimator_spec.core.common import own_files
from estimator_spec.saved_models import files
from estimator_spec.saved_models.dead_ops import rewriting, verdicts
from estimator_spec.saved_models.dead_ops.rewriting import Body, RefusedError
from estimator_spec.saved_models.dead_ops.rules import RULES, TPU_RULES
from estimator_spec.saved_models.dead_ops.tree_rules import StoredTrees
from estimator_spec.saved_models.dead_ops.verdicts import DeadOp

_FINGERPRINT = "fingerprint.pb"
_TPU_ATTRIBUTE = "_tpu_"


@dataclasses.dataclass(frozen=True)
class DeadNode:
    """A node of a dead op.

    Attributes:
        op: the op.
        tags: those of its graph.
        function: the function that it is in; '' for the graph itself.
        name: its name.
        refusal: why it can't be replaced; '' if it can.
    """

    op: DeadOp
    tags: tuple[str, ...]
    function: str
    name: str
    refusal: str


def check(directory: Any) -> list[DeadNode]:
    """Returns the nodes of a SavedModel that this TensorFlow can't run; writes nothing.

    Args:
        directory: the SavedModel's.

    Raises:
        SavedModelError: there is none, or it can't be read.
    """
    return _rewrite(files.load(directory))


def repair(directory: Any, output: Any, dry_run: bool = False) -> list[DeadNode]:
    """Writes a copy of a SavedModel whose dead ops are today's, as far as they can be.

    Args:
        directory: the SavedModel's, which isn't changed.
        output: the directory of the copy, which must not be there.
        dry_run: whether nothing is written.

    Returns:
        The dead nodes that the model had; those with a refusal, the copy has, too.

    Raises:
        SavedModelError: there is no SavedModel, it can't be read, or no op of it can be replaced.
        OSError: the copy can't be written.
    """
    graph_file = files.load(directory)
    names = list(_list_files(graph_file))
    _check_output(graph_file.directory, output)
    nodes = _rewrite(graph_file)
    if not nodes:
        raise files.SavedModelError(
            f"{graph_file.path} has no op that TensorFlow {tf.__version__} can't run: there is "
            "nothing to repair."
        )
    if all(node.refusal for node in nodes):
        raise files.SavedModelError(
            f"No dead op of {graph_file.path} has an exact replacement: {_first_refusal(nodes)}"
        )
    if not dry_run:
        _write(graph_file, names, os.path.abspath(tf.compat.as_str_any(os.fspath(output))))
    return nodes


def _first_refusal(nodes: list[DeadNode]) -> str:
    return f"{nodes[0].name} ({nodes[0].op.name}): {nodes[0].refusal}"


def _check_output(directory: str, output: Any) -> None:
    path = os.path.realpath(output)
    if os.path.lexists(path):
        raise FileExistsError(f"{output} exists. Name a new directory for the repaired model.")
    if f"{path}/".startswith(f"{os.path.realpath(directory)}/"):
        raise ValueError(f"{output} is in {directory}, which isn't changed. Name another place.")


def _list_files(graph_file: files.GraphFile) -> Iterator[str]:
    """Yields the files of a SavedModel, below its directory, that its copy has unchanged.

    Raises:
        SavedModelError: it isn't one, or files are missing that its graph names.
    """
    if not graph_file.is_saved_model:
        raise files.SavedModelError(
            f"{graph_file.path} is of a training. Name the directory of a SavedModel."
        )
    found = set()
    for folder, _, names in tf.io.gfile.walk(graph_file.directory):
        for name in names:
            path = os.path.join(tf.compat.as_str_any(folder), tf.compat.as_str_any(name))
            found.add(os.path.relpath(path, graph_file.directory))
    needed = set()
    for meta in graph_file.content.meta_graphs:
        needed |= {os.path.join("assets", asset.filename) for asset in meta.asset_file_def}
        if meta.HasField("saver_def"):
            needed.add("variables/variables.index")
    if needed - found:
        raise files.SavedModelError(
            f"{graph_file.directory} lacks {', '.join(sorted(needed - found)[:3])}, which its "
            "graph reads. Copy the model anew."
        )
    others = {os.path.basename(graph_file.path), _FINGERPRINT, own_files.MARKER}
    yield from sorted(found - others)


def _write(graph_file: files.GraphFile, names: list[str], output: str) -> None:
    """Writes a SavedModel under a temporary name, and renames it."""
    own_files.remove_left(os.path.dirname(output))
    os.makedirs(os.path.dirname(output), exist_ok=True)
    written = own_files.create(f"{output}.unfinished", own_files.Job.EXPORT)
    try:
        for name in names:
            target = os.path.join(written.path, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            tf.io.gfile.copy(os.path.join(graph_file.directory, name), target)
        path = os.path.join(written.path, os.path.basename(graph_file.path))
        content = graph_file.content
        is_text = path.endswith(".pbtxt")
        data = text_format.MessageToString(content).encode() if is_text else None
        with open(path, "wb") as file:
            file.write(content.SerializeToString(deterministic=True) if data is None else data)
        written.finish(output)
    except BaseException:
        written.remove()
        raise


def _rewrite(graph_file: files.GraphFile) -> list[DeadNode]:
    """Replaces the dead ops of a SavedModel's graphs; returns the nodes that were of one."""
    prefix = os.path.join(graph_file.directory, "variables", "variables")
    return [
        node
        for meta_graph in graph_file.content.meta_graphs
        for node in rewrite_graph(meta_graph, prefix)
    ]


def rewrite_graph(meta_graph: Any, prefix: str) -> list[DeadNode]:
    """Replaces the dead ops of a graph and of its functions; returns the nodes that were of one.

    Args:
        meta_graph: the MetaGraphDef, which is changed.
        prefix: path of the variables' files without '.index'.
    """
    dead = verdicts.find_ops(meta_graph)
    if not dead:
        return []
    definition = meta_graph.graph_def
    bodies = [Body(definition.node)]
    bodies += [Body(function.node_def, function) for function in definition.library.function]
    trees = StoredTrees(bodies[0], prefix)
    tags = tuple(meta_graph.meta_info_def.tags)
    found: list[DeadNode] = []
    for body in bodies:
        for node in [node for node in body.nodes if node.op in dead]:
            op, refusal = dead[node.op], dead[node.op].advice
            if op.verdict == "exact":
                try:
                    rewriting.replace(body, node, RULES[op.name], trees)
                    refusal = ""
                except RefusedError as error:
                    refusal = f"{error}."
            found.append(DeadNode(op, tags, body.name, node.name, refusal))
        body.rename_references()
    if any(node.op.name in TPU_RULES and not node.refusal for node in found):
        _remove_tpu(bodies)
    _update_ops(meta_graph)
    return found


def _remove_tpu(bodies: list[Body]) -> None:
    """Removes the devices and marks of a TPU's part of a graph."""
    for body in bodies:
        for node in body.nodes:
            if "TPU" in node.device:
                node.device = ""
            for key in [key for key in node.attr if key.startswith(_TPU_ATTRIBUTE)]:
                del node.attr[key]


def _update_ops(meta_graph: Any) -> None:
    """Makes the ops that a graph says it uses those that it uses now."""
    listed = meta_graph.meta_info_def.stripped_op_list
    used = verdicts.ops_of(meta_graph)
    ops = {op.name: op for op in listed.op if op.name in used}
    for name in used - set(ops):
        op = private.op_def_registry.get(name)
        if op is not None:
            ops[name] = op
    updated = type(listed)(op=[ops[name] for name in sorted(ops)])
    listed.CopyFrom(updated)
