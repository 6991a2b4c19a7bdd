# SPDX-License-Identifier: Apache-2.0
"""Tells the magics of IPython from Python: `%%writefile a.py`, `!pip install`, `%time f()`."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tokenize
from collections.abc import Iterator
from typing import NamedTuple

_MAGIC = re.compile(r"^(?P<indent>\s*)(?P<target>[\w, ]+=\s*)?(?P<magic>[%!].*|\?.*|[\w.]+\?\??)$")
# Cell magics whose cell the notebook runs, after its first line.
_OF_NOTEBOOK = ("%%time", "%%timeit", "%%capture", "%%prun", "%%memit", "%%mprun")
_OF_PYTHON = ("%%python", "%%python3")
_OF_FILES = ("%%writefile", "%%file")
# What the tokenizer says of a text that goes on.
_GOES_ON = re.compile(r"EOF in multi-line|triple-quoted")


class Line(NamedTuple):
    """A line of a cell; `code` is a placeholder in place of a magic, which is `magic` then."""

    code: str
    magic: str = ""


def cell_magic(source: str) -> list[str]:
    r"""Returns the words of a cell's magic; none if the notebook runs it as Python.

    >>> cell_magic("%%time\nf()"), cell_magic("%%file -a b.py\nimport os")
    ([], ['%%file', '-a', 'b.py'])
    """
    first = source.lstrip().partition("\n")[0]
    words = first.split()
    if first.startswith("%%"):
        with contextlib.suppress(ValueError):
            words = shlex.split(first)
    is_other = first.startswith("%%") and words[0] not in _OF_NOTEBOOK
    return words if is_other else []


def written_file(words: list[str]) -> tuple[str, bool]:
    """Returns the Python file that a cell writes, and whether it appends to it; '' for others.

    >>> written_file(["%%file", "-a", "b.py"]), written_file(["%%python3"])
    (('b.py', True), ('', False))
    """
    if words and words[0] in _OF_FILES and words[-1].endswith(".py"):
        return words[-1], "-a" in words or "--append" in words
    return "", False


def is_python(words: list[str]) -> bool:
    """Returns whether a cell with a magic is a Python program of its own."""
    return bool(words) and words[0] in _OF_PYTHON


def lines(source: str) -> Iterator[Line]:
    """Yields the lines of a cell that the notebook runs."""
    begun: list[str] = []  # lines of a statement that goes on
    continued = False  # a magic goes on
    for line in source.split("\n"):
        found = _MAGIC.match(line) if not begun and not continued else None
        if continued:
            # A comment: its indentation means nothing.
            yield Line("#", line)
        elif found is not None:
            statement = f"{found['target']}None" if found["target"] else "pass"
            yield Line(f"{found['indent']}{statement}", line)
        else:
            yield Line(line)
            begun = [*begun, line] if _goes_on([*begun, line]) else []
            continue
        continued = line.endswith("\\")


def _goes_on(begun: list[str]) -> bool:
    """Returns whether the next line belongs to the same statement."""
    text = "\n".join(begun)
    if text.endswith("\\"):
        return True
    try:
        list(tokenize.generate_tokens(io.StringIO(text.lstrip()).readline))
    except (tokenize.TokenError, SyntaxError) as error:
        return _GOES_ON.search(str(error)) is not None
    return False
