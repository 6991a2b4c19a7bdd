# SPDX-License-Identifier: Apache-2.0
"""Checks that each program of a comparison runs its own modules, not those of the other one.

With PYTHONPATH set to the old tree, as a program's own instructions may ask, the new program would
import the old modules, and the comparison would show that the old code agrees with itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from estimator_spec.compare.comparison import listed
from estimator_spec.compare.programs import Program, ProgramError
from estimator_spec.legacy.program_source import program_files


class Trees:
    """The directories of two programs.

    Args:
        old: the old program.
        new: the new program.
        never_from: directories that neither may import from.
    """

    def __init__(self, old: Program, new: Program, never_from: Sequence[str] = ()) -> None:
        self._programs = {"old": old, "new": new}
        self._roots = dict(zip(("old", "new"), _roots(old, new), strict=True))
        self._never_from = tuple(map(os.path.realpath, never_from))

    def check_sources(self) -> None:
        """Checks the modules that the programs import by their sources, before they run.

        Raises:
            ProgramError: as for `check`.
        """
        for label, program in self._programs.items():
            found = program_files.find_files(program.source, program.python_path).read
            self.check(label, {os.path.basename(source.path): source.path for source in found[1:]})

    def check(self, label: str, modules: Mapping[str, str]) -> None:
        """Checks where the modules of a program came from.

        Args:
            label: 'old' or 'new'.
            modules: files by the name that an error has.

        Raises:
            ProgramError: one is the other program's, though this one has it as well; or it is in a
                directory that is excluded.
        """
        wrong = []
        for name, file in modules.items():
            own = self._own_file(label, file)
            if own is not None:
                wrong.append(f"{name} from {file}, not its own {own}")
            elif any(_is_below(file, folder) for folder in self._never_from):
                wrong.append(f"{name} from {file}")
        if wrong:
            program = self._programs[label]
            raise ProgramError(
                f"The {label} program, {program.text!r}, imports modules of another tree, so the "
                f"comparison would show nothing: {listed(wrong)}. A directory on PYTHONPATH or "
                "sys.path leads there: unset PYTHONPATH, or give each side its own, by --old-path "
                "and --new-path."
            )

    def _own_file(self, label: str, file: str) -> str | None:
        """Returns a program's own file in place of the other one's; None if there is none."""
        own, other = self._roots[label], self._roots["new" if label == "old" else "old"]
        if own == other or not _is_below(file, other):
            return None
        if _is_below(file, own) and len(own) > len(other):  # one tree may contain the other
            return None
        counterpart = os.path.join(own, os.path.relpath(file, other))
        return counterpart if os.path.isfile(counterpart) else None

    def shared(self, old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
        """Returns a note on modules that both programs imported from one file; or nothing."""
        if self._roots["old"] == self._roots["new"]:
            return ()
        both = [f"{name} ({file})" for name, file in new.items() if old.get(name) == file]
        if not both:
            return ()
        return (f"Both programs imported the same file of some modules: {listed(both)}.",)


def _is_below(file: str, folder: str) -> bool:
    return os.path.commonpath([file, folder]) == folder


def _roots(old: Program, new: Program) -> tuple[str, str]:
    """Returns the directories of two programs: of scripts, those where their paths part."""
    if old.directory is not None or new.directory is not None:
        return old.source.root, new.source.root
    parts = [os.path.realpath(program.script).split(os.sep) for program in (old, new)]
    while len(parts[0]) > 2 and len(parts[1]) > 2 and parts[0][-1] == parts[1][-1]:
        parts = [each[:-1] for each in parts]
    if all(os.path.isfile(os.sep.join(each)) for each in parts):  # two names in one directory
        parts = [each[:-1] for each in parts]
    return os.sep.join(parts[0]), os.sep.join(parts[1])
