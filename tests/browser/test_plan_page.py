# SPDX-License-Identifier: Apache-2.0
"""The page of a plan in a real browser: headless Chromium, driven by Selenium.

`nox -s browser` runs these tests; elsewhere they skip without Selenium or Chromium.
"""

from __future__ import annotations

import os
import shutil

import numpy as np
import pytest

import estimator_spec as es
from estimator_spec import planning
from estimator_spec.core.common.html_page import Bar, Page
from estimator_spec.planning.page import make_page

selenium = pytest.importorskip("selenium", reason="run by `nox -s browser`")

from selenium import webdriver  # noqa: E402 - after the check
from selenium.webdriver.common.by import By  # noqa: E402

pytestmark = pytest.mark.slow

# Set by `nox -s browser`, where a missing browser is a failure.
CHROMIUM = "TPU_COLUMNS_CHROMIUM"


@pytest.fixture(scope="module")
def browser():
    """Starts headless Chromium."""
    program = os.environ.get(CHROMIUM) or shutil.which("chromium")
    driver = shutil.which("chromedriver")
    if not program or not driver:
        assert CHROMIUM not in os.environ, f"{CHROMIUM} needs chromedriver beside it"
        pytest.skip("no Chromium with its chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """Opens the page of a plan with problems, a sample and many tables."""
    rows = [3, 50, 700, 4_000, 10**6, 40 * 10**6, 90 * 10**6]
    tables = {f"table_with_a_long_name_{n}": es.TableConfig(n, 256) for n in rows}
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={f"of_{name}": es.FeatureConfig(name) for name in tables},
        table_to_config_dict=tables,
        optimization_parameters=es.AdagradParameters(0.1),
    )
    sample = planning.IdSample.from_arrays([{f"of_{name}": np.arange(256) % 3 for name in tables}])
    plan = es.plan(spec, planning.System(), sample=sample)
    path = tmp_path_factory.mktemp("page") / "plan.html"
    make_page(plan, "model:spec").write(str(path))
    browser.get(path.as_uri())
    return browser, plan


def test_it_loads_nothing_and_logs_nothing(opened):
    """The browser reports no error, and requests nothing but the file."""
    browser, _ = opened
    assert browser.get_log("browser") == []
    requests = browser.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert [name for name in requests if not name.startswith("data:")] == []
    assert browser.title == "Plan of model:spec"


@pytest.mark.parametrize("width", [1400, 420])
def test_it_fits_the_window(opened, width):
    """Nothing but the tables, which scroll, is wider than a wide or a narrow window."""
    browser, _ = opened
    browser.set_window_size(width, 900)
    assert browser.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )


def test_problems_are_read_first(opened):
    """The verdict and the problems with numbered fixes are above the charts, and visible."""
    browser, plan = opened
    browser.set_window_size(1400, 900)
    notes = browser.find_elements(By.CLASS_NAME, "note")
    assert len(notes) == 1 + len(plan.problems)
    first_chart = browser.find_element(By.CLASS_NAME, "chart").rect["y"]
    for note, problem in zip(notes[1:], plan.problems, strict=True):
        assert note.is_displayed()
        assert note.rect["y"] < first_chart
        assert problem.text in note.text
        assert len(note.find_elements(By.CSS_SELECTOR, "ol > li")) == len(problem.fixes)


@pytest.mark.parametrize("width", [1400, 420])
def test_charts_are_drawn(opened, width):
    """Each chart has visible bars in their colors, and no text lies on another or outside."""
    browser, _ = opened
    browser.set_window_size(width, 900)
    charts = browser.execute_script(
        """return [...document.querySelectorAll('.chart')].map(chart => {
          const box = e => { const r = e.getBoundingClientRect();
            return [r.left, r.right, r.top, r.bottom] };
          const text = e => { const range = document.createRange();
            range.selectNodeContents(e); return box(range) };
          return {texts: [...chart.querySelectorAll('th, td.number')].map(text),
            bars: [...chart.querySelectorAll('.bars i')].map(box),
            colors: [...chart.querySelectorAll('.bars i')].map(
              e => getComputedStyle(e).backgroundColor)}; })"""
    )
    assert len(charts) == 6  # cores, hosts, serving; div and mod; tables
    for chart in charts:
        assert chart["bars"]
        assert "rgba(0, 0, 0, 0)" not in chart["colors"]  # that of an element without a style
        assert all(right - left >= 2 and bottom > top for left, right, top, bottom in chart["bars"])
        boxes = [*chart["texts"], *chart["bars"]]
        for number, text in enumerate(boxes):
            assert text[0] >= 0
            assert text[1] <= width
            for other in boxes[:number]:
                beside = text[0] >= other[1] - 1 or other[0] >= text[1] - 1
                below = text[2] >= other[3] - 1 or other[2] >= text[3] - 1
                assert beside or below
    assert len(set(charts[-1]["colors"])) == 2  # tables and slots


def test_text_is_readable_on_light_and_dark(opened):
    """Text has a contrast of at least 4.5 to its background in both color schemes (WCAG 2, AA)."""
    browser, _ = opened
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        colors = browser.execute_script(
            """const rgb = color => color.match(/\\d+/g).slice(0, 3).map(Number);
            const style = selector => getComputedStyle(document.querySelector(selector));
            const paper = rgb(style('body').backgroundColor);
            return [[rgb(style('body').color), paper], [rgb(style('.chart th').color), paper],
              [rgb(style('.note').color), rgb(style('.note').backgroundColor)]]"""
        )
        for text, background in colors:
            assert _contrast(text, background) >= 4.5, (scheme, text, background)


def _contrast(first, second):
    """Returns the contrast ratio of two colors, by WCAG 2."""

    def luminance(color):
        parts = [value / 255 for value in color]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("width", [1200, 420])
def test_long_texts_leave_room(browser, width, tmp_path):
    """Beside texts of any length a label has whole words on its lines, and bars can be read."""
    page = Page("Long texts")
    bars = [Bar("a_column_of_this_name", 7.0, "keras_rs.layers.EmbedReduce(30, 2), " * 9)] * 2
    page.add_chart(bars, "columns")
    page.write(str(tmp_path / "page.html"))
    browser.get((tmp_path / "page.html").as_uri())
    browser.set_window_size(width, 900)
    label, room = browser.execute_script(
        "return ['.chart th', '.bars'].map(e => document.querySelector(e).clientWidth)"
    )
    assert label >= 150 and room >= 150
