# SPDX-License-Identifier: Apache-2.0
"""`TPUEmbedding` off a TPU: its calls, their order and errors, shapes and structures."""

from __future__ import annotations

import collections
import importlib

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import mid_level
from estimator_spec.mid_level import TPUEmbedding

API = tf.tpu.experimental.embedding
SGD = API.SGD(1.0)


def table(name="t", rows=5, dim=2, **more):
    """Returns the configuration of a table whose row r is r + 1."""
    values = np.repeat(np.arange(1.0, rows + 1)[:, np.newaxis], dim, 1)
    more.setdefault("initializer", tf.constant_initializer(values))
    return API.TableConfig(rows, dim, name=name, **more)


def one(optimizer=SGD, pipelined=False, config=None, **feature):
    """Returns an object of one feature, "x", and its table."""
    config = config or table()
    made = TPUEmbedding({"x": API.FeatureConfig(config, **feature)}, optimizer, pipelined)
    return made, config


def step(embedding, ids, gradient=1.0):
    """Trains once; returns the activations."""
    embedding.enqueue({"x": tf.constant(ids)})
    found = embedding.dequeue()
    embedding.apply_gradients({"x": gradient * tf.ones_like(found["x"])})
    return found["x"].numpy()


def rows_of(embedding, config):
    """Returns the first column of a table."""
    return embedding.embedding_tables[config].numpy()[:, 0]


@pytest.mark.parametrize(
    "make",
    [
        lambda f: {"b": f(), "a": {"c": f()}},
        lambda f: (f(), [f(), f()]),
        lambda f: collections.namedtuple("Pair", "second first")(f(), f()),
        lambda f: f(),
    ],
)
def test_structures(make):
    """Activations and gradients have the structure of the features, whatever that is."""
    numbers = iter(range(5))
    config = table(rows=5)
    embedding = TPUEmbedding(make(lambda: API.FeatureConfig(config)), SGD)
    ids = make(lambda: tf.constant([next(numbers)]))
    embedding.enqueue(ids)
    found = embedding.dequeue()
    tf.nest.assert_same_structure(found, ids)
    for value, id_ in zip(tf.nest.flatten(found), tf.nest.flatten(ids), strict=True):
        assert value.numpy().tolist() == [[int(id_[0]) + 1.0] * 2]
    embedding.apply_gradients(tf.nest.map_structure(tf.ones_like, found))
    used = len(tf.nest.flatten(ids))
    assert rows_of(embedding, config).tolist() == [row + 1.0 - (row < used) for row in range(5)]


def test_batches_are_first_in_first_out():
    """Batches may be enqueued ahead: each dequeue takes the oldest."""
    embedding, config = one()
    for id_ in (1, 3):
        embedding.enqueue({"x": tf.constant([id_])})
    for expected in (2.0, 4.0):
        assert embedding.dequeue()["x"].numpy()[0, 0] == expected
        embedding.apply_gradients({"x": tf.ones([1, 2])})
    assert rows_of(embedding, config).tolist() == [1, 1, 3, 3, 5]


def test_batches_of_both_kinds_wait_in_one_line():
    """A batch for evaluation that was enqueued after one for training is dequeued after it."""
    embedding, _ = one()
    for id_, training in ((1, True), (2, False), (3, True)):
        embedding.enqueue({"x": tf.constant([id_])}, training=training)
    assert [embedding.dequeue()["x"].numpy()[0, 0] for _ in range(3)] == [2, 3, 4]


@pytest.mark.parametrize("rows", [2, 4])
def test_rows_of_an_unknown_number(rows):
    """In a function, rows of an unknown number are steps or samples, by their number in a run."""
    embedding, _ = one(output_shape=[2, 2])

    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int64)])
    def look_up(ids):
        embedding.enqueue({"x": ids}, training=False)
        return embedding.dequeue()

    ids = [[1, 2, 3], [4]] if rows == 2 else [[1], [2], [4, 4], []]
    expected = [[[2, 3], [5, 0]], [[2, 3], [5, 0]]][rows == 4]
    found = look_up(tf.ragged.constant(ids, dtype=tf.int64))["x"]
    assert found.numpy()[..., 0].tolist() == expected
    with pytest.raises(tf.errors.InvalidArgumentError, match="no multiple"):
        look_up(tf.ragged.constant([[1], [2], [3]], dtype=tf.int64))


