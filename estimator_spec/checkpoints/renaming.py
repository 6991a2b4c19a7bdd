# SPDX-License-Identifier: Apache-2.0
"""Renames variables; slot variables are renamed with their variable."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Rename = Mapping[str, str] | Sequence[tuple[str, str]] | None


class Renaming:
    """A mapping from old to new names of variables.

    Args:
        rename: new names by old names, or pairs of a regular expression and its replacement, of
            which the first that matches a name is used.

    Raises:
        ValueError: a pattern is no regular expression.
    """

    def __init__(self, rename: Rename) -> None:
        self._names = dict(rename) if isinstance(rename, Mapping) else {}
        patterns = [] if rename is None or isinstance(rename, Mapping) else rename
        self._patterns = [(compile_pattern("rename", pattern), new) for pattern, new in patterns]
        self._used: set[str] = set()

    def new_name(self, name: str) -> str:
        """Returns the new name of a variable."""
        if name in self._names:
            self._used.add(name)
            return self._names[name]
        for pattern, new in self._patterns:
            replaced = _replaced(pattern, new, name)
            if replaced != name:
                self._used.add(pattern.pattern)
                return replaced
        return name

    def explicit_name(self, name: str) -> str | None:
        """Returns the new name given for exactly this variable, or None."""
        return self._names.get(name)

    def slot_name(self, slot: str, base: str) -> str:
        """Returns the new name of a slot: its own if given, or else by its variable's new name."""
        if slot in self._names:
            return self._names[slot]
        return slot.replace(base, self.new_name(base), 1) if base in slot else self.new_name(slot)

    def check_used(self) -> None:
        """Checks that each pattern matched a variable.

        Raises:
            ValueError: one didn't, and is probably misspelt.
        """
        for pattern, _ in self._patterns:
            if pattern.pattern not in self._used:
                raise ValueError(f"rename: no variable matches the pattern {pattern.pattern!r}.")


def compile_pattern(argument: str, pattern: str) -> re.Pattern[str]:
    """Compiles a regular expression that the user gave.

    Raises:
        ValueError: it is invalid.
    """
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{argument}: {pattern!r} is no regular expression: {error}.") from error


def _replaced(pattern: re.Pattern[str], new: str, name: str) -> str:
    try:
        return pattern.sub(new, name)
    except (re.error, IndexError) as error:
        raise ValueError(
            f"rename: {new!r} can't replace what {pattern.pattern!r} finds: {error}."
        ) from error
