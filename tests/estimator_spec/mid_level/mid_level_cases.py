# SPDX-License-Identifier: Apache-2.0
"""Random programs of the mid-level API, and what they compute, in NumPy float64.

python mid_level_cases.py REPLICAS EXAMPLES SEED     the same in a MirroredStrategy of logical CPUs
"""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

import estimator_spec as es
import oracle
from estimator_spec.mid_level import TPUEmbedding, TPUEmbeddingV2
from tpu_columns import optimizations
from tpu_columns.optimizations import Optimization

API = tf.tpu.experimental.embedding
HAS_V2 = hasattr(API, "TPUEmbeddingV2")
ROWS, DIM, BATCH, LENGTH, RATE = 9, 3, 4, 2, 0.05

# Each with its counterpart of a spec, which the oracle knows.
PLAIN = [
    (API.SGD(RATE), es.StochasticGradientDescentParameters(RATE)),
    (API.Adagrad(RATE), es.AdagradParameters(RATE)),
    (API.Adagrad(RATE, initial_accumulator_value=1.5), es.AdagradParameters(RATE, 1.5)),
    (API.AdagradMomentum(RATE, 0.6), es.AdagradMomentumParameters(RATE, 0.6)),
    (
        API.AdagradMomentum(RATE, 0.6, use_nesterov=True, exponent=3, beta2=0.9, epsilon=0.01),
        es.AdagradMomentumParameters(RATE, 0.6, True, 3, 0.9, 0.01),
    ),
    (API.Adam(RATE), es.AdamParameters(RATE, epsilon=1e-7)),
    (
        API.Adam(RATE, beta_1=0.5, beta_2=0.7, epsilon=0.1, sum_inside_sqrt=False),
        es.AdamParameters(RATE, 0.5, 0.7, 0.1, sum_inside_sqrt=False),
    ),
    (API.FTRL(RATE), es.FtrlParameters(RATE)),
    (
        API.FTRL(
            RATE,
            l1_regularization_strength=0.05,
            l2_regularization_strength=0.4,
            beta=0.3,
            initial_accumulator_value=0.5,
            multiply_linear_by_learning_rate=True,
        ),
        es.FtrlParameters(
            RATE,
            l1_regularization_strength=0.05,
            l2_regularization_strength=0.4,
            beta=0.3,
            initial_accumulator_value=0.5,
            multiply_linear_by_learning_rate=True,
        ),
    ),
]
# What TPUEmbeddingV2 ignores or refuses.
LIMITED = [
    (API.Adam(RATE, lazy_adam=False), es.AdamParameters(RATE, epsilon=1e-7, lazy_adam=False)),
    (
        API.Adagrad(RATE, clip_weight_min=-0.2, clip_weight_max=0.3, clipvalue=(-0.1, 0.2)),
        es.AdagradParameters(
            RATE,
            clip_weight_min=-0.2,
            clip_weight_max=0.3,
            clip_gradient_min=-0.1,
            clip_gradient_max=0.2,
        ),
    ),
    (
        API.SGD(RATE, weight_decay_factor=0.1, multiply_weight_decay_factor_by_learning_rate=True),
        es.StochasticGradientDescentParameters(
            RATE, weight_decay_factor=0.1, multiply_weight_decay_factor_by_learning_rate=True
        ),
    ),
    (
        API.FTRL(RATE, weight_decay_factor=0.1, use_gradient_accumulation=False),
        es.FtrlParameters(RATE, weight_decay_factor=0.1, use_gradient_accumulation=False),
    ),
    (
        API.Adagrad(RATE, use_gradient_accumulation=False),
        es.AdagradParameters(RATE, use_gradient_accumulation=False),
    ),
]
KINDS = ("dense", "column", "sparse", "ragged", "sparse steps", "ragged steps", "cube", "shaped")


