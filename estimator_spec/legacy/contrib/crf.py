# SPDX-License-Identifier: Apache-2.0
"""Reimplements `tensorflow.contrib.crf`: linear-chain conditional random fields.

A sequence of T tags y has the score Σ_t x[t, y_t] + Σ_t A[y_{t-1}, y_t], with scores x of shape
[T, number of tags] for each example and a transition matrix A for all. Its probability is the
softmax of the score over all sequences of tags.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

tf1 = tf.compat.v1


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """Returns Σ_t x[t, y_t] of each example.

    Args:
        tag_indices: tags y, integers of shape [batch size, time].
        sequence_lengths: number of tags of each example, of shape [batch size].
        inputs: scores x, floats of shape [batch size, time, number of tags].
    """
    scores = tf.gather(inputs, tag_indices, batch_dims=2)
    return tf.reduce_sum(scores * _mask(sequence_lengths, inputs), 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Returns Σ_t A[y_{t-1}, y_t] of each example.

    Args:
        tag_indices: tags y, integers of shape [batch size, time].
        sequence_lengths: number of tags of each example, of shape [batch size].
        transition_params: A, floats of shape [number of tags, number of tags].
    """
    pairs = tf.stack([tag_indices[:, :-1], tag_indices[:, 1:]], -1)
    scores = tf.gather_nd(transition_params, pairs)
    mask = tf.sequence_mask(
        tf.cast(sequence_lengths, tf.int32) - 1, tf.shape(tag_indices)[1] - 1, scores.dtype
    )
    return tf.reduce_sum(scores * mask, 1)


def crf_sequence_score(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> Any:
    """Returns the score of each example's tags, 0 for an empty sequence.

    Args:
        inputs: scores x, floats of shape [batch size, time, number of tags].
        tag_indices: tags y, integers of shape [batch size, time].
        sequence_lengths: number of tags of each example, of shape [batch size].
        transition_params: A, floats of shape [number of tags, number of tags].
    """
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """Returns the logarithm of Σ exp(score) over all tags of each example.

    Args:
        inputs: scores x, floats of shape [batch size, time, number of tags].
        sequence_lengths: number of tags of each example, of shape [batch size].
        transition_params: A, floats of shape [number of tags, number of tags].
    """
    last = _scan(inputs, sequence_lengths, transition_params, tf.reduce_logsumexp)[-1]
    norm = tf.reduce_logsumexp(last, 1)
    return tf.where(tf.greater(sequence_lengths, 0), norm, tf.zeros_like(norm))


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """Returns the log-likelihood of each example's tags, and the transition matrix.

    Args:
        inputs: scores x, floats of shape [batch size, time, number of tags].
        tag_indices: tags y, integers of shape [batch size, time].
        sequence_lengths: number of tags of each example, of shape [batch size].
        transition_params: A, floats of shape [number of tags, number of tags]. None: the variable
            `transitions`.
    """
    if transition_params is None:
        tags = tf.convert_to_tensor(inputs).shape[2]
        transition_params = tf1.get_variable("transitions", [tags, tags])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """Returns the tags with the highest score of each example, and that score.

    Args:
        potentials: scores x, floats of shape [batch size, time, number of tags].
        transition_params: A, floats of shape [number of tags, number of tags].
        sequence_length: number of tags of each example, of shape [batch size].

    Returns:
        (int32 of shape [batch size, time], 0 beyond the sequence; floats of shape [batch size]).
    """
    best = _scan(potentials, sequence_length, transition_params, tf.reduce_max)
    keep = tf.transpose(tf.cast(_mask(sequence_length, potentials), tf.bool))

    def backward(tag: Any, step: Any) -> Any:
        scores, is_inside = step  # of this time; whether the next time is in the sequence
        arrival = scores + tf.gather(tf.transpose(transition_params), tag)
        return tf.where(is_inside, tf.argmax(arrival, 1, tf.int32), tag)

    last = tf.argmax(best[-1], 1, tf.int32)
    earlier = tf.scan(backward, (best[:-1], keep[1:]), last, reverse=True)
    tags = tf.transpose(tf.concat([earlier, last[None]], 0))
    return tags * tf.cast(tf.transpose(keep), tf.int32), tf.reduce_max(best[-1], 1)


def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], Any]:
    """Returns the tags with the highest score of one sequence of arrays, and that score.

    Args:
        score: scores x, an array of shape [time, number of tags].
        transition_params: A, an array of shape [number of tags, number of tags].
    """
    best, pointers = np.asarray(score[0]), []
    for scores in score[1:]:
        arrivals = best[:, None] + transition_params
        pointers.append(arrivals.argmax(0))
        best = scores + arrivals.max(0)
    tags = [int(best.argmax())]
    for pointer in reversed(pointers):
        tags.append(int(pointer[tags[-1]]))
    return tags[::-1], best.max()


def _scan(inputs: Any, lengths: Any, transitions: Any, reduce: Callable[..., Any]) -> Any:
    """Returns reduced scores of all sequences that end in a tag: shape [time, batch, tags].

    Beyond the end of a sequence they are those of its end.
    """
    scores = tf.transpose(inputs, [1, 0, 2])
    keep = tf.transpose(tf.cast(_mask(lengths, inputs), tf.bool))

    def step(state: Any, at: Any) -> Any:
        x, is_inside = at
        new = x + reduce(state[:, :, None] + transitions[None], 1)
        return tf.where(is_inside[:, None], new, state)

    rest = tf.scan(step, (scores[1:], keep[1:]), scores[0])
    return tf.concat([scores[:1], rest], 0)


def _mask(lengths: Any, inputs: Any) -> Any:
    """Returns 1 for each position in a sequence and 0 beyond: shape [batch size, time]."""
    inputs = tf.convert_to_tensor(inputs)
    return tf.sequence_mask(lengths, tf.shape(inputs)[1], inputs.dtype)
