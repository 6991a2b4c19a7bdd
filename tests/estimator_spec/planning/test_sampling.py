# SPDX-License-Identifier: Apache-2.0
"""Samples of ids: from arrays, and from the input of a program."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec.planning import IdSample, System, sample_ids

fc = tf.feature_column
IDS = np.array([[3, 0], [5, 3], [0, 0], [9, 2]])


def column_spec(*columns):
    """Returns a spec of columns."""
    return es.EmbeddingConfigSpec(list(columns), es.AdagradParameters(0.1))


def identity(key, **kwargs):
    """Returns a column of ten ids."""
    return tpu_columns.embedding_column(fc.categorical_column_with_identity(key, 10), 4, **kwargs)


def batches_of(features, labels=None):
    """Returns an input_fn of one epoch."""

    def input_fn(params):
        elements = features if labels is None else (features, labels)
        return tf.data.Dataset.from_tensor_slices(elements).batch(params["batch_size"])

    return input_fn


def listed(sample, key):
    """Returns (example, id) of a feature in each batch."""
    return [
        list(zip(part.examples.tolist(), part.ids.tolist(), strict=True))
        for part in (batch.features[key] for batch in sample.batches)
    ]


def test_dense_zeros_are_padding():
    """A TPU drops dense ids of 0; the sample has the other ids with their examples."""
    sample = sample_ids(column_spec(identity("word")), batches_of({"word": IDS}), batch_size=2)
    assert [batch.size for batch in sample.batches] == [2, 2]
    assert listed(sample, "word") == [[(0, 3), (1, 5), (1, 3)], [(1, 9), (1, 2)]]


def test_no_more_batches_than_asked():
    """An endless input is read for the batches that are asked."""

    def input_fn():
        return tf.data.Dataset.from_tensors({"word": [[1]]}).repeat(), None

    def endless(params):
        return tf.data.Dataset.from_tensors(({"word": [[1]]}, [0])).repeat()

    spec = column_spec(identity("word"))
    assert len(sample_ids(spec, endless, 3).batches) == 3
    with pytest.raises(TypeError, match="must be a dict of tensors"):
        sample_ids(spec, input_fn)


def test_tensors_sparse_and_ragged_ids():
    """An input_fn may return tensors; sparse and ragged ids keep the id 0."""

    def input_fn():
        sparse = tf.SparseTensor([[0, 0], [2, 0], [2, 1]], [0, 4, 4], [3, 2])
        return {"word": sparse, "tag": tf.ragged.constant([[7, 0], [], [1]])}, None

    sample = sample_ids(column_spec(identity("word"), identity("tag")), input_fn, 1)
    assert listed(sample, "word") == [[(0, 0), (2, 4), (2, 4)]]
    assert listed(sample, "tag") == [[(0, 7), (0, 0), (2, 1)]]
    assert sample.batches[0].size == 3


def test_strings_are_mapped_by_the_vocabulary():
    """Words become ids by the column's vocabulary; unknown and empty ones have none."""
    words = fc.categorical_column_with_vocabulary_list("word", ["a", "b", "c"])
    features = {"word": np.array([["c", "a"], ["?", "b"], ["", "c"]])}
    spec = column_spec(tpu_columns.embedding_column(words, 4))
    sample = sample_ids(spec, batches_of(features, np.zeros(3)), batch_size=3)
    assert listed(sample, "word") == [[(0, 2), (0, 0), (1, 1), (2, 2)]]


def test_a_vocabulary_within_the_dataset():
    """Lookup tables that a dataset uses are initialized before it."""

    def input_fn(params):
        ids = tf.lookup.KeyValueTensorInitializer(["a", "b"], [4, 5], tf.string, tf.int64)
        table = tf.lookup.StaticHashTable(ids, -1)
        words = tf.data.Dataset.from_tensor_slices([["a"], ["b"]]).batch(2)
        return words.map(lambda word: {"word": table.lookup(word)})

    sample = sample_ids(column_spec(identity("word")), input_fn)
    assert listed(sample, "word") == [[(0, 4), (1, 5)]]


def test_sequences_are_cut():
    """Steps beyond max_sequence_length aren't looked up, and aren't sampled."""
    steps = fc.sequence_categorical_column_with_identity("word", 10)
    spec = column_spec(tpu_columns.embedding_column(steps, 4, max_sequence_length=2))
    sample = sample_ids(spec, batches_of({"word": np.array([[1, 2, 3], [4, 5, 6]])}))
    assert listed(sample, "word") == [[(0, 1), (0, 2), (1, 4), (1, 5)]]


