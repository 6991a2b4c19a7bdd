# SPDX-License-Identifier: Apache-2.0
"""Captures the gradients of activations that the model's own optimizer computes.

    dummy [1]   ──┐
    activation  ──┴─▶ IdentityN ─▶ activation of the model ─▶ loss
                          │                                    │
      captured gradient ◀─┴──────────── backward pass ◀────────┘

A dummy variable is a trainable variable in the place of a table. An optimizer that computes its
gradient runs the gradient function of the `IdentityN`, which captures the gradient of the
activation and returns zeros for the dummy variable. So the tables get the gradient of whatever the
optimizer minimizes, out of its only backward pass, before it clips or averages gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.core._tensorflow import graph_surgery
from estimator_spec.core.cores.table_variables import op_name
from tpu_columns import shared_state

tf1 = tf.compat.v1

# The name of the dummy variables in `tf.estimator`: programs may select variables by it.
PREFIX = "tpu_embedding_dummy_table_variable_"

MIN_SHARING_TABLES = 64
"""Fewest tables that share one dummy variable where tables may share variables."""

_ALL_TABLES = "of_all_tables"
_GRADIENT = "EstimatorSpecActivation"


class ActivationGradients:
    """The dummy variables of the tables of one graph, and the captured gradients.

    Create it within the strategy's scope, so that each replica has a dummy variable of its own.

    Args:
        tables: the table of each feature, by the feature's key.
        share: whether one dummy variable serves all tables, so that a graph of hundreds of tables
            has fewer ops. A `var_list` can then select all tables or none.
    """

    def __init__(self, tables: Mapping[str, str], share: bool = False) -> None:
        # The dummy variable of each feature, by the feature's key.
        self._names = dict.fromkeys(tables, _ALL_TABLES) if share else dict(tables)
        names = sorted(set(self._names.values()))
        self._stand_ins = {name: _create_stand_in(name) for name in names}
        self._with_gradient: set[tuple[str, int]] = set()  # dummy variables by name and replica
        self._features: dict[str, tuple[str, int]] = {}  # feature and replica, by name of the op
        self._connected: list[tuple[Any, Any]] = []  # activations with and without a dummy variable
        self._gradients: dict[tuple[str, int], Any] = {}

    def connect(self, activations: Mapping[str, Any], replica: int) -> dict[str, Any]:
        """Connects the activations of a replica to the dummy variables.

        Args:
            activations: float32 tensors by feature.
            replica: number of the current replica.

        Returns:
            Equal tensors by feature, for the replica's model.
        """
        graph = tf1.get_default_graph()
        captures = graph.get_collection_ref(shared_state.ACTIVATION_GRADIENTS)
        if self not in captures:
            captures.append(self)
        stand_ins = {name: tf.convert_to_tensor(v) for name, v in self._stand_ins.items()}
        connected = {}
        for key, activation in activations.items():
            with graph.gradient_override_map({"IdentityN": _GRADIENT}):
                inputs = [stand_ins[self._names[key]], activation]
                connected[key] = tf.raw_ops.IdentityN(input=inputs)[1]
            self._features[connected[key].op.name] = key, replica
            self._connected.append((connected[key], activation))
        return connected

    def captured(self, key: str, replica: int) -> Any:
        """Returns the gradient of a feature's activation on a replica, or None."""
        return self._gradients.get((key, replica))

    def finish(self, step: Any = None) -> None:
        """Removes the dummy variables from the finished step; warns of features without gradient.

        Call it when the models of all replicas are built.

        Args:
            step: the step that the tables read. Ops that waited for updates of dummy variables wait
                for it instead; otherwise a model without other variables could increment the step
                too early.
        """
        graph_surgery.replace_outputs(self._connected)
        self._skip_updates(step)
        variables = tf1.get_collection_ref(tf1.GraphKeys.TRAINABLE_VARIABLES)
        stand_ins = {v.name for v in self._stand_ins.values()}
        variables[:] = [v for v in variables if v.name not in stand_ins]
        missing = sorted({use[0] for use in self._features.values() if use not in self._gradients})
        if missing:
            tf1.logging.warning(
                "The model's optimizer computed no gradient of the features %s, so %s trained with "
                "gradients of zero. Either the loss doesn't depend on them, or the optimizer's "
                "var_list lacks the variables %s* of tf.compat.v1.trainable_variables().",
                missing,
                "their tables are" if len(missing) < len(self._names) else "no table learns: all",
                PREFIX,
            )

    def _skip_updates(self, step: Any) -> None:
        """Removes control edges from updates of dummy variables, so that sessions don't run these.

        In a loop they run, without effect.
        """
        handles = [getattr(v, "handle", None) for v in self._stand_ins.values()]
        users = [op for handle in handles if handle is not None for op in handle.consumers()]
        updates = {op for op in users if op.type.startswith("ResourceApply")}
        if updates:
            for op in tf1.get_default_graph().get_operations():
                if step is None:
                    graph_surgery.remove_control_inputs(op, updates)
                else:
                    graph_surgery.redirect_control_inputs(op, dict.fromkeys(updates, step.op))

    def owns(self, op: Any) -> bool:
        """Returns whether an `IdentityN` connects an activation of this object."""
        return op.name in self._features

    def add(self, op: Any, gradient: Any) -> Any:
        """Captures the gradient of an activation.

        Args:
            op: the `IdentityN` that connects the activation.
            gradient: gradient of its output.

        Returns:
            The gradient of the dummy: zeros for its first activation on a replica, then None.

        Raises:
            RuntimeError: there is a gradient already, or this one is inside of control flow.
        """
        key, replica = self._features[op.name]
        if (key, replica) in self._gradients:
            raise RuntimeError(
                f"Duplicate gradients of the embedding feature {key!r}: the model calls "
                "tf.gradients, minimize or compute_gradients more than once for variables that "
                "include the tables' dummy variables. A table is trained by one gradient. Give all "
                "calls but one a var_list without the variables whose names begin with "
                f"{PREFIX!r}, or apply tf.stop_gradient to the features."
            )
        gradient = tf.convert_to_tensor(gradient)
        if gradient.graph is not op.graph or graph_surgery.control_flow_context(
            gradient.op
        ) is not graph_surgery.control_flow_context(op):
            raise RuntimeError(
                f"The gradient of the embedding feature {key!r} is computed inside of tf.cond, "
                "tf.while_loop or tf.function, where the embedding core can't use it. Compute "
                "gradients outside; apply_gradients may be inside."
            )
        self._gradients[key, replica] = gradient
        stand_in = self._names[key], replica
        if stand_in in self._with_gradient:
            return None
        self._with_gradient.add(stand_in)
        return tf.zeros([1])


