# SPDX-License-Identifier: Apache-2.0
"""Finds old names in text that isn't parsed: commands of a shell, magics, other languages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from estimator_spec.legacy import old_names
from estimator_spec.legacy.migrate.program import ROOTS
from estimator_spec.legacy.tensorflow_names import is_only_in_tf1

_NAME = re.compile(r"(?<![\w./-])[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_MODULE = re.compile(rf"\bimport\s+((?:{'|'.join(ROOTS)})\b[\w.]*)(?:\s+as\s+(\w+))?")
_FROM = re.compile(rf"\bfrom\s+((?:{'|'.join(ROOTS)})\b[\w.]*)\s+import\s+(\w+)(?:\s+as\s+(\w+))?")


def aliases_in(text: str) -> dict[str, str]:
    """Returns the full names that imports in a text give to names.

    >>> aliases_in("python -c 'import tensorflow as tf'")
    {'tf': 'tensorflow'}
    """
    found = {}
    for module, alias in _MODULE.findall(text):
        found[alias or module.split(".")[0]] = module if alias else module.split(".")[0]
    for module, name, alias in _FROM.findall(text):
        found[alias or name] = f"{module}.{name}"
    return found


def old_names_in(text: str, aliases: Mapping[str, str], tf1: bool) -> Iterator[tuple[int, str]]:
    """Yields offset and full name of the old names in a text.

    Args:
        text: the text.
        aliases: full names by the names that imports give to them.
        tf1: whether names count that only TensorFlow 1 has.
    """
    imported = [(match.start(1), match[1]) for match in _MODULE.finditer(text)]
    imported += [(match.start(1), f"{match[1]}.{match[2]}") for match in _FROM.finditer(text)]
    read = []
    for match in _NAME.finditer(text):
        root, _, rest = match[0].partition(".")
        if root in aliases and not any(start == match.start() for start, _ in imported):
            read.append((match.start(), f"{aliases[root]}.{rest}"))
    for start, full in sorted([*imported, *read]):
        root, _, rest = full.partition(".")
        is_old = old_names.find(full, False) is not None
        if is_old or (tf1 and root == "tensorflow" and is_only_in_tf1(rest)):
            yield start, full
