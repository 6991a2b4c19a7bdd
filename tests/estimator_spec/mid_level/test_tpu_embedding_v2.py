# SPDX-License-Identifier: Apache-2.0
"""`TPUEmbeddingV2` off a TPU: every method and property, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.mid_level import TPUEmbeddingV2, stacking
from mid_level_cases import HAS_V2, unstack

API = tf.tpu.experimental.embedding
needs_v2 = pytest.mark.skipif(not HAS_V2, reason="this TensorFlow has no TPUEmbeddingV2")


def table(name, rows, dim=2, **more):
    """Returns the configuration of a table whose row r is r + 1."""
    values = np.repeat(np.arange(1.0, rows + 1)[:, np.newaxis], dim, 1)
    return API.TableConfig(
        rows, dim, initializer=tf.constant_initializer(values), name=name, **more
    )


def two(optimizer=None, pipelined=False, config=None):
    """Returns an object with two tables: features "x" [4] of the one, "y" [4, 2] of the other."""
    tables = table("a", 10, combiner="sum"), table("b", 21, combiner="mean")
    features = {
        "x": API.FeatureConfig(tables[0], output_shape=[4]),
        "y": API.FeatureConfig(tables[1], output_shape=[4, 2]),
    }
    return TPUEmbeddingV2(features, optimizer or API.SGD(0.5), pipelined, config)


IDS = {
    "x": tf.ragged.constant([[1, 2], [9], [], [1]]),
    "y": tf.constant(np.arange(8).reshape([4, 2, 1]) + 13),
}
ONES = {"x": tf.ones([4, 2]), "y": tf.ones([4, 2, 2])}


@pytest.mark.skipif(HAS_V2, reason="this TensorFlow has it")
def test_an_older_tensorflow_is_told():
    """TensorFlow 2.15 has no SparseCore, and the error says so."""
    with pytest.raises(RuntimeError, match="has no TPUEmbeddingV2"):
        TPUEmbeddingV2({}, None)


@needs_v2
@pytest.mark.parametrize("graph", [False, True])
def test_call_and_apply_gradients(graph):
    """A call looks up, and apply_gradients trains by what it returned beside the activations."""
    embedding = two()

    def step():
        found, preserved = embedding(IDS)
        embedding.apply_gradients(ONES, preserved)
        return found

    found = (tf.function(step) if graph else step)()
    assert found["x"].numpy()[:, 0].tolist() == [5, 10, 0, 2]
    assert found["y"].numpy()[:, :, 0].tolist() == [[14, 15], [16, 17], [18, 19], [20, 21]]
    assert unstack(embedding, "a")["parameters"][:, 0].tolist() == [
        *[1, 1, 2.5, 4, 5, 6, 7, 8, 9, 9.5]
    ]
    assert unstack(embedding, "b")["parameters"][12:15, 1].tolist() == [13, 13.5, 14.5]


@needs_v2
def test_enqueue_and_dequeue():
    """embedding_lookup is dequeue of enqueue; preprocess_features is an older name of enqueue."""
    embedding = two()
    expected = embedding.embedding_lookup(IDS)
    for prepared in (
        embedding.enqueue(IDS),
        embedding.enqueue(IDS, device="/device:TPU:0"),
        embedding.preprocess_features(
            num_replicas_in_sync=1, flat_inputs=[IDS["x"], IDS["y"]], flat_weights=None
        ),
    ):
        for value, other in zip(
            tf.nest.flatten(embedding.dequeue(prepared)[0]),
            tf.nest.flatten(expected[0]),
            strict=True,
        ):
            assert np.array_equal(value, other)


@needs_v2
def test_an_update_is_of_its_own_lookup():
    """Two lookups may be updated in any order: what one returned is all its update needs."""
    embedding = two()
    first = embedding({"x": tf.constant([1, 1, 1, 1]), "y": IDS["y"]})
    second = embedding({"x": tf.constant([2, 2, 2, 2]), "y": IDS["y"]})
    embedding.apply_gradients({"x": tf.ones([4, 2]), "y": None}, second[1])
    assert unstack(embedding, "a")["parameters"][1:3, 0].tolist() == [2, 1]
    embedding.apply_gradients({"x": 2 * tf.ones([4, 2]), "y": None}, first[1])
    assert unstack(embedding, "a")["parameters"][1:3, 0].tolist() == [-2, 1]


@needs_v2
def test_dense_weights():
    """Dense ids may have dense weights, unlike in a TPUEmbedding."""
    embedding = two()
    weights = {"x": tf.constant([1.0, 2, 3, 4]), "y": 2 * tf.ones([4, 2, 1])}
    found, _ = embedding({"x": tf.constant([1, 1, 1, 1]), "y": IDS["y"]}, weights)
    assert found["x"].numpy()[:, 0].tolist() == [2, 4, 6, 8]
    assert found["y"].numpy()[0, 0, 0] == 14.0  # a mean


@needs_v2
def test_properties():
    """Tables are those of stacks; shards, variables and layouts are by the same names."""
    embedding = two(API.Adagrad(0.1))
    (name,) = embedding.embedding_tables
    assert embedding.embedding_tables[name] is embedding.variables[name]["parameters"]
    assert sorted(embedding.variables[name]) == ["accumulators", "parameters"]
    ((device, shard),) = embedding.embedding_table_shards[name]
    assert "CPU:0" in device
    assert np.array_equal(shard, embedding.embedding_tables[name])
    assert {key: each.stacked_table_name for key, each in embedding.embedding_layouts.items()} == {
        "a": name,
        "b": name,
    }
    assert isinstance(embedding, API.TPUEmbeddingV2)
    before = embedding.variables
    embedding.build()
    assert embedding.variables is before


@needs_v2
def test_a_layout_counts_the_features_of_its_table(monkeypatch):
    """TensorFlow's stacker gets the samples and the number of features of each table."""
    seen = {}
    add = stacking.private.add_table

    def record(stacker, **arguments):
        seen[arguments["table_name"]] = arguments["output_samples"], arguments["num_features"]
        add(stacker, **arguments)

    monkeypatch.setattr(stacking.private, "add_table", record)
    tables = table("a", 10), table("b", 21)
    features = [
        API.FeatureConfig(tables[number], output_shape=shape)
        for number, shape in ((0, [4]), (1, [4, 2]), (0, [3]))
    ]
    found = stacking.layouts(tables, features, 1, 4, False)
    assert found.keys() == {"a", "b"} and seen == {"a": (7, 2), "b": (8, 1)}


