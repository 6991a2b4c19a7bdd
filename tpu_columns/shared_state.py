# SPDX-License-Identifier: Apache-2.0
"""Declares what functions share without passing it: graph collections and context variables.

Data travels by arguments wherever it can. What is here passes through code that can't hand it on:
a user's `model_fn` and `input_fn`, feature layers, savers and hooks of TensorFlow. A test finds
any other, and modules that use one without being named beside it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")

# Collections of a graph. Their names are tuples, not strings, so that TensorFlow leaves them out of
# exported graphs, which can't hold Python objects.

LAYOUTS = ("tpu_columns", "layouts")
"""`RowPartition` of each table, by variable name. `tpu_columns.storage` records it where a table is
created, and tells it to restores and records of checkpoints."""

SUMS = ("tpu_columns", "sums")
"""Gathered rows that have one use, a sum. `tpu_columns.combining` records them where a column is
looked up, and tells them to `updates`, which sums straight from tables that nothing writes."""

SESSION_HAS_GPU = ("tpu_columns", "session_has_gpu")
"""Whether sessions of the graph have a GPU: one bool. The driver sets it before the user's code, by
`tpu_columns.kernels.devices`, which reads it where an op is chosen."""

HAS_OWN_VARIABLES = ("tpu_columns", "has_own_variables")
"""True if all variables are in the process that runs the graph. The driver sets it for replicas in
several processes, by `tpu_columns.kernels.devices`, which reads it where an op is chosen."""

SHARED_TABLES = ("tpu_columns", "shared_tables")
"""Tables that columns share, by name. `tpu_columns.tables` adds those it creates and finds them."""

CORE_TABLES = ("tpu_columns", "embedding_core_tables")
"""Names of an embedding core's tables, by `get_embedding_var_name()`. `tpu_columns.tables` records
them where the model's columns are built, and tells them to the core, which creates the tables."""

LOOKUP_SITES = ("tpu_columns", "lookup_sites")
"""Scope and column of each lookup. `tpu_columns.lookup_errors` records them and names the
column in errors of sessions; `estimator_spec.core.driver.device_loop` copies those of a loop's
body to the graph around it."""

LOOP_BODIES = ("tpu_columns", "loop_bodies")
"""Bodies of the driver's training loops, in the graph around each and in itself.
`tpu_columns.driver_graphs` adds a body when its loop is built, and reads them where an op is
chosen."""

CHECKPOINT = ("estimator_spec", "checkpoint")
"""Prefix of the checkpoint that the sessions will restore.
`estimator_spec.core.driver.checkpoint_state` sets it before the model is built, and tells it to
models whose ops are made of its values."""

PARTITION_STRATEGY = ("estimator_spec", "partition_strategy")
"""Strategy of tables in checkpoints without a record. The driver's embeddings set it by
`estimator_spec.core.driver.table_restore`, which reads it in a restore."""

FORMER_NAMES = ("estimator_spec", "former names of shared tables")
"""Former names of shared tables of canned models, by name. These models add theirs by
`estimator_spec.core.driver.shared_tables`, which reads them in a restore."""

NO_ROWS = ("estimator_spec", "no_rows")
"""Inputs of disabled updates, which ops of one graph share. `estimator_spec.core.updates.kernels`
adds and reuses them."""

LOCKED_VARIABLES = ("estimator_spec", "locked_variables")
"""Groups of variables under one lock. `estimator_spec.core.updates.locks` writes them when it locks
updates, and reads them when savers are built."""

STACKED_TABLES = ("estimator_spec", "stacked tables")
"""Stacked tables; their variables are in no collection. `estimator_spec.core.cores.stacked_tables`
adds them, tells their slices and variables to hooks, and checks the user's saver by
them."""

HELD_UPDATES = ("estimator_spec", "held_embedding_updates")
"""Ops that apply updates delayed by a step. `estimator_spec.core.cores.delayed_updates` adds them;
`estimator_spec.core.driver.embeddings` runs them before a checkpoint is written."""

ACTIVATION_GRADIENTS = ("estimator_spec", "activation_gradients")
"""`ActivationGradients` of the graph. `estimator_spec.core.cores.activation_gradients` adds itself,
and finds them in the gradient function that TensorFlow calls with an op alone."""

CONTRIB_TABLES = ("estimator_spec", "shared tables of contrib's columns")
"""Tables that columns of tensorflow.contrib share, by name.
`estimator_spec.legacy.contrib.learn.column_layers` adds those it creates and finds them."""

# Context variables: each thread has its own values, and blocks within blocks restore them.

OPTIMIZATIONS: contextvars.ContextVar[Any] = contextvars.ContextVar("optimizations", default=None)
"""Optimizations of the graph that is being built, or None. The driver sets them by
`tpu_columns.optimizations`, which tells them to lookups and updates."""

STORAGE: contextvars.ContextVar[Any] = contextvars.ContextVar("storage", default=None)
"""`TableStorage` of tables that are being created, or None. The driver sets it by
`tpu_columns.storage`, which creates tables by it."""

DEFERS_LOOKUPS = contextvars.ContextVar("defers_lookups", default=False)
"""Whether a native lookup returns what to join. Feature layers set it by
`tpu_columns.native_lookup`, which reads it where a column is looked up."""

TABLES_SCOPE: contextvars.ContextVar[Any] = contextvars.ContextVar("tables_scope", default=None)
"""Owner of eager tables in `sharing_tables()`, or None. `tpu_columns.eager_tables` sets it for the
user, and reads it where a table is looked for."""

INPUT_LAYER_CALL: contextvars.ContextVar[Any] = contextvars.ContextVar("input_layer", default=None)
"""Owner of eager tables in a call of `input_layer`, or None. Feature layers set it by
`tpu_columns.eager_tables`, which reads it where a table is looked for."""

PLACEMENT: contextvars.ContextVar[Any] = contextvars.ContextVar("placement", default=None)
"""`Placement` of the graph that a driver builds, or None. The driver sets it by
`tpu_columns.placement`, which routes columns by it."""

INVALID_IDS: contextvars.ContextVar[Any] = contextvars.ContextVar("invalid_ids", default=None)
"""Policy of columns without one of their own. The driver sets it by `tpu_columns.invalid_ids`,
which reads it where a column is looked up."""

REDUCED_BY_STRATEGY = contextvars.ContextVar("reduced_by_strategy", default=False)
"""Whether the strategy reduces the gradients of `CrossShardOptimizer`s. Replicas set it by
`estimator_spec.core._tensorflow.cross_shard`, which reads it in the optimizer's methods."""

BUILDS: contextvars.ContextVar[Any] = contextvars.ContextVar("builds", default=None)
"""Arguments of current builds, by estimator. `estimator_spec.core.driver.run_context` sets them
around the methods that programs override, and tells them to those they call."""


def graph_dict(graph: Any, collection: tuple[str, str]) -> dict[Any, Any]:
    """Returns the dict that a graph keeps in a collection; creates it if necessary.

    Args:
        graph: a graph.
        collection: name of the collection.
    """
    found = graph.get_collection_ref(collection)
    if not found:
        found.append({})
    return found[0]


@contextlib.contextmanager
def setting(variable: contextvars.ContextVar[_T], value: _T) -> Iterator[None]:
    """Sets a context variable, and undoes this when the block ends.

    >>> with setting(DEFERS_LOOKUPS, True):
    ...     DEFERS_LOOKUPS.get()
    True
    >>> DEFERS_LOOKUPS.get()
    False

    Args:
        variable: the variable.
        value: its value in the block.
    """
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
