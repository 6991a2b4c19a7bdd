# SPDX-License-Identifier: Apache-2.0
"""Rule: arguments that TensorFlow 2 renamed have their present names, in a module of its API.

tensorflow.compat.v1 takes both names. Only keywords of calls are renamed that show all arguments.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from estimator_spec.legacy.migrate.program import Api, Argument, Call, Program
from estimator_spec.legacy.migrate.rule import Replacement, Rule, Spell, Target

_REDUCED = {"keep_dims": "keepdims", "reduction_indices": "axis"}
_AXIS = {"dim": "axis"}
_DIMENSION = {"dimension": "axis"}
_ARGUMENTS = {
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
# Arguments of functions that TensorFlow 1.0 renamed, or whose order it changed; under their present
# names, in both APIs. What they mean differs, too, so that they aren't edited.
_OF_VERSION_0 = {
    "summary.scalar": {"tags": "name", "values": "tensor"},
    "summary.histogram": {"tag": "name"},
    "summary.image": {"tag": "name", "max_images": "max_outputs"},
    "summary.audio": {"tag": "name"},
    "concat": {"concat_dim": "axis"},
    "split": {"split_dim": "axis", "num_split": "num_or_size_splits"},
    "where": {"t": "x", "e": "y"},
}
_Renamed = tuple[Call, Argument, str]


def renamed(program: Program) -> Iterator[_Renamed]:
    """Yields the arguments that TensorFlow 2 lacks, their calls, and their present names."""
    return _in_calls(program, _ARGUMENTS, ("tensorflow.",))


def renamed_in_version_1(program: Program) -> Iterator[_Renamed]:
    """Yields the arguments of TensorFlow 0.x, their calls, and their names in TensorFlow 1."""
    return _in_calls(program, _OF_VERSION_0, ("tensorflow.", "tensorflow.compat.v1."))


def _in_calls(
    program: Program, arguments: Mapping[str, Mapping[str, str]], modules: Sequence[str]
) -> Iterator[_Renamed]:
    now = {f"{module}{name}": names for module in modules for name, names in arguments.items()}
    for call, name in program.calls_of(*(name.rpartition(".")[2] for name in arguments)):
        for argument in call.arguments:
            keyword = argument.keyword or ""
            if keyword in now.get(name, ()):
                yield call, argument, now[name][keyword]


def _present(now: str, spell: Spell) -> str:
    del spell
    return now


def _edits(program: Program, target: Target) -> Iterable[Replacement]:
    """Yields an edit of each keyword."""
    del target
    if program.api is not Api.TF2:
        return
    for call, argument, now in renamed(program):
        assert call.use is not None
        given = {each.keyword for each in call.arguments}
        if call.unpacks() or now in given or len(set(program.uses[call.use].names)) > 1:
            continue
        before = program.source[call.start : argument.start]
        found = re.search(rf"\b{argument.keyword}(?=\s*=[\s(]*\Z)", before)
        if found is not None:
            start, end = (call.start + at for at in found.span())
            yield Replacement(start, end, functools.partial(_present, now))


RULE = Rule(
    "tf1-arguments",
    "arguments that TensorFlow 2 renamed, such as keep_dims, have their present names",
    "imports-that-arent-supported",
    edits=_edits,
)
