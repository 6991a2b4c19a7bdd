# SPDX-License-Identifier: Apache-2.0
"""Libraries are found by the exact version of TensorFlow, and refused before they are loaded."""

from __future__ import annotations

import json
import os
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import compilers
from tpu_columns.kernels import building, libraries, loading

VERSION = "2.99.0"


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A library that the user has built for a TensorFlow 2.99.0."""
    monkeypatch.setenv("CXX", *compilers.make(tmp_path / "c++"))
    monkeypatch.setenv("TPU_COLUMNS_CACHE", str(tmp_path))
    monkeypatch.setattr(libraries, "OF_THE_WHEEL", tmp_path / "wheel")
    directory = tmp_path / "kernels"
    directory.mkdir(0o700)
    manifest = directory / libraries.manifest_name(VERSION)
    return building.build(compilers.TARGET, manifest)[0]


def manifest_of(library):
    """Returns the path of a library's manifest."""
    return library.path.parent / libraries.manifest_name(VERSION)


def rewrite(manifest, **facts):
    """Changes facts in a manifest."""
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), **facts}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda it: os.truncate(it.path, 3), "isn't what was built"),
        (lambda it: it.path.write_text("another"), "isn't what was built"),
        (lambda it: it.path.unlink(), "isn't what was built"),
        (lambda it: manifest_of(it).unlink(), "none is built in"),
        (lambda it: shutil.rmtree(it.path.parent), "none is built in"),
        (lambda it: manifest_of(it).write_text("{"), "no manifest of such a library"),
        (lambda it: manifest_of(it).write_text("[]"), "no manifest of such a library"),
        (lambda it: rewrite(manifest_of(it), path="../x.so"), "no manifest of such a library"),
        (lambda it: rewrite(manifest_of(it), tensorflow="2.98.0"), "no manifest of such"),
        (lambda it: rewrite(manifest_of(it), sources="0"), "built of other sources"),
        (lambda it: it.path.parent.chmod(0o755), "others can use it .*chmod 700"),
        (lambda it: it.path.parent.chmod(0o720), "others can use it .*chmod 700"),
    ],
)
def test_what_is_not_as_built_is_refused(built, damage, message):
    """A library is found as it was built, and refused after each damage, with the reason."""
    assert libraries.find(VERSION)[0] == built
    damage(built)
    found, (of_wheel, reason) = libraries.find(VERSION)
    assert found is None
    assert re.search(message, reason), reason
    assert of_wheel == "this installation has none for TensorFlow 2.99.0"


def test_another_users_directory_is_refused(built, monkeypatch):
    """No code is loaded that another user may have written."""
    assert libraries.find(VERSION)[0] == built
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert "belongs to another user" in libraries.find(VERSION)[1][-1]


def test_the_cache_must_be_an_absolute_path(monkeypatch):
    """No library is loaded from a path that depends on the working directory."""
    monkeypatch.setenv("TPU_COLUMNS_CACHE", "cache")
    assert "'cache', must be an absolute path" in libraries.find(VERSION)[1][-1]


@pytest.fixture
def of_wheel(built):
    """The same library as one of a wheel, for all TensorFlow 2.99."""
    manifest = libraries.OF_THE_WHEEL / "2.99.json"
    manifest.parent.mkdir()
    return building.build(compilers.TARGET, manifest)[0]


@pytest.mark.parametrize(
    ("version", "is_found"),
    [
        ("2.99.0", True),
        ("2.99.7", True),
        ("2.99.0.post1", True),
        ("2.98.0", False),
        ("2.990.0", False),
        ("2.99.0rc1", False),
        ("2.99.0-dev20261026", False),
        ("2.99.0+nv24.3", False),
        ("my own", False),
    ],
)
def test_a_wheels_library_is_for_one_minor_version(of_wheel, version, is_found):
    """It is taken for each release of its minor version, and for nothing else."""
    shutil.copy(libraries.OF_THE_WHEEL / "2.99.json", libraries.OF_THE_WHEEL / "2.98.json")
    found, reasons = libraries.find(version)
    assert (found == of_wheel) == is_found
    assert is_found == (not reasons)


