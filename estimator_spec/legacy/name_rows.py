# SPDX-License-Identifier: Apache-2.0
"""Defines the kinds of entries in the tables of removed names, and reads the tables."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

from estimator_spec.legacy.module_spellings import spellings


class When(enum.Enum):
    """Condition under which a name is installed.

    ON_HOST: programs written for a TPU run on the host (`run --cpu`).
    WITHOUT_TENSORBOARD: TensorBoard, which some names of TensorFlow need, isn't installed.
    WITH_SPARSE_CORE: TensorFlow knows SparseCore; 2.15 doesn't.
    """

    ALWAYS = "always"
    ON_HOST = "on the host"
    WITHOUT_TENSORBOARD = "without TensorBoard"
    WITH_SPARSE_CORE = "with SparseCore"


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


class ModuleHome(NamedTuple):
    """An installed library, or a module of TensorFlow, that has the names of a removed module.

    Attributes:
        places: the former modules, as in `module_spellings`.
        homes: the modules that have the names now; the first one that has a name wins.
    """

    places: tuple[str, ...]
    homes: tuple[str, ...]


def parse_homes(table: str) -> tuple[ModuleHome, ...]:
    """Returns the entries of a table with today's modules, a colon and the former ones.

    >>> parse_homes("tf_slim: contrib.slim contrib.slim.python.slim")[0].homes
    ('tf_slim',)
    """
    found: dict[str, list[str]] = {}
    for _, homes, place in parse_table(table):
        found.setdefault(" ".join(homes), []).append(place)
    return tuple(ModuleHome(tuple(places), tuple(homes.split())) for homes, places in found.items())


def parse_rows(table: str, when: When = When.ALWAYS) -> tuple[Row, ...]:
    r"""Returns the rows of a table whose headings are today's modules (or classes).

    >>> parse_rows("[estimator_spec]\ncontrib.tpu estimator.tpu: TPUEstimator")[0].ours
    'estimator_spec.TPUEstimator'

    Args:
        table: as for `parse_table`; a name is `old=new` if its present name differs.
        when: condition of the installation.
    """
    rows = []
    for home, places, name in parse_table(table):
        old, _, new = name.partition("=")
        rows.append(Row(old, places, f"{home}.{new or old}", when))
    return tuple(rows)


def parse_table(table: str) -> tuple[tuple[str, tuple[str, ...], str], ...]:
    """Returns (heading, places, name) of each name of a table.

    Args:
        table: lines `places: names`, both separated by spaces. Lines without a colon have more
            names, lines `[heading]` the heading of the lines below, and `#` begins comments.
    """
    found = []
    heading, places = "", ""
    for line in map(str.strip, table.splitlines()):
        if line.startswith("["):
            heading = " ".join(line[1:-1].split())
        elif not line.startswith("#"):
            before, colon, names = line.rpartition(":")
            places = before if colon else places
            found += [(heading, tuple(places.split()), name) for name in names.split()]
    return tuple(found)
