# SPDX-License-Identifier: Apache-2.0
"""Reimplemented parts of tensorflow.contrib: metrics, conditional random fields, stacked RNNs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.legacy.contrib import crf as contrib_crf
from estimator_spec.legacy.contrib import functions as contrib
from estimator_spec.legacy.contrib import fused_rnn as contrib_fused_rnn
from estimator_spec.legacy.contrib import metrics as contrib_metrics
from estimator_spec.legacy.contrib import rnn as contrib_rnn

tf1 = tf.compat.v1
RANDOM = np.random.RandomState(0)
SCORES = RANDOM.normal(size=(4, 5, 3)).astype(np.float32)
TRANSITIONS = RANDOM.normal(size=(3, 3)).astype(np.float32)
LENGTHS = np.array([5, 1, 3, 2], np.int32)
TAGS = RANDOM.randint(3, size=(4, 5)).astype(np.int32)


def run(build):
    """Evaluates what a function builds, in a session with initialized variables."""
    with tf.Graph().as_default(), tf1.Session() as session:
        fetches = build()
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        return session.run(fetches)


def score(example, tags):
    """Returns the score of a sequence of tags."""
    unary = sum(SCORES[example, time, tag] for time, tag in enumerate(tags))
    return unary + sum(TRANSITIONS[pair] for pair in itertools.pairwise(tags))


def all_sequences(example):
    """Returns all sequences of tags of an example's length."""
    return list(itertools.product(range(3), repeat=int(LENGTHS[example])))


def test_scores_of_a_random_field():
    """The score of a sequence is the sum over its tags and pairs of tags."""
    got = run(lambda: contrib_crf.crf_sequence_score(SCORES, TAGS, LENGTHS, TRANSITIONS))
    expected = [score(n, TAGS[n, :length]) for n, length in enumerate(LENGTHS)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_likelihood_of_a_random_field():
    """Probabilities are the softmax of the scores of all sequences of the same length."""
    got = run(lambda: contrib_crf.crf_log_likelihood(SCORES, TAGS, LENGTHS, TRANSITIONS)[0])
    for example, length in enumerate(LENGTHS):
        norm = np.logaddexp.reduce([score(example, tags) for tags in all_sequences(example)])
        expected = score(example, TAGS[example, :length]) - norm
        np.testing.assert_allclose(got[example], expected, rtol=1e-4)


def test_best_tags():
    """Decoding finds the best of all sequences, and 0 beyond a sequence's end."""
    tags, scores = run(lambda: contrib_crf.crf_decode(SCORES, TRANSITIONS, LENGTHS))
    for example, length in enumerate(LENGTHS):
        best = max(all_sequences(example), key=lambda tags: score(example, tags))
        assert tags[example].tolist() == [*best, *[0] * (5 - length)]
        np.testing.assert_allclose(scores[example], score(example, best), rtol=1e-5)
        alone = contrib_crf.viterbi_decode(SCORES[example, :length], TRANSITIONS)
        assert alone[0] == list(best)
        np.testing.assert_allclose(alone[1], scores[example], rtol=1e-5)


def test_one_step_and_no_step():
    """Sequences of one tag have no transitions, empty ones the score 0 and the norm 0."""
    scores = SCORES[:, :1]
    ones = np.ones(4, np.int32)
    tags, best = run(lambda: contrib_crf.crf_decode(scores, TRANSITIONS, ones))
    assert tags[:, 0].tolist() == scores[:, 0].argmax(-1).tolist()
    np.testing.assert_allclose(best, scores[:, 0].max(-1))
    empty = run(lambda: contrib_crf.crf_log_likelihood(SCORES, TAGS, 0 * ones, TRANSITIONS)[0])
    assert empty.tolist() == [0.0] * 4


def test_transitions_are_a_variable():
    """Without a matrix of transitions there is a variable of TensorFlow 1's name."""
    with tf.Graph().as_default():
        _, transitions = contrib_crf.crf_log_likelihood(SCORES, TAGS, LENGTHS)
        assert [v.op.name for v in tf1.trainable_variables()] == ["transitions"]
        assert transitions.shape == [3, 3]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("accuracy", {}),
        ("auc", {"num_thresholds": 20}),
        ("precision", {}),
        ("recall", {}),
        ("mean_absolute_error", {}),
        ("mean_squared_error", {}),
        ("root_mean_squared_error", {}),
        ("mean_iou", {"num_classes": 2}),
        ("true_positives_at_thresholds", {"thresholds": [0.5]}),
    ],
)
def test_streaming_metrics(name, arguments):
    """A streaming metric is that of `tf.compat.v1.metrics`, with predictions before labels."""

    def both():
        dtype = tf.int32 if name == "mean_iou" else tf.float32
        labels, predictions = tf.cast([0, 1, 1, 0], dtype), tf.cast([0, 1, 0, 0], dtype)
        got = getattr(contrib_metrics, f"streaming_{name}")(predictions, labels, **arguments)
        expected = getattr(tf1.metrics, name)(labels, predictions, **arguments)
        return got[1], expected[1]

    got, expected = run(both)
    np.testing.assert_array_equal(got, expected)
    with pytest.raises(AttributeError):
        contrib_metrics.streaming_nothing  # noqa: B018