@dataclasses.dataclass(frozen=True)
class Case:
    """A program.

    Attributes:
        kinds: of its features.
        tables: number of each feature's table.
        combiners: of the two tables.
        optimizers: number of each table's optimizer.
        weighted: whether each feature has weights, if it may.
        is_none: whether each feature's gradient is None.
        pipelined: pipeline_execution_with_tensor_core.
        graph: whether steps are a tf.function.
        native: whether native ops may be used.
        scheduled: whether the learning rate is a function.
        v2: whether it is a TPUEmbeddingV2.
        seed: of ids, weights and gradients.
    """

    kinds: tuple
    tables: tuple
    combiners: tuple
    optimizers: tuple
    weighted: tuple
    is_none: tuple
    pipelined: bool
    graph: bool
    native: bool
    scheduled: bool
    v2: bool
    seed: int


@st.composite
def cases(draw, v2=False):
    """Draws a program."""
    count = draw(st.integers(1, 4))

    def several(values):
        return tuple(draw(st.lists(values, min_size=count, max_size=count)))

    optimizers = len(PLAIN) if v2 else len(PLAIN) + len(LIMITED)
    return Case(
        several(st.sampled_from(KINDS)),
        several(st.integers(0, 1)),
        tuple(draw(st.sampled_from(("mean", "sum", "sqrtn"))) for _ in range(2)),
        tuple(draw(st.integers(0, optimizers - 1)) for _ in range(2)),
        several(st.booleans()),
        several(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from((False, False, False, True))),  # tracing takes most of the time
        draw(st.booleans()),
        draw(st.booleans()),
        v2,
        draw(st.integers(0, 2**20)),
    )


def flat(rows):
    """Returns the elements of all rows."""
    return [each for row in rows for each in row]


