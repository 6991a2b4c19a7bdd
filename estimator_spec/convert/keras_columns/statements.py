# SPDX-License-Identifier: Apache-2.0
"""Writes functions and their statements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from estimator_spec.convert.keras_columns.expressions import render

REGISTERED = '@keras.saving.register_keras_serializable("columns")'
"""Decorator of what Keras saves by its name."""
WIDTH = 100
"""Characters of a line."""


def function_text(signature: str, docstring: str, statements: Iterable[str]) -> str:
    """Returns the source of a function."""
    body = "".join(f"    {line}\n" for line in statements)
    return f'def {signature}:\n    """{docstring}"""\n{body}'.rstrip()


def statement(target: str, expression: Any, width: int = WIDTH) -> str:
    """Returns an assignment, or a return, as a line (or lines) of a function."""
    label = "return " if target == "return" else f"{target} = "
    return label + render(expression, depth=1, before=len(label), width=width)
