# SPDX-License-Identifier: Apache-2.0
"""Programs of TensorFlow Recommenders train with the optimizer that their layer was given."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.mid_level import TPUEmbedding

tfrs = pytest.importorskip("tensorflow_recommenders")
API = tf.tpu.experimental.embedding
USERS, MOVIES, DIM = 7, 11, 4


@pytest.fixture
def installed():
    """The names of TensorFlow and of the library as `install()` sets them."""
    with estimator_spec.install():
        yield


def features():
    """Returns the features of a ranking model."""
    return {
        name: API.FeatureConfig(
            API.TableConfig(
                rows,
                DIM,
                name=name,
                initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=rows),
            )
        )
        for name, rows in (("user", USERS), ("movie", MOVIES))
    }


def batches():
    """Returns a dataset of ratings."""
    rng = np.random.default_rng(2)
    data = {
        "user": rng.integers(USERS, size=30),
        "movie": rng.integers(MOVIES, size=30),
        "rating": rng.uniform(size=30).astype(np.float32),
    }
    return tf.data.Dataset.from_tensor_slices(data).batch(8)


def ranking_model(optimizer):
    """Returns the library's example of a ranking model, with embeddings of a TPU."""

    class RankingModel(tfrs.models.Model):
        def __init__(self):
            super().__init__()
            self.embeddings = tfrs.layers.embedding.TPUEmbedding(features(), optimizer)
            self.ratings = tf.keras.Sequential(
                [tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)]
            )
            self.task = tfrs.tasks.Ranking(loss=tf.keras.losses.MeanSquaredError())

        def call(self, batch):
            found = self.embeddings({"user": batch["user"], "movie": batch["movie"]})
            return self.ratings(tf.concat([found["user"], found["movie"]], 1))

        def compute_loss(self, batch, training=False):
            return self.task(labels=batch["rating"], predictions=self(batch))

    model = RankingModel()
    model.compile(optimizer=tf.keras.optimizers.legacy.SGD(0.1))
    return model


def slots_of(model):
    """Returns the accumulators of a model's tables."""
    variables = model.embeddings._tpu_embedding._variables
    return {name: slots["accumulators"].numpy() for name, slots in variables.items()}


