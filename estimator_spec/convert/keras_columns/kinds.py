# SPDX-License-Identifier: Apache-2.0
"""All kinds of feature columns that move to Keras 3, as the table of the documents."""

from __future__ import annotations

from estimator_spec.convert.keras_columns.categorical import CATEGORICAL
from estimator_spec.convert.keras_columns.dense import DENSE
from estimator_spec.core.common import terminal


def markdown_table() -> str:
    """Returns the table `column -> layers`, which is the guide's."""
    header = ("column", "read by `preprocess`", "layers of `build_model`", "what isn't equal")
    kinds = {kind.makers: kind for kind in (*DENSE.values(), *CATEGORICAL.values())}
    wrapped = "those of the column that wraps it"
    rows = [
        (f"`{kind.makers}`", kind.reading, kind.layers or wrapped, kind.differs or "—")
        for kind in kinds.values()
    ]
    return terminal.markdown_table(header, rows)
