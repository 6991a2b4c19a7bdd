# SPDX-License-Identifier: Apache-2.0
"""Reimplements cells of `tensorflow.contrib.rnn` that `tf.compat.v1.nn.rnn_cell` lacks.

Importing it selects tf_keras, whose cells are the bases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import legacy_keras

tf1 = tf.compat.v1
legacy_keras.select_legacy_keras()
_Cell: Any = tf1.nn.rnn_cell.RNNCell
# The base of cells whose variables are a layer's; it has no public name.
_LayerCell: Any = tf1.nn.rnn_cell.BasicLSTMCell.__base__


class _LSTM:
    """Sizes of an LSTM's state and output."""

    _num_units: int

    @property
    def state_size(self) -> Any:
        """Sizes of the cell's state and of the output."""
        return tf1.nn.rnn_cell.LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self) -> int:
        """Number of units."""
        return self._num_units


class LSTMBlockCell(_LSTM, _LayerCell):
    """An LSTM whose step is one op (W. Zaremba et al., 2014), with the variables of `LSTMCell`.

    Args:
        num_units: number of units.
        forget_bias: added to the bias of the forget gate.
        cell_clip: largest absolute value of the cell's state. None: any.
        use_peephole: whether gates also see the cell's state, by weights `w_i_diag`, `w_f_diag` and
            `w_o_diag`.
        dtype: dtype of the variables. None: float32.
        reuse: whether variables of another cell of this name are used.
        name: name of the variables' scope.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: bool | None = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(_reuse=reuse, dtype=dtype, name=name)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._cell_clip = -1.0 if cell_clip is None else cell_clip  # the op's number for none
        self._use_peephole = use_peephole

    def build(self, inputs_shape: Any) -> None:
        """Creates the variables."""
        depth, units = tf.TensorShape(inputs_shape)[-1], self._num_units
        if not depth:
            raise ValueError(f"Expecting inputs_shape[1] to be set: {inputs_shape}")
        self._kernel = self.add_weight("kernel", [depth + units, 4 * units])
        zeros = tf1.zeros_initializer()
        self._bias = self.add_weight("bias", [4 * units], initializer=zeros)
        names = ("w_i_diag", "w_f_diag", "w_o_diag") if self._use_peephole else ()
        self._diagonals = [self.add_weight(name, [units]) for name in names]
        self.built = True

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Returns the output and the next state of a step."""
        if len(state) != 2:
            raise ValueError("Expecting state to be a tuple with length 2.")
        cell, hidden = state
        diagonals = self._diagonals or [tf.zeros([self._num_units], inputs.dtype)] * 3
        tensors = (inputs, cell, hidden, self._kernel, *diagonals, self._bias)
        cell, hidden = self._step(*map(tf.convert_to_tensor, tensors))
        return hidden, tf1.nn.rnn_cell.LSTMStateTuple(cell, hidden)

    def _step(self, *tensors: Any) -> Any:
        """Returns the next state by the op, whose gradient TensorFlow no longer registers."""
        names = ("x", "cs_prev", "h_prev", "w", "wci", "wcf", "wco", "b")

        @tf.custom_gradient
        def step(*tensors: Any) -> Any:
            inputs = dict(zip(names, tensors, strict=True))
            made = tf.raw_ops.LSTMBlockCell(
                **inputs,
                forget_bias=self._forget_bias,
                cell_clip=self._cell_clip,
                use_peephole=self._use_peephole,
            )

            def gradient(cs_grad: Any, h_grad: Any) -> Any:
                parts = {name: getattr(made, name) for name in ("i", "cs", "f", "o", "ci", "co")}
                found = tf.raw_ops.LSTMBlockCellGrad(
                    **inputs,
                    **parts,
                    cs_grad=cs_grad,
                    h_grad=h_grad,
                    use_peephole=self._use_peephole,
                )
                gates = found.dicfo
                depth = inputs["x"].shape[1]
                of_both = tf.matmul(gates, inputs["w"], transpose_b=True)
                both = tf.concat([inputs["x"], inputs["h_prev"]], 1)
                return (
                    of_both[:, :depth],
                    found.cs_prev_grad,
                    of_both[:, depth:],
                    tf.matmul(both, gates, transpose_a=True),
                    found.wci_grad,
                    found.wcf_grad,
                    found.wco_grad,
                    tf.reduce_sum(gates, 0),
                )

            return (made.cs, made.h), gradient

        return step(*tensors)


class LayerNormBasicLSTMCell(_LSTM, _Cell):
    """An LSTM with layer normalization (J. L. Ba et al., 2016) and recurrent dropout.

    Args:
        num_units: number of units.
        forget_bias: added to the forget gate.
        input_size: not used.
        activation: function of the inner states.
        layer_norm: whether gates and the state are normalized.
        norm_gain: initial value of the normalization's factors.
        norm_shift: initial value of the normalization's offsets.
        dropout_keep_prob: share of the new state that dropout keeps, a float or tensor.
        dropout_prob_seed: seed of the dropout.
        reuse: whether variables of another cell in the scope are used.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: Any = None,
        activation: Callable[[Any], Any] = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: bool | None = None,
    ) -> None:
        super().__init__(_reuse=reuse)
        self._num_units = num_units
        self._forget_bias = forget_bias
        self._activation = activation
        self._layer_norm = layer_norm
        self._initial = {"gamma": norm_gain, "beta": norm_shift}
        self._keep_prob = dropout_keep_prob
        self._seed = dropout_prob_seed

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        """Returns the output and the next state of a step."""
        cell, hidden = state
        inputs = tf.concat([inputs, hidden], 1)
        units, dtype = self._num_units, inputs.dtype
        kernel = tf1.get_variable("kernel", [inputs.shape[-1], 4 * units], dtype)
        gates = tf.matmul(inputs, kernel)
        if not self._layer_norm:
            gates = tf.nn.bias_add(gates, tf1.get_variable("bias", [4 * units], dtype))
        new_in, transform, forget, output = tf.split(gates, 4, axis=1)
        new_in, transform = self._norm(new_in, "input"), self._norm(transform, "transform")
        forget, output = self._norm(forget, "forget"), self._norm(output, "output")
        candidate = self._activation(transform)
        if not isinstance(self._keep_prob, float) or self._keep_prob < 1:
            candidate = tf1.nn.dropout(candidate, self._keep_prob, seed=self._seed)
        forget = tf.sigmoid(forget + self._forget_bias)
        cell = self._norm(cell * forget + tf.sigmoid(new_in) * candidate, "state")
        hidden = self._activation(cell) * tf.sigmoid(output)
        return hidden, tf1.nn.rnn_cell.LSTMStateTuple(cell, hidden)

    def _norm(self, values: Any, scope: str) -> Any:
        """Returns normalized values, or the values without normalization."""
        if not self._layer_norm:
            return values
        with tf1.variable_scope(scope):
            gamma, beta = (
                tf1.get_variable(
                    name, values.shape[-1:], values.dtype, tf1.constant_initializer(initial)
                )
                for name, initial in self._initial.items()
            )
            mean, variance = tf.nn.moments(values, [1], keepdims=True)
            epsilon = 1e-3 if values.dtype == tf.float16 else 1e-12
            return tf.nn.batch_normalization(values, mean, variance, beta, gamma, epsilon)