class Feature:
    """A feature of a case."""

    def __init__(self, case, number):
        self.kind = case.kinds[number]
        self.name = f"f{number}"
        self.table = case.tables[number]
        self.weighted = case.weighted[number] and self.kind not in ("dense", "column")
        self.is_none = case.is_none[number]
        self.combiner = case.combiners[self.table]
        self.steps = "steps" in self.kind or self.kind == "shaped"
        # Weights of steps that an output_shape makes are ignored.
        self.ignores_weights = self.steps and (case.v2 or self.kind == "shaped")
        inner = [LENGTH] if self.steps or self.kind == "cube" else []
        self.shape = [BATCH, *inner]

    def config(self, table, v2):
        """Returns its FeatureConfig."""
        length = LENGTH if self.steps and not v2 and self.kind != "shaped" else 0
        shape = self.shape if v2 or self.kind == "shaped" else None
        return API.FeatureConfig(table, max_sequence_length=length, output_shape=shape)

    def rows(self, rng):
        """Returns [(id, weight), …] of each row of ids."""
        count = BATCH * (LENGTH if self.kind == "cube" else 1)
        most = 1 if self.kind in ("dense", "column") else 3
        least = most if most == 1 else 0

        def weight():
            return float(np.float32(rng.uniform(0.5, 2))) if self.weighted else 1.0

        return [
            [(int(rng.integers(ROWS)), weight()) for _ in range(rng.integers(least, most + 1))]
            for _ in range(count)
        ]

    def tensors(self, rows, v2):
        """Returns ids and weights (or None) of rows."""
        ids = [[id_ for id_, _ in row] for row in rows]
        weights = [[weight for _, weight in row] for row in rows]
        if self.kind == "dense":
            return tf.constant([row[0] for row in ids], tf.int64), None
        if self.kind == "column":
            return tf.constant(ids, tf.int32), None
        if self.kind in ("ragged", "ragged steps", "shaped"):
            made = tf.RaggedTensor.from_row_lengths(
                tf.constant(flat(ids), tf.int64), [len(row) for row in ids]
            )
            return made, made.with_values(tf.constant(flat(weights))) if self.weighted else None
        places = [
            [i // LENGTH, i % LENGTH, j] if self.kind == "cube" else [i, j]
            for i, row in enumerate(rows)
            for j in range(len(row))
        ]
        shape = [BATCH, LENGTH, 3] if self.kind == "cube" else [BATCH, 3]
        indices = np.reshape(np.array(places, np.int64), [-1, len(shape)])
        made = tf.SparseTensor(indices, tf.constant(flat(ids), tf.int64), shape)
        if not self.weighted:
            return made, None
        return made, tf.SparseTensor(indices, tf.constant(flat(weights)), shape)

    def look_up(self, w, rows):
        """Returns activations and uses, as the oracle does."""
        if not self.steps:
            out, uses = oracle.look_up(w, rows, self.combiner)
            inner = LENGTH if self.kind == "cube" else 1
            places = [(id_, factor, (i // inner, i % inner)) for id_, factor, (i,) in uses]
            if self.kind != "cube":
                return out, uses
            return out.reshape([BATCH, LENGTH, DIM]), places
        if self.ignores_weights:
            rows = [[(id_, 1.0) for id_, _ in row] for row in rows]
        return oracle.look_up(w, rows, self.combiner, LENGTH)


class Program:
    """A case's object, and the same in float64."""

    def __init__(self, case, strategy=None):
        self.case = case
        self.features = [Feature(case, number) for number in range(len(case.kinds))]
        rng = np.random.default_rng(case.seed)
        self.values = [rng.normal(0, 0.3, [ROWS, DIM]).astype(np.float32) for _ in range(2)]
        self.rng = rng
        self.strategy = strategy
        self.replicas = strategy.num_replicas_in_sync if strategy else 1
        self.step = tf.Variable(0.0)
        pairs = [(PLAIN + LIMITED)[number] for number in case.optimizers]
        self.tables = [
            oracle.Table(value, parameters)
            for value, (_, parameters) in zip(self.values, pairs, strict=True)
        ]
        configs = [
            API.TableConfig(
                ROWS,
                DIM,
                initializer=tf.constant_initializer(value),
                optimizer=self._scheduled(optimizer),
                combiner=combiner,
                name=f"t{number}",
            )
            for number, (value, (optimizer, _), combiner) in enumerate(
                zip(self.values, pairs, case.combiners, strict=True)
            )
        ]
        self.configs = configs
        structure = {f.name: f.config(configs[f.table], case.v2) for f in self.features}
        made = TPUEmbeddingV2 if case.v2 else TPUEmbedding
        self.embedding = made(structure, None, case.pipelined)

    def _scheduled(self, optimizer):
        if not self.case.scheduled:
            return optimizer
        changed = type(optimizer).__new__(type(optimizer))
        changed.__dict__.update(optimizer.__dict__)
        changed.learning_rate = lambda: RATE / (1.0 + self.step)
        return changed

    def train(self, num_steps=3):
        """Trains, and compares activations and tables with the oracle."""
        batches = [self._batch() for _ in range(num_steps)]
        native = {Optimization.NATIVE_KERNELS} if self.case.native else set()
        with optimizations.using({Optimization.LOOKUPS, *native}):
            step = tf.function(self._step) if self.case.graph else self._step
            delayed = None
            for number, (rows, gradients, tensors) in enumerate(batches):
                found = step(*tensors)
                occurrences = [[], []]
                for replica in range(self.replicas):
                    for feature in self.features:
                        expected, uses = feature.look_up(
                            self.tables[feature.table].w, rows[replica][feature.name]
                        )
                        value = self._local(found, replica)[feature.name].numpy()
                        assert value.shape == (*feature.shape, DIM)
                        np.testing.assert_allclose(value, expected, rtol=2e-5, atol=2e-6)
                        g = gradients[replica][feature.name].astype(np.float64)
                        for id_, factor, place in uses:
                            own = 0 if feature.is_none else factor * g[place]
                            occurrences[feature.table].append((id_, own + np.zeros(DIM), replica))
                rate = RATE / (1.0 + number) if self.case.scheduled else RATE
                if delayed is not None:
                    self._update(*delayed)
                delayed = occurrences, rate
                if not self.case.pipelined:
                    self._update(*delayed)
                    delayed = None
                self.step.assign_add(1.0)
            if delayed is not None:
                self._update(*delayed)
            self.compare()

    def _update(self, occurrences, rate):
        for table, own in zip(self.tables, occurrences, strict=True):
            if own or not getattr(table.p, "lazy_adam", True):
                table.update(own, rate, 0, self.replicas)

    def compare(self):
        """Compares tables and slots with the oracle."""
        names = {"accumulator": "accumulators", "linear": "linears", "m": "momenta"}
        used = {feature.table for feature in self.features}
        for number, table in enumerate(self.tables):
            if number not in used:
                continue
            found = self.logical(f"t{number}")
            np.testing.assert_allclose(found["parameters"], table.w, rtol=5e-5, atol=5e-6)
            for slot, expected in table.slots.items():
                name = names.get(slot, "velocities" if slot == "v" else slot)
                np.testing.assert_allclose(found[name], expected, rtol=5e-5, atol=5e-6)

    def logical(self, table):
        """Returns the values of a table and its slots by name."""
        variables = self.embedding.variables
        if not self.case.v2:
            return {name: value.numpy() for name, value in variables[table].items()}
        return unstack(self.embedding, table)

    def _batch(self):
        rows = [{f.name: f.rows(self.rng) for f in self.features} for _ in range(self.replicas)]
        gradients = [
            {
                f.name: self.rng.normal(0, 1, [*f.shape, DIM]).astype(np.float32)
                for f in self.features
            }
            for _ in range(self.replicas)
        ]
        ids, weights, upstream = {}, {}, {}
        for f in self.features:
            pairs = [f.tensors(each[f.name], self.case.v2) for each in rows]
            ids[f.name] = self._distributed([pair[0] for pair in pairs])
            weights[f.name] = self._distributed([pair[1] for pair in pairs])
            upstream[f.name] = self._distributed([tf.constant(g[f.name]) for g in gradients])
        return rows, gradients, (ids, weights, upstream)

    def _distributed(self, values):
        if values[0] is None or self.replicas == 1:
            return values[0]
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group]
        )

    def _local(self, found, replica):
        if self.replicas == 1:
            return found
        return {
            key: self.strategy.experimental_local_results(value)[replica]
            for key, value in found.items()
        }

    def _step(self, ids, weights, upstream):
        weights = weights if any(f.weighted for f in self.features) else None

        def of_replica(ids, weights, upstream):
            gradients = {f.name: None if f.is_none else upstream[f.name] for f in self.features}
            if self.case.v2:
                found, preserved = self.embedding(ids, weights)
                self.embedding.apply_gradients(gradients, preserved)
            else:
                found = self.embedding.dequeue()
                self.embedding.apply_gradients(gradients)
            return found

        if not self.case.v2:
            self.embedding.enqueue(ids, weights)
        arguments = (ids, weights, upstream) if self.case.v2 else (None, None, upstream)
        return self.strategy.run(of_replica, arguments) if self.strategy else of_replica(*arguments)


def unstack(embedding, table):
    """Returns a table of a TPUEmbeddingV2 and its slots by name, as the layout's comments say."""
    layout = embedding.embedding_layouts[table]
    cores, size = layout.num_sparse_cores, layout.total_rows_per_sparse_core_shard
    rows, width = layout.unsharded_shape
    found = {}
    for name, variable in embedding.variables[layout.stacked_table_name].items():
        shards = variable.numpy().reshape(cores, size, -1)
        found[name] = np.stack(
            [
                shards[
                    (row + layout.sparse_core_shard_rotation) % cores,
                    layout.sparse_core_shard_row_offset + row // cores,
                    :width,
                ]
                for row in range(rows)
            ]
        )
    return found
