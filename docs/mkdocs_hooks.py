# SPDX-License-Identifier: Apache-2.0
"""Hooks of the documentation site (mkdocs.yml): collects its pages, and renders formulas.

The site has the layout of the repository, so a relative link works in both. Source files that a
page links become pages of their own, notebooks with their outputs. Formulas become MathML, which
browsers show without scripts; the site brings a font for them, as few systems without one place
subscripts well.
Nothing here imports TensorFlow: docstrings are read from the source.
"""

from __future__ import annotations

import html
import posixpath
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import griffe
import latex2mathml.converter
from mkdocs.structure.files import File, Files
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[1]
# STIX Two Math, under the SIL Open Font License.
MATH_FONT = Path(find_spec("ziamath").origin).with_name("fonts") / "STIXTwoMath-Regular.ttf"

LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
# A heading of the API reference, up to the last part of its name, and the name in its signature.
NAME_OF_ENTRY = re.compile(
    r'(<h\d id="[^"]*" class="doc doc-heading">(?:(?!</h\d>).)*?'
    r'<span class="doc doc-object-name[^>]*>)((?:\w+\.)*?)((?:[A-Z]\w*\.)?)(\w+)'
    r'(</span>(?:(?!<h\d).)*?<div class="doc-signature highlight"><pre><span></span><code>'
    r'<span class="nf">)',
    re.DOTALL,
)
ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)
DOCTEST = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Returns the files of the site, by their paths in the repository."""
    theirs = [file for file in files if file.src_dir != config.docs_dir]  # the theme's
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.svg")]
    documents += [path for path in ROOT.glob("docs/assets/*") if path.is_file()]
    collected = {}
    for path in sorted(documents):
        uri = path.relative_to(ROOT).as_posix()
        collected[uri] = File(uri, str(ROOT), config.site_dir, config.use_directory_urls)
    missing = list(collected)
    while missing:
        uri = missing.pop()
        if not uri.endswith(".md"):
            continue
        for _, target, _ in LINK.findall(collected[uri].content_string):
            linked = posixpath.normpath(posixpath.join(posixpath.dirname(uri), target))
            source = ROOT / linked
            page = linked if linked.endswith(".md") else f"{linked}.md"
            if page in collected or linked in collected or not source.exists():
                continue
            if page == linked:
                file = File(page, str(ROOT), config.site_dir, config.use_directory_urls)
            elif source.suffix == ".ipynb":
                text, plots = _notebook_page(source)
                for name, content in plots.items():
                    plot = posixpath.join(posixpath.dirname(page), name)
                    collected[plot] = File.generated(config, plot, content=content)
                file = File.generated(config, page, content=text)
            else:
                file = File.generated(config, page, content=_source_page(source, linked))
            collected[page] = file
            missing.append(page)
    font = File.generated(config, "docs/assets/math.ttf", abs_src_path=str(MATH_FONT))
    return Files([*theirs, *collected.values(), font])


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Returns a page whose links to source files lead to those files' pages."""
    del config
    folder = posixpath.dirname(page.file.src_uri)

    def lead_to_page(match: re.Match[str]) -> str:
        opening, target, rest = match.groups()
        uri = posixpath.normpath(posixpath.join(folder, target)) + ".md"
        if files.get_file_from_path(uri) is None:
            return match.group()
        return f"{opening}{target.rstrip('/')}.md{rest}"

    return LINK.sub(lead_to_page, markdown)


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Returns a page's HTML with MathML in place of LaTeX.

    Entries of the API reference have their last name as the search's title, and their class in
    the signature: `TPUEstimator.train` is a word of that entry.
    """
    del page, config, files
    hidden = r"\1<span data-search-exclude>\2\3</span>\4\5\3"
    return NAME_OF_ENTRY.sub(hidden, FORMULA.sub(_mathml, html))


class Docstrings(griffe.Extension):
    """Prepares objects for the site: examples, links between docstrings, arguments of `__new__`."""

    def __init__(self) -> None:
        entries: dict[str, list[str]] = {}
        for page in ROOT.glob("docs/api/*.md"):
            for path in ENTRY.findall(page.read_text(encoding="utf-8")):
                if (ROOT / path.replace(".", "/")).is_dir():
                    continue  # a package, shown without a heading to link
                entries.setdefault(path.rpartition(".")[2], []).append(path)
        # Names that mean one thing. `convert` and `inspect` may be words of another subject.
        self._entries = {
            name: paths[0]
            for name, paths in entries.items()
            if len(paths) == 1 and re.search("[A-Z_]", name)
        }
        self._entries |= {path: path for paths in entries.values() for path in paths}

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Gives a named tuple an `__init__`, from which the signature of a class is taken."""
        del kwargs
        new = cls.members.get("__new__")
        if isinstance(new, griffe.Function) and "__init__" not in cls.members:
            cls.set_member("__init__", griffe.Function("__init__", parameters=new.parameters))

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Fences `>>>` examples, which Markdown takes for quotations; links public names."""
        del kwargs
        if obj.docstring is None:
            return
        text = re.sub(r"(?<![`\w\[])`([\w.]+)`(?!`)", partial(self._link, obj), obj.docstring.value)
        obj.docstring.value = DOCTEST.sub(_fenced, text)

    def _link(self, obj: griffe.Object, match: re.Match[str]) -> str:
        path = self._entries.get(match.group(1))
        if path is None or match.group(1) == obj.name:
            return match.group()
        return f"[{match.group()}][{path}]"


def _source_page(path: Path, title: str) -> str:
    """A page that shows a file, or lists the programs of a folder."""
    header = f"---\nsearch:\n  exclude: true\n---\n\n# `{title}`\n\n"
    if path.is_dir():
        names = sorted(file.name for file in path.glob("*.py"))
        return header + "\n".join(f"- [{name}]({path.name}/{name})" for name in names)
    language = "python" if path.suffix == ".py" else "text"
    return f"{header}`````{language}\n{path.read_text(encoding='utf-8')}\n`````\n"


def _notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook with its outputs as Markdown, and its plots by the names of their files."""
    text, resources = MarkdownExporter().from_filename(str(path), {"unique_key": path.stem})
    return text.replace("![png](", "![plot]("), resources["outputs"]


def _mathml(match: re.Match[str]) -> str:
    display = "block" if match.group(2) == "[" else "inline"
    mathml = latex2mathml.converter.convert(html.unescape(match.group(3)), display=display)
    # The bars of an absolute value aren't binary operators: no space around them.
    mathml = re.sub(
        r"<mo\b[^>]*>(&#x0007C;)", r'<mo stretchy="false" lspace="0" rspace="0">\1', mathml
    )
    return f'<div class="formula">{mathml}</div>' if display == "block" else mathml


def _fenced(match: re.Match[str]) -> str:
    indent = match.group(1)
    code = re.sub(r" *# doctest: \+\w+$", "", match.group(), flags=re.MULTILINE)
    return f"\n{indent}```pycon\n{code}\n{indent}```\n"