@pytest.mark.parametrize("kind", ["core", "keras"])
def test_a_ranking_program(installed, kind):
    """The layer's Adagrad trains the tables, and its slots move, as on a TPU."""
    adagrad = API.Adagrad(0.1) if kind == "core" else tf.keras.optimizers.legacy.Adagrad(0.1)
    model = ranking_model(adagrad)
    losses = model.fit(batches(), epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert all(np.ptp(slot) > 0 for slot in slots_of(model).values())
    names = [variable.name for variable in model.trainable_variables]
    assert sum("helper_dummy" in name for name in names) == 1
    assert not any(name.startswith(("user", "movie")) for name in names)
    evaluated = model.evaluate(batches(), return_dict=True, verbose=0)
    assert np.isfinite(evaluated["loss"])


def test_without_install():
    """TensorFlow Recommenders alone creates the slots of its optimizer and never moves them."""
    model = ranking_model(API.Adagrad(0.1))
    model.fit(batches(), verbose=0)
    assert all(np.ptp(slot) == 0 for slot in slots_of(model).values())


def test_a_step_is_adagrads(installed):
    """One step of a Keras model moves rows by the layer's rule, not by the model's."""
    layer = tfrs.layers.embedding.TPUEmbedding(features(), API.Adagrad(0.5))
    inputs = {name: tf.keras.Input((), dtype=tf.int64, name=name) for name in ("user", "movie")}
    found = layer(inputs)
    model = tf.keras.Model(inputs, tf.reduce_sum(found["user"] * found["movie"], 1))
    model.compile(tf.keras.optimizers.legacy.SGD(0.0), "mse")
    ids = {"user": np.array([1, 1, 2]), "movie": np.array([3, 4, 3])}
    before = {t.name: v.numpy().astype(float) for t, v in layer.embedding_tables.items()}
    model.train_on_batch(ids, np.ones(3))
    u, m = (before[name][ids[name]] for name in ("user", "movie"))
    error = 2 * ((u * m).sum(1) - 1)[:, np.newaxis] / 3
    for name, gradient in (("user", error * m), ("movie", error * u)):
        total = np.zeros_like(before[name])
        np.add.at(total, ids[name], gradient)
        expected = before[name] - 0.5 * total / np.sqrt(0.1 + total**2)
        (value,) = (v.numpy() for t, v in layer.embedding_tables.items() if t.name == name)
        np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.parametrize("eager", [False, True])
def test_two_calls_of_a_layer(installed, eager):
    """A layer that a model calls twice gets both gradients."""
    layer = tfrs.layers.embedding.TPUEmbedding(features(), API.SGD(1.0))
    ids = [{"user": tf.constant([i]), "movie": tf.constant([i])} for i in (1, 2)]

    def step():
        with tf.GradientTape() as tape:
            first, second = (layer(each) for each in ids)
            loss = tf.reduce_sum(first["user"]) + 2 * tf.reduce_sum(second["user"])
        tape.gradient(loss, layer.trainable_variables)

    layer(ids[0])
    tables = {table.name: variable for table, variable in layer.embedding_tables.items()}
    before = tables["user"].numpy()
    (step if eager else tf.function(step))()
    moved = before - tables["user"].numpy()
    assert moved[:4, 0].round(5).tolist() == [0, 1, 2, 0]


def test_a_saved_model(installed, tmp_path):
    """A SavedModel of a trained model has TensorFlow's ops only, and gives its predictions."""
    model = ranking_model(API.Adagrad(0.1))
    model.fit(batches(), verbose=0)
    ids = {"user": tf.constant([1, 5], tf.int64), "movie": tf.constant([2, 3], tf.int64)}
    model.save(str(tmp_path / "m"))
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    np.testing.assert_allclose(loaded({**ids, "rating": tf.zeros([2])}), model(ids), rtol=1e-6)
    text = (tmp_path / "m" / "saved_model.pb").read_bytes()
    assert b"TpuColumns" not in text and b"QueueEnqueue" not in text


def test_checkpoints_are_the_librarys(installed, tmp_path):
    """A checkpoint of a model restores into one that was made without `install()`."""
    model = ranking_model(API.Adagrad(0.1))
    model.fit(batches(), verbose=0)
    path = tf.train.Checkpoint(model=model).save(str(tmp_path / "c"))
    estimator_spec.uninstall()
    other = ranking_model(API.Adagrad(0.1))
    other(next(iter(batches())))
    tf.train.Checkpoint(model=other).restore(path).assert_existing_objects_matched()
    for name, slot in slots_of(model).items():
        assert np.array_equal(slot, slots_of(other)[name])


def test_partial_embeddings(installed):
    """The library's PartialTPUEmbedding trains its large tables by their optimizer."""
    layer = tfrs.experimental.layers.embedding.PartialTPUEmbedding(
        features(), API.Adagrad(0.1), size_threshold=USERS
    )
    layer({"user": tf.constant([[1]]), "movie": tf.constant([[2]])})
    assert isinstance(layer.tpu_embedding._tpu_embedding, TPUEmbedding)
    # A table without an optimizer is the model's to train, as before.
    plain = tfrs.layers.embedding.TPUEmbedding(features(), None)
    assert type(plain._tpu_embedding) is API.TPUEmbeddingForServing


VECTOR = tf.SparseTensor([[0], [2]], [1, 3], [4])
MATRIX = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], [1, 3, 4], [2, 2])


def layer_of_one(**arguments):
    """Returns a layer of one table, whose row r is [2r, 2r + 1]."""
    table = API.TableConfig(
        10, 2, tf.constant_initializer(np.arange(20.0)), name="t", combiner="mean"
    )
    features = {"x": API.FeatureConfig(table, **arguments)}
    return tfrs.layers.embedding.TPUEmbedding(features, API.SGD(1.0))


