# SPDX-License-Identifier: Apache-2.0
"""Bad input of the public API raises errors that name what is wrong; tables in `refused_*.py`."""

from __future__ import annotations

import re
import tempfile

import numpy as np
import pytest

import accepted_arguments
import estimator_spec.__main__
import refused_arguments
import refused_batches
import refused_columns
import refused_estimators
import refused_features
import refused_runs
import refused_settings
import refused_tools
import refused_training
from constructors import GOOD
from refusal import estimator, input_fn

TABLES = (
    refused_arguments,
    refused_batches,
    refused_settings,
    refused_columns,
    refused_estimators,
    refused_runs,
    refused_features,
    refused_training,
    refused_tools,
)
REFUSALS = [refusal for table in TABLES for refusal in table.REFUSALS]


@pytest.fixture(autouse=True)
def _temporary_directories(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_refused(refusal):
    """The error has the documented class, all the words, and nothing of TensorFlow's stack."""
    with pytest.raises(refusal.error) as raised:
        refusal.call()
    message = str(raised.value)
    assert [word for word in refusal.words if word not in message] == [], message
    assert "Graph execution error" not in message
    assert not raised.type.__module__.startswith("tensorflow")


@pytest.mark.parametrize("name", GOOD)
def test_good_arguments(name):
    """Each constructor of the tables of bad arguments takes good ones."""
    assert GOOD[name]() is not None


@pytest.mark.parametrize(
    ("name", "arguments"),
    accepted_arguments.ACCEPTED,
    # Without addresses, which differ between processes that run the tests.
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", str(value))[:60],
)
def test_accepted_without_a_warning(name, arguments, caplog):
    """Unusual values that TensorFlow 2.15 takes are taken in silence."""
    with caplog.at_level("WARNING", logger="tensorflow"):
        GOOD[name](**arguments)
    logged = [record.getMessage() for record in caplog.records]
    assert [text for text in logged if "temporary folder" not in text] == []


@pytest.mark.parametrize("value", accepted_arguments.TOLERATED, ids=lambda value: value.name)
def test_accepted_with_a_warning(value, caplog):
    """A value that is surely a mistake, but trains in TensorFlow 2.15, is used as there."""
    with caplog.at_level("WARNING", logger="tensorflow"):
        value.call()
    assert [word for word in value.words if word not in caplog.text] == [], caplog.text


@pytest.mark.parametrize(("command", "words"), refused_tools.COMMANDS, ids=lambda v: " ".join(v))
def test_refused_command(command, words, capsys):
    """A wrong command line exits with the status 2 and says what is wrong."""
    try:
        status = estimator_spec.__main__.main(command)
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    printed = capsys.readouterr().err
    assert [word for word in words if word not in printed] == []


@pytest.mark.parametrize(
    "arguments",
    [{"max_steps": 2.0}, {"steps": 1.5}, {"steps": np.int64(2)}, {"steps": np.array([2])}],
    ids=str,
)
def test_accepted_step_counts(arguments):
    """Floats and NumPy's numbers of steps are accepted: programs have `max_steps=1e5`."""
    trained = estimator().train(input_fn, **arguments)
    assert trained.latest_checkpoint().endswith("model.ckpt-2")


def test_an_evaluation_has_a_whole_number_of_batches():
    """A fraction of a batch is refused by name before anything is read."""
    with pytest.raises(TypeError, match=r"steps must be int, a whole number of batches, got 12\.3"):
        estimator().evaluate(input_fn, steps=12.3)
