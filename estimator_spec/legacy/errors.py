# SPDX-License-Identifier: Apache-2.0
"""The errors of a removed name that isn't put back."""

from __future__ import annotations

from estimator_spec.legacy import unsupported_names


class LegacyAttributeError(AttributeError):
    """A removed name that isn't put back was looked up in a module of old."""


class LegacyImportError(ModuleNotFoundError):
    """A removed name that isn't put back was imported."""


def message(module: str, name: str) -> str:
    """What both say.

    Args:
        module: the module that was asked, in the program's spelling.
        name: what it was asked for.
    """
    advice = unsupported_names.advice(module, name)
    return f"{module}.{name} isn't among the removed names that estimator_spec puts back. {advice}"