def test_dict_mode_and_the_tensor_core():
    """Features by dictionaries are sampled, and those of the tensor core; 0 without a combiner."""
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"a": es.FeatureConfig("t")},
        table_to_config_dict={"t": es.TableConfig(10, 4, combiner=None)},
        optimization_parameters=es.AdagradParameters(0.1),
    )
    sample = sample_ids(spec, batches_of({"a": np.array([0, 3])}))
    assert listed(sample, "a") == [[(0, 0), (1, 3)]]
    padded = identity("b", embedding_lookup_device="tpu_tensor_core", tensor_core_shape=[None, 2])
    sample = sample_ids(column_spec(padded), batches_of({"b": np.array([[0, 3]])}))
    assert listed(sample, "b") == [[(0, 3)]]


def test_numpy_input_fn():
    """The queues of numpy_input_fn end with the sample."""
    features = {"word": np.array([[1], [2], [3]])}
    input_fn = es.numpy_input_fn(features, batch_size=2, num_epochs=1, shuffle=False)
    sample = sample_ids(column_spec(identity("word")), input_fn)
    assert listed(sample, "word") == [[(0, 1), (1, 2)], [(0, 3)]]


def test_it_makes_no_table():
    """A table of a tebibyte can be sampled: only the input runs."""
    words = fc.categorical_column_with_identity("word", 1 << 30)
    spec = column_spec(tpu_columns.embedding_column(words, 256))
    assert sample_ids(spec, batches_of({"word": IDS})).ids_of(["word"]).size == 5


def test_what_input_fn_is_given():
    """An input_fn gets the batch size, the caller's parameters, the mode and a RunConfig."""
    seen = {}

    def input_fn(mode, params, config):
        seen.update(params, mode=mode, config=config)
        return {"word": tf.constant([[1]])}, None

    spec = column_spec(identity("word"))
    sample_ids(spec, input_fn, 1, batch_size=7, params={"mine": 5, "batch_size": 1})
    assert (seen["batch_size"], seen["mine"], seen["mode"]) == (7, 5, "train")
    assert seen["config"].tpu_config is not None


@pytest.mark.parametrize(
    ("input_fn", "arguments", "kind", "words"),
    [
        (batches_of({"word": IDS[:0]}), {}, ValueError, "yields no batch"),
        (batches_of({"other": IDS}), {}, ValueError, "'word' .* is missing"),
        (batches_of({"word": IDS / 2}), {}, ValueError, "'word' has ids of type float64"),
        (batches_of({"word": IDS}), {"num_batches": 0}, ValueError, "num_batches must be"),
        (batches_of({"word": IDS}), {"batch_size": 0}, ValueError, "batch_size must be"),
        (None, {}, TypeError, "input_fn must be callable"),
    ],
    ids=["empty", "missing", "floats", "batches", "size", "none"],
)
def test_input_that_cannot_be_sampled(input_fn, arguments, kind, words):
    """Each wrong input is refused with its argument or feature."""
    with pytest.raises(kind, match=words):
        sample_ids(column_spec(identity("word")), input_fn, **arguments)


def test_ids_without_a_row_are_a_problem():
    """Ids of the sample beyond their table are counted, with the rows that would be needed."""
    spec = column_spec(identity("word"))
    sample = IdSample.from_arrays([{"word": [3, 12, 11]}, {"word": [9, 10]}])
    plan = es.plan(spec, System(cores=1), sample=sample)
    (problem,) = plan.problems
    assert problem.kind.value == "ids out of range"
    assert "Feature word: 3 of 5 ids in the sample have no row in table tbl_word" in problem.text
    assert problem.fixes[1].text.startswith("Give table tbl_word 13 rows instead of 10: 96 B more")


def test_arrays():
    """A sample of arrays has every id but negative ones, with its example."""
    sample = IdSample.from_arrays([{"a": [4, -1], "b": np.array([[0, 1], [2, -1]])}])
    assert listed(sample, "a") == [[(0, 4)]]
    assert listed(sample, "b") == [[(0, 0), (0, 1), (1, 2)]]
    assert sample.ids_of(["a", "b", "c"]).tolist() == [4, 0, 1, 2]
    assert IdSample.from_arrays([{"a": []}][:0]).ids_of(["a"]).tolist() == []


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"a": [0.5]}, "'a' of batch 0 must be integers"),
        ({"a": [[[1]]]}, r"'a' of batch 0 must be integers of shape \[B\] or \[B, n\]"),
        ({"a": [1, 2], "b": [1]}, "'b' of batch 0 has 1 examples, but .* 2"),
    ],
)
def test_arrays_of_another_form(batch, words):
    """Arrays that can't be ids of one batch are refused by their feature."""
    with pytest.raises(ValueError, match=words):
        IdSample.from_arrays([batch])
