# SPDX-License-Identifier: Apache-2.0
"""Reads what record.py wrote: SavedModels, what they were fed, and what they returned."""

from __future__ import annotations

import pathlib
import zipfile

import numpy as np

MODELS = pathlib.Path(__file__).parent / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.zip"))


def unpack(name: str, directory: pathlib.Path) -> pathlib.Path:
    """Unpacks a recording of the repository; returns its directory."""
    with zipfile.ZipFile(MODELS / f"{name}.zip") as archive:
        archive.extractall(directory / name)
    return directory / name


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the arrays of `inputs.npz` or `outputs.npz`; text as bytes."""
    with np.load(path) as file:
        stored = dict(file)
    found = {}
    for key, array in stored.items():
        name, _, part = key.rpartition(":")
        if part == "lengths":
            ends = np.cumsum(array.ravel())
            data = stored[f"{name}:bytes"].tobytes()
            texts = [data[end - size : end] for end, size in zip(ends, array.flat, strict=True)]
            found[name] = np.array(texts, object).reshape(array.shape)
        elif part != "bytes":
            found[key] = array
    return found
