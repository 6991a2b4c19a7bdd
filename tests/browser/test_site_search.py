# SPDX-License-Identifier: Apache-2.0
"""The search of the documentation site, opened from disk in headless Chromium.

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
    page = f"{(SITE / 'index.html').as_uri()}?q={query}"
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000")
    command = [CHROMIUM, *options, "--dump-dom", page]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    links = re.findall(r'href="([^"]*)" class="md-search-result__link"', found)
    sections = [link for link in links if "#" in link]
    assert sections, "the search found nothing"
    assert sections[0].endswith(f"/{first}")
