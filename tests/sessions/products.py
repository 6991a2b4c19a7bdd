# SPDX-License-Identifier: Apache-2.0
"""The products of `estimator_spec` and what they import, from a table in docs/architecture.md."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"


def read_products() -> dict[str, set[str]]:
    """Returns the products that each product imports; 'legacy/doctor' is one inside of a folder."""
    table = _PAGE.read_text(encoding="utf-8").partition("| product |")[2].partition("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        names, _, imported = (cell.strip() for cell in line.strip("|").split(" | "))
        for name in re.findall(r"`([\w/]+?)/?(?:\.py)?`", names):
            found[name] = set(re.findall(r"`([\w/]+)`", imported))
    return found


def dependents(name: str, products: dict[str, set[str]]) -> set[str]:
    """Returns a product, what lies in its folder, and every product that imports one of these."""
    found = {name}
    while True:
        more = {
            other
            for other, imported in products.items()
            if imported & found or any(other.startswith(f"{each}/") for each in found)
        }
        if more <= found:
            return found
        found |= more
