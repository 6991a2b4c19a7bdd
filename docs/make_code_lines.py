# SPDX-License-Identifier: Apache-2.0
"""Counts the packages' lines of code by folder, and writes docs/code_lines.md.

`--since COMMIT` prints what changed instead. Docstrings, comments and blank lines don't count.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "code_lines.md"
PACKAGES = ("tpu_columns", "estimator_spec")
ALLOWED = 300  # lines that may be added before the page is written anew
EARLIER = ("033feac", "8b6b56e")

TEXT = """\
# Lines of code

<!-- Made by docs/make_code_lines.py. -->

Lines of code of the two packages, without docstrings, comments and blank lines (with these, C++ had
2211 at 033feac). A test fails when there are {allowed} more than this page says: look at what was
added (`python docs/make_code_lines.py --since COMMIT`), then write the page anew (no argument).

|  | Python | C++ |
| --- | ---: | ---: |
{states}

By folder:

| folder | language | lines |
| --- | --- | ---: |
{folders}
"""

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_CPP_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def python_lines(source: str) -> int:
    """Counts the lines of Python code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = enumerate(map(str.strip, source.splitlines()), start=1)
    return sum(1 for n, line in lines if line[:1] not in ("", "#") and n not in docstrings)


def cpp_lines(source: str) -> int:
    """Counts the lines of C++ code."""
    without = _CPP_COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else "", source)
    return sum(1 for line in without.splitlines() if line.strip())


LANGUAGES = {"Python": ((".py",), python_lines), "C++": ((".h", ".cc", ".cpp"), cpp_lines)}


def _files(commit: str | None) -> Iterator[tuple[Path, str]]:
    """Yields path and text of the packages' files, at a commit or as they are now."""
    if commit is None:
        for path in (each for name in PACKAGES for each in (ROOT / name).rglob("*.*")):
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8", errors="replace")
        return
    for name in _git("ls-tree", "-r", "--name-only", commit, *PACKAGES).splitlines():
        yield Path(name), _git("show", f"{commit}:{name}")


def _git(*command: str) -> str:
    return subprocess.check_output(("git", *command), cwd=ROOT, encoding="utf-8", errors="replace")


def count(commit: str | None = None) -> Counter[tuple[str, str]]:
    """Counts the lines of code by language and folder, at a commit or as they are now."""
    lines: Counter[tuple[str, str]] = Counter()
    for path, text in _files(commit):
        for language, (suffixes, count_lines) in LANGUAGES.items():
            if path.suffix in suffixes:
                lines[language, path.parent.as_posix()] += count_lines(text)
    return lines


def _sums(lines: Counter[tuple[str, str]]) -> list[int]:
    return [sum(n for (each, _), n in lines.items() if each == name) for name in LANGUAGES]


def page(earlier: tuple[str, ...] = EARLIER) -> str:
    """Returns the page, of the files as they are now and of earlier commits."""
    now = count()
    states = {**{f"commit {commit}": count(commit) for commit in earlier}, "now": now}
    rows = [f"| {name} | {' | '.join(map(str, _sums(found)))} |" for name, found in states.items()]
    folders = [f"| `{folder}` | {name} | {n} |" for (name, folder), n in sorted(now.items())]
    return TEXT.format(allowed=ALLOWED, states="\n".join(rows), folders="\n".join(folders))


def main(arguments: list[str] | None = None) -> None:
    """Writes the page, or prints what a change adds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--since", metavar="COMMIT", help="print the difference from COMMIT")
    since = parser.parse_args(arguments).since
    if since is None:
        PAGE.write_text(page(), encoding="utf-8")
        return
    now, before = count(), count(since)
    now.subtract(before)
    lines = [f"{n:+7} {folder} ({name})" for (name, folder), n in sorted(now.items()) if n]
    lines += [f"{n:+7} {name} in sum" for name, n in zip(LANGUAGES, _sums(now), strict=True)]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
