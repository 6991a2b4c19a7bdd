# SPDX-License-Identifier: Apache-2.0
"""The command `kernels`: what it prints, its exit status, and that it ends what it started."""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import compilers
import estimator_spec as es
from estimator_spec.core import kernels_cli
from tpu_columns.kernels import building, libraries

ROOT = Path(es.__file__).resolve().parents[1]


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """The path of a compiler for a TensorFlow 2.99.0, which is the installed one."""
    path = tmp_path / "c++"
    monkeypatch.setenv("CXX", *compilers.make(path))
    monkeypatch.setenv("TPU_COLUMNS_CACHE", str(tmp_path))
    monkeypatch.setattr(libraries, "OF_THE_WHEEL", tmp_path / "none")
    monkeypatch.setattr(building, "installed_target", lambda: compilers.TARGET)
    monkeypatch.setattr(building, "_load_elsewhere", lambda path, timeout: None)
    monkeypatch.setattr(kernels_cli, "_installed_tensorflow", lambda: "2.99.0")
    before = signal.getsignal(signal.SIGTERM)
    yield path
    signal.signal(signal.SIGTERM, before)


def test_build_info_and_clean(compiler, capsys):
    """`build` builds once, `info` says what is used, `clean` removes what is asked."""
    assert kernels_cli.main(["info"]) == 1
    text = capsys.readouterr().out
    assert "in training: TensorFlow's own ops: this installation has none" in text
    assert kernels_cli.main(["build"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("built: ") and output.err.startswith("Compiling the ops")
    assert kernels_cli.main(["build"]) == 0
    output = capsys.readouterr()
    assert output.out.startswith("already built: ") and not output.err
    assert kernels_cli.main(["info"]) == 0
    text = capsys.readouterr().out
    assert f"in training: kernels: {compiler.parent / 'kernels'}" in text
    assert "for TensorFlow 2.99.0, by" in text and "made 1.0" in text
    assert kernels_cli.main(["clean"]) == 0
    assert capsys.readouterr().out == "nothing to remove\n"
    assert kernels_cli.main(["clean", "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert kernels_cli.main(["info"]) == 1


def test_a_failure_is_one_line(compiler, capsys):
    """What can't be built is one line on standard error, and status 1."""
    compilers.make(compiler, "echo an error >&2; exit 1")
    assert kernels_cli.main(["build"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert [line for line in output.err.splitlines() if line.startswith("error: ")]
    assert len(output.err.splitlines()) == 2
    with pytest.raises(SystemExit, match="2"):
        kernels_cli.main(["build", "--unpacked=."])


def test_no_compiler_is_no_failure(compiler, tmp_path, monkeypatch, capsys):
    """Without a compiler the status is another one than for sources that don't compile."""
    monkeypatch.delenv("CXX")
    compiler.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kernels_cli.main(["build"]) == 3
    assert "There is no C++ compiler" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_sessions_fail_if_a_header_is_broken(tmp_path, monkeypatch):
    """A session of nox ends if the sources don't compile, and goes on without a compiler."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "sessions"))
    environments = importlib.import_module("environments")
    package = tmp_path / "tpu_columns"
    shutil.copytree(ROOT / "tpu_columns", package, ignore=shutil.ignore_patterns("libraries"))
    with open(package / "kernels" / "cpp" / "update_rules.h", "a") as header:
        header.write("this is no C++\n")

    class Session:
        """A session whose commands run in this environment, with these packages."""

        def run(self, python, *command, env, success_codes):
            places = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
            environment = os.environ | env | places | {"TPU_COLUMNS_CACHE": str(tmp_path / "cache")}
            command = [sys.executable, *command]
            done = subprocess.run(command, env=environment | changed, cwd=tmp_path)
            assert done.returncode in success_codes

    changed = {}
    with pytest.raises(AssertionError, match="1 in "):
        environments.build_kernels(Session())
    changed = {"PATH": str(tmp_path), "CXX": ""}
    environments.build_kernels(Session())


def test_a_compiler_ends_with_the_command(tmp_path):
    """SIGTERM to the command ends a compiler that hangs, and leaves nothing behind."""
    compilers.make(tmp_path / "c++", 'echo $$ > "$LOG"; sleep 300')
    metadata = tmp_path / "tensorflow-2.99.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.99.0\n")
    command = [sys.executable, "-m", "estimator_spec", "kernels", "build"]
    places = [f"--unpacked={tmp_path}", f"--output={tmp_path / 'built'}"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = os.environ | {"CXX": str(tmp_path / "c++"), "TMPDIR": str(scratch)}
    environment["PYTHONPATH"] = str(ROOT)
    log = tmp_path / "c++.log"
    with subprocess.Popen([*command, *places], env=environment) as process:
        deadline = time.monotonic() + 60
        while not (log.exists() and log.read_text()):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.01)
        process.terminate()
        assert process.wait(60) == 1
    compilers.wait_for_the_end(int(log.read_text()))
    assert not list(scratch.iterdir())
    assert [path.name for path in (tmp_path / "built").iterdir()] == ["lock"]
