# SPDX-License-Identifier: Apache-2.0
"""Tests objects of programs that a command line names."""

from __future__ import annotations

import sys

import pytest

from estimator_spec.core.embedding import program_objects


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with a script and the module beside it; imports end with the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    (tmp_path / "beside_the_script.py").write_text("VALUE = 3\n")
    (tmp_path / "a_script.py").write_text(
        "import beside_the_script\n"
        "class Holder:\n"
        "    value = beside_the_script.VALUE\n"
        "    name = __name__\n"
        "assert __name__ != '__main__'\n"
    )
    return tmp_path


def test_a_script_by_its_path(folder):
    """A script is imported from anywhere, with the modules beside it, and once only."""
    path = folder / "a_script.py"
    assert program_objects.load_object(f"{path}:Holder.value", "plan") == 3
    holder = program_objects.load_object(f"{path}:Holder", "plan")
    assert program_objects.load_object(f"{path}:Holder", "plan") is holder
    assert sys.modules[holder.__module__].Holder is holder


def test_a_script_with_the_name_of_a_module(folder):
    """A script that is called like an imported module doesn't replace it."""
    import json

    path = folder / "json.py"
    path.write_text("value = 5\n")
    assert program_objects.load_object(f"{path}:value", "plan") == 5
    assert sys.modules["json"] is json


def test_a_broken_script(folder):
    """The error of a script is one line, and no half of a module stays."""
    path = folder / "broken_script.py"
    path.write_text("raise RuntimeError('first\\nsecond')\n")
    with pytest.raises(ValueError, match=r"^plan .*broken_script.py:x: RuntimeError: first$"):
        program_objects.load_object(f"{path}:x", "plan")
    assert "broken_script" not in sys.modules
