# SPDX-License-Identifier: Apache-2.0
"""Packages whose names are imported when they are used."""

from __future__ import annotations

import compileall
import importlib
import pickle
import shutil
import sys
import zipfile

import pytest

INIT = """
from typing import TYPE_CHECKING
from tpu_columns import lazy_names

if TYPE_CHECKING:
    from {name}.inner import Inner as Inner, other as other
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__, "extra")
"""
INNER = """
class Inner:
    pass

other = 1
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Returns the folder of a package with names in a module; its name is the folder's."""
    folder = tmp_path / f"package_{tmp_path.name}"
    folder.mkdir()
    (folder / "__init__.py").write_text(INIT.format(name=folder.name))
    (folder / "inner.py").write_text(INNER)
    (folder / "extra.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield folder
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_a_name_is_imported_at_its_first_use(package):
    """The import of a package reads none of its modules; a name of it reads the name's."""
    module = importlib.import_module(package.name)
    assert f"{package.name}.inner" not in sys.modules
    assert module.other == 1
    assert f"{package.name}.inner" in sys.modules and "other" in vars(module)
    assert isinstance(pickle.loads(pickle.dumps(module.Inner())), module.Inner)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = module.nothing


def test_what_dir_and_a_star_import_have(package):
    """`dir` has names and the public modules, `import *` the names."""
    module = importlib.import_module(package.name)
    found = {}
    exec(f"from {package.name} import *", found)
    assert {"Inner", "other"} == {*found} - {"__builtins__"} == {*module.__all__}
    assert {name for name in dir(module) if name[:2] != "__"} == {"Inner", "other", "extra"}
    assert module.extra.__name__ == f"{package.name}.extra"


def test_a_package_in_an_archive(package, tmp_path, monkeypatch):
    """A package that is imported from a zip file has its names."""
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in package.iterdir():
            file.write(path, f"{package.name}/{path.name}")
    shutil.rmtree(package)
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module(package.name).other == 1


def test_a_package_without_its_source_is_refused(package):
    """The error of a package that is installed without sources says what to install."""
    assert compileall.compile_dir(package, legacy=True, quiet=1)
    (package / "__init__.py").unlink()
    with pytest.raises(ImportError, match=f"{package.name} reads its public names .* install the"):
        importlib.import_module(package.name)
