# SPDX-License-Identifier: Apache-2.0
"""Beside Keras 2, moving columns to Keras 3 is refused, and what is needed is named."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_spec.__main__ import main
from estimator_spec.convert import to_keras

WORDS = "Keras 3 is needed, and this is Keras 2.15.0"


@pytest.fixture(autouse=True)
def old_keras(monkeypatch):
    """Keras 2: that of the oldest TensorFlow, or a new one that says so."""
    monkeypatch.setattr(pytest.importorskip("keras"), "__version__", "2.15.0")


def test_a_model_is_refused():
    """`to_keras` names the versions that it found and those that it needs."""
    with pytest.raises(ImportError, match=f"{WORDS}.*TensorFlow 2.20 or later"):
        to_keras([tf.feature_column.numeric_column("n")])


def test_a_program_is_refused_before_it_runs(tmp_path, capsys):
    """The command ends with status 2; the program hasn't run, and nothing is written."""
    program = tmp_path / "program.py"
    program.write_text("open('ran', 'w')")
    status = main(["to-keras", str(program), "--output", str(tmp_path / "out")])
    assert (status, [path.name for path in tmp_path.iterdir()]) == (2, ["program.py"])
    assert WORDS in capsys.readouterr().err
