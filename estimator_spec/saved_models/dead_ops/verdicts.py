# SPDX-License-Identifier: Apache-2.0
"""Says of each op that TensorFlow had and can't run any more what can be done about it."""

from __future__ import annotations

import fnmatch
import functools
from typing import Any, NamedTuple

from estimator_spec.core._tensorflow import private
from estimator_spec.saved_models import files
from estimator_spec.saved_models.dead_ops.names import NAMES
from estimator_spec.saved_models.dead_ops.rules import RULES


class DeadOp(NamedTuple):
    """An op that today's TensorFlow can't run.

    Attributes:
        name: its name.
        version: the last TensorFlow that had it, of those that were asked; '' if none had.
        library: 'core', or the library of contrib that defined it.
        verdict: 'exact' if `saved-model repair` rewrites it, 'package' if another package has it,
            else 'none'.
        advice: what to do.
    """

    name: str
    version: str
    library: str
    verdict: str
    advice: str


_EXACT = "`saved-model repair` rewrites it into today's ops, which compute the same."
# Where rules don't hold for every node of an op.
_EXACT_ONLY = {
    "SparseFeatureCross": "If it isn't hashed, {}",
    "CompareAndBitpack": "Of numbers, {}",
    "CrossReplicaSum": "Of one replica, {}",
    "TPUPartitionedInput": "Of one replica, {}",
    "TPUPartitionedOutput": "Of one replica, {}",
    "TPUReplicateMetadata": "Of one replica, {}",
    "TPUReplicatedInput": "Of one replica, {}",
    "TPUReplicatedOutput": "Of one replica, {}",
}
_ADDONS = (
    "TensorFlow Addons (its last release is of 2023) has it as Addons>{}: build the model anew."
)
_IO = "tensorflow-io reads such data by other ops: build the input anew."
_TREES = "Train the trees anew, such as with Yggdrasil Decision Forests (pip install ydf)."
_TRAINING = "It is for training, and no signature needs it: export the model for serving alone."
_INPUT = "It reads input: export the model with placeholders, and read by tf.data."
_XLA = "Only XLA compiles it: call the model in tf.function(jit_compile=True), or on its TPU."
# The first pattern of 'library name' decides; a verdict and advice.
_ADVICE = {
    "contrib.resampler *": ("package", _ADDONS),
    "contrib.seq2seq *": ("package", _ADDONS),
    "contrib.text *": ("package", _ADDONS),
    "contrib.image AdjustHsvInYiq": ("package", _ADDONS),
    "contrib.image ImageConnectedComponents": ("package", _ADDONS),
    "contrib.ffmpeg *": ("package", _IO),
    "contrib.kafka *": ("package", _IO),
    "contrib.kinesis *": ("package", _IO),
    "contrib.libsvm *": ("package", _IO),
    "contrib.cloud *BigQuery*": ("package", _IO),
    "contrib.boosted_trees *": ("none", _TREES),
    "contrib.tensor_forest *": ("none", _TREES),
    "core TensorForest*": ("none", _TREES),
    "core BoostedTreesExampleDebugOutputs": (
        "none",
        "experimental_predict_with_explanations of this project's BoostedTrees estimators computes "
        "the same from a checkpoint.",
    ),
    "core *BoostedTrees*": ("none", _TRAINING),
    "contrib.bigtable *": ("none", _INPUT),
    "contrib.cloud *": ("none", _INPUT),
    "contrib.hadoop *": ("none", _INPUT),
    "contrib.ignite *": ("none", _INPUT),
    "contrib.input_pipeline *": ("none", _INPUT),
    "core FilterByLastComponentDataset": ("none", _INPUT),
    "core *TPUEmbedding*": ("none", _TRAINING),
    "core *feed*": ("none", _TRAINING),
    "core Prelinearize*": ("none", _TRAINING),
    "core *DistributedTPU": ("none", _TRAINING),
    "core WorkerHeartbeat": ("none", _TRAINING),
    "contrib.factorization *": ("none", _TRAINING),
    "contrib.framework Zero*": ("none", _TRAINING),
    "core Xla*": ("none", _XLA),
    "core *Xla*": ("none", _XLA),
    "core AllToAll": ("none", _XLA),
    "core CollectivePermute": ("none", _XLA),
}
_NOTHING = ("none", "Nothing computes the same: build the model without it.")
_UNKNOWN = (
    "TensorFlow has no op of this name: load the library that defines it before the model, or "
    "build the model without it."
)


@functools.cache
def table() -> dict[str, DeadOp]:
    """Returns the known dead ops by name."""
    found = {}
    for (version, library, _), names in NAMES.items():
        for name in names.split():
            found[name] = DeadOp(name, version, library, *_judge(library, name))
    return dict(sorted(found.items()))


def _judge(library: str, name: str) -> tuple[str, str]:
    if name in RULES:
        return "exact", _EXACT_ONLY.get(name, "{}").format(_EXACT)
    for pattern, (verdict, advice) in _ADVICE.items():
        if fnmatch.fnmatchcase(f"{library} {name}", pattern):
            return verdict, advice.format(name)
    return _NOTHING


def find(op: str) -> DeadOp | None:
    """Returns what is known of an op that this TensorFlow can't run; None if it can.

    Args:
        op: its name.
    """
    known = table().get(op)
    if known is not None:
        return known
    is_registered = private.op_def_registry.get(op) is not None
    return None if is_registered else DeadOp(op, "", "", "none", _UNKNOWN)


def find_ops(meta_graph: Any) -> dict[str, DeadOp]:
    """Returns the ops of a graph and of its functions that TensorFlow can't run, by name."""
    judged = {op: find(op) for op in ops_of(meta_graph)}
    return {name: op for name, op in sorted(judged.items()) if op is not None}


def ops_of(meta_graph: Any) -> set[str]:
    """Returns the ops of a graph and of its functions; functions called like ops are none."""
    functions = {function.signature.name for function in meta_graph.graph_def.library.function}
    return {node.op for place in files.graphs_of(meta_graph) for node in place.nodes} - functions
