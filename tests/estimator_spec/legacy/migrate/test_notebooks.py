# SPDX-License-Identifier: Apache-2.0
"""Migration of notebooks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from estimator_spec.legacy.migrate import notebook_text, notebooks
from estimator_spec.legacy.migrate.migration import MigrationOptions

nbformat = pytest.importorskip("nbformat", reason="needs the extra test")

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
    done = notebooks.migrate_notebook(notebook(CELLS), MigrationOptions())
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
    assert notebooks.migrate_notebook(text, MigrationOptions()).source == text


def test_twice() -> None:
    """A second migration changes nothing."""
    once = notebooks.migrate_notebook(notebook(CELLS), MigrationOptions()).source
    assert notebooks.migrate_notebook(once, MigrationOptions()).source == once


def test_findings_name_the_cell() -> None:
    """A line of the report has the number of the cell, and the line in it."""
    text = notebook(["import tensorflow as tf", "x = 1\n\ntf.contrib.legacy_seq2seq.x()"])
    (finding,) = notebooks.migrate_notebook(text, MigrationOptions()).findings
    assert finding.place("a.ipynb") == "a.ipynb:cell 3:3:1"


OLD = "import tensorflow as tf\nx = tf.estimator.ModeKeys.TRAIN"
NEW = "import estimator_spec\nimport tensorflow as tf\nx = estimator_spec.ModeKeys.TRAIN"


def test_files_that_cells_write() -> None:
    """A cell that writes a Python file is a program, with the cells that append to the file."""
    cells = [
        f"%%writefile trainer/a.py\n{OLD}",
        "%%writefile setup.cfg\nx = tf.estimator.ModeKeys.TRAIN",
        "%%file -a trainer/a.py\ndef f():\n    return tf.estimator.ModeKeys.EVAL",
        f"%%file b.py\n{OLD}\n",
        f'%%writefile "b.py"\n\n{OLD}',
        f"%%python3\n{OLD}",
    ]
    expected = [cell.replace(OLD, NEW) for cell in cells]
    expected[1] = cells[1]
    expected[2] = cells[2].replace("tf.estimator", "estimator_spec")
    done = notebooks.migrate_notebook(notebook(cells), MigrationOptions())
    assert sources(done.source)[1:] == expected
    assert not done.findings
    assert notebooks.migrate_notebook(done.source, MigrationOptions()).source == done.source


def test_a_written_file_that_is_not_python() -> None:
    """A file of several cells stays if it isn't Python 3, and the cell and line are named."""
    cells = [f"%%writefile a.py\n{OLD}", OLD, "%%writefile -a a.py\ny = 1\nprint tf.estimator"]
    done = notebooks.migrate_notebook(notebook(cells), MigrationOptions())
    assert sources(done.source)[1:] == [cells[0], NEW, cells[2]]
    assert [(each.cell, each.line) for each in done.findings] == [(4, 3)]


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("%%bash\npython -c 'import tensorflow as tf\nprint(tf.estimator.ModeKeys)'", [3]),
        ("%%sh\ncat > a.py << EOF\nfrom tensorflow.contrib import tpu\nEOF", [3]),
        ("%%script bash\necho 'import tensorflow as tf; tf.Session()'", [2]),
        ("x = 1\n!python -c 'import tensorflow as tf; tf.Session(tf.contrib.x)'", [2, 2]),
        ("import tensorflow as tf\n%time tf.estimator.ModeKeys\n%timeit tf.nn.relu(1)", [2]),
        ("%%bash\npip install tensorflow==1.15 gs://a/tensorflow.estimator.whl tf.estimator", []),
        ("%%html\n<b>import tensorflow as tf; tf.nn</b>", []),
        ("!echo tf.estimator\nprint('%s' \n  % tf)", []),
    ],
)
def test_other_languages_of_cells(source: str, lines: list[int]) -> None:
    """Old names in text of a shell and in magics have a line each."""
    done = notebooks.migrate_notebook(notebook(["", source]), MigrationOptions())
    assert [(each.cell, each.line) for each in done.findings] == [(3, line) for line in lines]


@pytest.mark.parametrize(
    ("source", "line", "fault"),
    [
        ('print "x"', 1, "Missing parentheses in call to 'print'"),
        ("y = 1\n\na = # TODO", 3, "invalid syntax"),
        (" Licensed under the Apache License\n https://www.apache.org/", 1, "unexpected indent"),
        ("%matplotlib inline\n!ls \\\n  -l\nx = = 1", 4, "invalid syntax"),
        ("%%time\nx = 1 +", 2, "invalid syntax"),
    ],
)
def test_a_cell_that_is_not_python(source: str, line: int, fault: str) -> None:
    """A cell that isn't Python 3 stays, with its place; the others are rewritten."""
    done = notebooks.migrate_notebook(notebook([source, OLD, source]), MigrationOptions())
    assert sources(done.source)[1:] == [source, NEW, source]
    assert [(each.cell, each.line) for each in done.findings] == [(2, line), (4, line)]
    assert all(f"isn't Python 3: {fault}" in each.reason for each in done.findings)


@pytest.mark.parametrize(
    "source",
    [
        "!pip install \\\n  tf_slim",
        '! curl -s http://x | python3 -c \\\n    "import sys; print(sys)"',
        "if True:\n    !ls \\\n-l \\\n        -a\n    x = !ls \\\n  /\nx = 1",
        "x = (1\n  % 2)\ny = 1 \\\n  % 2\nz = '''\n!ls\n?x\n%s\n''' % \\\n  3\n%cd /",
        "text = f'''\n{x}\n%cd ''' + (\n  'a'\n  % 1)\nx?",
    ],
)
def test_magics_and_lines_that_look_like_them(source: str) -> None:
    """Magics that go on, and operators and text at the start of a line, stay as they are."""
    done = notebooks.migrate_notebook(notebook([source, OLD]), MigrationOptions())
    assert sources(done.source)[1:] == [source, NEW]
    assert not done.findings


@pytest.mark.parametrize("indent", [None, 1, 4, "\t"])
def test_the_rest_of_the_text_stays(indent: Any) -> None:
    """Only the sources of changed cells change: order, indentation and escapes stay."""
    cells: list[dict[str, Any]] = [
        {"source": OLD.splitlines(keepends=True), "outputs": [], "cell_type": "code", "é": 1.50},
        {"cell_type": "code", "source": "é = tf.estimator.ModeKeys", "metadata": {"b": 1, "a": []}},
        {"cell_type": "code", "source": [], "metadata": {}},
    ]
    found = {"nbformat": 4, "cells": cells, "metadata": {}}
    text = json.dumps(found, indent=indent)
    cells[0]["source"] = NEW.splitlines(keepends=True)
    cells[1]["source"] = "é = estimator_spec.ModeKeys"
    expected = json.dumps(found, indent=indent)
    assert notebooks.migrate_notebook(text, MigrationOptions()).source == expected


def test_other_languages() -> None:
    """A notebook of another language is none of ours."""
    text = notebook(["library(tensorflow)"], language_info={"name": "R"})
    with pytest.raises(notebook_text.OtherLanguageError, match="a notebook of R"):
        notebooks.migrate_notebook(text, MigrationOptions())


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"nbformat": 99, "cells": []}'])
def test_no_notebook(text: str) -> None:
    """A file that isn't a notebook is refused."""
    with pytest.raises(notebook_text.NotebookError):
        notebooks.migrate_notebook(text, MigrationOptions())
