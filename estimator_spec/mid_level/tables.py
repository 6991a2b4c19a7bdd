# SPDX-License-Identifier: Apache-2.0
"""Looks up and trains tables, eagerly and in functions, by the rules and ops of the host core.

The state of a step is passed as tensors: nothing here belongs to a graph.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.cores import host_updates, native_calls, update_rules
from estimator_spec.core.cores.host_updates import GatheredRows, TableUpdate
from estimator_spec.core.embedding import optimizers as ours
from estimator_spec.core.embedding.mid_level_slots import mid_level_slot_names
from estimator_spec.core.embedding.optimizers import OptimizationParameters
from estimator_spec.mid_level.replicas import DEVICE
from estimator_spec.mid_level.samples import Samples
from tpu_columns import combining, lookup_errors, native_lookup, optimizations
from tpu_columns.combining import Entries
from tpu_columns.kernels import loading
from tpu_columns.optimizations import Optimization


class Table(NamedTuple):
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


class Lookup(NamedTuple):
    """A feature of a table in one step of one replica.

    Attributes:
        table: number of its table.
        samples: its ids.
        combiner: 'mean', 'sum' or 'sqrtn'.
        name: name of the feature in errors.
    """

    table: int
    samples: Samples
    combiner: str
    name: str = "features"

    @property
    def num_samples(self) -> Any:
        """Number of samples, int64."""
        return tf.reduce_prod(self.samples.shape)

    def entries(self) -> Entries:
        """Returns the ids as entries."""
        samples = self.samples
        return Entries(
            samples.ids,
            samples.samples,
            self.num_samples,
            samples.weights,
            self.combiner,
            weights_from_user=samples.weights is not None,
        )


def is_native(tables: Sequence[Table]) -> bool:
    """Returns whether native ops look up and train tables."""
    return (
        optimizations.is_used(Optimization.NATIVE_KERNELS)
        and all(table.quantization is None for table in tables)
        and all(
            table.parameters is not None and update_rules.native_rule(table.parameters) is not None
            for table in tables
        )
        and loading.load() is not None
    )


def look_up(tables: Sequence[Table], lookups: Sequence[Lookup], native: bool) -> tuple[Any, Any]:
    """Looks up features.

    Args:
        tables: the tables.
        lookups: the features.
        native: whether native ops do, which return what they have read.

    Returns:
        sums: float32 [S, D] of each feature, for its S samples.
        rows: what the lookup has read, for `train`; None if it isn't native.
    """
    with tf.device(DEVICE):
        if not native:
            return [_look_up_one(tables[each.table], each) for each in lookups], None
        widths = [int(tables[each.table].variable.shape[1]) for each in lookups]
        return native_lookup.call(
            [table.variable for table in tables],
            [_native_feature(tables, each, place) for place, each in enumerate(lookups)],
            widths,
            trained=True,
        )


def _look_up_one(table: Table, lookup: Lookup) -> Any:
    entries = lookup.entries()
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


def gains(lookup: Lookup) -> Any:
    """Returns the factor of each id's row in its sample, float32 [N]: weight, by combiner."""
    entries = lookup.entries()
    weights = entries.weights
    if weights is None:
        weights = tf.ones_like(entries.ids, tf.float32)
    if entries.combiner == "sum":
        return weights
    divisors = tf.gather(combining.divisors(entries, tf.float32)[:, 0], entries.segments)
    return tf.math.divide_no_nan(weights, divisors)


def _native_feature(tables: Sequence[Table], lookup: Lookup, place: int) -> native_lookup.Feature:
    """Returns a feature of the native lookup, whose sums are its own output."""
    samples, count = lookup.samples, lookup.num_samples
    places = tf.reshape(samples.samples, [-1, 1])
    shape = tf.reshape(count, [1])
    weights = samples.weights
    return native_lookup.Feature(
        lookup.table,
        tf.SparseTensor(places, samples.ids, shape),
        None if weights is None else tf.SparseTensor(places, weights, shape),
        lookup.combiner,
        lookup_errors.Names(lookup.name, lookup.name),
        int(tables[lookup.table].variable.shape[0]),
        layer=place,
    )


