# SPDX-License-Identifier: Apache-2.0
"""Writes the PyTorch program of `to-torch`."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

import tensorflow as tf

from estimator_spec.compare.comparison import Comparison, Item, Side
from estimator_spec.convert.keras_columns import assembly
from estimator_spec.convert.keras_columns.readings import NUMPY
from estimator_spec.convert.keras_program import command, report
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.written import WrittenProgram, plan_model
from estimator_spec.convert.torch_columns import written
from estimator_spec.convert.torch_program import checking, recorded_proof
from estimator_spec.core.common import own_files

_USE = """\
## How to use it

With torch, numpy and pyfarmhash, without TensorFlow, in this directory:

```python
import model                     # the nn.Module
import reading                   # the reading of features
import steps

trained = model.load_model()
outputs = steps.predict(trained, features)   # arrays; lists of lists are ragged
optimizers = model.load_optimizers(trained)  # go on from the checkpoint
for features, labels in batches:
    batch = steps.as_tensors(reading.training_batch(features, labels))
    steps.train_step(trained.train(), optimizers, batch)
```

`python train.py FILES --label KEY --output DIR` does so with TFRecords (with protobuf) or arrays.
`python serve.py FILES` predicts serialized tf.Examples, `--export model.onnx` exports the model
(with onnx, onnxscript and onnxruntime). `python check.py` compares with what the estimator gave
here, recorded in `check.npz`: inputs of the program are in that file.
"""

_REST = """\
## Where the rest begins

The program's `model_fn` is its own: `Model` returns what feature layers of the columns above
return, {outputs}, in the order of the columns' names. Features that `model_fn` reads without these
columns aren't in it. Write the layers that follow as a module of yours:

```python
from torch import nn

import model                     # model.py of this directory


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.columns = model.load_model()
        self.rest = nn.Linear({width}, 1)   # your layers, as in your model_fn

    def forward(self, inputs):
        return self.rest(self.columns(inputs)["{first}"])
```

Their values are in the checkpoint (`tf.train.load_checkpoint({checkpoint!r}).get_tensor(name)`; a
kernel is the transposed `weight`):
"""


class TorchTarget:
    """Programs of PyTorch."""

    command = "to-torch"
    may_skip = True

    def check(self, options: argparse.Namespace) -> None:
        """Checks nothing: torch is needed where the program runs."""

    def write(self, request: command.Request, directory: str) -> Comparison:
        """Writes the program, and compares it by its check.py where there is torch."""
        use = request.use
        program = plan_program(use, request.checkpoint, request.program)
        sources = WrittenProgram(*program[:4], request.shown, NUMPY)
        found, trained = command.read_input(request)
        written.write_program(program, directory)
        recording = recorded_proof.record(use, sources, found, trained, request.scratch)
        own_files.write_file(os.path.join(directory, "check.npz"), recording.to_bytes())
        items: tuple[Item, ...] = ()
        notes = list(recording.notes)
        python = request.options.python
        if python is None and importlib.util.find_spec("torch"):
            python = sys.executable
        if python is not None:
            items = checking.run(python, directory, request.scratch)
        else:
            notes.append(
                "The program wasn't run: there is no torch here. Run its check.py where it is, or "
                "name a Python that has it by --python."
            )
        side = Side(sources.shown, f"TensorFlow {tf.__version__}")
        result = Comparison(side, Side("model.py"), items, tuple(notes))
        names = program.names.__getitem__
        words = report.Words("Feature columns to PyTorch", "PyTorch", _how(use, sources), names)
        report.write(use, sources, result, words, directory)
        return result


def plan_program(use: EstimatorUse, checkpoint: str, program: str) -> written.TorchProgram:
    """Plans the model of an estimator and its files; writes nothing.

    Arguments and errors are those of `keras_program.written.plan_program`.
    """
    plan, title = plan_model(use, program)
    return written.plan_program(use.source, plan, title, checkpoint)


def _how(use: EstimatorUse, sources: WrittenProgram) -> list[str]:
    if use.model is not None:
        return [_USE.strip()]
    outputs = sources.plan.outputs
    text = _REST.strip().format(
        outputs=", ".join(f"`{name}`" for name in outputs),
        first=next(iter(outputs)),
        width=sum(map(assembly.dense_size, use.columns)),
        checkpoint=sources.shown,
    )
    return [text, report.other_variables(sources)]