def test_calls_in_functions_of_their_own():
    """enqueue, dequeue and apply_gradients may be in different tf.functions."""
    embedding, config = one()
    embedding.build(2)
    enqueue = tf.function(lambda ids: embedding.enqueue({"x": ids}))
    enqueue(tf.constant([1, 1]))
    dequeue = tf.function(embedding.dequeue)
    assert dequeue()["x"].shape == (2, 2)
    tf.function(lambda g: embedding.apply_gradients({"x": g}))(tf.ones([2, 2]))
    assert rows_of(embedding, config).tolist() == [1, 0, 3, 4, 5]
    enqueue(tf.constant([3, 4]))  # the second calls aren't traced
    assert dequeue()["x"].numpy()[:, 0].tolist() == [4, 5]


def test_a_loop_in_a_function():
    """A tf.range loop trains, as the documented training step does."""
    embedding, config = one(API.SGD(0.25))

    @tf.function
    def train(count):
        for _ in tf.range(count):
            embedding.enqueue({"x": tf.constant([4, 0])})
            with tf.GradientTape() as tape:
                found = embedding.dequeue()
                tape.watch(found)
                loss = tf.reduce_sum(found["x"])
            embedding.apply_gradients(tape.gradient(loss, found))

    train(4)
    assert rows_of(embedding, config).tolist() == [0, 2, 3, 4, 4]


def test_names_pair_the_calls():
    """Two lookups of a step, each with a name, apply their gradients in any order."""
    embedding, config = one()
    for name, id_ in (("first", 1), ("second", 2)):
        embedding.enqueue({"x": tf.constant([id_])}, name=name)
        embedding.dequeue(name=name)
    for name, gradient in (("second", 10.0), ("first", 1.0)):
        embedding.apply_gradients({"x": tf.fill([1, 2], gradient)}, name=name)
    assert rows_of(embedding, config).tolist() == [1, 1, -7, 4, 5]


def test_an_evaluation_between_steps():
    """A batch of training=False takes no gradient and disturbs no step."""
    embedding, config = one()
    step(embedding, [1])
    embedding.enqueue({"x": tf.constant([1])}, training=False)
    assert embedding.dequeue()["x"].numpy()[0, 0] == 1.0
    with pytest.raises(RuntimeError, match="training=False"):
        embedding.apply_gradients({"x": tf.ones([1, 2])})
    assert step(embedding, [1])[0, 0] == 1.0
    assert rows_of(embedding, config)[1] == 0.0


@pytest.mark.parametrize("graph", [False, True])
def test_pipelining(graph):
    """A lookup lacks the update of the step before, which is there for whoever reads the table."""
    embedding, config = one(pipelined=True)

    def train():
        embedding.enqueue({"x": tf.constant([1])})
        found = embedding.dequeue()
        embedding.apply_gradients({"x": tf.ones([1, 2])})
        return found["x"][0, 0]

    train = tf.function(train) if graph else train
    assert [float(train()) for _ in range(4)] == [2.0, 2.0, 1.0, 0.0]
    embedding.enqueue({"x": tf.constant([1])}, training=False)
    assert embedding.dequeue()["x"].numpy()[0, 0] == -2.0
    assert float(train()) == -2.0
    assert rows_of(embedding, config)[1] == -3.0
    assert float(train()) == -3.0


def test_a_restored_table_gets_no_delayed_update(tmp_path):
    """What pipelining has delayed belongs to the table before a checkpoint is restored."""
    embedding, config = one(pipelined=True)
    embedding.build(1)
    path = tf.train.Checkpoint(e=embedding).save(str(tmp_path / "c"))
    step(embedding, [1])
    tf.train.Checkpoint(e=embedding).restore(path).assert_consumed()
    assert rows_of(embedding, config)[1] == 2.0


def test_a_rate_is_read_in_each_step():
    """A function as learning rate is called for each update, also in a tf.function."""
    rate = tf.Variable(1.0)
    embedding, config = one(API.SGD(lambda: rate))
    train = tf.function(lambda: step_of(embedding))

    def step_of(embedding):
        embedding.enqueue({"x": tf.constant([1])})
        embedding.apply_gradients({"x": tf.ones_like(embedding.dequeue()["x"])})

    train()
    rate.assign(0.5)
    train()
    assert rows_of(embedding, config)[1] == 0.5


def test_without_an_optimizer():
    """optimizer=None: a table has no slots, can be looked up and not trained."""
    embedding, _ = one(None)
    embedding.enqueue({"x": tf.constant([1])}, training=False)
    assert embedding.dequeue()["x"].numpy()[0, 0] == 2.0
    assert list(embedding.variables["t"]) == ["parameters"]
    with pytest.raises(ValueError, match="Table 't' has no optimizer"):
        embedding.enqueue({"x": tf.constant([1])})


