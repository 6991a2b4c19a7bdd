# SPDX-License-Identifier: Apache-2.0
"""Checkpoints pass between our objects, TensorFlow's, the Estimator's and keras_rs, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec import checkpoints, convert, mid_level
from estimator_spec.core.driver.tpu_estimator import TPUEstimator
from estimator_spec.mid_level import TPUEmbedding, TPUEmbeddingV2
from mid_level_cases import HAS_V2, unstack

API = tf.tpu.experimental.embedding
tf1 = tf.compat.v1
SLOTS = {
    "SGD": [],
    "Adagrad": ["accumulators"],
    "AdagradMomentum": ["accumulators", "momenta"],
    "Adam": ["momenta", "velocities"],
    "FTRL": ["accumulators", "linears"],
}


def optimizer_of(name):
    """Returns an optimizer of the mid-level API."""
    momentum = {"momentum": 0.5} if name == "AdagradMomentum" else {}
    return getattr(API, name)(0.1, **momentum)


def features(shape=None, second="b/c"):
    """Returns features of two tables."""
    tables = API.TableConfig(13, 4, name="a"), API.TableConfig(22, 4, name=second)
    return {f"f{i}": API.FeatureConfig(t, output_shape=shape) for i, t in enumerate(tables)}


def train(embedding, seed=1):
    """Trains three steps on random ids."""
    rng = np.random.default_rng(seed)
    for _ in range(3):
        embedding.enqueue({f"f{i}": tf.constant(rng.integers(13, size=8)) for i in range(2)})
        found = embedding.dequeue()
        embedding.apply_gradients(
            tf.nest.map_structure(lambda v: tf.constant(rng.normal(size=v.shape), v.dtype), found)
        )


def values_of(embedding):
    """Returns all variables of an object as arrays, by table and slot."""
    variables = getattr(embedding, "variables", None) or embedding._variables
    return {
        (table, slot): variable.numpy()
        for table, slots in variables.items()
        for slot, variable in slots.items()
    }


def assert_same(first, second):
    """Asserts that two dictionaries have the same arrays."""
    assert sorted(first) == sorted(second)
    for key, value in first.items():
        assert np.array_equal(value, second[key]), key


@pytest.mark.parametrize("name", SLOTS)
def test_with_tensorflows_object(tmp_path, name):
    """A checkpoint of ours restores into TensorFlow's object with its slots, and back."""
    ours = TPUEmbedding(features(), optimizer_of(name), pipeline_execution_with_tensor_core=True)
    train(ours)
    path = tf.train.Checkpoint(embedding=ours).save(str(tmp_path / "ours"))
    theirs = API.TPUEmbedding(features(), optimizer_of(name))
    theirs.build()
    tf.train.Checkpoint(embedding=theirs).restore(path).assert_consumed()
    assert_same(values_of(ours), values_of(theirs))
    assert {slot for _, slot in values_of(theirs)} == {"parameters", *SLOTS[name]}
    path = tf.train.Checkpoint(embedding=theirs).save(str(tmp_path / "theirs"))
    again = TPUEmbedding(features(), optimizer_of(name))
    # Restored before it is built, as a program may.
    status = tf.train.Checkpoint(embedding=again).restore(path)
    again.build()
    status.assert_consumed()
    assert_same(values_of(again), values_of(theirs))
    train(again, 2)
    train(ours, 2)
    for key, value in values_of(ours).items():
        np.testing.assert_allclose(value, values_of(again)[key], rtol=1e-6)


def test_with_an_object_for_serving(tmp_path):
    """TPUEmbeddingForServing, with slots and without, restores a checkpoint of ours, and back."""
    ours = TPUEmbedding(features(), API.Adam(0.1))
    train(ours)
    path = tf.train.Checkpoint(embedding=ours).save(str(tmp_path / "c"))
    serving = API.TPUEmbeddingForServing(features(), API.Adam(0.1))
    serving.build()
    tf.train.Checkpoint(embedding=serving).restore(path).assert_existing_objects_matched()
    assert_same(values_of(ours), values_of(serving))
    plain = API.TPUEmbeddingForServing(features(), None)
    plain.build()
    tf.train.Checkpoint(embedding=plain).restore(path).expect_partial()
    ids = {f"f{i}": tf.constant([3, 9]) for i in range(2)}
    found = plain(ids)
    ours.enqueue({key: tf.tile(value, [4]) for key, value in ids.items()}, training=False)
    for key, value in ours.dequeue().items():
        assert np.array_equal(value[:2], found[key])
    path = tf.train.Checkpoint(embedding=serving).save(str(tmp_path / "d"))
    again = TPUEmbedding(features(), API.Adam(0.1))
    again.build()
    tf.train.Checkpoint(embedding=again).restore(path).assert_existing_objects_matched()
    assert_same(values_of(again), values_of(ours))


