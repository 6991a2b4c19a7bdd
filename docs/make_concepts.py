# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/concepts.md: docs/concepts-{lookup,step,files}.svg.

python docs/make_concepts.py           writes the drawings
python docs/make_concepts.py --check   only says whether they are current: exit status 1 if not

Every name and number in them is of a training of one step, which this program runs.
"""

from __future__ import annotations

import sys
import tempfile
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import estimator_spec
import tpu_columns
from estimator_spec.core.embedding.optimizer_base import slot_names
from estimator_spec.core.embedding.spec import table_name
from tpu_columns.partition import STRATEGIES, RowPartition

tf1 = tf.compat.v1

FOLDER = Path(__file__).parent
IDS = [[4, 1], [3], [0, 4]]
ROWS, DIMENSION, SHARDS = 6, 2, 2
TABLE = np.array([[row, row / 10] for row in range(ROWS)], np.float32)

# A phone's width: nothing is scaled down there.
WIDTH, MARGIN, LINE = 360, 10, 18
STYLE = """\
:root { color-scheme: light dark; --ground: #fff; --ink: #1c2733; --box: #eef3f8; --mark: #cfe3ff;
  --line: #5b7083; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #1e2129; --ink: #e6edf3; --box: #2b313c; --mark: #1f4a80; --line: #9fb2c5; } }
text { font: 13px system-ui, sans-serif; fill: var(--ink); }
.title { font-weight: 600; }
.code { font: 12px ui-monospace, monospace; white-space: pre; }
.box { fill: var(--box); stroke: var(--line); }
.mark { fill: var(--mark); }
.arrow { stroke: var(--line); fill: none; }
.head { fill: var(--line); }
.ground { fill: var(--ground); }
"""


class Step(NamedTuple):
    """Names and numbers of a model's first step.

    Args:
        column: the column.
        table: the table's name in the specification.
        variable: name of the table's variable.
        slot: name of its slot variable.
        outputs: the layer's output before the step.
        gradients: gradients of the table's rows.
        rows: the table after the step.
        accumulators: the slot after the step.
        saved: names and shapes in the checkpoint.
        signature: name of the export's signature.
        exported: names of the variables in the export.
    """

    column: Any
    table: str
    variable: str
    slot: str
    outputs: np.ndarray
    gradients: np.ndarray
    rows: np.ndarray
    accumulators: np.ndarray
    saved: list[tuple[str, list[int]]]
    signature: str
    exported: list[str]


COLUMN = tpu_columns.embedding_column(
    tf.feature_column.categorical_column_with_identity("word", num_buckets=ROWS),
    dimension=DIMENSION,
    combiner="mean",
    initializer=tf1.constant_initializer(TABLE),
)
OPTIMIZER = estimator_spec.AdagradParameters(0.1)


def features_of_batch() -> dict[str, tf.SparseTensor]:
    """Returns the batch: a sparse tensor of ids."""
    ids = tf.ragged.constant(IDS, tf.int64)
    return {"word": ids.to_sparse()}


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Makes a model of one layer; the host core trains its table."""
    del labels, params
    outputs = tpu_columns.input_layer(features, [COLUMN])
    if mode == estimator_spec.ModeKeys.PREDICT:
        return estimator_spec.TPUEstimatorSpec(mode, predictions={"outputs": outputs})
    loss = tf.reduce_sum(outputs)
    train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, tf1.train.get_global_step())
    return estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


def receiver_fn() -> Any:
    """Returns the receiver of requests with sparse ids."""
    features = {"word": tf1.sparse_placeholder(tf.int64, [None, None])}
    return estimator_spec.ServingInputReceiver(features, features)


def outputs_and_gradients() -> tuple[np.ndarray, np.ndarray]:
    """Returns the layer's output, and the gradients of the table's rows, before the step."""
    with tf.Graph().as_default(), tf1.Session() as session:
        outputs = tpu_columns.input_layer(features_of_batch(), [COLUMN])
        (variable,) = tf1.trainable_variables()
        (gradients,) = tf.gradients(tf.reduce_sum(outputs), [variable])
        session.run(tf1.global_variables_initializer())
        return session.run((outputs, tf.convert_to_tensor(gradients)))


