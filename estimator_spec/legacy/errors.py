# SPDX-License-Identifier: Apache-2.0
"""Errors for removed names that aren't supported."""

from __future__ import annotations

from estimator_spec.legacy import unsupported_names


class LegacyAttributeError(AttributeError):
    """A removed name that isn't supported was read from a legacy module."""


class LegacyImportError(ModuleNotFoundError):
    """A removed name that isn't supported was imported."""


def message(module: str, name: str) -> str:
    """Returns the message of both errors.

    Args:
        module: the module, in the program's spelling.
        name: the name that it lacks.
    """
    advice = unsupported_names.advice(module, name)
    return f"{module}.{name} isn't among the removed names that estimator_spec puts back. {advice}"
