# SPDX-License-Identifier: Apache-2.0
"""The search and the filter of tables of the site, opened from disk in headless Chromium.

`nox -s browser` builds the site, and runs these tests; elsewhere they skip without either.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
CHROMIUM = os.environ.get("TPU_COLUMNS_CHROMIUM") or shutil.which("chromium")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM or not SITE.exists(), reason="run by `nox -s browser`"),
]


def opened(page: str) -> str:
    """Returns the elements of a page of the site after its scripts have run."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000")
    command = [CHROMIUM, *options, "--dump-dom", f"{SITE.as_uri()}/{page}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("TPUEstimator.train", "docs/api/estimators.html#estimator_spec.TPUEstimator.train"),
        ("embedding_column", "docs/api/columns.html#tpu_columns.embedding_column"),
        ("RunConfig", "docs/api/run_config.html#estimator_spec.RunConfig"),
        ("to_keras", "docs/api/convert.html#estimator_spec.convert.to_keras"),
    ],
)
def test_the_search_finds_names_from_disk(query, first):
    """The first section that the search finds for a public name is its entry."""
    found = opened(f"index.html?q={query}")
    links = re.findall(r'href="([^"]*)" class="md-search-result__link"', found)
    sections = [link for link in links if "#" in link]
    assert sections, "the search found nothing"
    assert sections[0].endswith(f"/{first}")


@pytest.mark.parametrize(
    ("page", "words", "shown"),
    [
        ("legacy_names", "lstmblockfusedcell", "LSTMBlockFusedCell"),
        ("optimizers", "beta1 exact", "beta1"),
    ],
)
def test_a_filter_shows_rows_with_its_words(page, words, shown):
    """Pages of long tables have a box that hides rows without the words typed, and empty tables."""
    found = opened(f"docs/{page}.html?filter={words.replace(' ', '%20')}")
    assert 'class="table-filter"' in found
    body = found.partition('class="md-content"')[2]
    rows = re.findall(r"<tr>(?:(?!</tr>).)*<td.*?</tr>", body, re.DOTALL)
    assert 0 < len(rows) < 20 < body.count('<tr hidden="">')
    assert all(shown in row for row in rows)
    assert '<table hidden="">' in body


def test_links_to_a_repository_are_set_by_environment(monkeypatch):
    """Pages link to a repository and to their sources where the builder says which; else not."""
    load_config = pytest.importorskip("mkdocs.config").load_config
    settings = str(SITE.parents[1] / "mkdocs.yml")
    chosen = {
        "TPU_COLUMNS_SITE_REPOSITORY": "https://code.example/columns",
        "TPU_COLUMNS_SITE_EDIT": "edit/main/",
    }
    for name in chosen:
        monkeypatch.delenv(name, raising=False)
    assert not load_config(settings).repo_url
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    found = load_config(settings)
    assert (found.repo_url, found.edit_uri) == ("https://code.example/columns", "edit/main/")
    assert 'class="md-source"' not in (SITE / "index.html").read_text(encoding="utf-8")


def test_pages_of_short_tables_have_no_filter():
    """Other pages have no such box."""
    assert 'class="table-filter"' not in opened("docs/routing.html")
