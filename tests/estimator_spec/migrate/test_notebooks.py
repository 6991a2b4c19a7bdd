# SPDX-License-Identifier: Apache-2.0
"""Migration of notebooks."""

from __future__ import annotations

from typing import Any

import pytest

from estimator_spec.migrate import notebooks
from estimator_spec.migrate.migration import Options

pytest.importorskip("nbformat", reason="needs the extra migrate")
nbformat = pytest.importorskip("nbformat", reason="needs the extra migrate")

CELLS = [
    "%matplotlib inline\n!pip install 'tensorflow' \\\n    numpy\nimport tensorflow as tf",
    "%%bash\necho tf.estimator",
    "files = !ls\nif files:\n    %cd /tmp\ntpu = tf.estimator.tpu\ntf.nn.relu?",
    "%%time\nprint(tpu.TPUConfig, files)  # one\nmode = tf.estimator.ModeKeys.TRAIN",
    "",
]


def notebook(sources: list[str], **metadata: Any) -> str:
    """Returns the JSON of a notebook with code cells after a text."""
    cells = [nbformat.v4.new_markdown_cell("tf.estimator.ModeKeys")]
    cells += [nbformat.v4.new_code_cell(source, execution_count=3) for source in sources]
    return str(nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=metadata))) + "\n"


def sources(text: str) -> list[str]:
    """Returns the sources of a notebook's cells."""
    return [cell.source for cell in nbformat.reads(text, 4).cells]


def test_cells_and_magics_stay() -> None:
    """Code cells are rewritten together; magics, outputs, texts and other cells stay."""
    done = notebooks.migrate_notebook(notebook(CELLS), Options())
    assert sources(done.source) == [
        "tf.estimator.ModeKeys",
        CELLS[0].replace("import tensorflow", "import estimator_spec\nimport tensorflow"),
        CELLS[1],
        CELLS[2].replace("tpu = tf.estimator.tpu\n", ""),
        "%%time\nprint(estimator_spec.TPUConfig, files)  # one\n"
        "mode = estimator_spec.ModeKeys.TRAIN",
        "",
    ]
    assert done.source.endswith("}\n")
    cells = nbformat.reads(done.source, 4).cells
    assert [cell.execution_count for cell in cells[1:]] == [3] * 5
    nbformat.validate(nbformat.reads(done.source, 4))


def test_no_change() -> None:
    """A notebook without old names stays as it is, byte for byte."""
    text = notebook(["import tensorflow as tf\n%time tf.nn.relu(1.0)"])
    assert notebooks.migrate_notebook(text, Options()).source == text


def test_twice() -> None:
    """A second migration changes nothing."""
    once = notebooks.migrate_notebook(notebook(CELLS), Options()).source
    assert notebooks.migrate_notebook(once, Options()).source == once


def test_findings_name_the_cell() -> None:
    """A line of the report has the number of the cell, and the line in it."""
    text = notebook(["import tensorflow as tf", "x = 1\n\ntf.contrib.seq2seq.x()"])
    (finding,) = notebooks.migrate_notebook(text, Options()).findings
    assert finding.place("a.ipynb") == "a.ipynb:cell 3:3:1"


def test_other_languages() -> None:
    """A notebook of another language is none of ours."""
    text = notebook(["library(tensorflow)"], language_info={"name": "R"})
    with pytest.raises(notebooks.OtherLanguageError, match="a notebook of R"):
        notebooks.migrate_notebook(text, Options())


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"nbformat": 99, "cells": []}'])
def test_no_notebook(text: str) -> None:
    """A file that isn't a notebook is refused."""
    with pytest.raises(notebooks.NotebookError):
        notebooks.migrate_notebook(text, Options())
