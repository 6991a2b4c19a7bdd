# SPDX-License-Identifier: Apache-2.0
"""The table of columns and layers is whole, and the guide has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorflow.python.feature_column import feature_column_v2, sequence_feature_column

from estimator_spec.convert.keras_columns import kinds
from estimator_spec.convert.keras_columns.categorical import CATEGORICAL
from estimator_spec.convert.keras_columns.dense import DENSE

PAGES = Path(__file__).resolve().parents[4] / "docs" / "how_to"


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("feature_columns.md", kinds.markdown_table),
        ("without_tensorflow.md", kinds.torch_table),
    ],
)
def test_the_guide_has_the_table(page, table):
    """The how-to page has the table that the code has; the failure shows it."""
    text = (PAGES / page).read_text(encoding="utf-8")
    found = text.partition("kinds.py -->")[2].partition("<!-- end -->")[0].strip()
    assert found == table()


def test_every_class_of_columns_has_a_row():
    """No class of TensorFlow's columns is left out."""
    found = {
        name
        for module in (feature_column_v2, sequence_feature_column)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "name")
    }
    assert len(found) >= 12
    assert found <= {*CATEGORICAL, *DENSE}
