# SPDX-License-Identifier: Apache-2.0
"""Writes `serve.py`: it exports a SavedModel, or predicts TFRecord files without TensorFlow."""

from __future__ import annotations

from typing import Any

from estimator_spec.convert.keras_columns.expressions import FunctionCall, Name, call, render
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_columns.readings import NUMPY, TENSORFLOW, Reading
from estimator_spec.convert.keras_columns.statements import WIDTH

_SERVE = '''\
"""Exports the model as a SavedModel that takes serialized tf.Examples: serve.py DIRECTORY."""

from __future__ import annotations

import sys
from typing import Any

import keras
import tensorflow as tf

import model as columns

EXAMPLES = {examples}


def export(directory: str) -> None:
    """Writes a SavedModel with the signature `serve`."""
    trained = keras.models.load_model(columns.WEIGHTS, compile=False)
    archive = keras.export.ExportArchive()
    archive.track(trained)
    for table in columns.TABLES:
        archive.track(table)

    def serve(examples: Any) -> Any:
        features = tf.io.parse_example(examples, EXAMPLES)
        return {outputs}

    signature = [tf.TensorSpec([None], tf.string, name="examples")]
    archive.add_endpoint("serve", serve, signature)
    archive.write_out(directory)


if __name__ == "__main__":
    export(sys.argv[1])
'''


_SERVE_BY_NUMPY = '''\
"""Predicts the tf.Examples of TFRecord files, and prints a line of JSON for each: serve.py FILES.

KERAS_BACKEND is 'torch' if it isn't set.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras

import model as columns
import records

EXAMPLES = {examples}


def predict(trained: Any, examples: list[bytes]) -> dict[str, np.ndarray]:
    """Returns the predictions of serialized tf.Examples."""
    features = records.parse_examples(examples, EXAMPLES)
    outputs = trained(columns.preprocess(features))
    outputs = {{key: keras.ops.convert_to_numpy(value) for key, value in outputs.items()}}
    return {outputs}


def batches(paths: Iterable[str], size: int = 512) -> Iterator[list[bytes]]:
    """Yields the examples of TFRecord files in batches."""
    examples = itertools.chain.from_iterable(map(records.read_records, paths))
    while batch := list(itertools.islice(examples, size)):
        yield batch


def plain(value: Any) -> Any:
    """Returns a value of JSON; text becomes str."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value.tolist()


def main(paths: list[str]) -> None:
    """Prints the predictions of files."""
    trained = keras.models.load_model(columns.WEIGHTS, compile=False)
    for batch in batches(paths):
        outputs = predict(trained, batch)
        for number in range(len(batch)):
            row = {{key: value[number] for key, value in outputs.items()}}
            sys.stdout.write(json.dumps(row, default=plain) + "\\n")


if __name__ == "__main__":
    main(sys.argv[1:])
'''


def write_serving(plan: ModelPlan, reading: Reading = TENSORFLOW) -> str:
    """Returns the text of `serve.py`."""
    examples = example_features(plan, reading)
    if reading == NUMPY:
        with_classes = any(each.of_classes is not None for each in plan.objectives)
        outputs = "columns.with_classes(outputs)" if with_classes else "outputs"
        text = render(examples, before=11, width=WIDTH)
        return _SERVE_BY_NUMPY.format(examples=text, outputs=outputs)
    if not examples:
        examples = {"any": call("tf.io.VarLenFeature", Name("tf.int64"))}
    outputs = "trained(columns.preprocess(features))"
    if any(each.of_classes is not None for each in plan.objectives):
        outputs = f"columns.with_classes({outputs})"
    return _SERVE.format(examples=render(examples, before=11, width=WIDTH), outputs=outputs)


def example_features(plan: ModelPlan, reading: Reading) -> dict[str, FunctionCall]:
    """Returns the expressions of what the features of tf.Examples are, by key."""
    return {key: example_feature(value, reading) for key, value in sorted(plan.examples.items())}


def example_feature(feature: Any, reading: Reading = TENSORFLOW) -> FunctionCall:
    """Returns the expression of a `tf.io.FixedLenFeature` or `tf.io.VarLenFeature`."""
    name = feature.dtype.name
    is_tensorflow = reading == TENSORFLOW
    dtype = Name(f"tf.{name}") if is_tensorflow else name
    kind = "tf.io.{}Feature" if is_tensorflow else "records.{}"
    if not hasattr(feature, "default_value"):
        return call(kind.format("VarLen"), dtype)
    default = () if feature.default_value is None else (_plain(feature.default_value),)
    return call(kind.format("FixedLen"), list(feature.shape), dtype, *default)


def _plain(value: Any) -> Any:
    return [_plain(part) for part in value] if isinstance(value, (list, tuple)) else value