def test_the_users_library_is_taken_if_the_wheels_is_damaged(built, of_wheel):
    """The first place that has a good library decides."""
    assert libraries.find(VERSION) == (of_wheel, [])
    os.truncate(of_wheel.path, 1)
    found, reasons = libraries.find(VERSION)
    assert found == built
    assert len(reasons) == 1


def test_the_module_and_the_distribution_name_one_library():
    """The version of the module differs in its spelling from that of the distribution."""
    name = libraries.manifest_name
    assert name("2.23.0-dev20261026") == name("2.23.0.dev20261026")
    assert name("2.15.0") == name("2.15.0.post1") != name("2.15.1")


def test_engines_are_described(built, monkeypatch):
    """The sentence names the library; or TensorFlow's ops, why, and the command."""
    assert str(built.path) in libraries.describe_engine(VERSION)
    text = libraries.describe_engine("2.98.0")
    assert text.startswith("TensorFlow's own ops: ") and libraries.COMMAND in text
    monkeypatch.setenv("TPU_COLUMNS_NATIVE_KERNELS", "0")
    assert "turned off" in libraries.describe_engine(VERSION)


# Loading


@pytest.fixture
def load(built, monkeypatch):
    """Loads as a training's first graph does; returns the ops, and the lines of the log."""
    monkeypatch.setattr(tf, "__version__", VERSION)
    monkeypatch.setattr(loading, "compile_flags", lambda: compilers.TARGET.flags)
    lines = []

    def collect(text, *values):
        lines.append(text % values)

    for level in ("info", "warning", "error"):
        monkeypatch.setattr(tf.compat.v1.logging, level, collect)
    return lambda: (loading.load.__wrapped__(), lines)


def replace(library, data):
    """Gives a library other contents, and its manifest their hash."""
    library.path.write_bytes(data)
    rewrite(manifest_of(library), sha256=libraries.hash_of(data))


def test_a_file_that_is_no_library_is_one_warning(load):
    """What the system can't load is a warning with its words and the command."""
    ops, (line,) = load()
    assert ops is None
    assert re.search(r"kernels-2\.99\.0-.*\.so can't be loaded: .*(too short|invalid ELF)", line)
    assert libraries.COMMAND in line and "\n" not in line


def test_a_library_without_the_ops_is_refused(built, load):
    """A shared object that isn't ours is refused, and isn't mistaken for ours."""
    with open(np.random.mtrand.__file__, "rb") as file:
        replace(built, file.read())
    ops, (line,) = load()
    assert ops is None
    assert "is refused, as it has no op tpu_columns_" in line


@pytest.mark.parametrize("facts", [{"flags": ["-DB"]}, {"git_version": "v2.99.0-other"}])
def test_another_tensorflow_of_the_version_is_refused(built, load, monkeypatch, facts):
    """A library for another build of the same version isn't loaded."""
    opened = []
    monkeypatch.setattr(loading, "open_library", lambda path: opened.append(path) or path)
    assert load() == (built.path, [])
    assert opened == [built.path]
    rewrite(manifest_of(built), **facts)
    ops, (line,) = load()
    assert ops is None and opened == [built.path]
    assert "was built for another TensorFlow 2.99.0" in line


def test_a_training_starts_no_compiler(built, load, tmp_path):
    """Without a library there is one warning, which names the command, and nothing is built."""
    compiled = compilers.count(tmp_path / "c++")
    shutil.rmtree(built.path.parent)
    ops, (line,) = load()
    assert ops is None
    assert libraries.COMMAND in line
    assert compilers.count(tmp_path / "c++") == compiled
    assert not built.path.parent.exists()


def test_the_ops_are_those_of_the_sources():
    """The list of what a library must have is that of the C++ sources."""
    texts = [path.read_text(encoding="utf-8") for path in libraries.SOURCES.glob("*.h")]
    types = re.findall(r'REGISTER_OP\("(\w+)"\)', "\n".join(texts))
    names = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in types]
    assert sorted(names) == sorted(loading.OPS)
    assert all(name.startswith(loading.PREFIX) for name in types)