@needs_v2
def test_layouts_are_tensorflows():
    """Stacks, offsets and rotations are those that TensorFlow computes for the same tables."""
    from tensorflow.python.tpu import tpu_embedding_v3

    optimizer = API.Adagrad(0.1)
    rng = np.random.default_rng(5)
    for _ in range(10):
        count = rng.integers(1, 5)
        configs = [
            API.TableConfig(
                int(rng.integers(1, 70)),
                int(rng.choice([3, 8, 9])),
                name=f"t{number}",
                optimizer=[optimizer, API.Adagrad(0.1), API.SGD(0.1)][rng.integers(3)],
            )
            for number in range(count)
        ]
        features = {
            f"f{number}": API.FeatureConfig(config, output_shape=[4])
            for number, config in enumerate(configs)
        }
        ours = TPUEmbeddingV2(features).embedding_layouts
        cloned = tpu_embedding_v3._clone_feature_config(features)
        own = list({each.table.name: each.table for each in cloned.values()}.values())
        # TensorFlow counts the samples of its first feature only.
        theirs = tpu_embedding_v3._stack_tables_with_same_table_dim_and_optimizer(
            own, sorted(cloned.items()), 1, 4, None
        ).table_to_layout
        for name, layout in theirs.items():
            for field in (
                "num_sparse_cores",
                "sparse_core_shard_row_offset",
                "sparse_core_shard_rotation",
                "total_rows_per_sparse_core_shard",
                "unsharded_padded_shape",
            ):
                assert getattr(ours[name], field) == getattr(layout, field), (name, field)


@needs_v2
def test_stacking_can_be_disabled():
    """With disable_table_stacking each table has a variable of its own."""
    config = API.SparseCoreEmbeddingConfig(disable_table_stacking=True)
    assert len(two(config=config).embedding_tables) == 2


