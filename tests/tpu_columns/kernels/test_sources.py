# SPDX-License-Identifier: Apache-2.0
"""The C++ sources: no warnings of a compiler or clang-tidy, and tests of what they compute."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tpu_columns.kernels import building, libraries

UNITS = sorted(Path(__file__).with_name("units").glob("*_test.cc"))
# Clang's -Wconversion has also the signs, of which GCC's doesn't warn: our sizes are int64_t, as
# TensorFlow's, and those of the standard library size_t. Builds of users have no such options: what
# a compiler yet unknown warns of is no failure.
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion")
# TensorFlow deprecates names from one release to the next; clang-tidy sees those of the newest.
ERRORS = (*WARNINGS, "-Werror", "-Wno-error=deprecated-declarations")
OWN = f"-I{libraries.SOURCES}"
CLANG_TIDY = shutil.which("clang-tidy", path=Path(sys.executable).parent) or shutil.which(
    "clang-tidy"
)


@pytest.fixture(scope="module")
def compiler():
    """The command of the compiler that builds the ops."""
    try:
        return building.find_compiler()
    except building.NoCompilerError as error:
        pytest.skip(str(error))


def run(*command):
    """Runs a command, which must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def test_there_are_no_warnings(compiler):
    """With TensorFlow's headers as system headers, a compiler has nothing to say of ours."""
    target = building.installed_target()
    options = (*building.options(target), *target.directories, *ERRORS, "-fsyntax-only")
    run(*compiler, *options, libraries.SOURCES / building.UNIT)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_unit(compiler, unit, tmp_path):
    """A header that needs no TensorFlow does what it says; its test is a program of its own."""
    options = ("--std=c++17", "-O1", "-ffp-contract=off", *ERRORS, OWN)
    run(*compiler, *options, unit, "-o", tmp_path / "test")
    run(tmp_path / "test")


@pytest.mark.skipif(CLANG_TIDY is None, reason="needs clang-tidy: pip install clang-tidy")
def test_clang_tidy_finds_nothing():
    """The checks of .clang-tidy; they need TensorFlow's headers, which `nox -s lint` hasn't."""
    target = building.installed_target()
    options = ("--", *target.flags, *target.directories, *WARNINGS, OWN)
    run(CLANG_TIDY, "--quiet", libraries.SOURCES / building.UNIT, *UNITS, *options)
