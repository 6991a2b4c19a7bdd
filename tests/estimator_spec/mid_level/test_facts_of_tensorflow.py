# SPDX-License-Identifier: Apache-2.0
"""Facts of the API that TensorFlow's own tests assert, and no other test here.

Its wheel has no tests; these are the facts, without their words.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.mid_level import TPUEmbedding, TPUEmbeddingV2
from mid_level_cases import HAS_V2

API = tf.tpu.experimental.embedding
SGD = API.SGD(1.0)
VALUES = np.arange(10.0).reshape(5, 2)


def table(name="t", rows=5, **more):
    """Returns the configuration of a table of known values."""
    more.setdefault("initializer", tf.constant_initializer(VALUES[:rows]))
    return API.TableConfig(rows, 2, name=name, **more)


@pytest.mark.parametrize("kind", [TPUEmbedding, TPUEmbeddingV2] if HAS_V2 else [TPUEmbedding])
def test_two_tables_of_one_name(kind):
    """Tables are known by their names, so two of one name are refused."""
    features = [API.FeatureConfig(table(), output_shape=[4]) for _ in range(2)]
    with pytest.raises(ValueError, match="Multiple tables with name t"):
        kind(features, SGD)


def test_features_of_one_table():
    """Features that share a table train the same rows, once, by the sum of their gradients."""
    shared = table()
    embedding = TPUEmbedding([API.FeatureConfig(shared)] * 2, SGD)
    embedding.enqueue([tf.constant([1, 2]), tf.constant([2, 3])])
    embedding.apply_gradients([tf.ones_like(each) for each in embedding.dequeue()])
    moved = VALUES - embedding.embedding_tables[shared].numpy()
    assert moved[:, 0].tolist() == [0, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("shape", "ids", "feature", "expected"),
    [
        ([2, 1], [[1], [2]], {}, [2, 2]),
        ([2, 3, 1], np.ones([2, 3, 1], np.int64), {}, [2, 3, 2]),
        ([1, 3], tf.sparse.from_dense([[1, 2, 3]]), {"max_sequence_length": 2}, [1, 2, 2]),
        (
            None,
            tf.sparse.from_dense(np.ones([4, 2], np.int64)),
            {"output_shape": [2, 2]},
            [2, 2, 2],
        ),
    ],
    ids=["a column", "high-dimensional", "steps of build", "output_shape"],
)
def test_shapes_of_activations(shape, ids, feature, expected):
    """The last dimension of dense ids goes, sequences have their steps, output_shape decides."""
    embedding = TPUEmbedding({"x": API.FeatureConfig(table(), **feature)}, SGD)
    if shape is not None:
        embedding.build({"x": tf.TensorShape(shape)})
    embedding.enqueue({"x": ids if isinstance(ids, tf.SparseTensor) else tf.constant(ids)})
    assert embedding.dequeue()["x"].shape == expected


def test_the_batch_size_of_build():
    """A number given to `build` is the batch size of all features."""
    embedding = TPUEmbedding({"x": API.FeatureConfig(table())}, SGD)
    embedding.build(3)
    with pytest.raises(ValueError, match="Inconsistent shape"):
        embedding.enqueue({"x": tf.constant([1, 2])})


def test_two_objects_of_one_configuration(tmp_path):
    """Objects of one configuration have tables of their own; a restored one leaves the other."""
    features = {"x": API.FeatureConfig(table())}
    first, second = (TPUEmbedding(features, API.Adagrad(1.0)) for _ in range(2))
    first.enqueue({"x": tf.constant([1])})
    first.apply_gradients({"x": tf.ones_like(first.dequeue()["x"])})
    path = tf.train.Checkpoint(embedding=first).save(str(tmp_path / "first"))
    third = TPUEmbedding(features, API.Adagrad(1.0))
    restored = tf.train.Checkpoint(embedding=third)
    restored.restore(path)  # before there are variables
    for embedding, moved in ((first, True), (second, False), (third, True)):
        (values,) = (each.numpy() for each in embedding.embedding_tables.values())
        assert (values[1] != VALUES[1]).all() == moved


def test_a_checkpoint_of_initial_values(tmp_path):
    """An object that has trained nothing saves its tables' initial values."""
    embedding = TPUEmbedding({"x": API.FeatureConfig(table())}, API.Adagrad(1.0, 0.5))
    embedding.build(2)
    path = tf.train.Checkpoint(embedding=embedding).save(str(tmp_path / "new"))
    reader = tf.train.load_checkpoint(path)
    values = [reader.get_tensor(n) for n, s in reader.get_variable_to_shape_map().items() if s]
    assert sorted(float(each.sum()) for each in values if each.shape == (5, 2)) == [5.0, 45.0]


def test_a_saved_model_serves_trained_rows(tmp_path):
    """An exported object looks up, by TensorFlow's ops, what it has trained."""
    embedding = TPUEmbedding({"x": API.FeatureConfig(table())}, SGD)
    embedding.enqueue({"x": tf.constant([1, 1])})
    embedding.apply_gradients({"x": tf.ones_like(embedding.dequeue()["x"])})
    module = tf.Module()
    module.tables = list(embedding.embedding_tables.values())
    signature = tf.TensorSpec([None], tf.int64)
    module.serve = tf.function(lambda ids: embedding.serve({"x": ids}), [signature])
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    found = loaded.serve(tf.constant([1, 4], tf.int64))
    np.testing.assert_array_equal(found["x"], [[0, 1], [8, 9]])


def test_serving_has_no_slots():
    """Without an optimizer a table for serving is its only variable, and is looked up."""
    features = {"x": API.FeatureConfig(table())}
    embedding = API.TPUEmbeddingForServing(features, None)
    assert embedding({"x": tf.constant([3])})["x"].numpy().tolist() == [[6, 7]]
    assert len(tf.train.Checkpoint(e=embedding).e.embedding_tables) == 1
    ours = TPUEmbedding(features, None)
    ours.build(1)
    assert [sorted(slots) for slots in ours.variables.values()] == [["parameters"]]


@pytest.mark.skipif(not HAS_V2, reason="TensorFlow 2.15 has no TPUEmbeddingV2")
def test_activations_of_stacked_tables():
    """Tables of one stack, looked up in one structure, give each feature its own rows."""
    features = {
        "a": [API.FeatureConfig(table("one"), output_shape=[4])],
        "b": API.FeatureConfig(table("two", rows=3), output_shape=[4]),
    }
    embedding = TPUEmbeddingV2(features, SGD)
    ids = {"a": [tf.constant([0, 4, 1, 1])], "b": tf.constant([2, 2, 0, 1])}
    for look_up in (embedding, tf.function(embedding)):
        found, _ = look_up(ids)
        tf.nest.assert_same_structure(found, features)
        np.testing.assert_array_equal(found["a"][0], VALUES[[0, 4, 1, 1]])
        np.testing.assert_array_equal(found["b"], VALUES[[2, 2, 0, 1]])
    assert len(embedding.embedding_tables) == 1
