# SPDX-License-Identifier: Apache-2.0
"""The products of `estimator_spec` and what they import, from a table in docs/architecture.md."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"

# What the top of the package has beside folders; `export` and `run_config` only name the core's.
TOP = ("__init__", "__main__", "export", "run_config")
CORE_TESTS = ("tests/estimator_spec/core", "tests/tpu_columns")
# Those that use a product to look at a result, or to write a program.
_NAMES = {
    "tests/estimator_spec/core/checkpoints": "bundle damage index_file slots",
    "tests/estimator_spec/core/cluster": "cluster_training faults models network_faults",
    "tests/estimator_spec/core/common": "terminal",
    "tests/estimator_spec/core/driver": """
        core_gradients every_row in_memory_evaluation loop_programs on_a_tpu predictor
        replicas_for_a_tpu serving shards shared_tables stacked_tables
    """,
    "tests/tpu_columns": "invalid_ids",
}
TESTS_WITH_PRODUCTS = {
    f"{folder}/test_{name}.py" for folder, names in _NAMES.items() for name in names.split()
}


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
