# SPDX-License-Identifier: Apache-2.0
"""Generates docs/legacy_names.md from `estimator_spec.legacy.names`.

python docs/make_legacy_names.py           writes the page
python docs/make_legacy_names.py --check   only says whether it is current: exit status 1 if not
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from estimator_spec.legacy import contrib_names, module_spellings, names, unsupported_names
from estimator_spec.legacy.name_rows import ModuleHome, When

PAGE = Path(__file__).with_name("legacy_names.md")

_HEAD = """\
# Restored names

`estimator_spec.install()` restores these names, and `python -m estimator_spec run SCRIPT` runs an
unedited program with them.

<!-- Made by docs/make_legacy_names.py from the tables in estimator_spec/legacy/; change those, and
run it again. -->

- **TensorFlow 2.16 and newer** has no Estimator. All names refer to ours. The leftovers of its TPU
  embedding columns are replaced by ours as well, and `tf.compat.v1.tpu.CrossShardOptimizer` by a
  subclass that works without a TPU. So are `TPUEmbedding` and `TPUEmbeddingV2` of
  `tf.tpu.experimental.embedding`, and the layer of TensorFlow Recommenders that uses them.
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
    When.ALWAYS: """\
## Names

| name | places | now |
|---|---|---|
""",
    When.ON_HOST: """\
## Names for TPU programs on a host

Under `run --cpu` (or with the environment variable TPU_COLUMNS_CPU) these replace functions that
need a TPU. The host is one replica.

| name | places | now |
|---|---|---|
""",
    When.WITH_OURS: """\
## Names of TensorFlow Model Analysis

They export this project's estimators. The library isn't needed for it, and isn't imported.

| name | places | now |
|---|---|---|
""",
    When.WITH_SPARSE_CORE: """\
## Names of SparseCore

TensorFlow 2.15 doesn't have them.

| name | places | now |
|---|---|---|
""",
    When.WITHOUT_TENSORBOARD: """\
## Names that need TensorBoard

TensorBoard defines these, and TensorFlow 2.21 doesn't install it. Used where it is missing.

| name | places | now |
|---|---|---|
""",
}

_MODULES = """\
## Modules that TensorFlow has elsewhere

The places have the names that the modules which stand for them today have, and so do the modules
in them.

| places | now |
|---|---|
"""

_LIBRARIES = """\
## Names of libraries

If the library is installed (tf_slim: `pip install 'tpu-columns[contrib]'`), the places have all of
its names that aren't in the tables above.

| places | now |
|---|---|
"""

_UNSUPPORTED = """\
## Names that aren't restored

Importing one gives a stand-in, whose use raises an AttributeError with this advice. A program that
asks whether it exists, or handles that it doesn't, finds none
([details](../migration_guide.md#imports-that-arent-supported)). The same goes for names that no
table has.

| name | places | instead |
|---|---|---|
"""


def page() -> str:
    """Returns the page as Markdown."""
    parts = [_HEAD, _PLACES + _table(_places())]
    for case, head in _CASES.items():
        rows = [
            (row.name, " ".join(f"`{place}`" for place in row.places), f"`{row.ours}`")
            for row in names.rows()
            if row.when is case and row not in names.rows_of_modules()
        ]
        parts.append(head + _table((f"`{name}`", where, now) for name, where, now in rows))
    parts.append(_MODULES + _table(_libraries(contrib_names.MODULES)))
    parts.append(_LIBRARIES + _table(_libraries(contrib_names.LIBRARIES)))
    parts.append(_UNSUPPORTED + _table(_unsupported()))
    return "\n".join(parts)


def _places() -> Iterator[tuple[str, str]]:
    for place, modules in module_spellings.ROOTS.items():
        yield f"`{place}`", " ".join(f"`{module}`" for module in modules)


def _libraries(libraries: Iterable[ModuleHome]) -> Iterator[tuple[str, str]]:
    for library in libraries:
        yield _code(library.places), _code(library.homes)


def _unsupported() -> Iterator[tuple[str, str, str]]:
    for advice, places, name in unsupported_names.UNSUPPORTED:
        shown = "all others" if name == "*" else f"`{name}`"
        yield shown, " ".join(f"`{place}`" for place in places), advice


def _code(words: Iterable[str]) -> str:
    return " ".join(f"`{word}`" for word in words)


def _table(rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main(arguments: list[str]) -> int:
    """Writes or checks the page, and returns the exit status."""
    current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" in arguments:
        if current != page():
            sys.stderr.write(f"{PAGE} is stale: run python docs/make_legacy_names.py\n")
            return 1
        return 0
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
