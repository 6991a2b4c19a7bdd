# SPDX-License-Identifier: Apache-2.0
"""Defines the kinds of entries in the tables of restored names."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

from estimator_spec.legacy.module_spellings import spellings


class When(enum.Enum):
    """Condition under which a name is installed.

    ON_HOST: programs written for a TPU run on the host (`run --cpu`).
    WITHOUT_TENSORBOARD: TensorBoard, which some names of TensorFlow need, isn't installed.
    """

    ALWAYS = "always"
    ON_HOST = "on the host"
    WITHOUT_TENSORBOARD = "without TensorBoard"


class Group(NamedTuple):
    """Names with the same places and the same present module.

    Attributes:
        places: the former modules, as in `module_spellings`, separated by spaces.
        home: the module (or class) that has the names now.
        names: the names, separated by spaces; `old=new` if they differ.
        when: condition of the installation.
    """

    places: str
    home: str
    names: str
    when: When = When.ALWAYS


class Row(NamedTuple):
    """One removed name.

    Attributes:
        name: the last part of its dotted name.
        places: its former modules, as in `module_spellings`.
        ours: the full name of its replacement.
        when: condition of the installation.
    """

    name: str
    places: tuple[str, ...]
    ours: str
    when: When

    def modules(self) -> Iterator[str]:
        """Yields every module that had the name."""
        for place in self.places:
            yield from spellings(place)


class Library(NamedTuple):
    """An installed library that has all names of a removed module.

    Attributes:
        places: the former modules, as in `module_spellings`, separated by spaces.
        homes: the library's modules that have the names now, separated by spaces; the first one
            that has a name wins.
    """

    places: str
    homes: str