def run_step() -> Step:
    """Trains the model for one step, and exports it."""
    with tempfile.TemporaryDirectory() as directory:
        estimator = estimator_spec.TPUEstimator(
            model_fn,
            model_dir=f"{directory}/model",
            config=estimator_spec.RunConfig(),
            use_tpu=False,
            embedding_core="host",
            embedding_shards=SHARDS,
            train_batch_size=len(IDS),
            embedding_config_spec=estimator_spec.EmbeddingConfigSpec(
                feature_columns=[COLUMN], optimization_parameters=OPTIMIZER
            ),
        )
        estimator.train(lambda params: tf.data.Dataset.from_tensors(features_of_batch()), steps=1)
        saved = tf.train.list_variables(estimator.model_dir)
        variable = next(name for name, _ in saved if name.endswith("embedding_weights"))
        (slot,) = slot_names(OPTIMIZER, variable).values()
        rows, accumulators = map(estimator.get_variable_value, (variable, slot))
        path = estimator.export_saved_model(f"{directory}/export", receiver_fn).decode()
        loaded = tf.saved_model.load(path)
        table = table_name(COLUMN.get_embedding_var_name())
        return Step(
            COLUMN,
            table,
            variable,
            slot,
            *outputs_and_gradients(),
            rows,
            accumulators,
            saved,
            *loaded.signatures,
            [each.name.removesuffix(":0") for each in loaded.variables],
        )


class Drawing:
    """A column of boxes with arrows between them, as SVG."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._bottom = float(MARGIN)

    def box(self, title: str, *lines: str, marked: tuple[int, ...] = ()) -> None:
        """Adds a box of a title and lines of code; `marked` lines have another ground."""
        top, height = self._bottom, LINE * (1 + len(lines)) + 12
        self._rect("box", MARGIN, top, WIDTH - 2 * MARGIN, height, radius=6)
        self._text("title", MARGIN + 10, top + LINE, title)
        for number, line in enumerate(lines, start=1):
            base = top + LINE * (number + 1)
            if number - 1 in marked:
                self._rect("mark", MARGIN + 6, base - 13, WIDTH - 2 * MARGIN - 12, LINE - 1)
            self._text("code", MARGIN + 10, base, line)
        self._bottom = top + height

    def arrow(self, label: str) -> None:
        """Adds an arrow down, with a label beside it."""
        top, tip = self._bottom, self._bottom + 32
        self._parts.append(f'<path class="arrow" d="M40 {top:g}V{tip - 6:g}"/>')
        self._parts.append(f'<path class="head" d="M35 {tip - 8:g}h10l-5 8z"/>')
        self._text("", 54, top + 21, label)
        self._bottom = tip

    def svg(self) -> str:
        """Returns the drawing."""
        height = self._bottom + MARGIN
        title = escape(self._title)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" '
            f'viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{title}">'
        )
        ground = '<rect class="ground" width="100%" height="100%"/>'
        rest = [f"<title>{title}</title>", f"<style>\n{STYLE}</style>", ground, *self._parts]
        return "\n".join(["<!-- Made by docs/make_concepts.py. -->", head, *rest, "</svg>\n"])

    def _rect(
        self, kind: str, left: float, top: float, width: float, height: float, radius: float = 2
    ) -> None:
        self._parts.append(
            f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{width:g}" '
            f'height="{height:g}" rx="{radius:g}"/>'
        )

    def _text(self, kind: str, left: float, base: float, text: str) -> None:
        self._parts.append(
            f'<text class="{kind}" x="{left:g}" y="{base:g}">{escape(text, quote=False)}</text>'
        )


def numbers(row: np.ndarray) -> str:
    """Returns a row as text."""
    return "[" + ", ".join(f"{each:.2f}" for each in row) + "]"


def lookup_drawing(step: Step) -> Drawing:
    """Draws a batch of ids on its way to the layer's output."""
    column = step.column
    (key,) = features_of_batch()
    drawing = Drawing("A lookup: from a batch of ids to the output of a feature layer")
    lines = [f"example {number}: ids {ids}" for number, ids in enumerate(IDS)]
    drawing.box(f"Batch: feature {key!r}", *lines)
    drawing.arrow("the column reads its feature")
    drawing.box(
        f"Column: {column.name}",
        f"num_buckets={ROWS}, dimension={column.dimension}, combiner={column.combiner!r}",
    )
    devices = "  ".join(device.value for device in tpu_columns.LookupDevice)
    drawing.arrow("route() chooses the lookup device")
    drawing.box("Lookup device", *devices.split("  "))
    drawing.arrow("that device reads rows of the table")
    used = {each for ids in IDS for each in ids}
    partition = RowPartition(STRATEGIES[0], ROWS, SHARDS)
    shards, _ = partition.locate(range(ROWS))
    lines = [f"row {row}  {numbers(TABLE[row])}  shard {shards[row]}" for row in range(ROWS)]
    drawing.box(f"Table: {step.table}, {ROWS} x {DIMENSION}", *lines, marked=tuple(used))
    drawing.arrow("the rows of each example")
    drawing.box(
        f"Combiner: {column.combiner}",
        *(f"example {number}: rows {ids}" for number, ids in enumerate(IDS)),
    )
    drawing.arrow("a vector for each example")
    lines = [f"example {number}: {numbers(row)}" for number, row in enumerate(step.outputs)]
    drawing.box("Layer: tpu_columns.input_layer", *lines)
    return drawing


