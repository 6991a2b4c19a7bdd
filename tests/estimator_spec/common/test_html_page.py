# SPDX-License-Identifier: Apache-2.0
"""Tests self-contained HTML pages and their charts."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.common.html_page import Bar, Page, bar_chart, shorten

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C"]))
SVG = "{http://www.w3.org/2000/svg}"


@given(texts, st.lists(texts, max_size=3))
def test_text_is_never_markup(text, items):
    """Whatever a text has, it is on the page as text: no tag appears that wasn't there."""
    page = Page(text)
    page.add_heading(text)
    page.add_paragraph(text)
    page.add_list(items)
    page.add_note(text, items)
    page.add_table([text], [[text]])
    plain = Page("x")
    plain.add_heading("x")
    plain.add_paragraph("x")
    plain.add_list(["x"] * len(items))
    plain.add_note("x", ["x"] * len(items))
    plain.add_table(["x"], [["x"]])
    number = 1 if text[:1].isdigit() else 0  # cells of numbers have a class
    assert page.render().count("<") == plain.render().count("<")
    assert page.render().count('class="number"') == number


@given(st.lists(st.tuples(texts, st.floats(0, 1e15)), min_size=1, max_size=8))
def test_a_chart_has_the_proportions_of_its_values(values):
    """The longest bar fills the chart, and all have the same scale."""
    bars = [Bar(label, value, "text") for label, value in values]
    drawn = ET.fromstring(bar_chart(bars, "values"))
    widths = [float(rect.get("width")) for rect in drawn.iter(f"{SVG}rect")]
    longest = max(value for _, value in values)
    assert len(widths) == len(values)
    for width, (_, value) in zip(widths, values, strict=True):
        assert width == pytest.approx(520 * value / longest if longest else 0, abs=0.051)


def test_limits_are_lines():
    """A limit is a line on the scale of the bars, which it may exceed."""
    drawn = ET.fromstring(bar_chart([Bar("a", 50, "50", "over", 100), Bar("b", 25, "25")], "c"))
    (line,) = drawn.iter(f"{SVG}line")
    assert float(line.get("x1")) == 250 + 520
    widths = [float(rect.get("width")) for rect in drawn.iter(f"{SVG}rect")]
    assert widths == [260, 130]
    assert drawn.find(f"{SVG}title").text == "c"


def test_charts_with_one_scale():
    """A chart may leave room for the values of another, so that both can be compared."""
    drawn = ET.fromstring(bar_chart([Bar("a", 10, "10")], "c", scale_to=40))
    assert [float(rect.get("width")) for rect in drawn.iter(f"{SVG}rect")] == [130]


@given(st.text(max_size=40), st.integers(5, 30))
def test_shortened_text(text, length):
    """A short text stays; a long one keeps its ends, in the length that is asked."""
    found = shorten(text, length)
    if len(text) <= length:
        assert found == text
    else:
        assert len(found) == length
        assert text.startswith(found.split("…")[0]) or "…" in text


def test_a_page_is_written_whole(tmp_path, monkeypatch):
    """A page replaces the file of before when it is complete; a failure leaves that one."""
    path = tmp_path / "page.html"
    Page("first").write(str(path))
    assert "<h1>first</h1>" in path.read_text(encoding="utf-8")

    def fail(*paths):
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        Page("second").write(str(path))
    assert "<h1>first</h1>" in path.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [path]
