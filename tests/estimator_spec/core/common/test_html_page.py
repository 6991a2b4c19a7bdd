# SPDX-License-Identifier: Apache-2.0
"""Tests self-contained HTML pages and their charts."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.core.common.html_page import Bar, Page, bar_chart

texts = st.text(st.characters(codec="utf-8", exclude_categories=["C"]))


def percents(chart: ET.Element, tag: str = "i") -> list[float]:
    """Returns the widths of a chart's bars, or the places of its limits ("b"), in percent."""
    styles = [element.get("style", "") for element in chart.iter(tag)]
    return [float(style.rpartition(":")[2].rstrip("%")) for style in styles]


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
    longest = max(value for _, value in values)
    expected = [100 * value / longest for _, value in values if value]
    assert percents(drawn) == pytest.approx(expected, abs=0.001)
    assert [row.findtext("th") for row in drawn.iter("tr")] == [label for label, _ in values]


def test_limits_are_lines():
    """A limit is a line on the scale of the bars, which it may exceed; the value is before it."""
    drawn = ET.fromstring(bar_chart([Bar("a", 50, "50", "over", 100), Bar("b", 25, "25")], "c"))
    assert percents(drawn, "b") == [100]
    assert percents(drawn) == [50, 25]
    assert drawn.get("aria-label") == "c"
    first, *_ = drawn.iter("tr")
    assert [cell.tag for cell in first] == ["th", "td", "td"]
    assert first[1].text == "50"


def test_a_bar_of_two_parts():
    """The second part of a bar has a color of its own, and counts for the scale."""
    drawn = ET.fromstring(bar_chart([Bar("a", 30, "30 and 10", rest=10), Bar("b", 20, "20")], "c"))
    assert percents(drawn) == [75, 25, 50]
    assert [part.get("class") for part in drawn.iter("i")] == ["first", "second", "first"]


def test_charts_with_one_scale():
    """A chart may leave room for the values of another, so that both can be compared."""
    drawn = ET.fromstring(bar_chart([Bar("a", 10, "10")], "c", scale_to=40))
    assert percents(drawn) == [25]


def test_a_folded_table_has_its_line_and_its_rows():
    """A folded table is on the page, below the line that opens it."""
    page = Page("x")
    page.add_table(["a"], [["1"], ["2"]], folded="2 <rows>")
    opened = page.render().partition("<details><summary>2 &lt;rows&gt;</summary>")[2]
    assert opened.partition("</details>")[0].count("<tr>") == 3


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
