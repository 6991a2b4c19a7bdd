# SPDX-License-Identifier: Apache-2.0
"""Compares further steps of training: the losses, and what becomes of each variable and slot.

A copy of the estimator trains in a temporary directory, from the checkpoint; the written model
trains by its own `compile_model` and `train_on_batch`. Dropout keeps all elements on both sides and
scales them by its rate: its random choices can't be equal.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec.compare.comparison import Item, Outcome, listed
from estimator_spec.compare.stages import Stage, Tolerances
from estimator_spec.compare.values import compare_arrays, compare_changes, compare_series
from estimator_spec.convert.keras_columns import optimizers, trained_values
from estimator_spec.convert.keras_columns.readings import NUMPY
from estimator_spec.convert.keras_program import estimator_side
from estimator_spec.convert.keras_program.batches import Batch, Feeding
from estimator_spec.convert.keras_program.checkpoint_files import link_checkpoint
from estimator_spec.convert.keras_program.first_use import EstimatorUse
from estimator_spec.convert.keras_program.recording import ProofRecording
from estimator_spec.convert.keras_program.written import (
    LoadedProgram,
    WrittenProgram,
    load_module,
    load_program,
)
from estimator_spec.core.checkpoints import state_file
from estimator_spec.core.checkpoints.bundle import Checkpoint
from estimator_spec.core.cluster import roles
from estimator_spec.core.driver.estimator_base import copy_with

tf1 = tf.compat.v1

STEPS = 50
TITLE = f"{STEPS} further steps"
_RULE_ALONE = (
    "After more steps values differ by a rule alone: {rule}. By the estimator's rule all values "
    "agree. Else these differ: {items}."
)
# Of a float32 in relation to its size.
_ROUNDING = 2.0**-23


def compare(
    use: EstimatorUse,
    program: LoadedProgram,
    batches: Sequence[Batch],
    tolerances: Tolerances,
    recording: ProofRecording,
    scratch: str | None = None,
) -> tuple[list[Item], list[str]]:
    """Trains an estimator and the written model on the same batches, and compares the two.

    Args:
        use: the use of the estimator, a canned one.
        program: the written program, with the checkpoint's slots; its model goes on training.
        batches: batches of the program's own; they are repeated if there are less than steps.
        tolerances: bounds of what agrees.
        recording: gets the batches and the estimator's losses.
        scratch: directory for the estimator's files; None: the system's.

    Returns:
        The items, and notes on what wasn't compared.
    """
    sources = program.sources
    why = why_not(use, sources, batches)
    if why is not None:
        return [], [why]
    with tempfile.TemporaryDirectory(dir=scratch) as directory:
        try:
            trained = train_estimator(use, sources, batches, directory)
        except Exception as error:  # of the program's model or data, of any class
            return [_failure("the estimator", error)], []
        recording.add_training(trained.batches, trained.losses, trained.predictions)
        items, losses = compare_with(trained, program, tolerances)
        rules = _rules(sources)
        if all(item.agrees for item in items) or losses is None or not rules:
            return items, []
        from estimator_spec.convert.keras_columns.keras_classes import estimator_rules

        exact = load_module(os.path.dirname(program.module.__file__), estimator_rules.RULES)
        others, _ = compare_with(trained, load_program(sources, exact), tolerances)
    if not all(item.agrees for item in others):
        return items, []
    rule = "; ".join(rules)
    found = program.predictions(trained.batches[0])
    recording.state_training(trained.batches, rule, losses, found)
    agree = [item for item in items if item.agrees]
    differ = [f"{item.name}: {item.text}" for item in items if not item.agrees]
    return agree, [_RULE_ALONE.format(rule=rule, items=listed(differ))]


def _rules(sources: WrittenProgram) -> list[str]:
    """Returns the rules of the estimator's optimizers that the written program hasn't."""
    found = [
        each.text
        for each in sources.plan.differences
        if each.of_keras and each.column.startswith("the optimizer")
    ]
    without_rows = sources.reading is NUMPY
    return [text for text in dict.fromkeys(found) if without_rows or text != optimizers.OTHER_ROWS]


class Trained(NamedTuple):
    """Result of the further training of a copy of the estimator.

    Attributes:
        batches: the batches of its steps.
        losses: their losses.
        checkpoint: prefix of its checkpoint after them.
        predictions: what it predicts after them for the first batch.
    """

    batches: list[Batch]
    losses: np.ndarray
    checkpoint: str
    predictions: dict[str, np.ndarray]


def train_estimator(
    use: EstimatorUse, sources: WrittenProgram, batches: Sequence[Batch], directory: str
) -> Trained:
    """Trains a copy of the estimator in an empty directory, from the checkpoint."""
    batches = [batches[step % len(batches)] for step in range(STEPS)]
    link_checkpoint(sources.checkpoint, directory)
    config = use.estimator.config.replace(
        model_dir=directory,
        train_distribute=None,
        save_checkpoints_steps=STEPS,
        save_summary_steps=None,
        log_step_count_steps=None,
    )
    estimator = copy_with(use.estimator, model_dir=directory, config=config)
    feeding = _Recording(batches)
    estimator.train(feeding.input_fn, hooks=[feeding], steps=STEPS)
    end = state_file.find_latest(directory)
    assert end is not None
    predictions = estimator_side.predictions(use, end, batches[0])
    return Trained(batches, np.array(feeding.losses, np.float32), end, predictions)


def compare_with(
    trained: Trained, program: LoadedProgram, tolerances: Tolerances
) -> tuple[list[Item], np.ndarray | None]:
    """Trains the written model, and compares it with the estimator; arguments as `compare`.

    Returns:
        The items, and the model's losses; None if it fails.
    """
    try:
        losses = _train_model(program, trained.batches)
    except Exception as error:  # of the written program, of any class
        return [_failure("model.py", error)], None
    items = [compare_series(TITLE, trained.losses, losses, tolerances)]
    with Checkpoint(program.sources.checkpoint) as start, Checkpoint(trained.checkpoint) as end:
        return [*items, *_compare_changes(program, start, end, tolerances)], losses


def why_not(use: EstimatorUse, sources: WrittenProgram, batches: Sequence[Batch]) -> str | None:
    """Returns a note why training can't be compared; None if it can."""
    if use.model is None:
        reason = "the program's model_fn is its own, and only its columns moved"
    elif not batches or batches[0].labels is None:
        reason = "the program gave no labels"
    elif not sources.plan.optimizers:
        reason = "the optimizer didn't move (see what isn't equal)"
    elif roles.is_distributed(use.estimator.config):
        reason = "TF_CONFIG describes a cluster; unset it"
    else:
        return None
    return f"Training wasn't compared: {reason}."


