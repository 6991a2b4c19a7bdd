# SPDX-License-Identifier: Apache-2.0
"""All kinds of feature columns that move to Keras 3, as the table of the documents."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
