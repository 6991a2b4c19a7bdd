# SPDX-License-Identifier: Apache-2.0
"""Reimplements the fused RNNs of `tensorflow.contrib.rnn`, which run all steps in one op."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.legacy.contrib import rnn as contrib_rnn

tf1 = tf.compat.v1


class FusedRNNCell:
    """A network over whole sequences; base of the classes below and of a program's own."""

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """Runs the network.

        Args:
            inputs: floats, [time, batch, depth], or a list of [batch, depth] for each step.
            initial_state: tensor or tuple of tensors, [batch, units]. None: zeros.
            dtype: dtype of the state, if there is no initial one.
            sequence_length: ints, [batch]. None: all sequences have `time` steps.
            scope: variable scope; None: one named after the cell.

        Returns:
            (outputs, in the form of the inputs; the last state)
        """
        raise NotImplementedError("A subclass of FusedRNNCell must define __call__.")


class LSTMBlockFusedCell(FusedRNNCell):
    """An LSTM of one op (W. Zaremba et al., 2014, Recurrent neural network regularization).

    Variables are `kernel`, [depth + units, 4 units], and `bias` in a scope of the cell's name;
    their gates are in the order input, cell, forget, output.

    Args:
        num_units: number of units.
        forget_bias: added to the bias of the forget gate.
        cell_clip: largest absolute value of the cell's state. None: any.
        use_peephole: whether gates also see the cell's state, by weights `w_i_diag`, `w_f_diag` and
            `w_o_diag`.
        reuse: whether variables of another cell of this name are used.
        dtype: dtype of the variables. None: float32.
        name: name of the variables' scope.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        reuse: bool | None = None,
        dtype: Any = None,
        name: str = "lstm_fused_cell",
    ) -> None:
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._cell_clip = -1.0 if cell_clip is None else cell_clip  # the op's number for none
        self._use_peephole = use_peephole
        self._reuse = reuse
        self._dtype = dtype or tf.float32
        self._name = name
        self._variables: dict[str, Any] = {}

    @property
    def num_units(self) -> int:
        """Number of units."""
        return self._num_units

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """Runs the LSTM; see `FusedRNNCell`. The state is an `LSTMStateTuple`.

        Raises:
            ValueError: the depth of the inputs isn't known, there is neither a state nor its dtype,
                or the state is no pair.
        """
        is_list = isinstance(inputs, (list, tuple))
        inputs = tf.stack(inputs) if is_list else tf.convert_to_tensor(inputs)
        if inputs.shape.rank != 3 or inputs.shape[2] is None:
            raise ValueError(
                "Inputs of LSTMBlockFusedCell must have the shape [time, batch, depth] with a "
                f"known depth; got {inputs.shape}. Set it by tf.ensure_shape, or transpose them."
            )
        time, batch = tf.unstack(tf.shape(inputs)[:2])
        cell, hidden = self._initial_state(initial_state, dtype, batch)
        if not self._variables:
            self._create_variables(int(inputs.shape[2]), scope)
        longest = time if sequence_length is None else tf.reduce_max(sequence_length)
        diagonals = (
            self._variables.get("diagonals") or [tf.zeros([self._num_units], cell.dtype)] * 3
        )
        steps = tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(longest, tf.int64),
            x=inputs,
            cs_prev=cell,
            h_prev=hidden,
            w=self._variables["kernel"],
            wci=diagonals[0],
            wcf=diagonals[1],
            wco=diagonals[2],
            b=self._variables["bias"],
            forget_bias=self._forget_bias,
            cell_clip=self._cell_clip,
            use_peephole=self._use_peephole,
        )
        outputs, last = steps.h, (steps.cs[-1], steps.h[-1])
        if sequence_length is not None:
            mask = tf.sequence_mask(sequence_length, time, outputs.dtype)
            outputs *= tf.transpose(mask)[:, :, tf.newaxis]
            # A sequence without steps keeps the initial state.
            places = tf.stack([tf.cast(sequence_length, tf.int32), tf.range(batch)], 1)
            pairs = ((cell, steps.cs), (hidden, outputs))
            last = tuple(
                tf.gather_nd(tf.concat([[first], rest], 0), places) for first, rest in pairs
            )
        state = contrib_rnn.LSTMStateTuple(*last)
        return (tf.unstack(outputs) if is_list else outputs), state

    def _initial_state(self, initial_state: Any, dtype: Any, batch: Any) -> tuple[Any, Any]:
        """Returns the first state of the cell and the first output."""
        if initial_state is None:
            if dtype is None:
                raise ValueError("Either initial_state or dtype needs to be specified.")
            zeros = tf.zeros([batch, self._num_units], dtype)
            return zeros, zeros
        if len(initial_state) != 2:
            raise ValueError(
                f"initial_state must be a pair (state of the cell, output), got {initial_state!r}."
            )
        cell, hidden = map(tf.convert_to_tensor, initial_state)
        return cell, hidden

    def _create_variables(self, depth: int, scope: Any) -> None:
        units = self._num_units
        if self._reuse and scope is None:
            scope = self._name
        with tf1.variable_scope(scope, default_name=self._name, reuse=self._reuse):
            zeros = tf1.zeros_initializer()
            kernel = tf1.get_variable("kernel", [depth + units, 4 * units], self._dtype)
            bias = tf1.get_variable("bias", [4 * units], self._dtype, zeros)
            self._variables = {"kernel": kernel, "bias": bias}
            if self._use_peephole:
                names = ("w_i_diag", "w_f_diag", "w_o_diag")
                self._variables["diagonals"] = [
                    tf1.get_variable(name, [units], self._dtype) for name in names
                ]


class FusedRNNCellAdaptor(FusedRNNCell):
    """A cell of `tf.compat.v1.nn.rnn_cell` that runs over whole sequences.

    Args:
        cell: the cell.
        use_dynamic_rnn: whether a loop of the graph runs the steps, or each is built.
    """

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell = cell
        self._use_dynamic_rnn = use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """Runs the cell; see `FusedRNNCell`."""
        arguments = {
            "initial_state": initial_state,
            "dtype": dtype,
            "sequence_length": sequence_length,
            "scope": scope,
        }
        is_list = isinstance(inputs, list)
        if self._use_dynamic_rnn:
            inputs = tf.stack(inputs) if is_list else inputs
            outputs, state = tf1.nn.dynamic_rnn(self._cell, inputs, time_major=True, **arguments)
            return (tf.unstack(outputs) if is_list else outputs), state
        steps = inputs if is_list else tf.unstack(inputs)
        outputs, state = tf1.nn.static_rnn(self._cell, steps, **arguments)
        return (outputs if is_list else tf.stack(outputs)), state


class TimeReversedFusedRNN(FusedRNNCell):
    """A fused network that reads sequences from their ends; its outputs are in their order.

    Args:
        cell: the network.
    """

    def __init__(self, cell: FusedRNNCell) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """Runs the network; see `FusedRNNCell`."""
        outputs, state = self._cell(
            _reversed(inputs, sequence_length), initial_state, dtype, sequence_length, scope
        )
        return _reversed(outputs, sequence_length), state


def _reversed(steps: Any, lengths: Any) -> Any:
    """Returns the steps of each sequence in reverse order; padding stays at the end."""
    if isinstance(steps, list):
        return steps[::-1]
    if lengths is None:
        return tf.reverse(steps, [0])
    return tf.reverse_sequence(steps, lengths, seq_axis=0, batch_axis=1)
