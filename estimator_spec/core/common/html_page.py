# SPDX-License-Identifier: Apache-2.0
"""Builds self-contained HTML pages: text, tables, bar charts and curves in one file.

A page has no scripts and loads nothing, so that it can be kept, mailed and opened offline. A bar
chart is a table of labels, values and bars; in narrow windows the bars have lines of their own.
Curves and boxes are inline SVG. Colors follow the reader's preference for a light or a dark background.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping, Sequence

from estimator_spec.core.common import own_files

_STYLE = """
:root { color-scheme: light dark; --text: #1d2733; --paper: #ffffff; --line: #c9d1da;
  --first: #2f6fb5; --second: #c4741a; --over: #b3261e; --good: #1b7f4b; --soft: #eef2f6; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e3e8ee; --paper: #14191f; --line: #3b4652;
    --first: #6ea8e6; --second: #e8a35a; --over: #ff8a80; --good: #6fcf9b; --soft: #1e262f; } }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem; background: var(--paper);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
.scrolls { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .75rem .25rem 0; text-align: left;
  vertical-align: top; white-space: nowrap; }
td.prose { min-width: 20rem; white-space: normal; }
td.number { font-variant-numeric: tabular-nums; text-align: right; }
.chart { width: 100%; }
.chart th, .chart td { border: 0; padding: .1rem .6rem .1rem 0; vertical-align: middle;
  font-weight: normal; }
.chart th { min-width: 10rem; } .chart th, .chart td.number { white-space: normal; }
.chart td:last-child { width: 50%; min-width: 12rem; padding-right: 0; }
.bars { display: flex; position: relative; height: 1rem; print-color-adjust: exact; }
.bars i { min-width: 2px; } .bars b { position: absolute; top: -.2rem; bottom: -.2rem;
  border-left: 2px dashed var(--text); }
i.first { background: var(--first); } i.second { background: var(--second); }
i.over { background: var(--over); }
i.key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 .8rem; }
@media (max-width: 40rem) {
  .chart tr { display: grid; padding: .2rem 0;
    grid-template-columns: minmax(10rem, 1fr) minmax(0, auto); }
  .chart th { min-width: 0; }
  .chart td:last-child { grid-column: 1 / -1; padding: 0; width: auto; min-width: 0; }
  .bars b { top: 0; bottom: 0; } }
summary { cursor: pointer; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; }
svg { display: block; }
svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
polyline.first, polyline.second { fill: none; stroke-width: 2; }
polyline.first { stroke: var(--first); }
polyline.second { stroke: var(--second); stroke-dasharray: 5 3; }
rect { fill: var(--soft); stroke: var(--first); }
svg path { fill: none; stroke: var(--line); }
.note { background: var(--soft); border-left: 4px solid var(--second); margin: 1rem 0;
  padding: .5rem 1rem; }
.note.bad { border-color: var(--over); } .note.good { border-color: var(--good); }
.note p { margin: .25rem 0; }
"""

# Characters of a cell that stays on one line.
_LONGEST_LINE = 60
_CURVE_WIDTH, _CURVE_HEIGHT = 640, 200
_BOX_HEIGHT, _BOX_STEP, _GAP, _LETTER = 24, 30, 70, 7.2  # of boxes, and of a letter
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 8, 12, 26  # margins of curves


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bar of a chart.

    Attributes:
        label: its name.
        value: length, in the unit of the chart; at least 0.
        text: the value as a reader wants it.
        style: color: 'first', 'second' or 'over'.
        limit: value of a dashed line across the bar, or None.
        rest: length of a second part, in the color 'second'; at least 0.
    """

    label: str
    value: float
    text: str
    style: str = "first"
    limit: float | None = None
    rest: float = 0


def bar_chart(bars: Sequence[Bar], description: str, scale_to: float = 0) -> str:
    """Returns a chart of horizontal bars as a table.

    Values come before their bars; after them they would look like the limits.

    Args:
        bars: the bars, from top to bottom.
        description: text for readers who don't see the chart.
        scale_to: a value that must have room, so that charts can be compared.
    """
    lengths = (max(bar.value + bar.rest, bar.limit or 0) for bar in bars)
    longest = max([scale_to, *lengths]) or 1
    rows = "".join(_draw(bar, longest) for bar in bars)
    return f'<table class="chart" aria-label="{html.escape(description)}">{rows}</table>'


