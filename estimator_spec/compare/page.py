# SPDX-License-Identifier: Apache-2.0
"""Draws a comparison as one HTML page: the verdict, stages, losses, histograms, all items."""

from __future__ import annotations

import math

from estimator_spec.compare import gaps, text
from estimator_spec.compare.comparison import Comparison, Item
from estimator_spec.compare.stages import Stage
from estimator_spec.core.common.html_page import Bar, Page

# Items of a stage that get a picture: of thousands of variables, the first that differ.
_MAX_PICTURES = 12
_HEADER = ("item", "outcome", "difference", "largest", "relative", "tolerance")


def make_page(result: Comparison) -> Page:
    """Returns the page of a comparison."""
    page = Page("The two agree" if result.agrees else "The two differ")
    page.add_note(result.headline, kind="good" if result.agrees else "bad")
    page.add_table(("side", "program or checkpoint"), text.side_rows(result))
    if result.remarks:
        page.add_list(result.remarks)
    page.add_heading("Stages")
    stages = [stage for stage in Stage if result.of(stage)]
    page.add_table(text.STAGE_HEADER, [text.stage_row(result, stage) for stage in stages])
    for stage in stages:
        _add_stage(page, stage, result.of(stage))
    return page


def _add_stage(page: Page, stage: Stage, items: tuple[Item, ...]) -> None:
    """Adds a stage: losses, histograms of what differs, its items. What agrees is folded."""
    page.add_heading(stage.title.capitalize())
    for item in [item for item in items if item.series is not None][:_MAX_PICTURES]:
        _add_losses(page, item)
    differing = [item for item in items if not item.agrees]
    for item in [item for item in differing if item.gap is not None][:_MAX_PICTURES]:
        _add_histogram(page, item)
    if differing:
        page.add_table(_HEADER, [_item_row(item) for item in differing])
    agreeing = [item for item in items if item.agrees]
    if agreeing:
        folded = "1 item agrees" if len(agreeing) == 1 else f"{len(agreeing)} items agree"
        page.add_table(_HEADER, [_item_row(item) for item in agreeing], folded=folded)


def _add_losses(page: Page, item: Item) -> None:
    assert item.series is not None
    old, new = item.series
    caption = f"{item.name}: losses by step, of the old side (solid) and of the new one (dashed)"
    page.add_curves({"first": old, "second": new}, caption)
    differences = [abs(a - b) for a, b in zip(old, new, strict=False)]
    if any(differences):
        logarithms = [math.log10(gap) if gap else math.nan for gap in differences]
        caption = f"{item.name}: decimal logarithm of the losses' absolute difference, by step"
        page.add_curves({"first": logarithms}, caption)


def _add_histogram(page: Page, item: Item) -> None:
    """Adds the elements of an item by relative difference; one among millions shows."""
    assert item.gap is not None
    bars = [
        Bar(label, math.log10(1 + count), f"{count:,}", "first" if label == "0" else "second")
        for label, count in zip(gaps.BINS, item.gap.histogram, strict=True)
    ]
    caption = f"{item.name}: elements by relative difference (lengths are logarithmic)"
    page.add_chart(bars, caption)


def _item_row(item: Item) -> list[str]:
    bounds = item.tolerance
    tolerance = "" if bounds is None else f"{bounds.relative:g} or {bounds.absolute:g} absolute"
    return [item.name, item.outcome.value, item.text, *text.largest(item), tolerance]
