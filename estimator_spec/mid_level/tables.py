# SPDX-License-Identifier: Apache-2.0
"""Looks up and trains tables, eagerly and in functions, by the rules and ops of the host core.

The state of a step is passed as tensors: nothing here belongs to a graph.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.cores import host_updates, update_rules
from estimator_spec.core.cores.host_updates import GatheredRows, TableUpdate
from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from estimator_spec.mid_level.replicas import DEVICE
from tpu_columns import combining, engine, lookup_errors, optimizations
from tpu_columns.combining import Entries
from tpu_columns.kernels import calls


class TableVariables(NamedTuple):
    """A variable with the rows of one or several tables.

    Attributes:
        variable: the rows, float32 [V, D].
        slots: slot variables by our names of the slots, in the order of the optimizer's.
        parameters: the optimizer; None: the table isn't trained.
        quantization: its `QuantizationConfig`, or None.
    """

    variable: Any
    slots: Mapping[str, Any]
    parameters: OptimizationParameters | None
    quantization: Any = None

    @property
    def width(self) -> int:
        """D."""
        return int(self.variable.shape[1])


@dataclasses.dataclass(frozen=True, eq=False)
class LookupTables:
    """Tables of an embedding object, and the features that look them up.

    Attributes:
        tables: the tables.
        numbers: number of each feature's table.
        names: name of each feature in errors.
    """

    tables: Sequence[TableVariables]
    numbers: Sequence[int]
    names: Sequence[str]

    @functools.cached_property
    def widths(self) -> list[int]:
        """Width of each feature's table."""
        return [self.tables[number].width for number in self.numbers]

    @property
    def is_native(self) -> bool:
        """Whether native ops look up and train the tables."""
        all_parameters = [table.parameters for table in self.tables]
        return engine.of_tables(
            engine.of_process(optimizations.current()),
            have_rules=all(
                parameters is not None and update_rules.native_rule(parameters) is not None
                for parameters in all_parameters
            ),
            quantized=any(table.quantization is not None for table in self.tables),
        ).is_native

    def look_up(self, batch: Sequence[Entries], native: bool) -> tuple[Any, Any]:
        """Looks up features.

        Args:
            batch: ids of each feature.
            native: whether native ops do, which return what they have read.

        Returns:
            sums: float32 [S, D] of each feature, for its S samples.
            rows: what the lookup has read, for `train`; None if it isn't native.
        """
        with tf.device(DEVICE):
            if not native:
                own = [self.tables[number] for number in self.numbers]
                return [_look_up_one(*each) for each in zip(own, batch, strict=True)], None
            uses = enumerate(zip(self.numbers, self.names, batch, strict=True))
            features = [
                _native_feature(number, self.tables[number], name, entries)._replace(layer=place)
                for place, (number, name, entries) in uses
            ]
            variables = [table.variable for table in self.tables]
            return calls.look_up_tables(variables, features, self.widths, trained=True)

    def train(
        self,
        replicas: Sequence[Sequence[Entries]],
        gradients: Sequence[Sequence[Any]],
        rates: Sequence[Any],
        rows: Any,
    ) -> None:
        """Trains the tables once.

        Args:
            replicas: ids of each replica's features.
            gradients: gradients of each replica's sums, [S, D]; None: zeros.
            rates: learning rate of each table, scalar.
            rows: what `look_up` has read, if it was native; then there is one replica.
        """
        with tf.device(DEVICE):
            if rows is not None:
                self._train_natively(replicas[0], gradients[0], rates, rows)
                return
            uses = [
                (number, (replica, entries, gradient))
                for replica, batch in enumerate(replicas)
                for number, entries, gradient in zip(
                    self.numbers, batch, gradients[replica], strict=True
                )
                if gradient is not None
                or not update_rules.keeps_rows_of_gradient_zero(self.tables[number].parameters)
            ]
            for number, table in enumerate(self.tables):
                parts = [part for own, part in uses if own == number]
                if parts:
                    _train_one(table, parts, rates[number], len(replicas))

    def _train_natively(
        self, batch: Sequence[Entries], gradients: Sequence[Any], rates: Sequence[Any], rows: Any
    ) -> None:
        trained = []
        for table, rate in zip(self.tables, rates, strict=True):
            assert table.parameters is not None
            slots = [table.slots[name] for name in ours.slot_initial_values(table.parameters)]
            trained.append(
                update_rules.trained_table(table.variable, slots, table.parameters, rate)
            )
        found = {}
        for place, (number, gradient) in enumerate(zip(self.numbers, gradients, strict=True)):
            if gradient is None and trained[number].needs_zeros:
                gradient = _zeros(self.tables[number], batch[place])
            if gradient is not None:
                found[place] = gradient, 0
        one, no_step = tf.constant(1.0), tf.constant(0.0)
        calls.update_tables(trained, self.numbers, found, rows, one, no_step)


