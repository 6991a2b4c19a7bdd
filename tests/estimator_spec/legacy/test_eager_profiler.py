# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.eager.profiler` is back, on today's public profiler."""

from __future__ import annotations

import pytest
import tensorflow as tf

import estimator_spec

FULL = "tensorflow.python.eager.profiler"


@pytest.fixture
def profiler():
    """Returns the module as an old program imports it."""
    with estimator_spec.install(replace=True):
        from tensorflow.python.eager import profiler

        yield profiler


def profiles(logdir):
    """Returns the profiles in a directory of logs."""
    return list(logdir.glob("plugins/profile/*/*.xplane.pb"))


def test_a_block_is_profiled(profiler, tmp_path):
    """`Profiler` writes the ops of its block to where TensorBoard looks, marked by one file."""
    with profiler.Profiler(str(tmp_path)):
        tf.raw_ops.Betainc(a=1.0, b=1.0, x=0.5)
    [path] = profiles(tmp_path)
    assert b"Betainc" in path.read_bytes()
    profiler.maybe_create_event_file(str(tmp_path))
    [marker] = tmp_path.glob("*.profile-empty")
    [event] = tf.compat.v1.train.summary_iterator(str(marker))
    assert event.file_version == "brain.Event:2"


def test_start_stop_and_save(profiler, tmp_path):
    """`save` writes what `stop` returns; the options may be a dict, as they were."""
    profiler.start({"host_tracer_level": 3})
    with pytest.raises(profiler.ProfilerAlreadyRunningError):
        profiler.start()
    result = profiler.stop()
    profiler.save(str(tmp_path), result)
    [path] = profiles(tmp_path)
    assert path.read_bytes() == result
    with pytest.raises(profiler.ProfilerNotRunningError):
        profiler.stop()


def test_a_profiler_of_today_runs(profiler, tmp_path):
    """A profile that the program started by today's functions isn't taken for an old one's."""
    tf.profiler.experimental.start(str(tmp_path))
    try:
        with pytest.raises(profiler.ProfilerAlreadyRunningError):
            profiler.start()
        with pytest.raises(profiler.ProfilerNotRunningError):
            profiler.stop()
    finally:
        tf.profiler.experimental.stop()
    assert profiles(tmp_path)


def test_migrated_programs_have_it():
    """`restored` has the module, too."""
    restored = estimator_spec.restored
    assert restored(f"{FULL}.Profiler") is restored(FULL).Profiler
