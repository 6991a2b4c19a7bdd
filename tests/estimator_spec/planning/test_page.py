# SPDX-License-Identifier: Apache-2.0
"""The page of a plan: its contents, as a parser reads them. tests/browser opens it."""

from __future__ import annotations

import html.parser
import re

import numpy as np
import pytest

import estimator_spec as es
from estimator_spec.planning import IdSample, System
from estimator_spec.planning.page import make_page


class Reader(html.parser.HTMLParser):
    """Collects tags, texts and the bars of a page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts, self.bars = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        style = dict(attrs).get("style", "")
        if tag == "div" and dict(attrs).get("class") == "bars":
            self.bars.append(0.0)
        if style.startswith("width:"):
            self.bars[-1] += float(style.removeprefix("width:").rstrip("%"))
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture(scope="module")
def page(dlrm):
    """The page of the large model on one host, with a sample."""
    ids = {f"of_c{number:02}": np.arange(64) % 3 for number in range(1, 27)}
    sample = IdSample.from_arrays([ids])
    return make_page(es.plan(dlrm, System(), sample=sample), "model:<spec>").render()


def test_it_is_well_formed(page):
    """Each tag is closed in its place, and the title is escaped."""
    reader = Reader(page)
    assert reader.open == []
    assert "<h1>Plan of model:&lt;spec&gt;</h1>" in page


def test_it_is_self_contained(page):
    """Nothing is loaded from elsewhere, and nothing runs."""
    reader = Reader(page)
    assert "script" not in {tag for tag, _ in reader.tags}
    for tag, attributes in reader.tags:
        assert "src" not in attributes
        if "href" in attributes:
            assert (tag, attributes["href"]) == ("link", "data:,")
    assert "url(" not in page and "@import" not in page


def test_it_has_every_table_problem_and_fix(page, dlrm):
    """Every table, problem and numbered fix of the plan is on the page."""
    text = "\n".join(Reader(page).texts)
    plan = es.plan(dlrm)
    for table in plan.estimate.tables:
        assert table.key in text
    for problem in plan.problems:
        assert problem.text in text
        for fix in problem.fixes:
            assert str(fix) in text


def test_bars_have_the_proportions_of_the_numbers(make_spec):
    """Bars of memory and shards are as long as their numbers, on one scale a chart."""
    spec = make_spec({"words": es.TableConfig(4, 256)}, es.StochasticGradientDescentParameters(1))
    sample = IdSample.from_arrays([{"of_words": [0, 0, 0, 1]}])
    system = System(hosts=1, cores=3, hbm=4096, host_memory=8192, reserved=0)
    bars = Reader(make_page(es.plan(spec, system, sample=sample)).render()).bars
    # Rows of 1 KiB on cores of 4 KiB: two rows on the first, one on each other; one host; serving.
    memory, tail = bars[:4], bars[4:]
    assert memory[0] == pytest.approx(2 * memory[1], abs=0.1)
    assert memory[2:] == pytest.approx([memory[0], memory[0]], abs=0.1)
    div, mod = tail[:3], tail[3:6]
    assert div[1:] == [0, 0]
    assert mod[0] == pytest.approx(div[0] * 3 / 4, abs=0.1)
    assert mod[0] == pytest.approx(3 * mod[1], abs=0.2)
    assert len(tail) == 7  # and the table itself


def test_tables_have_a_color_and_slots_another(make_spec):
    """A bar of a table is its rows and then its slots, as the key below the chart says."""
    spec = make_spec({"large": es.TableConfig(4096, 256), "small": es.TableConfig(1, 4)})
    text = make_page(es.plan(spec)).render().partition("<h2>Tables</h2>")[2]
    parts = re.findall(r'<i class="(\w+)" style="width:([\d.]+)%">', text)
    assert parts == [
        ("first", "50.000"),
        ("second", "50.000"),
        ("first", "0.000"),
        ("second", "0.000"),
    ]
    assert '<i class="key first"></i>table<i class="key second"></i>slots' in text
    assert ".bars i { min-width: 2px; }" in make_page(es.plan(spec)).render()


def test_many_shards_are_drawn_in_groups(make_spec):
    """A chart of 640 shards has 32 bars, each the busiest shard of its group."""
    spec = make_spec({"words": es.TableConfig(6400, 4)})
    sample = IdSample.from_arrays([{"of_words": np.arange(6400)}])
    text = make_page(es.plan(spec, System(hosts=80), sample=sample)).render()
    assert text.count("busiest of ") == 2 * 2 * 32  # label and title
    assert "busiest of 620 to 639" in text


def test_without_a_sample(make_spec):
    """Without a sample the page shows how even the rows are."""
    text = make_page(es.plan(make_spec({"words": es.TableConfig(9, 4)}))).render()
    assert "Rows of the fullest shard over the mean" in text
    assert "Plan of embedding tables" in text