def test_quantization():
    """A lookup rounds rows to the buckets of a QuantizationConfig; the table keeps its values."""
    config = table(quantization_config=API.QuantizationConfig(3, 1.0, 4.0))
    embedding, _ = one(API.SGD(0.25), config=config)
    assert step(embedding, [1, 2, 4])[:, 0].tolist() == [2.5, 2.5, 4.0]
    assert rows_of(embedding, config).tolist() == [1, 1.75, 2.75, 4, 4.75]


def test_a_one_device_strategy():
    """A step in the scope of a OneDeviceStrategy is that of no strategy."""
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with strategy.scope():
        embedding, config = one()

    @tf.function
    def train(ids):
        embedding.enqueue({"x": ids}, device="/cpu:0")
        strategy.run(lambda: embedding.apply_gradients({"x": 2 * embedding.dequeue()["x"]}))

    train(tf.constant([1, 1]))
    assert rows_of(embedding, config).tolist() == [1, -6, 3, 4, 5]
    with pytest.raises(ValueError, match="none of the strategy's"):
        embedding.enqueue({"x": tf.constant([1, 2])}, device="/cpu:7")


SPARSE = tf.sparse.from_dense(tf.constant([[1, 2], [3, 0]]))
RAGGED = tf.ragged.constant([[1, 2], [3]])


@pytest.mark.parametrize(
    ("feature", "ids", "weights", "words"),
    [
        ({}, tf.constant([[1, 2]]), None, "last dimension as 1"),
        ({}, tf.constant(1), None, "rank 1 and above"),
        ({}, tf.constant([1.0]), None, "must be integers"),
        ({}, tf.constant(["a"]), None, "must be integers"),
        ({}, np.array([1]), None, "unknown type"),
        ({}, tf.sparse.from_dense([1]), None, "rank 2 and above"),
        ({}, tf.ragged.constant([[[1]]]), None, "rank 2 ragged"),
        ({}, tf.constant([1]), tf.constant([1.0]), "Weight specified for dense"),
        ({}, SPARSE, RAGGED, "does not match type input which is SparseTensor"),
        ({}, RAGGED, SPARSE, "does not match type input which is RaggedTensor"),
        ({"output_shape": [3]}, tf.constant([1, 2]), None, "Inconsistent shape"),
        ({"output_shape": [2, 2]}, RAGGED[:1], None, None),
        ({"output_shape": [3, 1]}, RAGGED, None, "no multiple"),
        ({}, tf.constant([5]), None, r"Feature x: id 5 is not in \[0, 5\)"),
        ({}, tf.constant([-1]), None, r"id -1 is not in"),
        ({}, tf.constant([2**40 + 1], tf.int64), None, "id 1099511627777 is not in"),
    ],
)
def test_what_is_refused(feature, ids, weights, words):
    """Ids and weights that a TPU has no lookup of are errors that name the feature."""
    embedding, _ = one(**feature)

    def look_up():
        embedding.enqueue({"x": ids}, None if weights is None else {"x": weights})
        return embedding.dequeue()

    if words is None:
        assert look_up()["x"].shape == (2, 2, 2)
        return
    with pytest.raises(ValueError, match=words):
        look_up()


def test_an_id_out_of_range_in_a_function():
    """In a tf.function an id out of range is an error with the id, and by our ops the feature."""
    embedding, _ = one()

    @tf.function
    def look_up(ids):
        embedding.enqueue({"x": ids})
        return embedding.dequeue()

    look_up(tf.constant([1]))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="= 7 is not in|id 7 of feature 'x' is outside"
    ):
        look_up(tf.constant([7]))


def test_the_order_of_calls():
    """dequeue without a batch and apply_gradients without a dequeue are errors, not waits."""
    embedding, _ = one()
    for call in (embedding.dequeue, lambda: embedding.apply_gradients({"x": None})):
        with pytest.raises(RuntimeError, match="unbuilt TPUEmbedding"):
            call()
    embedding.build(1)
    with pytest.raises(RuntimeError, match="no batch is enqueued"):
        embedding.dequeue()
    step(embedding, [1])
    with pytest.raises(RuntimeError, match="no batch is enqueued"):
        embedding.dequeue()
    with pytest.raises(RuntimeError, match="no batch was dequeued"):
        embedding.apply_gradients({"x": tf.ones([1, 2])})
    with pytest.raises(tf.errors.InvalidArgumentError, match="no batch is enqueued"):
        tf.function(embedding.dequeue)()


