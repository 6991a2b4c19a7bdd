# SPDX-License-Identifier: Apache-2.0
"""Agreement of docs/routing.md and `tpu_columns.route`."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path

import pytest

from tpu_columns import Hardware, LookupDevice, Mode, route

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def make_routing():
    """Imports the script that generates the page."""
    spec = importlib.util.spec_from_file_location("make_routing", DOCS / "make_routing.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current(make_routing):
    """The page equals the script's output."""
    assert (DOCS / "routing.md").read_text(encoding="utf-8") == make_routing.page()


def test_every_combination_is_on_the_page():
    """The page's table has the device or error of each combination."""
    lines = (DOCS / "routing.md").read_text(encoding="utf-8").splitlines()
    rows = [[c.strip(" `*") for c in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    modes = [Mode[name] for name in rows[0][2:]]
    told = {
        (row[0], Hardware[row[1]], mode): cell
        for row in rows[2:]
        for mode, cell in zip(modes, row[2:], strict=True)
    }
    combinations = list(itertools.product([None, *LookupDevice], Hardware, Mode))
    assert len(told) == len(combinations)
    for device, hardware, mode in combinations:
        cell = told[device.value if device else "none", hardware, mode]
        column = type("Column", (), {"name": "c", "embedding_lookup_device": device})()
        if cell == "error":
            with pytest.raises(ValueError, match=re.escape("is not supported")):
                route(column, mode, hardware)
        else:
            assert route(column, mode, hardware).value == cell


def test_a_stale_page_is_noticed(make_routing, tmp_path, monkeypatch, capsys):
    """`--check` fails on another page, and passes after the page is written again."""
    page = tmp_path / "routing.md"
    page.write_text(make_routing.page().replace("**error**", "cpu", 1), encoding="utf-8")
    monkeypatch.setattr(make_routing, "PAGE", page)
    assert make_routing.main(["--check"]) == 1
    assert "is not what route() says" in capsys.readouterr().err
    assert make_routing.main([]) == make_routing.main(["--check"]) == 0
