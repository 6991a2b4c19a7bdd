# SPDX-License-Identifier: Apache-2.0
"""The documentation site: complete API reference, how-to pages that run, optimizers with formulas.

`nox -s docs` builds the site and checks its links.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import estimator_spec
from estimator_spec import __main__ as command_line
from public_modules import MODULES

ROOT = Path(__file__).resolve().parents[1]
PAGES = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("docs/api/*.md")}
ENTRIES = re.findall(r"^::: (\S+)$", "\n".join(PAGES.values()), re.MULTILINE)
# | `estimator_spec.export.EvalOutput` | [`estimator_spec.EvalOutput`][] |
SECOND_NAMES = dict(
    re.findall(r"^\| `(\S+)` \| \[`(\S+)`\]\[\] \|$", PAGES["index.md"], re.MULTILINE)
)
# Public, but not in `__all__`: `import *` would select a Keras for the program.
LAZY = ["estimator_spec.convert.PartialEmbedding"]
OPTIMIZERS = sorted(
    name
    for name in estimator_spec.__all__
    if name.endswith("Parameters") and name != "OptimizationParameters"
)


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_has_an_entry(module):
    """The API reference has each public name, or refers to the entry that it is an alias of."""
    public = importlib.import_module(module)
    missing = []
    for name in public.__all__:
        path = f"{module}.{name}"
        if path in ENTRIES:
            continue
        entry = SECOND_NAMES.get(path, "")
        owner, _, known_as = entry.rpartition(".")
        if entry not in ENTRIES or (
            getattr(importlib.import_module(owner), known_as) is not getattr(public, name)
        ):
            missing.append(path)
    assert not missing, "add a line `::: NAME` to a page of docs/api"


def test_each_name_has_one_entry():
    """The API reference has no name twice, and no private one."""
    assert len(set(ENTRIES)) == len(ENTRIES)
    public = {
        f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__
    }
    assert set(LAZY) <= set(ENTRIES)
    assert set(ENTRIES) - {"estimator_spec.convert", *LAZY} <= public
    assert set(SECOND_NAMES) <= public


def test_pages_begin_with_their_title():
    """Each page's first line is its only title, which the site's contents take."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    texts = {page.name: page.read_text(encoding="utf-8") for page in pages}
    without_code = {name: re.sub(r"(?ms)^```.*?^```", "", text) for name, text in texts.items()}
    titles = {name: re.findall("(?m)^# ", text) for name, text in without_code.items()}
    assert [name for name, text in texts.items() if not text.startswith("# ")] == []
    assert [name for name, found in titles.items() if len(found) != 1] == []


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_have_a_formula_a_source_and_an_example(name):
    """An optimizer's docstring has formulas, their source, and an example."""
    text = inspect.getdoc(getattr(estimator_spec, name))  # Python 3.13 removes the indentation
    assert re.search(r"^\$\$.+\$\$$", text, re.MULTILINE)
    assert "Source: " in text
    assert ">>> " in text


def test_there_are_ten_optimizers():
    """The test above covers all optimizers of the embedding core."""
    assert len(OPTIMIZERS) == 10


@pytest.mark.slow
@pytest.mark.parametrize("page", ["serve", "convert_a_checkpoint", "keras_3", "feature_columns"])
def test_how_to_pages_run(page, tmp_path, monkeypatch, capfd):
    """The blocks of a page run in order after examples/quickstart.py, in its directory."""
    if page in ("keras_3", "feature_columns") and importlib.util.find_spec("keras_rs") is None:
        pytest.skip("the extra keras-rs isn't installed")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "quickstart"}
    program = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    exec(compile(program, "quickstart.py", "exec"), names)
    shutil.copytree(names["estimator"].model_dir, "model_dir")
    text = (ROOT / "docs" / "how_to" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == text.count("\n```") / 2
    for language, block in blocks:
        if language == "python":
            exec(compile(block, page, "exec"), names)
        else:
            assert language == "bash"
            for command in block.splitlines():
                run(command)
    assert capfd.readouterr().out


def run(command: str) -> None:
    """Runs a command line of a page; our own commands in this process, which is faster."""
    words = shlex.split(command)
    if words[:3] == ["python", "-m", "estimator_spec"]:
        assert command_line.main(words[3:]) == 0, command
    elif command not in ("pip install '.[keras-rs]'", "python -i examples/quickstart.py"):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        subprocess.run(["bash", "-c", command], check=True, env={**os.environ, "PATH": path})