def _failure(side: str, error: Exception) -> Item:
    lines = str(error).strip().splitlines() or [""]
    text = f"{side} fails with {type(error).__name__}: {lines[0]}"
    return Item(Stage.LOSSES, TITLE, Outcome.DIFFERS, text)


class _Recording(Feeding):
    """Feeds batches to a training whose dropout keeps all elements, and records the losses."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        super().__init__(batches)
        self.losses: list[float] = []

    def begin(self) -> None:
        """Finds the loss, and the random numbers of dropout."""
        graph = tf1.get_default_graph()
        self._loss = graph.get_collection(tf1.GraphKeys.LOSSES)[-1]
        self._dropouts = [
            op.outputs[0]
            for op in graph.get_operations()
            if op.type == "RandomUniform" and "dropout" in op.name
        ]

    def before_run(self, run_context: Any) -> Any:
        """Feeds the batch of this step, and requests its loss."""
        size = self.batch.size
        feed = super().before_run(run_context).feed_dict
        # Dropout keeps what has a number of at least its rate.
        feed |= {noise: np.ones([size, *noise.shape[1:]], "f4") for noise in self._dropouts}
        return tf1.train.SessionRunArgs(self._loss, feed_dict=feed)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Records the loss."""
        self.losses.append(run_values.results)
        super().after_run(run_context, run_values)


