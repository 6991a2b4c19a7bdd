# SPDX-License-Identifier: Apache-2.0
"""docs/concepts.md: its drawings, and one sense for each term of its glossary."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CONCEPTS = (DOCS / "concepts.md").read_text(encoding="utf-8")
# History, which isn't written anew.
HISTORY = "changes_before_0.1"
GLOSSARY = re.findall(
    r"^\| (.+?) \| (.+?) \| (.*?) ?\|$", CONCEPTS.split("| term | sense | not |")[1], re.MULTILINE
)[1:]
WIDTH = {"code": 7.25, "title": 7.8, "": 7.1}  # pixels of a letter, at most


@pytest.fixture(scope="module")
def make_concepts():
    """Imports the script that draws."""
    spec = importlib.util.spec_from_file_location("make_concepts", DOCS / "make_concepts.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def texts():
    """Returns the pages and the sources, by path, without code in backticks."""
    paths = [ROOT / "README.md", ROOT / "migration_guide.md", *DOCS.rglob("*.md")]
    paths += [*(ROOT / "tpu_columns").rglob("*.py"), *(ROOT / "estimator_spec").rglob("*.py")]
    return {
        path: re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for path in paths
        if path.name != "concepts.md" and not path.name.startswith(HISTORY)
    }


def test_the_drawings_are_current(make_concepts, tmp_path, monkeypatch, capsys):
    """The drawings are what a step gives; `--check` fails on another one."""
    drawn = make_concepts.drawings()
    assert len(drawn) == 3
    for name, text in drawn.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text
        assert f"]({name})" in CONCEPTS
    monkeypatch.setattr(make_concepts, "FOLDER", tmp_path)
    monkeypatch.setattr(make_concepts, "drawings", lambda: drawn)
    assert make_concepts.main(["--check"]) == 1
    assert "run python docs/make_concepts.py" in capsys.readouterr().err
    assert make_concepts.main([]) == make_concepts.main(["--check"]) == 0


@pytest.mark.parametrize("drawing", sorted(path.name for path in DOCS.glob("concepts-*.svg")))
def test_drawings_fit_a_phone(drawing):
    """A drawing is at most 360 pixels wide, and no text of it ends beyond its right edge."""
    text = (DOCS / drawing).read_text(encoding="utf-8")
    (width,) = map(int, re.findall(r'<svg .*? width="(\d+)"', text))
    assert width <= 360
    assert "prefers-color-scheme: dark" in text
    found = re.findall(r'<text class="(\w*)" x="([\d.]+)".*?>(.*?)</text>', text)
    assert found
    assert not [line for kind, left, line in found if float(left) + WIDTH[kind] * len(line) > width]


def test_the_page_is_short_and_linked():
    """The page has fewer than 2,000 words, and README links it before its program."""
    assert len(CONCEPTS.split()) < 2000
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/concepts.md)" in readme.split("\n## ")[0]


def test_the_glossary_has_terms_that_are_used(texts):
    """The glossary has at most thirty terms, sorted, and each is used elsewhere."""
    terms = [term for term, *_ in GLOSSARY]
    assert 20 <= len(terms) <= 30
    assert terms == sorted(terms)
    everything = "\n".join(texts.values()).lower()
    unused = [
        term
        for term in terms
        if not all(re.search(rf"\b{re.escape(each)}", everything) for each in term.split(", "))
    ]
    assert not unused


@pytest.mark.parametrize(
    ("term", "word"),
    [(term, word) for term, _, words in GLOSSARY for word in words.split(", ") if word],
)
def test_a_thing_has_one_name(texts, term, word):
    """No page, docstring or comment has another word for a term of the glossary."""
    other = re.compile(rf"\b{re.escape(word)}s?\b", re.IGNORECASE)
    found = [str(path.relative_to(ROOT)) for path, text in texts.items() if other.search(text)]
    assert not found, f"say {term!r}"
