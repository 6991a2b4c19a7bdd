# SPDX-License-Identifier: Apache-2.0
"""Records inputs and an estimator's outputs of them, for `check.py` beside the written program."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.convert.keras_program.batches import Batch

tf1 = tf.compat.v1


class ProofRecording:
    """Batches, and what the estimator gave for them.

    Attributes:
        stated: values of the written model that aren't the estimator's, with the reason, by name.
        notes: what wasn't compared.
    """

    def __init__(self) -> None:
        self.stated: dict[str, Any] = {}
        self.notes: list[str] = []
        self._arrays: dict[str, np.ndarray] = {}
        self._batches: list[Batch] = []
        self._forms: list[Any] = []
        self._outputs: list[Any] = []
        self._metrics: Any = None
        self._training: Any = None
        self._trained: list[Any] = []

    def add_outputs(self, batch: Batch, values: Mapping[str, Any]) -> None:
        """Records what the estimator predicts, or its columns return."""
        entry = {"name": batch.name, "batch": self._number(batch), "values": self._form(values)}
        self._outputs.append(entry)

    def add_metrics(
        self, batches: Sequence[Batch], values: Mapping[str, Any], names: Mapping[str, str]
    ) -> None:
        """Records the loss and the metrics of batches; `names` are the estimator's, by Keras'."""
        numbers = [self._number(batch) for batch in batches]
        self._metrics = {"batches": numbers, "values": self._form(values), "names": dict(names)}

    def add_training(
        self, batches: Sequence[Batch], losses: np.ndarray, values: Mapping[str, Any]
    ) -> None:
        """Records the losses of further steps, and predictions after them for the first batch."""
        numbers = [self._number(batch) for batch in batches]
        self._training = {"batches": numbers, "losses": self._form(losses)}
        entry = {"name": _title(batches), "batch": numbers[0], "values": self._form(values)}
        self._trained.append(entry)

    def state(self, name: str, reason: str, values: Any) -> None:
        """Records what the written model gives for a value that isn't the estimator's, and why."""
        self.stated[name] = {"reason": reason, "values": self._form(values)}

    def state_training(
        self, batches: Sequence[Batch], reason: str, losses: np.ndarray, values: Mapping[str, Any]
    ) -> None:
        """Records the losses of the written model, and its predictions after them, as `state`."""
        self.state(_title(batches), reason, losses)
        for key, value in values.items():
            self.state(f"{_title(batches)}: {key}", reason, value)

    def to_bytes(self) -> bytes:
        """Returns the contents of the file."""
        contents = {
            "batches": self._forms,
            "outputs": self._outputs,
            "metrics": self._metrics,
            "training": self._training,
            "trained": self._trained,
            "stated": self.stated,
            "notes": self.notes,
        }
        file = io.BytesIO()
        np.savez_compressed(file, contents=np.array(json.dumps(contents)), **self._arrays)
        return file.getvalue()

    def _number(self, batch: Batch) -> int:
        """Returns the number of a batch, which is recorded once."""
        for number, known in enumerate(self._batches):
            if known is batch:
                return number
        self._batches.append(batch)
        form = {"features": self._form(batch.features), "labels": self._form(batch.labels)}
        self._forms.append(form)
        return len(self._forms) - 1

    def _form(self, value: Any) -> Any:
        """Returns the name of a stored array, or a dict of what a value is and its parts."""
        if value is None:
            return None
        if isinstance(value, Mapping):
            return {"dict": {key: self._form(each) for key, each in value.items()}}
        if isinstance(value, tf1.SparseTensorValue):
            return {"sparse": [self._form(part) for part in value]}
        if isinstance(value, tf1.ragged.RaggedTensorValue):
            return {"lists": [*map(self._form, (value.flat_values, *value.nested_row_splits))]}
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            texts = [tf.compat.as_bytes(text) for text in array.ravel().tolist()]
            data = np.frombuffer(b"".join(texts), np.uint8)
            lengths = np.array([len(text) for text in texts], np.int64)
            return {"text": [*map(self._form, (data, lengths, np.array(array.shape, np.int64)))]}
        name = f"array_{len(self._arrays)}"
        self._arrays[name] = array
        return name


def _title(batches: Sequence[Batch]) -> str:
    return f"{len(batches)} further steps"