def train(
    tables: Sequence[Table],
    replicas: Sequence[Sequence[Lookup]],
    gradients: Sequence[Sequence[Any]],
    rates: Sequence[Any],
    rows: Any = None,
) -> None:
    """Trains tables once.

    Args:
        tables: the tables.
        replicas: the features of each replica.
        gradients: gradients of each replica's sums, [S, D]; None: zeros.
        rates: learning rate of each table, scalar.
        rows: what `look_up` has read, if it was native; then there is one replica.
    """
    with tf.device(DEVICE):
        if rows is not None:
            _train_native(tables, replicas[0], gradients[0], rates, rows)
            return
        for number, table in enumerate(tables):
            parts = [
                (replica, lookup, gradient)
                for replica, lookups in enumerate(replicas)
                for lookup, gradient in zip(lookups, gradients[replica], strict=True)
                if lookup.table == number and (gradient is not None or _needs_zeros(table))
            ]
            if parts:
                _train_one(table, parts, rates[number], len(replicas))


def _needs_zeros(table: Table) -> bool:
    return not update_rules.keeps_rows_of_gradient_zero(table.parameters)


def _train_native(
    tables: Sequence[Table],
    lookups: Sequence[Lookup],
    gradients: Sequence[Any],
    rates: Sequence[Any],
    rows: Any,
) -> None:
    trained = []
    for table, rate in zip(tables, rates, strict=True):
        assert table.parameters is not None
        slots = [table.slots[name] for name in ours.slot_initial_values(table.parameters)]
        trained.append(native_calls.trained_table(table.variable, slots, table.parameters, rate))
    found = {}
    for place, (lookup, gradient) in enumerate(zip(lookups, gradients, strict=True)):
        if gradient is None and trained[lookup.table].needs_zeros:
            gradient = _zeros(tables[lookup.table], lookup)
        if gradient is not None:
            found[place] = gradient, 0
    numbers = [lookup.table for lookup in lookups]
    native_calls.update(trained, numbers, found, rows, tf.constant(1.0), tf.constant(0.0))


def _zeros(table: Table, lookup: Lookup) -> Any:
    return tf.zeros(tf.stack([lookup.num_samples, int(table.variable.shape[1])]))


def _train_one(
    table: Table, parts: Sequence[tuple[int, Lookup, Any]], rate: Any, num_replicas: int
) -> None:
    """Trains a table by the gradients of its features, in order of the replicas."""
    parameters = table.parameters
    assert parameters is not None
    all_ids = [lookup.samples.ids for _, lookup, _ in parts]
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
    for own, (_, lookup, gradient) in zip(tf.split(index, sizes), parts, strict=True):
        if gradient is None:
            gradient = _zeros(table, lookup)
        of_rows.append(combining.gradient_of_rows(gradient, own, lookup.entries(), count))
    update = TableUpdate(gathered, tf.add_n(of_rows), rate, tf.constant(0.0))
    host_updates.apply(update, dict(table.slots), parameters, num_replicas)


def create_outside(make: Callable[[], Any]) -> Any:
    """Returns the result of a function that creates variables, of which there is one copy each.

    In the scope of a strategy, or while a tf.function is traced, it runs in a thread of its own:
    both change how the current thread creates variables.
    """
    if tf.executing_eagerly() and not tf.distribute.has_strategy():
        with tf.device(DEVICE):
            return make()
    result: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with tf.device(DEVICE):
                result.append(make())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return result[0]


def from_config(
    config: Any,
    variables: Mapping[str, Any],
    parameters_of: Callable[[str, Any], OptimizationParameters],
) -> Table:
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
        return Table(variables["parameters"], {}, None, config.quantization_config)
    names = mid_level_slot_names(parameters)
    slots = {
        name: variables[names[name]]
        for name in ours.slot_initial_values(parameters)
        if name in names and names[name] in variables
    }
    return Table(variables["parameters"], slots, parameters, config.quantization_config)


def check_combiner(config: Any) -> None:
    """Checks that a table's combiner is one of the names.

    Raises:
        ValueError: it is a `CustomCombiner`.
    """
    if not isinstance(config.combiner, str):
        raise ValueError(
            f"Table {config.name!r}: only a TPU runs a {type(config.combiner).__name__}. On this "
            "machine a combiner is 'mean', 'sum' or 'sqrtn'."
        )
