# SPDX-License-Identifier: Apache-2.0
"""Reimplements what `tensorflow.contrib.rnn` has and `tf.compat.v1.nn` lacks.

Cells are those of `tf.compat.v1.nn.rnn_cell`, which need tf_keras.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.common import legacy_keras

tf1 = tf.compat.v1


def __getattr__(name: str) -> Any:
    """Returns a class of cells, after the selection of tf_keras."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    legacy_keras.select_legacy_keras()
    return getattr(tf1.nn.rnn_cell, name)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Stacks bidirectional dynamic RNNs; each layer gets both outputs of the layer below.

    Args:
        cells_fw: the forward cell of each layer.
        cells_bw: the backward cell of each layer.
        inputs: floats of shape [batch size, time, depth].
        initial_states_fw: the initial state of each forward cell, or None.
        initial_states_bw: the initial state of each backward cell, or None.
        dtype: dtype of the initial states; needed if there are none.
        sequence_length: length of each sequence, of shape [batch size]; None: all have `time`.
        parallel_iterations: as for `tf.compat.v1.nn.bidirectional_dynamic_rnn`.
        time_major: whether `inputs` and outputs have the time first.
        scope: variable scope; 'stack_bidirectional_rnn' if None.
        swap_memory: as for `tf.compat.v1.nn.bidirectional_dynamic_rnn`.

    Returns:
        (outputs of the last layer, forward and backward concatenated; final states of the forward
        cells; final states of the backward cells).

    Raises:
        ValueError: there are no cells, or the lists have different lengths.
    """
    layers = len(cells_fw)
    given = (cells_bw, initial_states_fw, initial_states_bw)
    if not layers or any(part is not None and len(part) != layers for part in given):
        raise ValueError(
            "stack_bidirectional_dynamic_rnn needs one or more forward cells, as many backward "
            f"cells, and as many initial states, if any; got {layers} forward cells, "
            f"{len(cells_bw)} backward cells, and initial states {initial_states_fw} and "
            f"{initial_states_bw}."
        )
    states = []
    with tf1.variable_scope(scope or "stack_bidirectional_rnn"):
        for layer in range(layers):
            with tf1.variable_scope(f"cell_{layer}"):
                outputs, state = tf1.nn.bidirectional_dynamic_rnn(
                    cells_fw[layer],
                    cells_bw[layer],
                    inputs,
                    initial_state_fw=initial_states_fw[layer] if initial_states_fw else None,
                    initial_state_bw=initial_states_bw[layer] if initial_states_bw else None,
                    sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations,
                    dtype=dtype,
                    swap_memory=swap_memory,
                    time_major=time_major,
                )
                inputs = tf.concat(outputs, 2)
                states.append(state)
    states_fw, states_bw = zip(*states, strict=True)
    return inputs, states_fw, states_bw
