# SPDX-License-Identifier: Apache-2.0
"""The tables of columns and layers are whole, and the guides have them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from tensorflow.python.feature_column import feature_column_v2, sequence_feature_column

from estimator_spec.convert.keras_columns.categorical import CATEGORICAL
from estimator_spec.convert.keras_columns.dense import DENSE

SCRIPT = Path(__file__).resolve().parents[4] / "docs" / "make_columns.py"


@pytest.mark.parametrize("name", ["feature_columns.md", "without_tensorflow.md"])
def test_the_guide_has_the_table(name):
    """The how-to page has the table that the code has; the failure shows it."""
    spec = importlib.util.spec_from_file_location("make_columns", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = (script.PAGES / name).read_text(encoding="utf-8")
    assert script.TABLES[name]() in text
    assert script.page(name) == text


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
