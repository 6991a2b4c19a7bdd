# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's start within a command: which lines of C++ code are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from estimator_spec.core.common import quiet_start

ROOT = Path(__file__).resolve().parents[3]
# In place of TensorFlow: C++ code writes to the descriptor.
FAKE = """
import os
seen = os.environ.get("TF_CPP_MIN_LOG_LEVEL")
os.write(2, b"I0000 port.cc:153] oneDNN custom operations are on. You may see\\n")
os.write(2, b"E0000 cuda_dnn.cc:9] Unable to register cuDNN factory: Attempting\\n")
os.write(2, b"F0000 cpu_feature_guard.cc] the machine has no AVX\\n")
if os.environ.get("CRASH"):
    os.abort()
class config:
    def list_physical_devices():
        os.write(2, b"E0000 cuda_platform.cc:52] failed call to cuInit: UNKNOWN\\n")
        os.write(2, b"W0000 another\\n")
"""
PROGRAM = """
import os, sys
from estimator_spec.core.common import quiet_start
quiet_start._has_accelerator = lambda: {accelerator}
quiet_start.import_tensorflow()
level = os.environ.get("TF_CPP_MIN_LOG_LEVEL")
sys.stderr.write(f"level {{sys.modules['tensorflow'].seen}} {{level}}\\n")
quiet_start.list_devices()
sys.stderr.write("end\\n")
"""
AVX = "F0000 cpu_feature_guard.cc] the machine has no AVX"


def start(folder: Path, accelerator: bool = False, **variables: str) -> tuple[int, list[str]]:
    """Returns the exit status and standard error of a process that starts the fake."""
    (folder / "tensorflow.py").write_text(FAKE, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    env.pop("TF_CPP_MIN_LOG_LEVEL", None)
    program = PROGRAM.format(accelerator=accelerator)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=env | variables)
    return done.returncode, done.stderr.splitlines()


def test_lines_that_nobody_can_act_on_are_not_printed(tmp_path):
    """Known lines of the start and CUDA's error are left out, other lines are in order."""
    assert start(tmp_path) == (0, [AVX, "level 1 None", "W0000 another", "end"])


def test_a_machine_with_an_accelerator(tmp_path):
    """With an accelerator, INFO lines of C++ code are printed, and devices are left alone."""
    _, lines = start(tmp_path, accelerator=True)
    assert lines[:2] == [AVX, "level None None"]
    assert lines[2:] == ["end"]  # no device was looked for


@pytest.mark.parametrize("level", ["0", "2"])
def test_a_level_of_the_user(tmp_path, level):
    """With TF_CPP_MIN_LOG_LEVEL, the start prints what TensorFlow prints at this level."""
    _, lines = start(tmp_path, TF_CPP_MIN_LOG_LEVEL=level)
    assert len([line for line in lines if "factory" in line or "oneDNN" in line]) == 2
    assert f"level {level} {level}" in lines
    assert ("W0000 another" in lines) == (level == "2")  # whether devices were looked for


def test_a_closed_standard_error(tmp_path):
    """A process without standard error starts, and its other files get nothing."""
    (tmp_path / "tensorflow.py").write_text("class config:\n    list_physical_devices = print\n")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    env.pop("TF_CPP_MIN_LOG_LEVEL", None)
    program = "from estimator_spec.core.common import quiet_start as q\n"
    program += "q._has_accelerator = lambda: False\nq.import_tensorflow()\nq.list_devices()"
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout) == (0, "\n")


def test_lines_of_other_processes(monkeypatch):
    """Lines of a start are known in another process's output, unless it has a level."""
    monkeypatch.setattr(quiet_start, "_has_accelerator", lambda: False)
    quiet_start._pattern.cache_clear()
    start_line = "I0000 cudart_stub.cc:31] Could not find cuda drivers on your machine"
    assert quiet_start.is_unwanted(start_line, None)
    assert not quiet_start.is_unwanted(start_line, "0")
    assert not quiet_start.is_unwanted("INFO:tensorflow:loss = 1, step = 0", None)
    quiet_start._pattern.cache_clear()


def test_a_crash_says_why(tmp_path):
    """The last words of a process that crashes in TensorFlow's start are printed."""
    status, lines = start(tmp_path, CRASH="1")
    assert status != 0
    assert lines[0] == AVX
