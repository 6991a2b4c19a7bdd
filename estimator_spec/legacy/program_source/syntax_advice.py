# SPDX-License-Identifier: Apache-2.0
"""Says what isn't Python 3 in a source, and what to do about it."""

from __future__ import annotations


def explain(error: SyntaxError, file: str = "FILE") -> str:
    """Returns the fault, and the next step.

    >>> print(explain(SyntaxError("invalid syntax"), "a.py"))
    invalid syntax. If it is Python 2, `python -m fissix -w a.py` (pip install fissix) converts it.

    Args:
        error: the error.
        file: the file with the source.
    """
    fault = (error.msg or "invalid syntax").rstrip(".")
    steps = [fault if fault.endswith("?") else f"{fault}."]
    if isinstance(error, TabError):
        # Python 2 took a tab for eight columns.
        steps.append(f"`expand -i -t 8 {file}` prints it with spaces in place of tabs.")
    convert = f"`python -m fissix -w {file}` (pip install fissix) converts it."
    return " ".join([*steps, f"If it is Python 2, {convert}"])
