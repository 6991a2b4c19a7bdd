# SPDX-License-Identifier: Apache-2.0
"""Variables that a part of a canned model adds to the graph."""

from __future__ import annotations

import tensorflow as tf

from estimator_spec.canned import graph_variables

tf1 = tf.compat.v1


def test_variables_of_a_part():
    """A part has what it made, each once, by name or not, but nothing of another part."""
    with tf.Graph().as_default(), tf1.variable_scope("model", use_resource=True):
        with graph_variables.collecting() as one:
            tf1.get_variable("shared", [2])
        with graph_variables.collecting(one.variables) as other:
            with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE):
                tf1.get_variable("shared", [2])
                tf1.get_variable("own", [2])
                tf1.get_variable("own", [2])
            tf1.get_variable("frozen", [2], trainable=False)
            tf1.get_variable("cut", [4], partitioner=tf1.fixed_size_partitioner(2))
            tf.Variable([1.0], name="unnamed")
            tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, tf.no_op("update"))
    names = [variable.name.removeprefix("model/") for variable in other.variables]
    assert names == ["own:0", "cut/part_0:0", "cut/part_1:0", "unnamed:0"]
    assert [op.name for op in other.update_ops] == ["model/update"]
    assert [variable.name for variable in one.variables] == ["model/shared:0"]
