# SPDX-License-Identifier: Apache-2.0
"""Converts optimizers of `tf.tpu.experimental.embedding` to the embedding core's parameters."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.optimizers import OptimizationParameters

_KINDS = {
    "SGD": ours.StochasticGradientDescentParameters,
    "Adagrad": ours.AdagradParameters,
    "AdagradMomentum": ours.AdagradMomentumParameters,
    "Adam": ours.AdamParameters,
    "FTRL": ours.FtrlParameters,
}


def parameters_of(table: str, optimizer: Any) -> OptimizationParameters:
    """Returns the parameters of a table's optimizer; the rate is None if it is a function.

    >>> parameters_of("words", tf.tpu.experimental.embedding.Adagrad(0.5)).initial_accumulator
    0.1

    Args:
        table: its name, for errors.
        optimizer: an optimizer of `tf.tpu.experimental.embedding`.

    Raises:
        ValueError: there is no optimizer, no rule for it, or a parameter is out of range.
    """
    if optimizer is None:
        raise ValueError(
            f"Table {table!r} has no optimizer, so it can't be trained. Give it one in its "
            "TableConfig, or give the embedding object one."
        )
    # A program's own subclass has its base class' rule.
    names = [kind.__name__ for kind in type(optimizer).__mro__]
    name = next((name for name in names if name in _KINDS), None)
    if name is None:
        raise ValueError(
            f"Table {table!r}: only a TPU runs a {names[0]}. On this machine a table is trained by "
            f"one of {', '.join(_KINDS)}."
        )
    kind = _KINDS[name]
    rules = _support("tpu_embedding", kind).arguments
    arguments = {}
    for argument, rule in rules.items():
        attribute = argument if rule.target_argument == "clipvalue" else rule.target_argument
        # An older TensorFlow may lack an argument.
        if hasattr(optimizer, attribute):
            arguments[argument] = getattr(optimizer, attribute)
    if callable(arguments["learning_rate"]):
        arguments["learning_rate"] = None
    try:
        return kind(**arguments)
    except (TypeError, ValueError) as error:
        raise type(error)(f"Table {table!r}: {error}") from None


def sparse_core_parameters(table: str, optimizer: Any) -> OptimizationParameters:
    """Returns the parameters that `TPUEmbeddingV2` heeds; a warning names those that it ignores.

    Raises:
        NotImplementedError: there is weight decay, which `TPUEmbeddingV2` refuses.
        ValueError: as `parameters_of`.
    """
    found = parameters_of(table, optimizer)
    decay = ("weight_decay_factor", "multiply_weight_decay_factor_by_learning_rate")
    given = [name for name in decay if getattr(found, name) is not None]
    if given:
        raise NotImplementedError(
            f"{' and '.join(given)} are not supported yet by TPUEmbeddingV2. But found in table "
            f"{table!r}."
        )
    rules = _support("tpu_embedding_v2", type(found)).arguments
    ignored = [
        name
        for name, rule in rules.items()
        if not rule.holds(found) and rule.condition is not None and rule.least is None
    ]
    if ignored:
        tf.compat.v1.logging.warning(
            "Table %s: TPUEmbeddingV2 ignores %s of its optimizer, on a TPU and here.",
            table,
            ", ".join(ignored),
        )
    heeded: Any = found  # each subclass is a dataclass
    defaults = {field.name: field.default for field in dataclasses.fields(heeded)}
    return dataclasses.replace(heeded, **{name: defaults[name] for name in ignored})  # type: ignore[no-any-return]


def _support(target: str, kind: type) -> Any:
    """Returns how the mid-level API supports an optimizer of ours."""
    # At the first use: `install()` imports this module, and should not import all of `convert`.
    from estimator_spec.convert import target_support

    return target_support.find_support(target, kind)


def rates(optimizers: list[Any]) -> list[Any]:
    """Returns the learning rates of a step as tensors; a function is called once for all."""
    known: dict[int, Any] = {}
    found = []
    for optimizer in optimizers:
        rate = optimizer.learning_rate
        if not callable(rate):
            found.append(tf.constant(rate, tf.float32))
            continue
        if id(rate) not in known:
            known[id(rate)] = tf.cast(rate(), tf.float32)
        found.append(known[id(rate)])
    return found