def _look_up_one(table: TableVariables, entries: Entries) -> Any:
    # By the handle: a tf.custom_gradient around a dequeue must not see a trainable variable read.
    rows = tf.raw_ops.ResourceGather(
        resource=table.variable.handle, indices=entries.ids, dtype=tf.float32
    )
    rows = tf.ensure_shape(rows, [None, table.variable.shape[1]])
    if table.quantization is not None:
        rows = quantize(rows, table.quantization)
    row_indices = tf.range(tf.size(entries.ids, out_type=tf.int64))
    return combining.combine(rows, row_indices, entries)


def quantize(rows: Any, config: Any) -> Any:
    """Rounds rows to the buckets of a `QuantizationConfig`, as documented there."""
    rows = tf.clip_by_value(rows, config.lower, config.upper)
    quantum = (config.upper - config.lower) / (config.num_buckets - 1)
    return tf.floor((rows - config.lower) / quantum + 0.5) * quantum + config.lower


def gains(entries: Entries) -> Any:
    """Returns the factor of each id's row in its sample, float32 [N]: weight, by combiner."""
    weights = entries.weights
    if weights is None:
        weights = tf.ones_like(entries.ids, tf.float32)
    if entries.combiner == "sum":
        return weights
    divisors = tf.gather(combining.divisors(entries, tf.float32)[:, 0], entries.segments)
    return tf.math.divide_no_nan(weights, divisors)


def _native_feature(
    number: int, table: TableVariables, name: str, entries: Entries
) -> calls.LookupFeature:
    """Returns a feature of the kernels' lookup."""
    places = tf.reshape(entries.segments, [-1, 1])
    shape = tf.reshape(entries.num_rows, [1])
    weights = entries.weights
    return calls.LookupFeature(
        number,
        tf.SparseTensor(places, entries.ids, shape),
        None if weights is None else tf.SparseTensor(places, weights, shape),
        entries.combiner,
        lookup_errors.LookupNames(name, name),
        int(table.variable.shape[0]),
    )


def _zeros(table: TableVariables, entries: Entries) -> Any:
    return tf.zeros(tf.stack([entries.num_rows, table.width]))


def _train_one(
    table: TableVariables, parts: Sequence[tuple[int, Entries, Any]], rate: Any, num_replicas: int
) -> None:
    """Trains a table by the gradients of its features, in order of the replicas."""
    parameters = table.parameters
    assert parameters is not None
    all_ids = [entries.ids for _, entries, _ in parts]
    sizes = [tf.size(ids) for ids in all_ids]
    joined = tf.concat(all_ids, 0)
    ids, index = combining.rows_to_read(joined, unique=True)
    gathered = GatheredRows(table.variable, ids, tf.nn.embedding_lookup(table.variable, ids))
    if num_replicas > 1 and not parameters.use_gradient_accumulation:
        replicas = [replica for replica, _, _ in parts]
        gathered, index = host_updates.separate_replicas(
            gathered, index, joined, zip(replicas, sizes, strict=True), num_replicas
        )
    count = tf.size(ids if gathered.turns is None else gathered.turns, out_type=tf.int64)
    of_rows = []
    for own, (_, entries, gradient) in zip(tf.split(index, sizes), parts, strict=True):
        if gradient is None:
            gradient = _zeros(table, entries)
        of_rows.append(combining.gradient_of_rows(gradient, own, entries, count))
    update = TableUpdate(gathered, tf.add_n(of_rows), rate, tf.constant(0.0))
    host_updates.apply(update, dict(table.slots), parameters, num_replicas)


def from_config(
    config: Any,
    variables: Mapping[str, Any],
    parameters_of: Callable[[str, Any], OptimizationParameters],
) -> TableVariables:
    """Returns the table of a `TableConfig`.

    Args:
        config: the `TableConfig`.
        variables: its variable as 'parameters', and its slots, by the mid-level API's names.
        parameters_of: returns the parameters of a table's name and optimizer.
    """
    try:
        parameters = parameters_of(config.name, config.optimizer)
    except ValueError:
        # It can be looked up nevertheless; `enqueue` for training has the error.
        return TableVariables(variables["parameters"], {}, None, config.quantization_config)
    names = mid_level_slot_names(parameters)
    slots = {
        name: variables[names[name]]
        for name in ours.slot_initial_values(parameters)
        if name in names and names[name] in variables
    }
    return TableVariables(variables["parameters"], slots, parameters, config.quantization_config)


def check_combiner(config: Any) -> None:
    """Checks that a table's combiner is one of the names.

    Raises:
        ValueError: it is a `CustomCombiner`.
    """
    message = (
        f"Table {config.name!r}: only a TPU runs a {type(config.combiner).__name__}. On this "
        "machine a combiner is 'mean', 'sum' or 'sqrtn'."
    )
    calls.check_combiner(config.combiner, message, optional=False)
