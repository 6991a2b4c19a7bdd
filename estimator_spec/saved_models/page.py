# SPDX-License-Identifier: Apache-2.0
"""Makes a page of what is recovered of a SavedModel, with a picture of its model."""

from __future__ import annotations

from estimator_spec.core.common.html_page import Page
from estimator_spec.saved_models import text
from estimator_spec.saved_models.recovery import RecoveredModel

_LONGEST = 60


def make_page(model: RecoveredModel) -> Page:
    """Returns the page of `saved-model show --html`."""
    page = Page(f"SavedModel {model.path}")
    page.add_paragraph(
        f"{text.model_kind(model)[:1].upper()}{text.model_kind(model)[1:]}, written by TensorFlow "
        f"{model.version or '(unknown)'}."
    )
    if model.unknown:
        page.add_note("Not recovered:", model.unknown, "bad")
    page.add_heading("The model")
    page.add_stages(_stages(model), "Features, columns, layers and head")
    for title, columns in (("linear", model.linear), ("deep", model.deep)):
        if columns is not None:
            page.add_heading(f"Columns of the {title} part")
            page.add_list(list(text.column_lines(columns)))
    if model.layers is not None:
        page.add_heading("Hidden layers")
        page.add_paragraph(text.layers_text(model))
    page.add_heading("Signatures")
    rows = [
        (signature.name, line.split(":")[0].strip(), line.split(":", 1)[1].strip())
        for signature in model.signatures.values()
        for line in text.signature_lines(signature)
    ]
    page.add_table(("signature", "tensor", "what"), rows)
    page.add_heading("Variables")
    page.add_table(("variable", "what", "bytes"), text.variable_rows(model))
    page.add_paragraph(f"Not in a SavedModel: {text.NOT_STORED}.")
    return page


def _stages(model: RecoveredModel) -> list[list[str]]:
    """Returns the boxes of the picture: features, columns, layers, head."""
    names = [
        f"{title}: {each.column.name}"
        for title, columns in (("linear", model.linear), ("deep", model.deep))
        for each in columns or ()
    ]
    stages = [sorted(model.features), names]
    if model.layers is not None:
        stages += [[f"hidden layer of {units}"] for units in model.layers.units]
    stages.append([text.head_text(head) for head in model.heads])
    return [[_short(each) for each in stage] for stage in stages if stage]


def _short(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
