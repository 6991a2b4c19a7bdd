# SPDX-License-Identifier: Apache-2.0
"""Correctness of documents and docstrings: links, file names, examples, completeness."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import estimator_spec
import tpu_columns

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tpu_columns", "estimator_spec")
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "examples", "benchmarks", "tests")
    for path in (ROOT / folder).glob("*.md" if folder == "." else "**/*.md")
)
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
PUBLIC = sorted(
    (module.__name__, name)
    for module in (tpu_columns, estimator_spec)
    for name in module.__all__
    if inspect.isclass(getattr(module, name)) or inspect.isroutine(getattr(module, name))
)


def without_code(text: str) -> str:
    """Removes fenced blocks from Markdown."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def prose(text: str) -> list[str]:
    """Returns the words of Markdown outside of fenced blocks and tables."""
    lines = without_code(text).splitlines()
    return [word for line in lines if not line.lstrip().startswith("|") for word in line.split()]


def anchor(heading: str) -> str:
    """Returns the anchor of a Markdown heading, as code hosts generate it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def module_name(path: Path) -> str:
    """Returns the dotted name of a module's file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_relative_links_lead_somewhere(document):
    """Each relative link of a document refers to an existing file and heading."""
    path = ROOT / document
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, fragment = target.partition("#")
        linked = path.parent / name if name else path
        if not linked.exists():
            broken.append(target)
        elif fragment:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            if fragment not in map(anchor, headings):
                broken.append(target)
    assert not broken


@pytest.mark.parametrize("document", sorted({*DOCUMENTS} - {"migration_guide.md"}))
def test_a_page_is_short(document):
    """A page has at most 2,000 words outside of tables and code."""
    assert len(prose((ROOT / document).read_text(encoding="utf-8"))) <= 2000, "split it"


def test_the_guide_is_short():
    """The migration guide has at most 5,000 words, tables and code included."""
    text = (ROOT / "migration_guide.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 5000, "move some to docs/"


def test_prose_is_counted_without_tables_and_code():
    """Only words of paragraphs, lists and headings count."""
    text = "# One two\n\n| a | b |\n|---|---|\n\n- three\n\n  ```bash\n  four five\n  ```\n\nsix\n"
    assert prose(text) == ["#", "One", "two", "-", "three", "six"]


def test_the_map_shows_every_room():
    """docs/architecture.md names every file at the top of both packages, and every folder."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    files = set(re.findall(r"\w+\.py\b", text))
    folders = set(re.findall(r"(\w+)/", text))
    missing = []
    for path in SOURCES:
        room = path.relative_to(ROOT).parts[1]
        known = room in files if room.endswith(".py") else room in folders
        if not known and room != "__init__.py":
            missing.append(path.relative_to(ROOT).as_posix())
    assert not missing, "say in docs/architecture.md what these are for"


def test_the_map_shows_no_room_that_is_gone():
    """Every module that docs/architecture.md names exists."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = (*PACKAGES, "tests", "examples", "benchmarks", "docs")
    files = {path.name for folder in folders for path in (ROOT / folder).rglob("*.py")}
    files |= {path.name for path in ROOT.glob("*.py")}
    gone = [name for name in re.findall(r"\w+\.py\b", text) if name not in files]
    assert not gone, "docs/architecture.md names these"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_in_documents_exist(document):
    """Each full name of this project in a document, such as `tpu_columns.route`, exists."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for name in sorted(set(re.findall(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`", text))):
        if not name.endswith(".X"):  # a placeholder in a table of spellings
            pkgutil.resolve_name(name)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_documents_exist(document):
    """Each path in a document, such as `tests/reference/`, exists."""
    text = (ROOT / document).read_text(encoding="utf-8")
    paths = set(re.findall(r"`((?:benchmarks|docs|examples|tests)/[\w./]*)`", text))
    assert not [path for path in sorted(paths) if not (ROOT / path).exists()]


@pytest.mark.parametrize(("module", "name"), PUBLIC)
def test_public_names_are_documented(module, name):
    """Every public name of both packages has a docstring of its own."""
    value = getattr(importlib.import_module(module), name)
    text = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    assert text and text.strip()
    # Not the docstring that namedtuple and dataclass generate.
    assert not text.startswith(f"{name}(")


@pytest.mark.parametrize(
    "module", [module_name(path) for path in SOURCES if ">>> " in path.read_text(encoding="utf-8")]
)
def test_examples_in_docstrings_hold(module):
    """Every `>>>` example in a docstring has the shown result."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testmod(importlib.import_module(module), optionflags=flags)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_every_file_says_what_it_is_for(path):
    """Every module opens with the licence line and a docstring."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    assert text.split("\n", 2)[1].startswith(('"""', 'r"""'))