def _draw(bar: Bar, longest: float) -> str:
    """Returns the row of a bar. Its parts are wide enough to be seen unless they are 0."""
    label, text = html.escape(bar.label), html.escape(bar.text)
    drawn = "".join(
        f'<i class="{style}" style="width:{100 * (value / longest):.3f}%"></i>'
        for style, value in ((bar.style, bar.value), ("second", bar.rest))
        if value
    )
    if bar.limit is not None:
        drawn += f'<b style="left:{100 * (bar.limit / longest):.3f}%"></b>'
    return (
        f'<tr title="{label}: {text}"><th scope="row">{label}</th><td class="number">{text}</td>'
        f'<td><div class="bars">{drawn}</div></td></tr>'
    )


def _svg(width: int, height: int, description: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{html.escape(description)}</title>'
        f"{''.join(parts)}</svg>"
    )


def _curves(curves: Mapping[str, Sequence[float]], description: str) -> str:
    """Returns curves over the steps, from 1, with the smallest and the largest value."""
    finite = [value for curve in curves.values() for value in curve if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    steps = max(map(len, curves.values()), default=0)
    across = (_CURVE_WIDTH - _LEFT - _RIGHT) / max(steps - 1, 1)
    floor = _CURVE_HEIGHT - _BOTTOM
    up = (floor - _TOP) / ((high - low) or 1.0)
    labels = (
        (_LEFT - 6, _TOP + 4, f"{high:.5g}", "end"),
        (_LEFT - 6, floor, f"{low:.5g}", "end"),
        (_LEFT, _CURVE_HEIGHT - 8, "step 1", "start"),
        (_CURVE_WIDTH - _RIGHT, _CURVE_HEIGHT - 8, f"step {steps}", "end"),
    )
    parts = [f'<text x="{x}" y="{y}" text-anchor="{a}">{text}</text>' for x, y, text, a in labels]
    for style, curve in curves.items():
        points = " ".join(
            f"{_LEFT + place * across:.1f},{floor - (value - low) * up:.1f}"
            for place, value in enumerate(curve)
            if math.isfinite(value)
        )
        parts.append(f'<polyline class="{style}" points="{points}"/>')
    return _svg(_CURVE_WIDTH, _CURVE_HEIGHT, description, parts)


def _stages(stages: Sequence[Sequence[str]], description: str) -> str:
    """Returns boxes with text, in columns from left to right, each joined with all of the next."""
    tallest = max(map(len, stages), default=1)
    height = tallest * _BOX_STEP + _TOP
    widths = [max(map(len, texts), default=1) * _LETTER + 16 for texts in stages]
    lines, boxes, left, before = [], [], 1.0, []
    for texts, width in zip(stages, widths, strict=True):
        first = (tallest - len(texts)) / 2 * _BOX_STEP + _TOP / 2
        ends = []
        for number, text in enumerate(texts):
            top = first + number * _BOX_STEP
            middle = top + _BOX_HEIGHT / 2
            boxes.append(
                f'<rect x="{left:.0f}" y="{top:.0f}" width="{width}" height="{_BOX_HEIGHT}" rx="4"/>'
                f'<text x="{left + 8:.0f}" y="{middle + 4:.0f}">{html.escape(text)}</text>'
            )
            lines += [
                f'<path d="M{x:.0f},{y:.0f} C{x + _GAP / 2:.0f},{y:.0f} {left - _GAP / 2:.0f},'
                f'{middle:.0f} {left:.0f},{middle:.0f}"/>'
                for x, y in before
            ]
            ends.append((left + width, middle))
        before, left = ends, left + width + _GAP
    return _svg(int(left - _GAP + 2), int(height), description, [*lines, *boxes])


class Page:
    """A page that grows from top to bottom; `render` returns its HTML.

    >>> page = Page("Plan")
    >>> page.add_paragraph("2 < 3")
    >>> "<p>2 &lt; 3</p>" in page.render()
    True

    Args:
        title: title of the page.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []

    def add_heading(self, text: str) -> None:
        """Adds the heading of a section."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def add_paragraph(self, text: str) -> None:
        """Adds a paragraph."""
        self._parts.append(f"<p>{html.escape(text)}</p>")

    def add_list(self, items: Sequence[str]) -> None:
        """Adds a list."""
        self._parts.append(_list(items, "ul"))

    def add_note(self, text: str, items: Sequence[str] = (), kind: str = "") -> None:
        """Adds a highlighted paragraph with a numbered list.

        Args:
            text: the paragraph.
            items: the list.
            kind: 'bad', 'good' or '' for a neutral color.
        """
        listed = _list(items, "ol") if items else ""
        self._parts.append(f'<div class="note {kind}"><p>{html.escape(text)}</p>{listed}</div>')

    def add_table(
        self, header: Sequence[str], rows: Sequence[Sequence[str]], folded: str = ""
    ) -> None:
        """Adds a table, which scrolls by itself if it is wider than the window.

        Args:
            header: titles of the columns.
            rows: the cells.
            folded: the line that shows the table, once a reader opens it; '' shows it at once.
        """
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in header)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        table = (
            f'<div class="scrolls" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )
        if folded:
            table = f"<details><summary>{html.escape(folded)}</summary>{table}</details>"
        self._parts.append(table)

    def add_chart(
        self,
        bars: Sequence[Bar],
        caption: str,
        scale_to: float = 0,
        key: Mapping[str, str] | None = None,
    ) -> None:
        """Adds a chart of horizontal bars with its caption.

        Args:
            bars: the bars, from top to bottom.
            caption: text below the chart.
            scale_to: as in `bar_chart`.
            key: what each color is, by style.
        """
        colors = "".join(
            f'<i class="key {style}"></i>{html.escape(text)}' for style, text in (key or {}).items()
        )
        self._add_figure(bar_chart(bars, caption, scale_to), caption, colors)

    def add_curves(self, curves: Mapping[str, Sequence[float]], caption: str) -> None:
        """Adds curves of numbers by step with their caption; they scroll as a table does.

        Args:
            curves: numbers by style, 'first' or 'second'; NaN and infinities are left out.
            caption: text below the curves.
        """
        drawing = f'<div class="scrolls" tabindex="0">{_curves(curves, caption)}</div>'
        self._add_figure(drawing, caption)

    def add_stages(self, stages: Sequence[Sequence[str]], caption: str) -> None:
        """Adds a drawing of boxes, in columns from left to right; it scrolls as a table does.

        Args:
            stages: texts of the boxes of each column, from top to bottom.
            caption: text below the drawing.
        """
        drawing = f'<div class="scrolls" tabindex="0">{_stages(stages, caption)}</div>'
        self._add_figure(drawing, caption)

    def _add_figure(self, drawing: str, caption: str, colors: str = "") -> None:
        text = f"<figcaption>{html.escape(caption)}{colors}</figcaption>"
        self._parts.append(f"<figure>{drawing}{text}</figure>")

    def render(self) -> str:
        """Returns the page."""
        title = html.escape(self._title)
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><title>{title}</title><style>{_STYLE}</style></head>\n'
            f"<body><h1>{title}</h1>\n" + "\n".join(self._parts) + "\n</body></html>\n"
        )

    def write(self, path: str) -> None:
        """Writes the page to a temporary file and renames it.

        Raises:
            OSError: the file can't be written.
        """
        own_files.write_file(path, self.render().encode())


def _list(items: Sequence[str], tag: str) -> str:
    return f"<{tag}>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</{tag}>"


def _cell(text: str) -> str:
    kind = "prose" if len(text) > _LONGEST_LINE else "number" if text[:1].isdigit() else ""
    return (
        f'<td class="{kind}">{html.escape(text)}</td>' if kind else f"<td>{html.escape(text)}</td>"
    )
