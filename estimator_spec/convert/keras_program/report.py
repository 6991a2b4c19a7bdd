# SPDX-License-Identifier: Apache-2.0
"""Reports what became of each column: report.md, and a page with pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from estimator_spec import checkpoints
from estimator_spec.compare import page, text
from estimator_spec.compare.comparison import Comparison
from estimator_spec.convert.keras_columns.plan import ModelVariable
from estimator_spec.convert.keras_columns.readings import TENSORFLOW
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.written import WrittenProgram
from estimator_spec.core.common import own_files
from estimator_spec.core.common.html_page import Bar, Page
from estimator_spec.core.common.terminal import markdown_table

_USE = """\
## How to use it

```python
import keras
import model                     # model.py of this directory

trained = keras.models.load_model(model.WEIGHTS)
outputs = trained(model.preprocess(features))
{compiled}trained.fit(dataset.map(model.training_batch))   # goes on from the checkpoint
```

`python serve.py DIRECTORY` exports a SavedModel that takes serialized tf.Examples. Under
`KERAS_BACKEND=jax` or `torch`, map `preprocess` over a `tf.data.Dataset`; the model itself needs no
TensorFlow.
"""

_USE_BY_NUMPY = """\
## How to use it

With keras, keras-rs, numpy, pyfarmhash, protobuf and torch or JAX, without TensorFlow:

```python
import os

os.environ["KERAS_BACKEND"] = "torch"   # or "jax"
import keras
import model                     # model.py of this directory

trained = keras.models.load_model(model.WEIGHTS)
outputs = trained(model.preprocess(features))   # arrays; lists of lists are ragged
{compiled}trained.fit(model.training_batch(*batch) for batch in batches)   # goes on
```

`python serve.py FILES` predicts serialized tf.Examples of TFRecord files; `records.py` reads them.
`python check.py` compares with what the estimator gave here, recorded in `check.npz`, on the
backend that it runs on: inputs of the program are in that file.
"""

_OWN_OPTIMIZER = "model.compile_model(trained, keras.optimizers.Adam(0.001))   # of your choice\n"
_NO_OPTIMIZER = (
    "**The model has no optimizer, and how it trains wasn't compared**: there is none that trains "
    "as the estimator's (see *What isn't equal*). Give the program one of your choice: it "
    "trains otherwise than the estimator, and begins without slots."
)

_REST = """\
## Where the rest begins

The program's `model_fn` is its own: `build_model` returns what feature layers of the columns above
return, {outputs}, in the order of the columns' names. Features that `model_fn` reads without these
columns aren't in it. Write the layers that follow in Keras 3:

```python
import keras
import model                     # model.py of this directory

columns = keras.models.load_model(model.WEIGHTS)
outputs = keras.layers.Dense(1)({tensor})   # your layers, as in your model_fn
trained = keras.Model(columns.input, outputs)
```