@needs_v2
def test_statistics():
    """compute_sparse_core_stats counts the ids that one SparseCore needs of another."""
    features = {"x": API.FeatureConfig(table("a", 16, optimizer=API.SGD(0.1)), output_shape=[4])}
    # Four cores of one sample each: the first needs 3 ids of core 0, two of them different.
    ids = {"x": tf.ragged.constant([[0, 4, 4], [1], [2], [4]])}
    ids_of, unique = TPUEmbeddingV2.compute_sparse_core_stats(ids, features, 1)
    assert ids_of == {"a": 2}
    assert unique == {"a": 2}


@needs_v2
def test_pipelining():
    """A lookup lacks the update of the step before, which is there for whoever reads the table."""
    embedding = two(API.SGD(1.0), pipelined=True)
    read = []
    for _ in range(3):
        found, preserved = embedding({"x": tf.constant([1, 2, 3, 4]), "y": IDS["y"]})
        embedding.apply_gradients(ONES, preserved)
        read.append(float(found["x"][0, 0]))
    assert read == [2.0, 2.0, 1.0]
    assert unstack(embedding, "a")["parameters"][1, 0] == -1.0


@needs_v2
@pytest.mark.parametrize(
    ("optimizer", "ignored"),
    [
        (API.Adam(0.1, lazy_adam=False), "lazy_adam"),
        (API.Adagrad(0.1, clip_weight_max=0.1, clipvalue=0.1), "clip_weight_max"),
        (API.Adagrad(0.1, use_gradient_accumulation=False), "use_gradient_accumulation"),
    ],
)
def test_what_sparse_core_ignores(caplog, optimizer, ignored):
    """What TPUEmbeddingV2 ignores on a TPU has no effect here, and a warning says so."""
    two(optimizer)
    assert ignored in caplog.text


@needs_v2
def test_what_is_refused():
    """Weight decay, shapes that aren't known or can't be divided, and bad ids are refused."""
    with pytest.raises(NotImplementedError, match="weight_decay_factor"):
        two(API.SGD(0.1, weight_decay_factor=0.1))
    for shape, words in (([None], "output_shape of known size"), ([6], "can't be divided")):
        feature = API.FeatureConfig(table("a", 9), output_shape=shape)
        with pytest.raises(ValueError, match=words):
            TPUEmbeddingV2({"x": feature}, API.SGD(0.1))
    embedding = two()
    with pytest.raises(RuntimeError, match="unbuilt TPUEmbeddingV2"):
        embedding.apply_gradients(ONES, {})
    for wrong in (10, -1, 2**33 + 1):
        with pytest.raises(ValueError, match=f"Feature x: id {wrong} is not in"):
            embedding({"x": tf.constant([1, 2, 3, wrong], tf.int64), "y": IDS["y"]})
    look_up = tf.function(lambda x: embedding({"x": x, "y": IDS["y"]})[0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in|is outside"):
        look_up(tf.constant([1, 2, 3, 10]))
    with pytest.raises(ValueError, match="Found gradient of shape"):
        embedding.apply_gradients({**ONES, "x": tf.ones([5, 2])}, embedding(IDS)[1])
    with pytest.raises(ValueError, match="to be Tensor type"):
        embedding({**IDS, "x": tf.constant([1, 2, 3, 4])}, {"x": IDS["x"], "y": None})


@needs_v2
def test_a_stack_of_many_rows():
    """Ids of a table find their rows in a stack of several tables, and no other's."""
    configs = [table(f"t{number}", rows) for number, rows in enumerate((5, 40, 17))]
    features = [API.FeatureConfig(config, output_shape=[8]) for config in configs]
    embedding = TPUEmbeddingV2(features, API.SGD(1.0))
    ids = [tf.constant(np.arange(8) * config.vocabulary_size // 8) for config in configs]
    found, _ = embedding(ids)
    for value, id_ in zip(found, ids, strict=True):
        assert value.numpy()[:, 1].tolist() == (id_.numpy() + 1.0).tolist()
    (variable,) = embedding.embedding_tables.values()
    assert math.prod(variable.shape) > sum(config.vocabulary_size for config in configs)
