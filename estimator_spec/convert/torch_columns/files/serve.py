# SPDX-License-Identifier: Apache-2.0
"""Predicts the tf.Examples of TFRecord files, or exports the model to ONNX.

    python serve.py FILES                 prints the predictions as JSON, a line an example
    python serve.py --export model.onnx   writes the model behind `reading.preprocess`
    python serve.py --onnx model.onnx FILES

The exported model takes any number of examples and of ids. It is checked by onnxruntime.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

import model as columns
import reading

Model = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


class Positional(nn.Module):
    """The model with an argument for each input, and outputs as a tuple."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Returns the outputs in the order of their names."""
        outputs = self.model(dict(zip(columns.INPUTS, inputs, strict=True)))
        return tuple(outputs.values())


def made_inputs(size: int, width: int) -> dict[str, np.ndarray]:
    """Returns inputs of zeros; axes of any size have the width."""
    return {
        name: np.zeros((size, *(width if axis is None else axis for axis in shape)), dtype)
        for name, (shape, dtype) in columns.INPUTS.items()
    }


def export(path: str) -> None:
    """Writes the model as ONNX, and checks it by onnxruntime."""
    model = columns.load_model().eval()
    inputs = tuple(map(torch.as_tensor, made_inputs(3, 2).values()))
    dynamic = torch.export.Dim.DYNAMIC
    shapes = tuple(
        {axis: dynamic for axis, size in enumerate((None, *shape)) if size is None}
        for shape, _ in columns.INPUTS.values()
    )
    outputs = list(model(dict(zip(columns.INPUTS, inputs, strict=True))))
    torch.onnx.export(
        Positional(model),
        inputs,
        path,
        dynamo=True,
        dynamic_shapes=(shapes,),
        input_names=list(columns.INPUTS),
        output_names=outputs,
        external_data=False,
        verbose=False,
    )
    exported, own = by_onnx(path), by_torch(model)
    for size, width in ((1, 1), (5, 4)):
        given = made_inputs(size, width)
        expected = own(given)
        for key, value in exported(given).items():
            np.testing.assert_allclose(value, expected[key], 1e-5, 1e-6, err_msg=key)
    print(f"{path}: {len(outputs)} outputs, equal in onnxruntime")  # noqa: T201


def by_torch(model: nn.Module) -> Model:
    """Returns the function that predicts by torch."""

    def predict(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        with torch.no_grad():
            found = model.eval()({key: torch.as_tensor(value) for key, value in inputs.items()})
        return {key: value.numpy() for key, value in found.items()}

    return predict


def by_onnx(path: str) -> Model:
    """Returns the function that predicts by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    used = {each.name for each in session.get_inputs()}

    def predict(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = {key: np.ascontiguousarray(value) for key, value in inputs.items() if key in used}
        return dict(zip(names, session.run(names, given), strict=True))

    return predict


def predict(model: Model, examples: list[bytes]) -> dict[str, np.ndarray]:
    """Returns the predictions of serialized tf.Examples."""
    import records
    import tf_examples

    features = records.parse_examples(examples, tf_examples.FEATURES)
    return reading.predictions(model(reading.preprocess(features)))


def batches(paths: Iterable[str], size: int = 512) -> Iterator[list[bytes]]:
    """Yields the examples of TFRecord files in batches."""
    import records

    examples = itertools.chain.from_iterable(map(records.read_records, paths))
    while batch := list(itertools.islice(examples, size)):
        yield batch


def plain(value: Any) -> Any:
    """Returns a value of JSON; text becomes str."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value.tolist()


def main() -> None:
    """Exports, or prints the predictions of files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILES")
    parser.add_argument("--export", metavar="PATH")
    parser.add_argument("--onnx", metavar="PATH")
    options = parser.parse_args()
    if options.export:
        export(options.export)
    if not options.files:
        return
    model = by_onnx(options.onnx) if options.onnx else by_torch(columns.load_model())
    for batch in batches(options.files):
        outputs = predict(model, batch)
        for number in range(len(batch)):
            row = {key: value[number] for key, value in outputs.items()}
            sys.stdout.write(json.dumps(row, default=plain) + "\n")


if __name__ == "__main__":
    main()
