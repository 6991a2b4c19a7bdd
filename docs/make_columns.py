# SPDX-License-Identifier: Apache-2.0
"""Writes the tables of feature columns that move to Keras 3 and to PyTorch into the guides.

`--check` says whether they are current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from estimator_spec.convert.keras_columns.categorical import CATEGORICAL
from estimator_spec.convert.keras_columns.dense import DENSE
from estimator_spec.convert.keras_columns.kind import ColumnKind
from estimator_spec.core.common import terminal

_WRAPPED = "those of the column that wraps it"


def markdown_table() -> str:
    """Returns the table `column -> layers`, which is the guide's."""
    header = ("column", "read by `preprocess`", "layers of `build_model`", "what isn't equal")
    rows = [
        (f"`{kind.makers}`", kind.reading, kind.layers or _WRAPPED, kind.differs or "—")
        for kind in _kinds()
    ]
    return terminal.markdown_table(header, rows)


def torch_table() -> str:
    """Returns the table `column -> NumPy -> PyTorch`, which is that of the guide without TF."""
    header = ("column", "read by NumPy", "PyTorch", "exact?")
    rows = [
        (
            f"`{kind.makers}`",
            re.sub(r" \(`tf[^)]*\)", "", kind.reading),
            kind.in_torch or _WRAPPED,
            f"but for {kind.differs_in_torch}" if kind.differs_in_torch else "yes",
        )
        for kind in _kinds()
    ]
    return terminal.markdown_table(header, rows)


def _kinds() -> Iterable[ColumnKind]:
    return {kind.makers: kind for kind in (*DENSE.values(), *CATEGORICAL.values())}.values()


TABLES = {"feature_columns.md": markdown_table, "without_tensorflow.md": torch_table}
PAGES = Path(__file__).resolve().parent / "how_to"
_TABLE = re.compile(r"(?<=make_columns\.py -->\n\n).*?(?=\n\n<!-- end -->)", re.DOTALL)


def page(name: str) -> str:
    """Returns the text of a page with its table."""
    text = (PAGES / name).read_text(encoding="utf-8")
    return _TABLE.sub(lambda _: TABLES[name](), text)


def main(arguments: list[str]) -> int:
    """Writes or checks the pages, and returns the exit status."""
    for name in TABLES:
        path, text = PAGES / name, page(name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.stderr.write(f"{path} is stale: run python docs/make_columns.py\n")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
