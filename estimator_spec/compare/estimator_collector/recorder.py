# SPDX-License-Identifier: Apache-2.0
"""Writes recordings: the calls of a program's estimators, and the arrays of each."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import numpy as np
import tensorflow as tf

from .options import FORMAT, RECORD, VALUES

# Kinds of NumPy types that files can name; bfloat16 and its kin have another.
_STORABLE = "biufcS"


class Recorder:
    """Writes a recording: calls in their order, arrays in files beside them.

    Args:
        folder: directory to write; made if it doesn't exist.
        max_elements: number of elements of an array that are kept.
        environment: versions and names, for the reader.
    """

    def __init__(self, folder: str, max_elements: int, environment: dict[str, str]) -> None:
        self._folder = folder
        self._max_elements = max_elements
        self._num_arrays = 0
        self._lock = threading.Lock()
        self._record: dict[str, Any] = {
            "format": FORMAT,
            "environment": environment,
            "calls": [],
            "error": None,
            "modules": {},
        }
        os.makedirs(os.path.join(folder, VALUES), exist_ok=True)

    def begin(self, kind: str, **details: Any) -> dict[str, Any]:
        """Adds a call, and returns its entry, to be filled.

        Args:
            kind: 'train', 'evaluate', 'predict' or 'export'.
            **details: first items of the entry.
        """
        call: dict[str, Any] = {"kind": kind, **details}
        with self._lock:
            calls = self._record["calls"]
            call["number"] = 1 + sum(other["kind"] == kind for other in calls)
            calls.append(call)
        return call

    def array(self, value: Any) -> dict[str, Any]:
        """Writes an array, and returns the reference to it."""
        value = np.asarray(value)
        dtype = value.dtype.name
        if value.dtype.kind in "OUS":
            texts = [tf.compat.as_bytes(item) for item in value.reshape(-1)]
            value = np.array(texts, np.bytes_).reshape(value.shape)
            dtype = "string"
        elif value.dtype.kind not in _STORABLE:
            value = value.astype(np.float32)
        reference: dict[str, Any] = {"dtype": dtype, "shape": list(value.shape)}
        if value.size > self._max_elements and value.ndim:
            count = max(1, self._max_elements // max(1, value.size // len(value)))
            value = value[np.linspace(0, len(value) - 1, count).astype(np.int64)]
            reference["rows_kept"] = count
        with self._lock:
            reference["file"] = f"{self._num_arrays}.npy"
            self._num_arrays += 1
        np.save(os.path.join(self._folder, VALUES, reference["file"]), value)
        return reference

    def arrays(self, values: dict[str, Any]) -> dict[str, Any]:
        """Writes arrays by name, and returns the references."""
        return {name: self.array(value) for name, value in values.items()}

    def write(self, error: str | None = None, modules: dict[str, str] | None = None) -> None:
        """Writes the calls so far; their arrays are written already.

        Args:
            error: the program's error, if it ended with one.
            modules: files of the program's modules by name.
        """
        with self._lock:
            self._record["error"] = error
            self._record["modules"] = modules or {}
            path = os.path.join(self._folder, RECORD)
            with open(path + ".unfinished", "w", encoding="utf-8") as file:
                json.dump(self._record, file, indent=1)
            os.replace(path + ".unfinished", path)


def load_initial_values(folder: str, number: int) -> dict[str, np.ndarray]:
    """Returns the initial values of a training in another recording, by variable name.

    Args:
        folder: directory of the recording.
        number: number of the training, from 1; {} if there is no such training. Arrays of which
            only some rows were kept are left out.
    """
    with open(os.path.join(folder, RECORD), encoding="utf-8") as file:
        calls = json.load(file)["calls"]
    references: dict[str, Any] = {}
    for call in calls:
        if call["kind"] == "train" and call["number"] == number:
            references = call.get("initial", {})
    return {
        name: np.load(os.path.join(folder, VALUES, reference["file"]))
        for name, reference in references.items()
        if "rows_kept" not in reference
    }


def load_checkpoint(path: str) -> dict[str, np.ndarray]:
    """Returns the variables of a checkpoint by name."""
    reader = tf.train.load_checkpoint(path)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