def _train_model(program: LoadedProgram, batches: Sequence[Batch]) -> np.ndarray:
    """Trains the written model; returns the losses."""
    model = program.model
    _keep_all(model)
    model.run_eagerly, model.jit_compile = True, False
    losses = []
    for batch in batches:
        model.reset_metrics()
        given = program.training_batch(batch)
        losses.append(model.train_on_batch(*given, return_dict=True)["loss"])
    return np.array(losses, np.float32)


def _keep_all(model: Any) -> None:
    """Replaces the random choices of dropout: all elements are kept, and scaled by the rate."""
    import keras  # of the written model

    def scaled(rate: float) -> Callable[..., Any]:
        return lambda inputs, training=False: inputs / (1.0 - rate) if training else inputs

    for layer in model.layers:
        if isinstance(layer, keras.layers.Dropout):
            layer.call = scaled(layer.rate)


def _compare_changes(
    program: LoadedProgram, start: Checkpoint, end: Checkpoint, tolerances: Tolerances
) -> Iterator[Item]:
    """Yields the items of what training changed: of each variable and slot of both sides."""
    model, plan, found = program.model, program.sources.plan, program.sources.found
    seen: set[str] = set()
    known: set[str] = set()

    def changed(name: str, first: np.ndarray, old: np.ndarray, target: Any) -> Item:
        new = np.asarray(target, np.float32)
        largest = max(float(np.abs(values).max(initial=0.0)) for values in (old, new))
        # Both sides round the sum after each step.
        rounding = STEPS * _ROUNDING * largest
        values = old - first, new - first
        item = compare_arrays(Stage.TRAINED_VALUES, name, *values, tolerances, rounding)
        return compare_changes(item, first, old, new, STEPS)

    for variable, name in found.items():
        weight = trained_values.find_weight(model, variable)
        first, last = (trained_values.read_values(each, [name]) for each in (start, end))
        yield changed(name, first, last, weight)
        seen.add(name)
        known.add(weight.path)
    for slot, target in trained_values.find_slots(plan, model, end, found):
        seen.update(slot.sources)
        known.add(target.path)
        last = slot.read(end)
        first = slot.read(start) if set(slot.sources) <= start.variables.keys() else last * 0
        yield changed(slot.sources[0], first, last, target)
    steps = np.array(end.read_global_step()), np.asarray(model.optimizer.iterations, np.int64)
    yield compare_arrays(Stage.TRAINED_VALUES, "global_step", *steps, tolerances)
    # The numbers of an optimizer are scalars: the step, the rate and powers of its betas.
    for name, stored in end.variables.items():
        if name not in seen and stored.shape and not _is_unused(name, plan.slots):
            yield compare_arrays(Stage.TRAINED_VALUES, name, end.value(name), None, tolerances)
    for variable in (*model.weights, *model.optimizer.variables):
        if variable.path not in known and len(variable.shape) and not _is_random(variable.path):
            new = np.asarray(variable)
            yield compare_arrays(Stage.TRAINED_VALUES, variable.path, None, new, tolerances)


def _is_unused(name: str, slots: Mapping[str, Mapping[str, str]]) -> bool:
    """Returns whether a variable is RMSProp's slot for a momentum of 0, which changes nothing.

    TensorFlow 1 has it in any case, and calls it as the mean squares, with a number.
    """
    kept = slots.get(name.partition("/")[0], {})
    if "velocity" not in kept or "momentum" in kept:
        return False
    return re.fullmatch(rf".*{re.escape(kept['velocity'])}_\d+", name) is not None


def _is_random(path: str) -> bool:
    return os.path.basename(path) == "seed_generator_state"