Their values are in the checkpoint (`tf.train.load_checkpoint({checkpoint!r}).get_tensor(name)`):
"""
_OTHER = ("global_step", "beta1_power", "beta2_power")

_COLUMNS = ("column", "made by", "read by", "layers")
_DIFFERENCES = ("where", "what", "how it differs")
COMPARED = ("compared", "outcome", "largest difference", "relative")


class Words(NamedTuple):
    """Words of a report that depend on the library of the written program.

    Attributes:
        title: heading of the report.
        library: name of the library.
        how: how the program is used, and where the rest of it begins.
        names: names of the variables in the program, by variable.
    """

    title: str
    library: str
    how: list[str]
    names: Callable[[ModelVariable], str]


def of_keras(use: EstimatorUse, sources: WrittenProgram) -> Words:
    """Returns the words of a program of Keras."""
    how = _USE if sources.reading == TENSORFLOW else _USE_BY_NUMPY
    compiled = _OWN_OPTIMIZER if is_without_optimizer(use, sources) else ""
    used = [how.strip().format(compiled=compiled)] if use.model is not None else _rest(sources)
    return Words("Feature columns to Keras 3", "Keras", used, lambda v: f"{v.layer}.{v.attribute}")


def is_without_optimizer(use: EstimatorUse, sources: WrittenProgram) -> bool:
    """Returns whether the estimator's optimizer didn't move."""
    return use.model is not None and not sources.plan.optimizers


def write(
    use: EstimatorUse, sources: WrittenProgram, result: Comparison, words: Words, directory: str
) -> None:
    """Writes report.md and report.html into a directory."""
    text = markdown(use, sources, result, words)
    own_files.write_file(os.path.join(directory, "report.md"), text.encode())
    make_page(sources, result).write(os.path.join(directory, "report.html"))


def markdown(use: EstimatorUse, sources: WrittenProgram, result: Comparison, words: Words) -> str:
    """Returns the text of report.md."""
    origins = [(f"`{o.column}`", f"`{o.kind}`", o.reading, o.layers) for o in sources.plan.origins]
    differences = [(d.column, f"`{d.what}`", d.text) for d in sources.plan.differences]
    variables = [(f"`{words.names(v)}`", f"`{name}`") for v, name in sources.found.items()]
    parts = [
        f"# {words.title}",
        f"Checkpoint: `{sources.shown}`. {result.headline}",
        *([_NO_OPTIMIZER] if is_without_optimizer(use, sources) else []),
        "## How each column became layers",
        markdown_table(_COLUMNS, origins),
        "## What isn't equal",
        markdown_table(_DIFFERENCES, differences) if differences else "Nothing that is known.",
        "## The comparison",
        markdown_table(COMPARED, compared_rows(result))
        if result.items
        else "Nothing was compared.",
        *result.remarks,
        "## Where each value comes from",
        markdown_table((f"in {words.library}", "in the checkpoint"), variables),
        *words.how,
    ]
    return "\n\n".join(parts) + "\n"


def _rest(sources: WrittenProgram) -> list[str]:
    names = ", ".join(f"`{name}`" for name in sources.plan.outputs)
    first = next(iter(sources.plan.outputs))
    tensor = f'columns.output["{first}"]' if len(sources.plan.outputs) > 1 else "columns.output"
    text = _REST.strip().format(outputs=names, tensor=tensor, checkpoint=sources.shown)
    return [text, other_variables(sources)]


def other_variables(sources: WrittenProgram) -> str:
    """Returns a table of the checkpoint's variables that no column has."""
    moved = set(sources.found.values())
    rows = [
        (f"`{entry.name}`", str(list(entry.shape)))
        for entry in checkpoints.inspect(sources.checkpoint).entries
        if entry.kind != "slot" and entry.name not in moved and entry.name not in _OTHER
    ]
    return markdown_table(("variable", "shape"), rows)


def make_page(sources: WrittenProgram, result: Comparison) -> Page:
    """Returns the page of a comparison, with the picture of how columns became layers."""
    made = page.make_page(result)
    made.add_heading("How each column became layers")
    sizes = [sum(_sizes(sources, origin.column)) for origin in sources.plan.origins]
    bars = [
        Bar(origin.column, float(size), f"{size:,}")
        for origin, size in zip(sources.plan.origins, sizes, strict=True)
    ]
    made.add_chart(bars, "columns, by the number of their trained values")
    rows = [(o.column, o.kind, _plain(o.reading), _plain(o.layers)) for o in sources.plan.origins]
    made.add_table(_COLUMNS, rows)
    made.add_heading("What isn't equal")
    made.add_table(_DIFFERENCES, [(d.column, d.what, d.text) for d in sources.plan.differences])
    return made


def compared_rows(result: Comparison) -> list[tuple[str, ...]]:
    """Returns the rows of the table of what was compared."""
    rows = []
    for item in result.items:
        outcome = ": ".join(filter(None, (item.outcome.value, item.text)))
        rows.append((f"{item.stage.title}: {item.name}", outcome, *text.largest(item)))
    return rows


def _sizes(sources: WrittenProgram, column: str) -> list[int]:
    layers = (re.sub(r"\W", "_", column), sources.plan.linear_layers.get(column))
    return [
        (variable.shape[0] or 0) * (variable.shape[-1] or 0)
        for variable in sources.found
        if variable.layer in layers
    ]


def _plain(text: str) -> str:
    return text.replace("`", "")