def test_other_metrics():
    """Accuracy of a batch, recall at k, and metrics in lists and dictionaries."""
    labels = np.array([0, 1, 2, 1])
    predictions = np.array([0, 1, 1, 1])
    assert run(lambda: contrib_metrics.accuracy(predictions, labels)) == 0.75
    weights = [1.0, 1.0, 2.0, 0.0]
    assert run(lambda: contrib_metrics.accuracy(predictions, labels, weights)) == 0.5
    with tf.Graph().as_default(), pytest.raises(ValueError, match="one dtype"):
        contrib_metrics.accuracy([1.0], [1])
    logits = np.eye(3, dtype=np.float32)[predictions]
    assert run(lambda: contrib_metrics.streaming_recall_at_k(logits, labels, 1)[1]) == 0.75
    assert contrib_metrics.aggregate_metrics((1, 2), (3, 4)) == ([1, 3], [2, 4])
    assert contrib_metrics.aggregate_metric_map({"a": (1, 2)}) == ({"a": 1}, {"a": 2})
    with pytest.raises(ValueError, match="at least one"):
        contrib_metrics.aggregate_metrics()


def test_vocabulary_tables():
    """Tables of a vocabulary take it as `mapping`, as `tensorflow.contrib.lookup` did."""

    def build():
        ids = contrib.index_table_from_tensor(mapping=["a", "b"], num_oov_buckets=1)
        words = contrib.index_to_string_table_from_tensor(mapping=["a", "b"], default_value="?")
        with tf.control_dependencies([tf1.tables_initializer()]):
            return ids.lookup(tf.constant(["b", "c"])), words.lookup(tf.constant([1, 7], tf.int64))

    ids, words = run(build)
    assert ids.tolist() == [1, 2]
    assert words.tolist() == [b"b", b"?"]


def test_stacked_rnns():
    """Each layer reads both outputs of the one below; scopes are TensorFlow 1's."""

    def build():
        def cells():
            return [contrib_rnn.GRUCell(2), contrib_rnn.GRUCell(3)]

        return contrib_rnn.stack_bidirectional_dynamic_rnn(
            cells(), cells(), tf.ones([4, 6, 5]), dtype=tf.float32
        ), [v.op.name for v in tf1.trainable_variables()]

    with tf.Graph().as_default():
        (outputs, forward, backward), variables = build()
    assert outputs.shape == [4, 6, 6]
    assert [state.shape.as_list() for state in (*forward, *backward)] == 2 * [[4, 2], [4, 3]]
    scopes = {name.split("/gru_cell")[0] for name in variables}
    assert "stack_bidirectional_rnn/cell_1/bidirectional_rnn/bw" in scopes
    with pytest.raises(ValueError, match="as many backward"):
        contrib_rnn.stack_bidirectional_dynamic_rnn([1], [], None)


