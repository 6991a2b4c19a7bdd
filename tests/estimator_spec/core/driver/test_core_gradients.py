# SPDX-License-Identifier: Apache-2.0
"""Tests which gradients train the host core's tables, and in which order those of replicas do."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
from estimator_spec.legacy.tpu_stand_ins import CrossShardOptimizer

tf1 = tf.compat.v1
PREFIX = "tpu_embedding_dummy_table_variable_"
IDS = [[0, 1], [1, 2], [1, 2], [2, 3]]
COEFFICIENTS = [3.0, 2.0, 1.0, 0.0]  # the gradients of the examples' activations
RATE = 0.5
SGD = es.StochasticGradientDescentParameters
Descent = tf1.train.GradientDescentOptimizer
COLUMN_SUMS = [1.5, 3.0, 1.5, 0.0]  # of the rows' gradients, with the mean combiner


def input_fn(params):
    """Returns one batch of four examples, in parts of the replicas' size."""
    ids = tf.data.Dataset.from_tensor_slices((IDS, COEFFICIENTS)).repeat()
    return ids.batch(params["batch_size"], drop_remainder=True).map(
        lambda ids, factor: {"ids": _to_sparse(ids), "factor": factor}
    )


def _to_sparse(ids):
    indices = tf.where(ids >= 0)
    return tf.SparseTensor(indices, tf.reshape(ids, [-1]), ids.shape)


def minimize(loss):
    """Minimizes the loss by gradient descent."""
    return Descent(1.0).minimize(loss, tf1.train.get_global_step())


def train(model_dir, train_op=minimize, parameters=None, dense=True, scaffold_fn=None, **kwargs):
    """Trains one step of a linear model; returns the variables of the checkpoint, by name."""
    replicas = kwargs.get("host_replicas") or 1

    def model_fn(features, mode, params):
        del params
        # TF1's optimizers divide the loss by the number of replicas.
        loss = replicas * tf.reduce_sum(features["ids"][:, 0] * features["factor"])
        if dense:
            loss *= tf1.get_variable("dense", [], initializer=tf1.ones_initializer())
        return es.TPUEstimatorSpec(
            mode, loss=loss, train_op=train_op(loss), scaffold_fn=scaffold_fn
        )

    table = es.TableConfig(4, 1, initializer=tf1.zeros_initializer(), combiner="mean")
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"ids": es.FeatureConfig("table")},
        table_to_config_dict={"table": table},
        optimization_parameters=parameters or SGD(1.0),
    )
    estimator = host_runs.make_estimator(
        model_fn, model_dir, 4, embedding_config_spec=spec, embedding_core="host", **kwargs
    )
    estimator.train(input_fn, steps=1)
    return host_runs.values_of(estimator)


