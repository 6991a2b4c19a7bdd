# SPDX-License-Identifier: Apache-2.0
"""Libraries are built once, whole or not at all; a bad compiler is an error of one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import compilers
from tpu_columns.kernels import building, libraries
from tpu_columns.kernels.building import BuildError

ROOT = Path(building.__file__).resolve().parents[2]


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """The path of a compiler that works, which CXX names."""
    path = tmp_path / "bin" / "c++"
    path.parent.mkdir()
    monkeypatch.setenv("CXX", *compilers.make(path))
    return path


@pytest.fixture
def manifest(tmp_path):
    """The path of a manifest in an empty directory."""
    (tmp_path / "built").mkdir()
    return tmp_path / "built" / "2.99.json"


def build(manifest, **options):
    """Builds a library for a TensorFlow that only the tests have."""
    return building.build(compilers.TARGET, manifest, **options)


def names(directory):
    """Returns the names of the files in a directory."""
    return sorted(path.name for path in directory.iterdir())


def test_a_library_is_built_once(compiler, manifest):
    """The second call finds the file of the first; nothing else stays in the directory."""
    library, is_new = build(manifest)
    assert is_new
    assert library.path.read_text() == "library"
    assert library == libraries.read_manifest(manifest)
    assert build(manifest) == (library, False)
    assert compilers.count(compiler) == 1
    assert names(manifest.parent) == [manifest.name, library.path.name, "lock"]


def test_a_damaged_library_is_built_again(compiler, manifest):
    """A file that isn't what was built is replaced."""
    library, _ = build(manifest)
    library.path.write_text("rubbish")
    assert build(manifest) == (library, True)
    assert library.is_whole()
    assert compilers.count(compiler) == 2


def test_another_compiler_replaces_the_library(compiler, manifest):
    """A compiler of another version builds a library of another name, and the former one goes."""
    former, _ = build(manifest)
    compilers.make(compiler, version="echo made 2.0")
    library, is_new = build(manifest)
    assert is_new and library.path != former.path
    assert names(manifest.parent) == [manifest.name, library.path.name, "lock"]
    assert "2.0" in library.compiler


@pytest.mark.parametrize(
    ("script", "version", "message"),
    [
        ("echo no such header: error >&2; exit 3", "echo 1", "failed on .*: no such header: error"),
        ("kill -9 $$", "echo 1", "failed on .*: status -9"),
        ("true", "echo 1", "wrote no library, and reported no error"),
        ("sleep 300 & sleep 300", "echo 1", r"took more than 0\.5 s, and was ended"),
        ("true", "sleep 300", r"took more than 0\.5 s, and was ended"),
        ("true", "echo not installed; exit 1", "--version failed: of another version"),
    ],
)
def test_whatever_a_compiler_does_is_one_error(compiler, manifest, script, version, message):
    """A compiler that fails, hangs or writes nothing ends in one line; what was built stays."""
    library, _ = build(manifest)
    before = names(manifest.parent)
    # Its version is another one, so the library isn't taken.
    compilers.make(compiler, script, f"echo of another version; {version}")
    with pytest.raises(BuildError, match=message) as raised:
        build(manifest, timeout=0.5)
    assert "\n" not in str(raised.value)
    assert names(manifest.parent) == before
    assert library.is_whole()


def test_a_compilers_children_are_ended(compiler, manifest):
    """What a compiler has started is ended with it, also if it ends before them."""
    for script, timeout in (("sleep 300", 0.5), ("exit 1", 60)):
        compilers.make(compiler, f'sleep 300 & echo $! > "$LOG"; {script}')
        with pytest.raises(BuildError):
            build(manifest, timeout=timeout)
        compilers.wait_for_the_end(int(Path(f"{compiler}.log").read_text()))


def test_a_library_that_does_not_work_is_not_kept(compiler, manifest):
    """If the finished library can't be loaded, nothing is written."""

    def verify(path, timeout):
        assert path.read_text() == "library"
        raise BuildError("it doesn't work")

    with pytest.raises(BuildError, match="it doesn't work"):
        build(manifest, verify=verify)
    assert names(manifest.parent) == ["lock"]


