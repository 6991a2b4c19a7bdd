# SPDX-License-Identifier: Apache-2.0
"""All kinds of feature columns that move to Keras 3, as the table of the documents."""

from __future__ import annotations

from estimator_spec.convert.keras_columns.categorical import CATEGORICAL
from estimator_spec.convert.keras_columns.dense import DENSE


def markdown_table() -> str:
    """Returns the table `column -> layers`, which is the guide's."""
    lines = [
        "| column | read by `preprocess` | layers of `build_model` | what isn't equal |",
        "| --- | --- | --- | --- |",
    ]
    dense = {kind.makers for kind in DENSE.values()}
    for kind in (
        *DENSE.values(),
        *(kind for kind in CATEGORICAL.values() if kind.makers not in dense),
    ):
        layers = kind.layers or "those of the column that wraps it"
        cells = (f"`{kind.makers}`", kind.reading, layers, kind.differs or "—")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