class TestTheOptimizersGradients:
    """Tables are trained with the gradients that the model's optimizer computes."""

    def check(self, found, factor):
        """Compares a table that one step of gradient descent trained."""
        wanted = -factor * np.array(COLUMN_SUMS)
        np.testing.assert_allclose(found["table"][:, 0], wanted, rtol=1e-6)

    @pytest.mark.parametrize("replicas", [None, 2])
    def test_another_loss(self, tmp_path, replicas):
        """Minimizing ten times the loss moves the tables ten times as far."""
        found = train(tmp_path, lambda loss: minimize(10 * loss), host_replicas=replicas)
        self.check(found, 10)

    @pytest.mark.parametrize("replicas", [None, 2])
    def test_loss_scaling(self, tmp_path, replicas):
        """A wrapper's factor of the loss counts, what it does to the gradients doesn't."""

        class Scaling(Descent):
            def compute_gradients(self, loss, *args, **kwargs):
                found = super().compute_gradients(8 * loss, *args, **kwargs)
                return [(gradient / 8, variable) for gradient, variable in found]

        found = train(
            tmp_path,
            lambda loss: Scaling(1.0).minimize(loss, tf1.train.get_global_step()),
            host_replicas=replicas,
        )
        self.check(found, 8)

    def test_gradients_by_hand(self, tmp_path):
        """Gradients of `tf.gradients` train the tables, before they are clipped."""

        def train_op(loss):
            variables = tf1.trainable_variables()
            gradients, _ = tf.clip_by_global_norm(tf1.gradients(loss, variables), 1e-3)
            step = tf1.train.get_global_step()
            return Descent(1.0).apply_gradients(zip(gradients, variables, strict=True), step)

        self.check(train(tmp_path, train_op), 1)

    @pytest.mark.parametrize("gate", ["GATE_NONE", "GATE_OP", "GATE_GRAPH"])
    def test_gates(self, tmp_path, gate):
        """Each way to gate gradients trains the tables."""
        gate = getattr(tf1.train.Optimizer, gate)

        def train_op(loss):
            return Descent(1.0).minimize(loss, tf1.train.get_global_step(), gate_gradients=gate)

        self.check(train(tmp_path, train_op), 1)

    def test_variables_without_the_stand_ins(self, tmp_path, caplog):
        """If `var_list` lacks the stand-ins, tables get gradients of zero and a warning says so."""

        def train_op(loss):
            (dense,) = (v for v in tf1.trainable_variables() if not v.name.startswith(PREFIX))
            return Descent(1.0).minimize(loss, tf1.train.get_global_step(), var_list=[dense])

        tf1.get_logger().propagate = True
        try:
            self.check(train(tmp_path, train_op), 0)
        finally:
            tf1.get_logger().propagate = False
        assert "no gradient of the features ['ids']" in caplog.text

    def test_two_optimizers(self, tmp_path):
        """Of two optimizers, the one whose `var_list` has the stand-ins trains the tables."""

        def train_op(loss):
            stand_ins = [v for v in tf1.trainable_variables() if v.name.startswith(PREFIX)]
            others = [v for v in tf1.trainable_variables() if not v.name.startswith(PREFIX)]
            step = tf1.train.get_global_step()
            one = Descent(1.0).minimize(3 * loss, step, var_list=stand_ins)
            return tf.group(one, tf1.train.AdamOptimizer().minimize(loss, var_list=others))

        self.check(train(tmp_path, train_op), 3)

    @pytest.mark.parametrize("replicas", [None, 2])
    def test_nothing_but_tables(self, tmp_path, replicas):
        """A model whose only variables are tables trains."""
        self.check(train(tmp_path, dense=False, host_replicas=replicas), 1)

    @pytest.mark.parametrize(
        "kind, reduction, factor",
        [
            (CrossShardOptimizer, "weighted_mean", 1),
            (CrossShardOptimizer, "weighted_sum", 2),
            (tf1.tpu.CrossShardOptimizer, "weighted_sum", 2),
        ],
    )
    def test_cross_shard_optimizer(self, tmp_path, kind, reduction, factor):
        """It averages or sums the losses of two replicas, for tables as for other variables."""

        def train_op(loss):
            bias = tf1.get_variable("bias", [], initializer=tf1.zeros_initializer())
            optimizer = kind(Descent(1.0), reduction)
            return optimizer.minimize(loss + bias, tf1.train.get_global_step())

        found = train(tmp_path, train_op, host_replicas=2)
        self.check(found, factor)
        assert found["bias"] == -factor

    def test_a_second_gradient(self, tmp_path):
        """Two gradients of one activation raise an error, as on a TPU."""
        with pytest.raises(RuntimeError, match="Duplicate gradients.*'ids'"):
            train(tmp_path, lambda loss: tf.group(minimize(loss), minimize(2 * loss)))

    def test_gradients_in_a_condition(self, tmp_path):
        """Gradients that are computed inside of `tf.cond` raise an error."""

        def train_op(loss):
            step = tf1.train.get_global_step()
            return tf.cond(step >= 0, lambda: minimize(loss), lambda: tf.no_op())

        with pytest.raises(RuntimeError, match="'ids' is computed inside of tf.cond"):
            train(tmp_path, train_op)


class TestStandIns:
    """Stand-ins are seen by the model's optimizer, and by nothing that is saved."""

    @pytest.mark.parametrize("replicas", [None, 2])
    def test_checkpoints(self, tmp_path, replicas):
        """Neither stand-ins nor their slots and averages are in a checkpoint."""

        def train_op(loss):
            step = tf1.train.get_global_step()
            done = tf1.train.AdamOptimizer().minimize(loss, step)
            if replicas == 2:
                return done
            with tf.control_dependencies([done]):
                return tf1.train.ExponentialMovingAverage(0.9).apply(tf1.trainable_variables())

        names = set(train(tmp_path, train_op, host_replicas=replicas))
        assert {"table", "dense", "dense/Adam", "global_step"} <= names
        assert not [name for name in names if PREFIX in name]

    def test_a_saver_of_the_program(self, tmp_path):
        """A Saver that a scaffold_fn makes saves the tables, which exist then, and not these."""
        found = train(
            tmp_path,
            lambda loss: tf1.train.AdamOptimizer().minimize(loss, tf1.train.get_global_step()),
            scaffold_fn=lambda: tf1.train.Scaffold(saver=tf1.train.Saver(tf1.global_variables())),
        )
        assert {"table", "dense"} <= set(found)
        assert not [name for name in found if PREFIX in name]

    def test_a_local_init_op_of_the_program(self, tmp_path):
        """They are initialized if a scaffold's local_init_op leaves local variables out."""
        found = train(
            tmp_path,
            lambda loss: tf1.train.AdamOptimizer().minimize(loss, tf1.train.get_global_step()),
            scaffold_fn=lambda: tf1.train.Scaffold(local_init_op=tf1.tables_initializer()),
        )
        assert found["global_step"] == 1

    def test_a_finished_graph(self, tmp_path):
        """They are neither trainable variables of the finished graph nor read by warm starts."""
        seen = []

        class Hook(tf1.train.SessionRunHook):
            def begin(self):
                seen.extend(v.op.name for v in tf1.trainable_variables())

        def train_op(loss):
            assert [v.op.name for v in tf1.trainable_variables()] == [f"{PREFIX}table", "dense"]
            return minimize(loss)

        train(tmp_path / "first", train_op)
        settings = es.WarmStartSettings(str(tmp_path / "first"))
        found = train(tmp_path / "second", train_op, warm_start_from=settings)
        assert found["table"].shape == (4, 1)
        assert not seen


