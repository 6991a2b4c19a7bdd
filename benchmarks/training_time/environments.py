# SPDX-License-Identifier: Apache-2.0
"""Finds or creates an interpreter for each side in a cache directory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Packages of each environment. Each FBGEMM release needs one release of torch.
PACKAGES = {
    "reference": ("tensorflow-cpu==2.15.1", "numpy<2"),
    "older": ("tensorflow==2.19.1", str(ROOT)),  # for the requirements; it runs in the tree
    "keras": ("tensorflow==2.21.0", "keras==3.15.1", "keras-rs==0.4.0"),
    "fbgemm": ("torch==2.13.0", "fbgemm-gpu-cpu==1.8.0", "numpy"),
}
NAMES = ("ours", *PACKAGES)
# Pythons with wheels.
PYTHONS = {"reference": ("3.11", "3.10"), "older": ("3.12", "3.11", "3.10")}


def cache_directory() -> Path:
    """Returns the directory of environments, `$XDG_CACHE_HOME/tpu-columns-benchmarks`."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "tpu-columns-benchmarks"


def base_python(name: str) -> str:
    """Returns an interpreter to create an environment with.

    Raises:
        RuntimeError: none on PATH.
    """
    wanted = PYTHONS.get(name)
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if wanted is None or own in wanted:
        return sys.executable
    for version in wanted:
        found = shutil.which(f"python{version}")
        if found:
            return found
    raise RuntimeError(
        f"The environment {name!r} needs Python {' or '.join(wanted)}, and PATH has none. "
        f"Install one, or give --{name}-python."
    )


def python_of(name: str, given: str | None) -> str:
    """Returns the interpreter of an environment, which is created if necessary.

    Args:
        name: `ours`, `reference`, `older`, `keras` or `fbgemm`.
        given: what the user named; wins.

    Raises:
        RuntimeError: no such file, or the environment can't be made.
    """
    if given:
        if not os.access(given, os.X_OK):
            raise RuntimeError(f"--{name}-python {given} isn't an executable file.")
        # The processes run in directories of their own.
        return os.path.abspath(given)
    if name == "ours":
        return sys.executable
    directory = cache_directory() / name
    python = directory / "bin" / "python"
    done = directory / "complete"
    if not done.exists():
        print(f"making {directory} with {', '.join(PACKAGES[name])}", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
        subprocess.run([base_python(name), "-m", "venv", str(directory)], check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES[name]]
        if subprocess.run(command).returncode:
            raise RuntimeError(f"pip couldn't make {directory}; see above.")
        if name == "older":
            build = [str(python), "-m", "estimator_spec", "kernels", "build"]
            subprocess.run(build, cwd=ROOT, check=True)
        done.write_text("\n".join(PACKAGES[name]), encoding="utf-8")
    return str(python)
