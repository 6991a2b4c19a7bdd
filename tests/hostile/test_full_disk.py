# SPDX-License-Identifier: Apache-2.0
"""Full disks: an error that names the file, nothing lost, and a run that goes on with more room."""

from __future__ import annotations

import textwrap

import pytest

import forking_python
import interruptions
import table_program


@pytest.mark.slow
def test_a_full_disk_in_training(tmp_path):
    """A training whose disk is full names the file in one line, and goes on when there is room."""
    assert interruptions.interrupt("full", "other shards", tmp_path, every=6) >= 4


@pytest.mark.slow
@pytest.mark.nightly("fills the disk dozens of times")
@pytest.mark.parametrize(
    "job, at_least", [("other shards", 20), ("export", 8), ("convert", 12), ("repair", 2)]
)
def test_full_from_each_write_on(tmp_path, job, at_least):
    """A job whose disk is full names the file in one line, and goes on when there is room."""
    assert interruptions.interrupt("full", job, tmp_path) >= at_least


PROGRAM = textwrap.dedent(
    """
    import resource, sys
    import table_program
    from estimator_spec import checkpoints
    model_dir = sys.argv[1]
    table_program.make(model_dir).train(table_program.input_fn, max_steps=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    try:
        table_program.make(model_dir).train(table_program.input_fn, max_steps=2)
    except OSError as error:
        found = error
    try:
        table_program.make(model_dir).evaluate(table_program.input_fn, steps=1)
    except OSError as error:
        found_by_evaluate = error
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(found)
    print(found_by_evaluate)
    """
)


@pytest.mark.slow
def test_a_file_that_is_too_large(tmp_path):
    """A save or a summary beyond the limit of a file's size is an error of one line.

    Sessions take it for the end of the input, and TensorFlow's writer of events has its traceback.
    """
    done = forking_python.run(["-c", PROGRAM, str(tmp_path)], env=interruptions.ENVIRONMENT)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line, place in zip(lines, (tmp_path, tmp_path / "eval"), strict=True):
        assert "File too large" in line
        assert str(place) in line
    estimator = table_program.make(tmp_path)
    assert estimator.get_variable_value("global_step") == 1
    estimator.train(table_program.input_fn, max_steps=2)