@tf.RegisterGradient(_GRADIENT)
def _capture_gradient(op: Any, _: Any, gradient: Any) -> list[Any]:
    """Captures the gradient of an activation; returns the gradient of its dummy variable."""
    for captures in op.graph.get_collection(shared_state.ACTIVATION_GRADIENTS):
        if captures.owns(op):
            return [captures.add(op, gradient), None]
    return [tf.zeros([1]), None]


def _create_stand_in(name: str) -> Any:
    """Creates the dummy variable of a table, which no checkpoint holds."""
    return tf1.Variable(
        lambda: tf.zeros([1]),
        trainable=True,  # a strategy takes None for False
        dtype=tf.float32,
        name=PREFIX + op_name(name),
        use_resource=True,
        collections=[tf1.GraphKeys.LOCAL_VARIABLES],
    )


def add_initializers(scaffold: tf1.train.Scaffold) -> tf1.train.Scaffold:
    """Returns a scaffold whose local_init_op initializes the default graph's dummy variables, too.

    Args:
        scaffold: the model's. If it has no local_init_op, a session initializes local variables.
    """
    variables = [v for v in tf1.local_variables() if PREFIX in v.name]
    if scaffold.local_init_op is None or not variables:
        return scaffold
    both = tf.group(scaffold.local_init_op, tf1.variables_initializer(variables))
    return tf1.train.Scaffold(local_init_op=both, copy_from_scaffold=scaffold)


@contextlib.contextmanager
def keeping_slots_local() -> Iterator[None]:
    """Makes what optimizers create for dummy variables local: no checkpoint holds it."""

    def create(next_creator: Any, **kwargs: Any) -> Any:
        variable = next_creator(**kwargs)
        saved = tf1.get_collection_ref(tf1.GraphKeys.GLOBAL_VARIABLES)
        if PREFIX in variable.name and any(v is variable for v in saved):
            saved[:] = [v for v in saved if v is not variable]
            tf1.add_to_collection(tf1.GraphKeys.LOCAL_VARIABLES, variable)
        return variable

    with contextlib.ExitStack() as stack:
        with tf.init_scope():  # Slots of a model in a loop are created in the graph around it.
            stack.enter_context(tf.variable_creator_scope(create))
        stack.enter_context(tf.variable_creator_scope(create))
        yield
