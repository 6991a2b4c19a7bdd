# SPDX-License-Identifier: Apache-2.0
"""Draws numbers by step as curves, as inline SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT = 640, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 8, 12, 26  # margins


def draw_curves(curves: Mapping[str, Sequence[float]], description: str) -> str:
    """Returns curves over the steps, from 1, with the smallest and the largest value.

    Args:
        curves: numbers by style, 'first' or 'second'; NaN and infinities are left out.
        description: text for readers who don't see the drawing.
    """
    finite = [value for curve in curves.values() for value in curve if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    steps = max(map(len, curves.values()), default=0)
    across = (_WIDTH - _LEFT - _RIGHT) / max(steps - 1, 1)
    floor = _HEIGHT - _BOTTOM
    up = (floor - _TOP) / ((high - low) or 1.0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}"><title>{html.escape(description)}</title>',
        _label(_LEFT - 6, _TOP + 4, f"{high:.5g}", "end"),
        _label(_LEFT - 6, floor, f"{low:.5g}", "end"),
        _label(_LEFT, _HEIGHT - 8, "step 1", "start"),
        _label(_WIDTH - _RIGHT, _HEIGHT - 8, f"step {steps}", "end"),
    ]
    for style, curve in curves.items():
        points = " ".join(
            f"{_LEFT + place * across:.1f},{floor - (value - low) * up:.1f}"
            for place, value in enumerate(curve)
            if math.isfinite(value)
        )
        parts.append(f'<polyline class="{style}" points="{points}"/>')
    return "".join([*parts, "</svg>"])


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'