def test_gradients_that_dont_fit():
    """A gradient of another kind, shape or structure is an error."""
    embedding, _ = one()
    embedding.enqueue({"x": tf.constant([1, 2])})
    embedding.dequeue()
    with pytest.raises(ValueError, match="non-tensor type"):
        embedding.apply_gradients({"x": np.ones([2, 2], np.float32)})
    with pytest.raises(ValueError, match="Found gradient of shape"):
        embedding.apply_gradients({"x": tf.ones([3, 2])})
    with pytest.raises((ValueError, TypeError)):
        embedding.apply_gradients([tf.ones([2, 2])])


def test_batches_of_one_shape():
    """The shape of a batch is that of `build`, of the FeatureConfig or of the first batch."""
    embedding, _ = one()
    embedding.build(per_replica_batch_size=2)
    with pytest.raises(ValueError, match="Inconsistent shape"):
        embedding.enqueue({"x": tf.constant([1, 2, 3])})
    embedding, _ = one(max_sequence_length=3)
    embedding.build({"x": tf.TensorShape([2, 4])})
    embedding.enqueue({"x": SPARSE})
    assert embedding.dequeue()["x"].shape == (2, 3, 2)
    with pytest.raises(ValueError, match="2 shapes for 1 features"):
        one()[0].build([[2], [2]])
    with pytest.raises(ValueError, match="Rank must be 1 and above"):
        one()[0].build({"x": tf.TensorShape([])})


class Custom(API.SGD):
    """A program's own subclass: it has the rule of SGD."""


def test_optimizers_and_combiners_of_a_tpu_only():
    """What only a TPU runs is refused with the table's name; subclasses of optimizers train."""
    embedding, config = one(Custom(1.0))
    step(embedding, [0])
    assert rows_of(embedding, config)[0] == 0.0
    with pytest.raises(ValueError, match="unsupported optimizer class"):
        one("sgd")
    with pytest.raises(ValueError, match="unique name"):
        TPUEmbedding([API.FeatureConfig(table()), API.FeatureConfig(table())], SGD)
    if not hasattr(API, "CustomOptimizer"):
        return
    rule = API.CustomOptimizer(lambda *_: None, learning_rate=1.0)
    with pytest.raises(ValueError, match="Table 't': only a TPU runs a CustomOptimizer"):
        step(one(rule)[0], [0])
    if not hasattr(API, "CustomCombiner"):
        return
    combiner = API.CustomCombiner(lambda valency, vectors: vectors, 3)
    with pytest.raises(ValueError, match="Table 't': only a TPU runs a CustomCombiner"):
        step(one(config=table(combiner=combiner))[0], [0])


def test_strategies_of_several_processes():
    """A strategy whose replicas or variables are elsewhere is refused when the object is made."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy.__new__(
        tf.distribute.MultiWorkerMirroredStrategy
    )
    from estimator_spec.mid_level.replicas import LocalReplicas

    with pytest.raises(RuntimeError, match="tables are of one process"):
        LocalReplicas(strategy)


def test_a_graph_of_tensorflow_1():
    """In a graph of TensorFlow 1 the object can't be built, and the error says what can."""
    embedding, _ = one()
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="EmbeddingConfigSpec"):
        embedding.build(1)


def test_tables_are_tensorflows():
    """Tables are trainable variables off a TPU, as TensorFlow's; a dequeue isn't differentiable."""
    embedding, config = one(API.Adagrad(0.1))
    assert isinstance(embedding, API.TPUEmbedding)
    variable = embedding.embedding_tables[config]
    assert variable.trainable and not embedding.variables["t"]["accumulators"].trainable
    with tf.GradientTape() as tape:
        ids = {"x": tf.constant([1])}
        found = API.serving_embedding_lookup(
            ids, None, embedding.embedding_tables, {"x": API.FeatureConfig(config)}
        )
    assert tape.gradient(found["x"], variable) is not None
    embedding.enqueue({"x": tf.constant([1])})
    with tf.GradientTape() as tape:
        found = embedding.dequeue()
    assert tape.watched_variables() == ()


@pytest.mark.parametrize(
    ("module", "name"), [("v2", "TPUEmbedding"), ("v3", "TPUEmbeddingV2")], ids=["1", "2"]
)
def test_private_names(module, name):
    """Programs that take the classes from TensorFlow's own modules get these, too."""
    if not hasattr(API, name):
        pytest.skip(f"this TensorFlow has no {name}")
    home = importlib.import_module(f"tensorflow.python.tpu.tpu_embedding_{module}")
    before = getattr(home, name)
    with estimator_spec.install(replace=True):
        assert getattr(home, name) is getattr(API, name) is getattr(mid_level, name)
    assert getattr(home, name) is before
