# SPDX-License-Identifier: Apache-2.0
"""Reads and writes safetensors files by NumPy."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import numpy as np

TYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}


def write(path: str | os.PathLike[str], tensors: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name: to a temporary file first, which then has the path.

    Args:
        path: of the file.
        tensors: the arrays.
    """
    names = {np.dtype(kind): name for name, kind in TYPES.items()}
    arrays = {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}
    entries, place = {}, 0
    for name, array in arrays.items():
        ends = [place, place + array.nbytes]
        kind = names[array.dtype]
        entries[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": ends}
        place = ends[1]
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    temporary = f"{os.fspath(path)}.unfinished"
    with open(temporary, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for array in arrays.values():
            file.write(array.reshape(-1).view(np.uint8).data)
    os.replace(temporary, path)


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Returns the arrays of a file by name. They are read when they are used.

    Raises:
        ValueError: the file isn't one of safetensors, or ends too early.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        if not 8 < start <= size:
            raise ValueError(f"{path} isn't a safetensors file.")
        entries = json.loads(file.read(start - 8))
    entries.pop("__metadata__", None)
    found = {}
    for name, entry in entries.items():
        first, end = entry["data_offsets"]
        if start + end > size:
            raise ValueError(f"{path} is truncated: {name} ends at {start + end}, it at {size}.")
        kind, shape = TYPES[entry["dtype"]], tuple(entry["shape"])
        if first == end:
            found[name] = np.zeros(shape, kind)
        else:  # "c": a private copy of what is written to
            found[name] = np.memmap(path, kind, "c", start + first, shape)
    return found
