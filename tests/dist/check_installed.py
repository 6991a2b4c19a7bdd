# SPDX-License-Identifier: Apache-2.0
"""Checks that both packages come from the installed wheel, and the source tree is out of reach.

    python check_installed.py SOURCE_TREE
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("tpu_columns", "estimator_spec")


def main(root: str) -> None:
    """Raises AssertionError if a package could come from somewhere else."""
    installed = Path(sysconfig.get_path("purelib"))
    for name in PACKAGES:
        package = importlib.import_module(name)
        file = Path(package.__file__ or "")
        assert installed in file.parents, f"{name} is {file}, not below {installed}"
        assert (file.parent / "py.typed").exists(), f"{name} has no py.typed"
        print(f"{name} is {file}")
    assert (installed / "tpu_columns" / "kernels" / "cpp" / "rows.h").exists()
    pages = importlib.import_module("estimator_spec.legacy.guide_pages")
    for page in ("migration_guide.md", "docs/legacy_names.md"):
        found = Path(pages.find_page(page))
        assert Path(sys.prefix) in found.parents and found.read_text(encoding="utf-8"), found
    assert importlib.import_module("tpu_columns").__version__ == version("tpu-columns")

    try:
        Path(root, "setup.cfg").open().close()
    except PermissionError:
        print(f"{root} can't be read")
    else:
        raise AssertionError(f"{root} can be read")
    # Not even when it is on the path.
    sys.path.insert(0, root)
    for name in PACKAGES:
        for module in [module for module in sys.modules if module.split(".")[0] == name]:
            del sys.modules[module]
        spec = importlib.util.find_spec(name)
        assert spec is not None and installed in Path(spec.origin or "").parents, spec


if __name__ == "__main__":
    main(sys.argv[1])
