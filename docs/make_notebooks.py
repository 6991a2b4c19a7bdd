# SPDX-License-Identifier: Apache-2.0
"""Runs the notebooks of examples/notebooks, and writes them with their outputs.

    python docs/make_notebooks.py [NAME ...]

What differs between machines is left out: warnings and logs, times, versions. It needs the extra
`test`, and torch for the cells of PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbclient
import nbformat

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def execute(path: Path) -> Any:
    """Returns a notebook as it is after a run in a kernel of its own.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell fails.
    """
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources=resources
    ).execute()
    return notebook


def strip(notebook: Any) -> None:
    """Removes what differs between machines from a notebook."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({})
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]


def main(names: Sequence[str]) -> int:
    """Runs the named notebooks, or all; returns the exit status."""
    for name in names or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        path = FOLDER / f"{name}.ipynb"
        notebook = execute(path)
        strip(notebook)
        nbformat.write(notebook, path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