@pytest.mark.nightly("starts TensorFlow; the test above does without")
def test_rubbish_is_found(tmp_path, monkeypatch, compiler):
    """A file that is no library is an error of the command, and isn't kept."""
    monkeypatch.setattr(building, "installed_target", lambda: compilers.TARGET)
    monkeypatch.setenv("TPU_COLUMNS_CACHE", str(tmp_path))
    with pytest.raises(BuildError, match="doesn't work: .*kernels.so can't be loaded"):
        building.build_for_user()
    assert names(tmp_path / "kernels") == ["lock"]


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.nightly("the same"))])
def test_processes_build_once(compiler, manifest, count):
    """Of several processes one compiles; all get its library."""
    compilers.make(compiler, f"sleep 0.5; {compilers.WRITES}")
    code = (
        "import pathlib, sys; from tpu_columns.kernels import building\n"
        "sys.path.append(sys.argv[2]); import compilers\n"
        "print(building.build(compilers.TARGET, pathlib.Path(sys.argv[1]))[0])"
    )
    command = [sys.executable, "-c", code, str(manifest), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    outputs = {process.communicate(timeout=60)[0] for process in started}
    assert [process.returncode for process in started] == [0] * count
    assert len(outputs) == 1
    assert compilers.count(compiler) == 1


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("/nosuch -O2", "CXX='/nosuch -O2' names no program that can be run"),
        ("'half quoted", "is no command: No closing quotation"),
        ("", r"no C\+\+ compiler: none of c\+\+, g\+\+, clang\+\+ is on PATH"),
    ],
)
def test_no_compiler_has_an_error_of_its_own(tmp_path, monkeypatch, chosen, message):
    """A CXX that can't be run isn't reported as a missing compiler."""
    monkeypatch.setenv("CXX", chosen)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=message):
        building.find_compiler()


def test_the_compiler_may_have_arguments(compiler, monkeypatch):
    """CXX may be a command with arguments, as in makefiles; without it a name on PATH is taken."""
    monkeypatch.setenv("CXX", f"{compiler} -O2")
    assert building.find_compiler() == [str(compiler), "-O2"]
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(compiler.parent))
    assert building.find_compiler() == [str(compiler)]


def test_the_users_directory_is_theirs_alone(tmp_path, monkeypatch, compiler):
    """It is made with mode 0700; one that others can use, or own, is an error that says so."""
    monkeypatch.setattr(building, "installed_target", lambda: compilers.TARGET)
    monkeypatch.setattr(building, "_load_elsewhere", lambda path, timeout: None)
    monkeypatch.setenv("TPU_COLUMNS_CACHE", str(tmp_path / "cache"))
    mask = os.umask(0)
    try:
        library, _ = building.build_for_user()
    finally:
        os.umask(mask)
    directory = tmp_path / "cache" / "kernels"
    assert directory.stat().st_mode & 0o777 == 0o700
    assert libraries.find_built("2.99.0") == library
    directory.chmod(0o750)
    with pytest.raises(BuildError, match=f"others can use it .*chmod 700 {directory}"):
        building.build_for_user()
    directory.chmod(0o700)
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(BuildError, match="belongs to another user"):
        building.build_for_user()


def test_a_file_in_the_place_of_the_directory(tmp_path, monkeypatch, compiler):
    """A file where the libraries should be is an error that says so, in a build and a search."""
    monkeypatch.setattr(building, "installed_target", lambda: compilers.TARGET)
    monkeypatch.setenv("TPU_COLUMNS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "kernels").write_text("mine")
    with pytest.raises(BuildError, match="kernels is a file"):
        building.build_for_user()
    with pytest.raises(libraries.UnusableError, match="kernels is a file"):
        libraries.find_built("2.99.0")


def test_a_release_is_built_from_its_wheel(tmp_path, compiler):
    """An unpacked wheel gives the version, and one without TensorFlow is an error."""
    metadata = tmp_path / "unpacked" / "tensorflow_cpu-2.99.3.dist-info" / "METADATA"
    with pytest.raises(BuildError, match="unpacked has no TensorFlow"):
        building.build_for_wheel(metadata.parents[1], tmp_path / "libraries")
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: tensorflow-cpu\nVersion: 2.99.3\n")
    library, _ = building.build_for_wheel(metadata.parents[1], tmp_path / "libraries")
    assert library.tensorflow == "2.99.3"
    assert (tmp_path / "libraries" / "2.99.json").exists()


def test_old_libraries_are_removed(tmp_path, monkeypatch, compiler):
    """`clean` removes what was built of other sources, and only files that it built."""
    sources = tmp_path / "cpp"
    sources.mkdir()
    (sources / building.UNIT).write_text("int old;")
    directory = tmp_path / "built"
    directory.mkdir(0o700)
    with monkeypatch.context() as patch:
        patch.setattr(libraries, "hash_sources", lambda: "old")
        old, _ = build(directory / "old.json")
    new, _ = build(directory / "new.json")
    foreign = ["notes.json", "kernels-2.98.0-0123456789abcdef.so", "changed.json"]
    (directory / foreign[0]).write_text('{"written by": "me"}')
    (directory / foreign[1]).write_text("mine")
    assert building.clean(directory) == [old.path, directory / "old.json"]
    assert names(directory) == sorted([*foreign[:2], new.path.name, "new.json", "lock"])
    new.path.write_text("edited")
    assert building.clean(directory, everything=True) == [directory / "new.json"]
    assert names(directory) == sorted([*foreign[:2], new.path.name, "lock"])
    assert building.clean(tmp_path / "absent") == []


def test_results_do_not_depend_on_a_rows_place():
    """No option lets the compiler approximate, or contract a product and a sum."""
    options = building.options(compilers.TARGET)
    assert "-ffp-contract=off" in options
    assert not [each for each in options if re.search("fast-math|Ofast|march", each)]
