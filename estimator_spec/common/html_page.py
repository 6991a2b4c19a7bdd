# SPDX-License-Identifier: Apache-2.0
"""Builds self-contained HTML pages: text, tables, bar charts and curves in one file.

A page has no scripts and loads nothing, so that it can be kept, mailed and opened offline. Charts
are inline SVG, whose bars have their values as titles and beside them as text. Colors follow the
reader's preference for a light or a dark background.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping, Sequence

from estimator_spec.common import local_files

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
td.number { font-variant-numeric: tabular-nums; text-align: right; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; }
svg { display: block; }
svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
.first { fill: var(--first); } .second { fill: var(--second); } .over { fill: var(--over); }
polyline.first, polyline.second { fill: none; stroke-width: 2; }
polyline.first { stroke: var(--first); }
polyline.second { stroke: var(--second); stroke-dasharray: 5 3; }
.limit { stroke: var(--text); stroke-dasharray: 4 3; }
.note { background: var(--soft); border-left: 4px solid var(--second); margin: 1rem 0;
  padding: .5rem 1rem; }
.note.bad { border-color: var(--over); } .note.good { border-color: var(--good); }
.note p { margin: .25rem 0; }
"""

_LABEL, _BAR, _VALUE, _ROW = 250, 520, 250, 24  # pixels
_LABEL_LENGTH = 28  # characters
_CURVE_WIDTH, _CURVE_HEIGHT = 640, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 8, 12, 26  # margins of curves


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bar of a chart.

    Attributes:
        label: text to the left.
        value: length, in the unit of the chart; at least 0.
        text: text to the right, the value as a reader wants it.
        style: color: 'first', 'second' or 'over'.
        limit: value of a dashed line across the bar, or None.
    """

    label: str
    value: float
    text: str
    style: str = "first"
    limit: float | None = None


def bar_chart(bars: Sequence[Bar], description: str, scale_to: float = 0) -> str:
    """Returns a chart of horizontal bars as SVG.

    Args:
        bars: the bars, from top to bottom.
        description: text for readers who don't see the chart.
        scale_to: a value that must have room, so that charts can be compared.
    """
    longest = max([scale_to, *(b.value for b in bars), *(b.limit or 0 for b in bars)]) or 1
    drawn = [_draw(bar, 2 + number * _ROW, longest) for number, bar in enumerate(bars)]
    return _svg(_LABEL + _BAR + _VALUE, _ROW * len(bars) + 4, description, drawn)


def _svg(width: int, height: int, description: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}"><title>{html.escape(description)}</title>'
        f"{''.join(parts)}</svg>"
    )


def _draw(bar: Bar, top: int, longest: float) -> str:
    """Returns one bar with its texts and limit, `top` pixels from the top."""
    # Dividing first: pixels of a unit would be infinite where the longest value is tiny.
    length, limit = (_BAR * (value / longest) for value in (bar.value, bar.limit or 0))
    middle = top + _ROW / 2
    end = max(length, limit)
    drawn = (
        f"<g><title>{html.escape(f'{bar.label}: {bar.text}')}</title>"
        f'<text x="{_LABEL - 8}" y="{middle + 4:g}" text-anchor="end">'
        f"{html.escape(shorten(bar.label, _LABEL_LENGTH))}</text>"
        f'<rect class="{bar.style}" x="{_LABEL}" y="{top + 4}" width="{length:.1f}" '
        f'height="{_ROW - 8}"/>'
        f'<text x="{_LABEL + end + 6:.1f}" y="{middle + 4:g}">{html.escape(bar.text)}</text>'
    )
    if bar.limit is not None:
        x = f"{_LABEL + limit:.1f}"
        drawn += f'<line class="limit" x1="{x}" x2="{x}" y1="{top}" y2="{top + _ROW}"/>'
    return drawn + "</g>"


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


def shorten(text: str, length: int) -> str:
    """Returns a text of at most `length` characters, with … in the middle of longer ones.

    >>> shorten("input_layer/word_embedding", 11)
    'input…dding'
    """
    if len(text) <= length:
        return text
    half = (length - 1) // 2
    return f"{text[: length - 1 - half]}…{text[len(text) - half :]}"


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

    def add_list(self, items: Sequence[str], ordered: bool = False) -> None:
        """Adds a list, numbered or not."""
        self._parts.append(_list(items, ordered))

    def add_note(self, text: str, items: Sequence[str] = (), kind: str = "") -> None:
        """Adds a highlighted paragraph with a numbered list.

        Args:
            text: the paragraph.
            items: the list.
            kind: 'bad', 'good' or '' for a neutral color.
        """
        listed = _list(items, ordered=True) if items else ""
        self._parts.append(f'<div class="note {kind}"><p>{html.escape(text)}</p>{listed}</div>')

    def add_table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Adds a table, which scrolls by itself if it is wider than the window."""
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in header)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        self._parts.append(
            f'<div class="scrolls" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>"
        )

    def add_chart(self, bars: Sequence[Bar], caption: str, scale_to: float = 0) -> None:
        """Adds a chart of horizontal bars with its caption; it scrolls as a table does.

        Args:
            bars: the bars, from top to bottom.
            caption: text below the chart.
            scale_to: as in `bar_chart`.
        """
        self._add_figure(bar_chart(bars, caption, scale_to), caption)

    def add_curves(self, curves: Mapping[str, Sequence[float]], caption: str) -> None:
        """Adds curves of numbers by step with their caption; they scroll as a table does.

        Args:
            curves: numbers by style, 'first' or 'second'; NaN and infinities are left out.
            caption: text below the curves.
        """
        self._add_figure(_curves(curves, caption), caption)

    def _add_figure(self, drawing: str, caption: str) -> None:
        self._parts.append(
            f'<figure><div class="scrolls" tabindex="0">{drawing}</div>'
            f"<figcaption>{html.escape(caption)}</figcaption></figure>"
        )

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
        local_files.write_atomically(path, self.render().encode())


def _list(items: Sequence[str], ordered: bool) -> str:
    tag = "ol" if ordered else "ul"
    return f"<{tag}>{''.join(f'<li>{html.escape(item)}</li>' for item in items)}</{tag}>"


def _cell(text: str) -> str:
    opening = '<td class="number">' if text[:1].isdigit() else "<td>"
    return f"{opening}{html.escape(text)}</td>"