def step_drawing(step: Step) -> Drawing:
    """Draws the way back: from the loss to the table's rows and their slot."""
    drawing = Drawing("A step: from the loss to new rows of the table")
    drawing.box("Loss", "the sum of the layer's output")
    drawing.arrow("each id's share: 1 / ids of its example")
    lines = [f"row {row}  {numbers(each)}" for row, each in enumerate(step.gradients)]
    touched = tuple(np.flatnonzero(step.gradients.any(axis=1)).tolist())
    drawing.box("Gradient of the rows, over all examples", *lines, marked=touched)
    drawing.arrow("the optimizer takes the rows of the batch")
    drawing.box(
        f"Optimizer: {type(OPTIMIZER).__name__}",
        f"learning_rate={OPTIMIZER.learning_rate}",
        "slot  += gradient²",
        "table -= learning_rate * gradient / √slot",
    )
    for title, before, after in (
        ("Slot: accumulator", None, step.accumulators),
        (f"Table: {step.table}", TABLE, step.rows),
    ):
        drawing.arrow("new rows; the others stay as they are")
        old = np.full_like(after, OPTIMIZER.initial_accumulator) if before is None else before
        lines = [
            f"row {row}  {numbers(old[row])}" + (f" → {numbers(after[row])}" * (row in touched))
            for row in range(ROWS)
        ]
        drawing.box(title, *lines, marked=touched)
    return drawing


def files_drawing(step: Step) -> Drawing:
    """Draws where the table is kept: in shards, in a checkpoint and in an export."""
    drawing = Drawing("Files: a table in shards, in a checkpoint and in an export")
    for strategy in STRATEGIES:
        partition = RowPartition(strategy, ROWS, SHARDS)
        shards, _ = partition.locate(range(ROWS))
        lines = [
            f"shard {shard}: rows {', '.join(map(str, np.flatnonzero(shards == shard)))}"
            for shard in range(SHARDS)
        ]
        if strategy != STRATEGIES[0]:
            drawing.arrow(f"or, with partition_strategy={strategy!r}")
        drawing.box(f"Shards, partition_strategy={strategy!r}", *lines)
    drawing.arrow("the saver joins the shards")
    saved = []
    for name, shape in step.saved:
        folder, _, last = name.rpartition("/embedding_weights")
        lines = [f"{folder}/", f"  embedding_weights{last}"] if folder else [last]
        saved += [*lines[:-1], f"{lines[-1]}  {' x '.join(map(str, shape))}".rstrip()]
    drawing.box("Checkpoint: table, slot and step", *saved)
    drawing.arrow("export_saved_model leaves slots out")
    drawing.box(f"Export: SavedModel, {step.signature}", *step.exported)
    return drawing


def drawings() -> dict[str, str]:
    """Returns the drawings by the names of their files."""
    step = run_step()
    made = {"lookup": lookup_drawing, "step": step_drawing, "files": files_drawing}
    return {f"concepts-{name}.svg": draw(step).svg() for name, draw in made.items()}


def main(arguments: list[str]) -> int:
    """Writes or checks the drawings, and returns the exit status."""
    stale = []
    for name, text in drawings().items():
        path = FOLDER / name
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    for name in stale:
        sys.stderr.write(f"{name} isn't what a step gives: run python docs/make_concepts.py\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
