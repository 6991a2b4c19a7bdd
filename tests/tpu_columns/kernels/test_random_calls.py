# SPDX-License-Identifier: Apache-2.0
"""No attributes, shapes or ids end the process of an op: it computes, or raises an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

import random_calls
from tpu_columns.kernels import loading

pytestmark = pytest.mark.usefixtures("built_kernels")


def test_random_calls_end_no_process():
    """Each op computes some of the calls, and refuses others."""
    outcomes = random_calls.run(range(120))
    assert sum(outcomes.values()) == 120
    kinds = {outcome.partition(":")[0] for outcome in outcomes}
    assert {f"{kind}: {end}" for kind in kinds for end in ("computed", "refused")} <= {*outcomes}


@pytest.mark.nightly("the same with other seeds")
def test_ten_thousand_random_calls():
    """In a process of its own, whose last line is the seed that ended it."""
    command = [sys.executable, str(Path(random_calls.__file__)), "10300"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr.splitlines()[-3:]


@pytest.mark.parametrize("widths", [[2, 3], [-5], [1 << 62]])
def test_wrong_widths_are_refused_in_a_graph(widths):
    """The op's function of shapes checks the attribute before it sets a shape."""
    look_up = loading.load().tpu_columns_look_up_tables
    names = "variable first_row num_rows num_shards safe combiner num_steps sparse weighted"
    attributes = {name: [0] for name in names.split()} | {"num_rows": [1], "num_shards": [1]}
    attributes |= {name: ["''"] for name in ("column_name", "key", "weight_key")}
    others = {f"{name}_of_other": [] for name in ("layer", "column", "width")}
    with tf.Graph().as_default():
        table = tf.Variable(tf.ones([1, 2]), dtype=tf.float32)

        def call(widths):
            return look_up(
                variables=[table.handle],
                tables=[],
                others=[],
                ids=[tf.zeros([1, 1], tf.int64)],
                indices=[],
                shapes=[],
                weights=[],
                trains=True,
                layer=[0],
                column=[0],
                widths=widths,
                num_layers=1,
                **attributes,
                **others,
            )

        assert call([2])[0][0].shape.as_list() == [None, 2]
        with pytest.raises(ValueError, match="an attribute has|columns"):
            call(widths)


def update_tables(variables, slots, rows):
    """Updates the first of some tables by the rows of a lookup."""
    loading.load().tpu_columns_update_tables(
        variables=[variable.handle for variable in variables],
        slots=[variable.handle for variable in slots],
        rates=[0.1] * len(variables),
        factor=1.0,
        step=0.0,
        gradients=[tf.ones([1, 2])],
        rows=rows,
        feature=[0],
        variable=[0],
        column=[0],
        rule="adagrad_no_nan",
        constants=[],
        limits=[],
        decay_has_rate=False,
    )


def test_rows_that_are_no_scalar_are_refused():
    """The update takes one element of rows."""
    several = tf.raw_ops.EmptyTensorList(
        element_shape=[1], max_num_elements=2, element_dtype=tf.int32
    )
    table, slot = tf.Variable(tf.ones([3, 2])), tf.Variable(tf.ones([3, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="rows must be those of"):
        update_tables([table], [slot], several)
    with pytest.raises(tf.errors.InvalidArgumentError, match="rows must be a scalar"):
        update_tables([table], [slot], tf.reshape(tf.stack([several, several]), [2]))


def test_a_variable_given_twice_is_refused():
    """A table that is its own slot would be written by two loops at once; none waits for itself."""
    table = tf.Variable(tf.ones([3, 2]))
    several = tf.raw_ops.EmptyTensorList(
        element_shape=[1], max_num_elements=2, element_dtype=tf.int32
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="a variable is given twice"):
        update_tables([table], [table], several)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        first, second = (
            tf.compat.v1.Variable(tf.ones([3, 2]), use_resource=False) for _ in range(2)
        )
        session.run(tf.compat.v1.global_variables_initializer())

        def update(slot):
            tables = {"table": first.op.outputs[0], "slots": [slot.op.outputs[0]]}
            rows = {"ids": [0], "gradients": [tf.ones([1, 2])], "sums": False}
            function = loading.load().tpu_columns_update
            op = function(hyperparameters=[0.1], rule="adagrad", **tables, **rows)
            session.run(op, options=tf.compat.v1.RunOptions(timeout_in_ms=60_000))

        update(second)
        with pytest.raises(tf.errors.InvalidArgumentError, match="the table is one of its slots"):
            update(first)