def logical(embedding):
    """Returns the tables of a TPUEmbeddingV2 and their slots as arrays."""
    return {
        (table, slot): value
        for table in embedding.embedding_layouts
        for slot, value in unstack(embedding, table).items()
    }


def train_v2(embedding):
    """Trains a TPUEmbeddingV2 one step on random ids."""
    rng = np.random.default_rng(3)
    found, preserved = embedding({f"f{i}": tf.constant(rng.integers(13, size=8)) for i in range(2)})
    embedding.apply_gradients(tf.nest.map_structure(tf.sin, found), preserved)


@pytest.mark.skipif(not HAS_V2, reason="this TensorFlow has no TPUEmbeddingV2")
@pytest.mark.parametrize("name", SLOTS)
def test_with_sparse_core(tmp_path, name):
    """A checkpoint of stacked tables restores into ours, and TensorFlow serves it.

    TensorFlow's own TPUEmbeddingV2 needs a TPU: its variables are shards of the same arrays, which
    it restores by slices, as is done here.
    """
    ours = TPUEmbeddingV2(features([8]), optimizer_of(name))
    train_v2(ours)
    path = tf.train.Checkpoint(embedding=ours).save(str(tmp_path / "c"))
    again = TPUEmbeddingV2(features([8]), optimizer_of(name))
    again.build()
    tf.train.Checkpoint(embedding=again).restore(path).assert_consumed()
    assert_same(logical(ours), logical(again))
    serving = API.TPUEmbeddingForServing(features(), None)
    tf.train.Checkpoint(embedding=serving).restore(path).expect_partial()
    for config, table in serving.embedding_tables.items():
        assert np.array_equal(table, logical(ours)[config.name, "parameters"])
    # Once it is built, TensorFlow restores stacked tables no more; the page says how else.
    built = API.TPUEmbeddingForServing(features(), None)
    built.build()
    tf.train.Checkpoint(embedding=built).restore(path).expect_partial()
    for config, table in built.embedding_tables.items():
        assert not np.array_equal(table, logical(ours)[config.name, "parameters"])
    values = mid_level.read_sparse_core_checkpoint(path)
    for config, table in built.embedding_tables.items():
        table.assign(values[config.name]["parameters"])
        assert np.array_equal(table, logical(ours)[config.name, "parameters"])
    # A shard of two, as a TPU of two chips has them.
    for stack, slots in ours.variables.items():
        for slot, variable in slots.items():
            rows, width = variable.shape
            part = tf.raw_ops.RestoreV2(
                prefix=path,
                tensor_names=[
                    "embedding/"
                    + (stack if slot == "parameters" else f"{stack}/{slot}").replace("/", ".S")
                    + "/.ATTRIBUTES/VARIABLE_VALUE"
                ],
                shape_and_slices=[f"{rows} {width} {rows // 2},{rows // 2}:-"],
                dtypes=[tf.float32],
            )[0]
            assert np.array_equal(part, variable[rows // 2 :])


@pytest.mark.skipif(not HAS_V2, reason="this TensorFlow has no TPUEmbeddingV2")
@pytest.mark.parametrize("second", ["b", "b/c.d"])
def test_other_numbers_of_chips(tmp_path, second):
    """A checkpoint of another number of SparseCores isn't restored in part: load_tables takes it.

    TensorFlow's adapter lays the tables out anew, and leaves their slots at initial values.
    """
    from estimator_spec.mid_level import stacked

    ours = TPUEmbeddingV2(features([8], second), API.Adagrad(0.1))
    train_v2(ours)
    path = tf.train.Checkpoint(embedding=ours).save(str(tmp_path / "c"))
    before = stacked.CORES_PER_CHIP
    try:
        stacked.CORES_PER_CHIP = 8
        wider = TPUEmbeddingV2(features([8], second), API.Adagrad(0.1))
    finally:
        stacked.CORES_PER_CHIP = before
    assert {each.num_sparse_cores for each in wider.embedding_layouts.values()} == {8}
    for each in (wider, TPUEmbeddingV2(features([8], "other"), API.Adagrad(0.1))):
        with pytest.raises(ValueError, match="Load it by .*load_tables"):
            tf.train.Checkpoint(embedding=each).restore(path)
    plain = TPUEmbedding(features(None, second), API.Adagrad(0.1))
    for each in (wider, plain):
        mid_level.load_tables(each, mid_level.read_sparse_core_checkpoint(path))
    assert_same(logical(ours), logical(wider))
    assert_same(logical(ours), values_of(plain))
    path = tf.train.Checkpoint(embedding=plain).save(str(tmp_path / "plain"))
    with pytest.raises(ValueError, match="aren't stacked"):
        tf.train.Checkpoint(embedding=wider).restore(path)
    with pytest.raises(ValueError, match="no stacked tables"):
        mid_level.read_sparse_core_checkpoint(path)


SPEC = es.EmbeddingConfigSpec(
    feature_to_config_dict={"f0": es.FeatureConfig("a"), "f1": es.FeatureConfig("b")},
    table_to_config_dict={
        "a": es.TableConfig(13, 4, combiner="sum"),
        "b": es.TableConfig(22, 4, optimization_parameters=es.AdamParameters(0.01)),
    },
    optimization_parameters=es.AdagradParameters(0.1),
)
BATCHES = [
    {f"f{i}": np.random.default_rng([step, i]).integers(1, 13, [8, 3]) for i in range(2)}
    for step in range(300)
]


def loss_of(activations):
    """Returns the loss of a model without variables of its own but the tables."""
    joined = tf.concat([activations["f0"], activations["f1"]], 1)
    return tf.reduce_mean(tf.square(tf.sin(joined) - 0.5))


def estimator(model_dir, losses):
    """Returns an estimator on the host core that appends its losses to a list."""

    class Recorder(tf1.train.SessionRunHook):
        def before_run(self, run_context):
            del run_context
            return tf1.train.SessionRunArgs("loss_of_step:0")

        def after_run(self, run_context, run_values):
            del run_context
            losses.append(float(run_values.results))

    def model_fn(features, labels, mode, params):
        del labels, params
        loss = tf.identity(loss_of(features), name="loss_of_step")
        step = tf1.train.get_global_step()
        train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[Recorder()])

    return TPUEstimator(
        model_fn=model_fn,
        config=es.RunConfig(model_dir=str(model_dir), tf_random_seed=1),
        use_tpu=False,
        train_batch_size=8,
        embedding_config_spec=SPEC,
        embedding_core="host",
    )


def train_estimator(model_dir, first, count):
    """Trains an estimator on some of the batches; returns the losses."""
    losses = []

    def input_fn(params):
        del params
        chosen = BATCHES[first : first + count]
        data = {key: np.stack([batch[key] for batch in chosen]) for key in ("f0", "f1")}
        return tf1.data.Dataset.from_tensor_slices(data).map(lambda each: (each, tf.zeros([8])))

    estimator(model_dir, losses).train(input_fn, steps=count)
    return losses


def sparse(ids):
    """Returns dense ids as sparse ones."""
    return {key: tf.sparse.from_dense(value) for key, value in ids.items()}


def train_mid_level(embedding, first, count):
    """Trains an embedding object on some of the batches; returns the losses."""

    @tf.function
    def step(ids):
        embedding.enqueue(sparse(ids))
        with tf.GradientTape() as tape:
            found = embedding.dequeue()
            tape.watch(found)
            loss = loss_of(found)
        embedding.apply_gradients(tape.gradient(loss, found))
        return loss

    return [
        float(step({key: tf.constant(value) for key, value in batch.items()}))
        for batch in BATCHES[first : first + count]
    ]


def test_the_estimator_and_back(tmp_path):
    """100 steps each of Estimator, mid-level API, Estimator are one uninterrupted run's."""
    whole = train_estimator(tmp_path / "whole", 0, 300)
    losses = train_estimator(tmp_path / "first", 0, 100)
    checkpoints.convert(tmp_path / "first", tmp_path / "moved" / "e", SPEC, objects="tpu_embedding")
    embedding = TPUEmbedding(convert.to_mid_level(SPEC).feature_config, None)
    restored = tf.train.Checkpoint(embedding=embedding)
    restored.restore(str(tmp_path / "moved" / "e"))
    losses += train_mid_level(embedding, 100, 100)
    mid_level.save_for_estimator(str(tmp_path / "last" / "model.ckpt-200"), embedding, SPEC, 200)
    losses += train_estimator(tmp_path / "last", 200, 100)
    assert len(losses) == 300
    np.testing.assert_allclose(losses, whole, rtol=1e-5)
    assert whole[-1] < 0.9 * whole[0]


def test_the_estimators_checkpoint_is_exact(tmp_path):
    """Tables and slots pass from an Estimator to both objects and back without a bit's change."""
    train_estimator(tmp_path / "a", 0, 2)
    reader = tf.train.load_checkpoint(str(tmp_path / "a"))
    checkpoints.convert(tmp_path / "a", tmp_path / "b" / "e", SPEC, objects="tpu_embedding")
    config = convert.to_mid_level(SPEC).feature_config
    embedding = TPUEmbedding(config, None)
    tf.train.Checkpoint(embedding=embedding).restore(str(tmp_path / "b" / "e"))
    objects = [embedding]
    if HAS_V2:
        shaped = convert.to_tpu_embedding_v2(SPEC, batch_size=8).feature_config
        objects.append(TPUEmbeddingV2(shaped))
        mid_level.load_tables(objects[1], mid_level.read_tables(embedding))
    for number, each in enumerate(objects):
        prefix = str(tmp_path / f"c{number}" / "model.ckpt-2")
        mid_level.save_for_estimator(prefix, each, SPEC, 2)
        moved = tf.train.load_checkpoint(prefix)
        names = {"a", "a/Adagrad", "b", "b/Adam/m", "b/Adam/v", "global_step"}
        assert names == set(moved.get_variable_to_shape_map())
        for name in names:
            assert np.array_equal(moved.get_tensor(name), reader.get_tensor(name)), name
        assert tf.train.latest_checkpoint(str(tmp_path / f"c{number}")) == prefix
        with pytest.raises(ValueError, match="exists"):
            mid_level.save_for_estimator(prefix, each, SPEC, 2)


def test_keras_rs(tmp_path):
    """Tables and slots pass to keras_rs' layer and its optimizers, and back, bit by bit."""
    pytest.importorskip("keras_rs")
    keras = pytest.importorskip("keras")
    train_estimator(tmp_path / "a", 0, 2)
    layer = convert.to_distributed_embedding(SPEC, tmp_path / "a", optimizers="core", batch_size=8)
    moved = layer.conversion
    assert {slot for slots in moved.read_tables(layer).values() for slot in slots} == {"parameters"}
    moved.optimizer(keras.optimizers.SGD(0.1)).build(layer.trainable_variables)
    moved.load_slots(layer)
    embedding = TPUEmbedding(convert.to_mid_level(SPEC).feature_config, None)
    mid_level.load_tables(embedding, moved.read_tables(layer))
    before = values_of(embedding)
    assert {("a", "accumulators"), ("b", "velocities")} <= before.keys()
    reader = tf.train.load_checkpoint(str(tmp_path / "a"))
    for (table, slot), name in (
        (("a", "parameters"), "a"),
        (("a", "accumulators"), "a/Adagrad"),
        (("b", "momenta"), "b/Adam/m"),
    ):
        assert np.array_equal(before[table, slot], reader.get_tensor(name))
    train_mid_level(embedding, 2, 1)
    values = mid_level.read_tables(embedding)
    assert not np.array_equal(values["b"]["velocities"], before["b", "velocities"])
    moved.load_tables(layer, values)
    found = moved.read_tables(layer)
    tf.nest.map_structure(lambda old, new: np.testing.assert_array_equal(old, new), values, found)
    for wrong, words in (
        ({"c": {}}, "no table 'c'"),
        ({"a": {"momenta": np.zeros([13, 4])}}, "no 'momenta'"),
        ({"a": {"parameters": np.zeros([1, 4])}}, "has the shape"),
    ):
        with pytest.raises(ValueError, match=words):
            moved.load_tables(layer, wrong)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"c": {}}, "no table 'c'"),
        ({"a": {"momenta": np.zeros([13, 4])}}, "Table 'a' has no 'momenta'"),
        ({"a": {"parameters": np.zeros([12, 4])}}, r"has the shape \(13, 4\), and is given"),
    ],
)
def test_values_that_dont_fit(values, words):
    """load_tables refuses values of other tables, slots and shapes, and assigns nothing."""
    embedding = TPUEmbedding(convert.to_mid_level(SPEC).feature_config, None)
    embedding.build()
    before = values_of(embedding)
    with pytest.raises(ValueError, match=words):
        mid_level.load_tables(embedding, {"b": {"momenta": np.ones([22, 4])}, **values})
    assert_same(before, values_of(embedding))


def test_a_slot_that_is_missing(tmp_path):
    """save_for_estimator refuses an object whose optimizer isn't the spec's, and writes nothing."""
    config = API.TableConfig(13, 4, name="a"), API.TableConfig(22, 4, name="b")
    features = {f"f{i}": API.FeatureConfig(table) for i, table in enumerate(config)}
    embedding = TPUEmbedding(features, API.SGD(0.1))
    with pytest.raises(ValueError, match="no slot 'accumulator'"):
        mid_level.save_for_estimator(str(tmp_path / "m"), embedding, SPEC, 1)
    only = {"f0": API.FeatureConfig(API.TableConfig(13, 4, name="a"))}
    with pytest.raises(ValueError, match="no table 'b'"):
        mid_level.save_for_estimator(
            str(tmp_path / "m"), TPUEmbedding(only, API.Adagrad(0.1)), SPEC, 1
        )
    assert not list(tmp_path.iterdir())