@pytest.mark.parametrize(
    ("ids", "weights", "length"),
    [
        (VECTOR, None, 0),
        (VECTOR, None, 2),  # the library ignores the length
        (VECTOR, tf.cast(VECTOR, tf.float32), 0),
        (tf.SparseTensor(np.zeros([0, 1], np.int64), np.zeros([0], np.int64), [4]), None, 0),
        (tf.constant(3), None, 0),
    ],
    ids=["vector", "sequence", "weighted", "empty", "scalar"],
)
def test_ids_without_a_batch(ids, weights, length):
    """A sparse vector is one sample and a scalar one id, as in the library without a TPU."""

    def look_up():
        layer = layer_of_one(max_sequence_length=length)
        return layer({"x": ids}, weights and {"x": weights})["x"]

    expected = look_up()
    with estimator_spec.install():
        found = look_up()
    np.testing.assert_array_equal(found, expected)
    assert found.shape == [2]


def test_a_sparse_vector_that_isn_t_validated(installed):
    """Without `validate_weights_and_indices` each place of a sparse vector is a sample."""
    found = layer_of_one(validate_weights_and_indices=False)({"x": VECTOR})["x"]
    assert found.numpy().tolist() == [[2, 3], [0, 0], [6, 7], [0, 0]]


@pytest.mark.parametrize("kind", ["sparse", "ragged"])
@pytest.mark.parametrize("graph", [False, True])
def test_an_input_without_a_shape(kind, graph):
    """A model of `Input(shape=(), sparse=True)` gives what it gives in the library alone."""
    ids = MATRIX if kind == "sparse" else tf.RaggedTensor.from_sparse(MATRIX)

    def predict():
        given = tf.keras.Input((), dtype=tf.int32, name="x", **{kind: True})
        result = layer_of_one()({"x": given})["x"]
        model = tf.keras.Model({"x": given}, result)
        call = tf.function(model) if graph else model
        return result.shape.as_list(), call({"x": ids}).numpy()

    expected = predict()
    with estimator_spec.install():
        found = predict()
    assert found[0] == expected[0]
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("ids", [tf.constant(3), VECTOR], ids=["scalar", "vector"])
def test_training_by_ids_without_a_batch(installed, ids):
    """The gradient of a sample without a batch moves its rows, and no others."""
    layer = layer_of_one()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer({"x": ids})["x"])
    tape.gradient(loss, layer.trainable_variables)
    (table,) = layer.embedding_tables.values()
    moved = np.arange(20.0).reshape([10, 2]) - table.numpy()
    rows = {1: 0.5, 3: 0.5} if isinstance(ids, tf.SparseTensor) else {3: 1.0}
    assert moved[:, 0].tolist() == [rows.get(row, 0.0) for row in range(10)]


LIBRARYS_TESTS = (
    "layers/embedding/tpu_embedding_layer_test.py",
    "experimental/layers/embedding/partial_tpu_embedding_test.py",
)


@pytest.mark.nightly("the cases above have its shapes; it takes half a minute")
@pytest.mark.parametrize("name", LIBRARYS_TESTS)
def test_the_librarys_own_tests(name):
    """The library's tests of its layer pass with the layer that trains on the host."""
    path = Path(tfrs.__file__).parent / name
    program = "import sys, estimator_spec, pytest; estimator_spec.install(); sys.exit(pytest.main("
    program += f"['-q', '-p', 'no:cacheprovider', '-c', '/dev/null', {str(path)!r}]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]


def test_the_library_may_be_imported_later():
    """`install()` before the library's import has the same effect, and `uninstall()` undoes it."""
    program = """
        import sys, tensorflow as tf, estimator_spec
        estimator_spec.install()
        assert "tensorflow_recommenders" not in sys.modules
        import tensorflow_recommenders as tfrs
        from tensorflow_recommenders.layers.embedding import tpu_embedding_layer as home
        from estimator_spec.mid_level import TPUEmbedding
        layer = tfrs.layers.embedding.TPUEmbedding
        assert layer is home.TPUEmbedding and len(layer.__mro__) == len(layer.__base__.__mro__) + 1
        E = tf.tpu.experimental.embedding
        assert E.TPUEmbedding is TPUEmbedding
        feature = E.FeatureConfig(E.TableConfig(3, 2, name="t"))
        E.TPUEmbedding([feature], E.SGD(0.1)), E.TPUEmbedding([feature], E.SGD(0.1))
        estimator_spec.uninstall()
        assert home.TPUEmbedding is layer.__base__ and E.TPUEmbedding is not TPUEmbedding
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if "trains its tables on this host" in line]
    assert len(lines) == 1
