# SPDX-License-Identifier: Apache-2.0
"""Removed names one by one, without `install()`."""

from __future__ import annotations

import pytest

import estimator_spec
from estimator_spec.legacy import names
from estimator_spec.legacy.modules import resolve
from estimator_spec.legacy.name_rows import When


def test_restored_gives_what_install_gives() -> None:
    """`restored` returns what `install` puts under a name, and installs nothing."""
    rows = [row for row in names.rows() if row.when is When.ALWAYS]
    every = {f"{module}.{row.name}" for row in rows for module in row.modules()}
    with estimator_spec.install(replace=True):
        expected = {full: resolve(full) for full in every if full.startswith("tensorflow.contrib")}
    for full, value in expected.items():
        assert estimator_spec.restored(full) is value, full
    with pytest.raises(AttributeError):
        resolve("tensorflow.contrib")


def test_restored_modules() -> None:
    """`restored` returns a removed module, with the modules in it; others aren't there."""
    contrib = estimator_spec.restored("tensorflow.contrib")
    assert contrib.crf is estimator_spec.restored("tensorflow.contrib.crf")
    assert hasattr(contrib, "rnn")
    assert not hasattr(contrib, "legacy_seq2seq")


def test_restored_stand_in() -> None:
    """`restored` returns a stand-in for a name that isn't restored; calling it says what to do."""
    decoder = estimator_spec.restored("tensorflow.contrib.legacy_seq2seq.BasicDecoder")
    with pytest.raises(AttributeError, match="Write the decoder as a loop"):
        decoder()


@pytest.mark.parametrize(
    "name", ["tensorflow.nn.relu", "contrib.crf", "tensorflow", "tensorflow.compat.v1.tpu", "x"]
)
def test_restored_refuses_other_names(name: str) -> None:
    """`restored` refuses a name that TensorFlow didn't remove."""
    with pytest.raises(ValueError, match="isn't a name that TensorFlow removed"):
        estimator_spec.restored(name)
