# SPDX-License-Identifier: Apache-2.0
"""Source files: finding, decoding and replacing them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from estimator_spec.legacy.migrate import files


def test_find(tmp_path: Path) -> None:
    """Python files and notebooks are found, each once; environments and hidden ones are not."""
    for name in ("a.py", "b/c.py", "b/d.ipynb", "b/e.txt", ".git/f.py", "env/g.py", "b/.h.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    found = list(files.find([str(tmp_path), str(tmp_path / "b")]))
    places = [os.path.relpath(place, tmp_path.name) for _, place in found]
    assert places == ["a.py", os.path.join("b", "c.py"), "b/d.ipynb"]


def test_places_in_a_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's place is its path from the current directory; no two files have the same."""
    for name in ("a/m.py", "b/m.py", "x/c/m.py", "y/c/m.py", "out/a/m.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    monkeypatch.chdir(tmp_path)
    found = list(files.find(["a", f"{tmp_path}/b/", "x/../a"]))
    assert [place for _, place in found] == ["a/m.py", "b/m.py"]
    files.check_places(found, "out", overwrites=True)
    with pytest.raises(ValueError, match="'out/a/m.py' exists: take a new directory"):
        files.check_places(found, "out")
    assert [place for _, place in files.find(["a/m.py"])] == ["a/m.py"]
    assert "out/a/m.py" not in [place for _, place in files.find(["."], "out")]
    with pytest.raises(ValueError, match="'a/m.py' would overwrite .* --write changes"):
        files.check_places(found, ".")
    monkeypatch.chdir(tmp_path / "a")
    found = list(files.find(["../x/c", "../y/c", "../b/m.py"]))
    assert [place for _, place in found] == ["c/m.py", "c/m.py", "m.py"]
    with pytest.raises(ValueError, match=r"'../x/c/m.py' and '../y/c/m.py' would both be written"):
        files.check_places(found, "../out")


def test_find_names_a_missing_path() -> None:
    """A path that doesn't exist is an error that names it."""
    with pytest.raises(FileNotFoundError, match="no file or directory 'nothing.py'"):
        list(files.find(["nothing.py"]))


@pytest.mark.parametrize(
    "data",
    [b"# caf\xc3\xa9\r\nx = 1\r\n", b"# coding: latin-1\n# caf\xe9\n", b"\xef\xbb\xbfx = 1\n"],
    ids=["utf-8", "latin-1", "mark"],
)
def test_encodings(tmp_path: Path, data: bytes) -> None:
    """A file keeps its encoding, its byte order mark and its line ends."""
    path = tmp_path / "a.py"
    path.write_bytes(data)
    source = files.SourceFile(str(path))
    source.replace(source.text + "# é\n")
    assert path.read_bytes() == data + source.encode("# é\n")[len(source.encode("")) :]


def test_replace_keeps_the_mode(tmp_path: Path) -> None:
    """A replaced file is as executable as before, and no temporary file is left."""
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    path.chmod(0o750)
    files.SourceFile(str(path)).replace("x = 2\n")
    assert path.read_text() == "x = 2\n"
    assert path.stat().st_mode & 0o777 == 0o750
    assert list(tmp_path.iterdir()) == [path]


def test_replace_follows_links(tmp_path: Path) -> None:
    """A link to a file stays a link."""
    path, link = tmp_path / "a.py", tmp_path / "b.py"
    path.write_text("x = 1\n")
    link.symlink_to(path)
    files.SourceFile(str(link)).replace("x = 2\n")
    assert link.is_symlink()
    assert path.read_text() == "x = 2\n"


def test_replace_refuses_a_changed_file(tmp_path: Path) -> None:
    """A file that was changed since it was read isn't overwritten."""
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    source = files.SourceFile(str(path))
    path.write_text("x = 3\n")
    with pytest.raises(OSError, match="was changed while it was migrated"):
        source.replace("x = 2\n")
    assert path.read_text() == "x = 3\n"
