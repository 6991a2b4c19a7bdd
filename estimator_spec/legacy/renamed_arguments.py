# SPDX-License-Identifier: Apache-2.0
"""Knows the arguments of TensorFlow's functions that later versions renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_REDUCED = {"keep_dims": "keepdims", "reduction_indices": "axis"}
_AXIS = {"dim": "axis"}
_DIMENSION = {"dimension": "axis"}
_OF_VERSION_1: Mapping[str, Mapping[str, str]] = {
    **{
        f"{module}reduce_{what}": _REDUCED
        for module in ("", "math.")
        for what in ("sum", "mean", "max", "min", "prod", "all", "any", "logsumexp")
    },
    **dict.fromkeys(["nn.softmax", "nn.log_softmax", "expand_dims"], _AXIS),
    **dict.fromkeys(["nn.l2_normalize", "math.l2_normalize"], _AXIS),
    **dict.fromkeys(["argmax", "argmin", "math.argmax", "math.argmin"], _DIMENSION),
    "count_nonzero": _REDUCED,
    "math.count_nonzero": _REDUCED,
    "squeeze": {"squeeze_dims": "axis"},
    "norm": {"keep_dims": "keepdims"},
    "nn.moments": {"keep_dims": "keepdims"},
    "reverse_sequence": {"seq_dim": "seq_axis", "batch_dim": "batch_axis"},
    "nn.softmax_cross_entropy_with_logits": _AXIS,
    "sparse.concat": {"concat_dim": "axis"},
    "sparse.split": {"split_dim": "axis"},
}
# Those that TensorFlow 1.0 renamed, or whose order it changed, of functions under their present
# names.
_OF_VERSION_0: Mapping[str, Mapping[str, str]] = {
    "summary.scalar": {"tags": "name", "values": "tensor"},
    "summary.histogram": {"tag": "name"},
    "summary.image": {"tag": "name", "max_images": "max_outputs"},
    "summary.audio": {"tag": "name"},
    "concat": {"concat_dim": "axis"},
    "split": {"split_dim": "axis", "num_split": "num_or_size_splits"},
    "where": {"t": "x", "e": "y"},
}
# The last parts of the functions' names.
FUNCTIONS = frozenset(name.rpartition(".")[2] for name in (*_OF_VERSION_1, *_OF_VERSION_0))


class RenamedArgument(NamedTuple):
    """An argument that a later version renamed.

    Attributes:
        old: its former keyword.
        now: its present keyword.
        since: the version that renamed it: 2, whose tensorflow.compat.v1 takes both, or 1.
    """

    old: str
    now: str
    since: int

    @property
    def reason(self) -> str:
        """What a program that has it is told."""
        return f"has had no argument {self.old} since TensorFlow {self.since}.0: use {self.now}."


def find(function: str, keyword: str) -> RenamedArgument | None:
    """Returns the present name of an argument that a function hasn't any more, or None.

    >>> find("tensorflow.reduce_sum", "keep_dims").now
    'keepdims'
    >>> find("tensorflow.compat.v1.reduce_sum", "keep_dims") is None
    True

    Args:
        function: its full name.
        keyword: the keyword of a call.
    """
    name = function.removeprefix("tensorflow.")
    is_v1 = name.startswith("compat.v1.")
    name = name.removeprefix("compat.v1.").removeprefix("compat.v2.")
    for since, table in ((1, _OF_VERSION_0), (2, _OF_VERSION_1)):
        now = table.get(name, {}).get(keyword)
        if now is not None and not (is_v1 and since == 2):
            return RenamedArgument(keyword, now, since)
    return None