def test_a_warm_start_without_momenta(tmp_path):
    """The warm start that docs/ shows keeps tables, accumulators and step; momenta begin at 0."""
    page = Path(__file__).resolve().parents[4] / "docs" / "how_to" / "convert_a_checkpoint.md"
    (pattern,) = re.findall(
        r'vars_to_warm_start=\["(.*AdagradMomentum.*)"\]', page.read_text("utf-8")
    )
    parameters = es.AdagradMomentumParameters(1.0, momentum=0.5)
    first = train(tmp_path / "first", parameters=parameters, dense=False)
    settings = es.WarmStartSettings(str(tmp_path / "first"), vars_to_warm_start=[pattern])
    found = train(tmp_path / "second", parameters=parameters, dense=False, warm_start_from=settings)
    assert found["global_step"] == 2
    names = ["table", *(f"table{slot.suffix}" for slot in parameters.SLOTS)]
    table, accumulator, momenta = (found[name][:3, 0] for name in names)
    g = np.array(COLUMN_SUMS[:3])
    np.testing.assert_allclose(accumulator, 2 * g**2)
    np.testing.assert_allclose(momenta, g / np.sqrt(2 * g**2))
    np.testing.assert_allclose(table, first["table"][:3, 0] - momenta)


# The gradients that are applied to each row, one after the other: cores begin with the one whose
# number is the id modulo the number of cores.
ONCE = [[1.5], [3.0], [1.5], [0.0]]
IN_TURNS = {
    1: ONCE,
    2: [[1.5], [0.5, 2.5], [1.0, 0.5], [0.0]],
    4: [[1.5], [1.0, 0.5, 1.5], [0.5, 0.0, 1.0], [0.0]],
}


@pytest.mark.parametrize(
    "make, accumulation, replicas",
    [
        (SGD, False, 4),
        (es.AdagradParameters, True, 4),
        (es.AdagradParameters, False, 1),
        (es.AdagradParameters, False, 2),
        (es.AdagradParameters, False, 4),
    ],
)
def test_updates_by_hand(tmp_path, make, accumulation, replicas):
    """Without gradient accumulation the sums of the replicas are applied in turns."""
    parameters = make(RATE, use_gradient_accumulation=accumulation)
    found = train(tmp_path, parameters=parameters, host_replicas=replicas)
    for row, gradients in enumerate(ONCE if accumulation else IN_TURNS[replicas]):
        w, accumulator = 0.0, 0.1
        for gradient in gradients:
            accumulator += gradient**2
            w -= RATE * gradient / (1.0 if make is SGD else np.sqrt(accumulator))
        assert found["table"][row, 0] == pytest.approx(w, rel=1e-6)
        if make is not SGD:
            assert found["table/Adagrad"][row, 0] == pytest.approx(accumulator, rel=1e-6)


def test_reads_of_reference_variables_precede_their_updates(tmp_path):
    """Whatever reads a weight in a step, the backward pass included, does so before its update."""
    checked = []

    def train_op(loss):
        kernel = tf1.get_variable("kernel", [1, 1], use_resource=False)
        loss = tf.reduce_sum(tf.square(tf.matmul(tf.reshape(loss, [1, 1]), kernel)))
        updated = minimize(loss)
        (update,) = (
            op
            for op in updated.graph.get_operations()
            if op.type == "ApplyGradientDescent" and op.inputs[0].op.name == "kernel"
        )
        (read,) = (op for op in updated.graph.get_operations() if op.name == "kernel/read")
        checked.append((update, read))
        return updated

    train(tmp_path, train_op)
    ((update, read),) = checked
    before, todo = set(), [update]
    while todo:
        op = todo.pop()
        if op not in before:
            before.add(op)
            todo += [value.op for value in op.inputs] + list(op.control_inputs)
    readers = read.outputs[0].consumers()
    assert len(readers) > 1
    assert set(readers) <= before
