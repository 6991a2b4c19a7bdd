# SPDX-License-Identifier: Apache-2.0
"""Generates docs/legacy_names.md from the table of names.

python -m estimator_spec.legacy.names_page docs/legacy_names.md
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence

from estimator_spec.legacy import module_spellings, names, unsupported_names

_HEAD = """\
# Restored names

`estimator_spec.install()` restores these names, and `python -m estimator_spec run SCRIPT` runs an
unedited program with them. This page is generated from the table in
`estimator_spec/legacy/names.py` by
`python -m estimator_spec.legacy.names_page docs/legacy_names.md`.

- **TensorFlow 2.16 and newer** has no Estimator. All names refer to ours. The leftovers of its TPU
  embedding columns are replaced by ours as well, and `tf.compat.v1.tpu.CrossShardOptimizer` by a
  subclass that works without a TPU.
- **TensorFlow 2.15** has an Estimator of its own. `install()` leaves all of it in place, with the
  columns and parameter classes that belong to it. The spellings that 2.15 has lost, such as
  `tf.contrib.tpu`, refer to TensorFlow's own classes: the two implementations can't be mixed in a
  program. `install(replace=True)` installs ours everywhere, as `run` does on every version.
- `uninstall()`, or the end of a `with estimator_spec.install():`, undoes all of it, `sys.modules`
  included.
"""

_PLACES = """\
## Places

A name had many spellings. In the tables below a place stands for these modules; each can be
imported, and is an attribute of its parent module.

| place | modules |
|---|---|
"""

_CASES = {
    names.When.ALWAYS: """\
## Names

| name | places | now |
|---|---|---|
""",
    names.When.ON_HOST: """\
## Names for TPU programs on a host

Under `run --cpu` (or with the environment variable TPU_COLUMNS_CPU) these replace functions that
need a TPU. The host is one replica.

| name | places | now |
|---|---|---|
""",
    names.When.WITHOUT_TENSORBOARD: """\
## Names that need TensorBoard

TensorBoard defines these, and TensorFlow 2.21 doesn't install it. Used where it is missing.

| name | places | now |
|---|---|---|
""",
}

_UNSUPPORTED = """\
## Names that aren't restored

Using one raises an AttributeError or ImportError with this advice.

| name | places | instead |
|---|---|---|
"""


def text() -> str:
    """Returns the page as Markdown."""
    parts = [_HEAD, _PLACES + _table(_places())]
    for case, head in _CASES.items():
        rows = [
            (row.name, " ".join(f"`{place}`" for place in row.places), f"`{row.ours}`")
            for row in names.rows()
            if row.when is case
        ]
        parts.append(head + _table((f"`{name}`", where, now) for name, where, now in rows))
    parts.append(_UNSUPPORTED + _table(_unsupported()))
    return "\n".join(parts)


def _places() -> Iterator[tuple[str, str]]:
    for place, modules in module_spellings.ROOTS.items():
        yield f"`{place}`", " ".join(f"`{module}`" for module in modules)


def _unsupported() -> Iterator[tuple[str, str, str]]:
    for entry in unsupported_names.UNSUPPORTED:
        where = " ".join(f"`{place}`" for place in entry.places.split())
        for name in entry.names.split():
            shown = "all others" if name == "*" else f"`{name}`"
            yield shown, where, entry.advice


def _table(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(text(), encoding="utf-8")
