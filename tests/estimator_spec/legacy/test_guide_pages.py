# SPDX-License-Identifier: Apache-2.0
"""Where the pages of the documentation are."""

from __future__ import annotations

import configparser
import importlib.metadata
import os
from pathlib import Path, PurePosixPath

import pytest

from estimator_spec.legacy import guide_pages

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def nothing_remembered():
    """Each test looks for the pages anew."""
    guide_pages.find_page.cache_clear()
    yield
    guide_pages.find_page.cache_clear()


def test_in_a_source_tree():
    """In a source tree it is the page there; a page that isn't there keeps its name."""
    if str(ROOT) != guide_pages._ROOT:
        pytest.skip("the packages are installed")
    assert os.path.samefile(guide_pages.find_page("docs/plan.md"), ROOT / "docs" / "plan.md")
    assert guide_pages.find_page("docs/nothing.md") == "docs/nothing.md"


def test_in_an_installation(tmp_path, monkeypatch):
    """Without a source tree it is the page among the distribution's files, if there is one."""
    page = tmp_path / "share" / "doc" / "tpu-columns" / "docs" / "plan.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Plan")

    class File(PurePosixPath):
        def locate(self):
            return str(tmp_path / "lib" / "site-packages" / self)

    monkeypatch.setattr(guide_pages, "_ROOT", str(tmp_path / "lib" / "site-packages"))
    files = [File("../../share/doc/tpu-columns/docs/plan.md"), File("estimator_spec/plan.md")]
    monkeypatch.setattr(importlib.metadata, "files", lambda name: files)
    (tmp_path / "lib" / "site-packages").mkdir(parents=True)
    assert guide_pages.find_page("docs/plan.md") == str(page)
    page.unlink()
    guide_pages.find_page.cache_clear()
    assert guide_pages.find_page("docs/plan.md") == "docs/plan.md"


def test_the_wheel_has_the_pages_that_messages_name():
    """setup.cfg puts the pages where they are looked for."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", encoding="utf-8")
    files = settings["options.data_files"]
    assert files[guide_pages._SHARED].split() == ["*.md"]
    assert files[f"{guide_pages._SHARED}/docs"].split() == ["docs/*.md", "docs/*.svg"]