def lstm(inputs, kernel, bias, peepholes, clip):
    """Returns outputs and the last state of an LSTM over [time, batch, depth]."""
    units = kernel.shape[1] // 4
    cell = hidden = np.zeros([inputs.shape[1], units], np.float32)
    outputs = []

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    for step in inputs:
        joined = np.concatenate([step, hidden], 1) @ kernel + bias
        i, c, f, o = np.split(joined, 4, 1)
        w_i, w_f, w_o = peepholes
        new = sigmoid(i + w_i * cell) * np.tanh(c) + sigmoid(f + 1 + w_f * cell) * cell
        cell = np.clip(new, -clip, clip)
        hidden = sigmoid(o + w_o * cell) * np.tanh(cell)
        outputs.append(hidden)
    return np.stack(outputs), (cell, hidden)


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize(("peephole", "clip"), [(False, None), (True, 0.3)])
def test_fused_lstm(peephole, clip, as_list):
    """A fused LSTM computes the formula; each cell has a scope of its own for all its calls."""
    x = RANDOM.normal(size=(5, 3, 4)).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        inputs = tf.unstack(x) if as_list else x
        cell = contrib_fused_rnn.LSTMBlockFusedCell(2, cell_clip=clip, use_peephole=peephole)
        outputs, state = cell(inputs, dtype=tf.float32)
        cell(inputs, initial_state=state)
        backward = contrib_fused_rnn.LSTMBlockFusedCell(2)
        reverse = contrib_fused_rnn.TimeReversedFusedRNN(backward)(inputs, dtype=tf.float32)
        ahead = backward(inputs[::-1], dtype=tf.float32)
        variables = {v.op.name: v for v in tf1.global_variables()}
        scopes = {name.partition("/")[0] for name in variables}
        assert scopes == {"lstm_fused_cell", "lstm_fused_cell_1"}
        assert len(variables) == (7 if peephole else 4)
        session.run(tf1.global_variables_initializer())
        values = {
            name.rpartition("/")[2]: session.run(variable)
            for name, variable in variables.items()
            if "_1/" not in name
        }
        names = ("w_i_diag", "w_f_diag", "w_o_diag")
        peepholes = [values.get(name, np.zeros(2, np.float32)) for name in names]
        wanted = lstm(x, values["kernel"], values["bias"], peepholes, clip or np.inf)
        found = session.run((outputs, state))
        np.testing.assert_allclose(np.stack(found[0]), wanted[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.stack(found[1]), np.stack(wanted[1]), rtol=1e-5, atol=1e-6)
        backward_outputs, ahead_outputs = session.run((reverse[0], ahead[0]))
        np.testing.assert_array_equal(np.stack(backward_outputs), np.stack(ahead_outputs)[::-1])


def test_lengths_of_fused_lstms():
    """Steps beyond a sequence's end are zero and change no state; an empty one keeps its first."""
    x = RANDOM.normal(size=(5, 3, 4)).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        cell = contrib_fused_rnn.LSTMBlockFusedCell(2)
        first = (tf.ones([3, 2]), -tf.ones([3, 2]))
        lengths = np.array([5, 0, 3])
        outputs, state = cell(x, initial_state=first, sequence_length=lengths)
        short, state_of_short = cell(x[:3], initial_state=first)
        session.run(tf1.global_variables_initializer())
        outputs, state, short, state_of_short = session.run((outputs, state, short, state_of_short))
    assert not outputs[3:, 2].any() and not outputs[:, 1].any()
    np.testing.assert_array_equal(outputs[:3, 2], short[:, 2])
    np.testing.assert_array_equal(state.c[2], state_of_short.c[2])
    assert (state.c[1].tolist(), state.h[1].tolist()) == ([1, 1], [-1, -1])


def test_wrong_inputs_of_fused_lstms():
    """Inputs of unknown depth, a missing state and one that is no pair are refused."""
    cell = contrib_fused_rnn.LSTMBlockFusedCell(2)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match=r"\[time, batch, depth\] with a known depth"):
            cell(tf1.placeholder(tf.float32, [None, None, None]), dtype=tf.float32)
        with pytest.raises(ValueError, match="Either initial_state or dtype"):
            cell(tf.ones([2, 3, 4]))
        with pytest.raises(ValueError, match="must be a pair"):
            cell(tf.ones([2, 3, 4]), initial_state=[1, 2, 3])


@pytest.mark.parametrize("dynamic", [False, True])
def test_adapted_cells(dynamic):
    """A cell of `tf.compat.v1.nn.rnn_cell` runs over a tensor or a list, with the same outputs."""
    x = RANDOM.normal(size=(5, 3, 4)).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        network = contrib_fused_rnn.FusedRNNCellAdaptor(contrib_rnn.GRUCell(2), dynamic)
        whole, _ = network(tf.constant(x), dtype=tf.float32)
        with tf1.variable_scope(tf1.get_variable_scope(), reuse=tf1.AUTO_REUSE):
            listed, _ = network(tf.unstack(x), dtype=tf.float32)
        session.run(tf1.global_variables_initializer())
        whole, listed = session.run((whole, listed))
    assert isinstance(listed, list)
    np.testing.assert_allclose(whole, np.stack(listed), rtol=1e-6)
