# SPDX-License-Identifier: Apache-2.0
"""Tests runs with several lookup devices on a host: cpu, tensor core and embedding core."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns
from estimator_spec.core.cores import tensor_core
from tpu_columns import Hardware, Mode, padded_lookup, placement

tf1 = tf.compat.v1
fc = tf.feature_column
ROWS, WIDTH, BATCH = 9, 3, 4
TABLE = np.random.RandomState(0).normal(size=[ROWS, 2]).astype(np.float32)
SGD = es.StochasticGradientDescentParameters(0.3)


def initial(shape, dtype=tf.float32, partition_info=None):
    """Returns the initializer of every table."""
    del partition_info
    return tf.constant(TABLE, dtype, shape)


def column(key, device=None, combiner="mean", weighted=False, shape=(None, WIDTH)):
    """Returns a column of nine rows with a requested device."""
    categorical = fc.categorical_column_with_identity(key, ROWS)
    if weighted:
        categorical = fc.weighted_categorical_column(categorical, f"{key}_weights")
    return tpu_columns.embedding_column(
        categorical, 2, combiner, initial, embedding_lookup_device=device, tensor_core_shape=shape
    )


def sparse(seed, dtype=np.int64):
    """Returns up to three ids per example, with repeats and an empty example."""
    rng = np.random.RandomState(seed)
    lengths = [2, 0, 3, 1]
    indices = [[i, j] for i, length in enumerate(lengths) for j in range(length)]
    values = rng.randint(0, ROWS, len(indices)).astype(dtype)
    return tf.SparseTensor(np.array(indices, np.int64), values, [BATCH, WIDTH])


def input_fn(params):
    """Returns batches of three sparse features, one of them weighted."""
    del params
    b = sparse(2)
    weights = np.random.RandomState(4).uniform(0.5, 2, b.values.shape).astype(np.float32)
    features = {"a": sparse(1), "b": b, "b_weights": b.with_values(weights), "c": sparse(3)}
    return tf.data.Dataset.from_tensors((features, np.float32([[1], [0], [1], [0]]))).repeat(6)


class Program:
    """A legacy model of columns that records its features."""

    def __init__(self, tmp_path, columns, core="host", **spec):
        self.columns, self.seen = columns, {}
        self.estimator = host_runs.make_estimator(
            self.model_fn,
            tmp_path,
            BATCH,
            config={"log_step_count_steps": None},
            embedding_config_spec=es.EmbeddingConfigSpec(columns, SGD, **spec),
            embedding_core=core,
        )

    def model_fn(self, features, labels, mode, params):
        """Logistic regression on the embeddings, by gradient descent."""
        del params
        self.seen[mode] = {
            key: (value.dtype, value.shape.as_list())
            for key, value in features.items()
            if isinstance(value, tf.Tensor)
        } | {key: "sparse" for key, v in features.items() if isinstance(v, tf.SparseTensor)}
        inputs = tpu_columns.input_layer(features, self.columns)
        self.seen["trainable"] = [v.op.name for v in tf1.trainable_variables()]
        logits = tf.reduce_sum(inputs, 1, keepdims=True)
        predictions = {"p": tf.sigmoid(logits)}
        if mode == es.ModeKeys.PREDICT:
            return es.TPUEstimatorSpec(mode, predictions=predictions)
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        train_op = tf1.no_op()
        if mode == es.ModeKeys.TRAIN:
            # Nothing to train is an error of TensorFlow's optimizers.
            step = tf1.train.get_global_step()
            train_op = tf1.assign_add(step, 1).op
            if tf1.trainable_variables():
                train_op = tf1.train.GradientDescentOptimizer(0.3).minimize(loss, step)
        metrics = (lambda p: {"p": tf1.metrics.mean(p)}, [predictions["p"]])
        return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op, eval_metrics=metrics)

    def run(self):
        """Trains, evaluates and predicts; returns the checkpoint, the metrics, the predictions."""
        self.estimator.train(input_fn, steps=4)
        values = host_runs.values_of(self.estimator)
        predictions = [p["p"] for p in self.estimator.predict(input_fn)][:BATCH]
        return values, self.estimator.evaluate(input_fn, steps=1), predictions


def test_a_model_sees_what_it_sees_on_a_tpu(tmp_path):
    """In every mode the model gets padded ids with masks, and activations, as on a TPU."""
    columns = [
        column("a", "tpu_tensor_core"),
        column("b", "tpu_tensor_core", weighted=True),
        column("c", "tpu_embedding_core"),
    ]
    program = Program(tmp_path, columns)
    program.run()
    wanted = {
        "a": (tf.int32, [BATCH, WIDTH]),
        "a__TENSOR_CORE_MASK": (tf.float32, [BATCH, WIDTH]),
        "b": (tf.int32, [BATCH, WIDTH]),
        "b__TENSOR_CORE_MASK": (tf.float32, [BATCH, WIDTH]),
        "c": (tf.float32, [BATCH, 2]),
    }
    for mode in (es.ModeKeys.TRAIN, es.ModeKeys.EVAL, es.ModeKeys.PREDICT):
        assert program.seen[mode] == wanted, mode
    assert program.seen["trainable"] == [
        "input_layer/a_embedding/embedding_weights",
        "input_layer/b_weighted_by_b_weights_embedding/embedding_weights",
    ]


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_all_devices_train_alike(tmp_path, combiner):
    """With gradient descent both cores give the variables and outputs of a plain run."""

    def columns(devices):
        return [
            column("a", devices[0], combiner),
            column("b", devices[1], combiner, weighted=True),
            column("c", devices[2], combiner),
        ]

    plain = Program(tmp_path / "plain", columns([None] * 3), core=None).run()
    for number, devices in enumerate(
        [["tpu_tensor_core"] * 3, ["tpu_embedding_core", "tpu_tensor_core", None]]
    ):
        found = Program(tmp_path / str(number), columns(devices)).run()
        host_runs.assert_same_values(found[0], plain[0])
        assert found[1] == pytest.approx(plain[1], rel=1e-5)
        np.testing.assert_allclose(found[2], plain[2], rtol=1e-5)


def test_cpu_columns_evaluate_and_predict_but_do_not_train(tmp_path):
    """Columns on the cpu evaluate and predict from a checkpoint of the core, and don't train."""
    trained = Program(tmp_path, [column("a"), column("c")])
    _, metrics, predictions = trained.run()
    other = Program(tmp_path, [column("a", "cpu"), column("c")])
    assert other.estimator.evaluate(input_fn, steps=1) == pytest.approx(metrics, rel=1e-5)
    found = [p["p"] for p in other.estimator.predict(input_fn)][:BATCH]
    np.testing.assert_allclose(found, predictions, rtol=1e-5)
    assert other.seen[es.ModeKeys.EVAL]["a"] == "sparse"
    assert other.seen[es.ModeKeys.EVAL]["c"] == (tf.float32, [BATCH, 2])
    with pytest.raises(ValueError, match='a_embedding.*"cpu" during training is not supported'):
        other.estimator.train(input_fn, steps=1)


@pytest.mark.parametrize("device", [None, "cpu", "tpu_tensor_core", "tpu_embedding_core"])
def test_exports_look_up_on_the_host(tmp_path, device):
    """A SavedModel takes raw ids and predicts the same, whatever device trained the table."""
    program = Program(tmp_path, [column("a", None if device == "cpu" else device), column("c")])
    _, _, predictions = program.run()
    serving = Program(tmp_path, [column("a", device), column("c")])

    def receiver():
        serialized = {
            key: tf1.sparse_placeholder(tf.int64, [None, WIDTH], name=key) for key in "ac"
        }
        return es.export.ServingInputReceiver(serialized, serialized)

    path = serving.estimator.export_saved_model(str(tmp_path / "export"), receiver)
    served = tf.saved_model.load(tf.compat.as_text(path)).signatures["serving_default"]
    parts = {
        f"{key}_{name}": getattr(ids, name)
        for key, ids in (("a", sparse(1)), ("c", sparse(3)))
        for name in ("indices", "values", "dense_shape")
    }
    found = served(**parts)["p"]
    np.testing.assert_allclose(found, predictions, rtol=1e-5)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("mode", [Mode.TRAIN, Mode.SERVE])
def test_the_tensor_core_lookup_compiles(mode, combiner):
    """XLA compiles the tensor core's lookup and gradient to the results of the plain lookup."""
    features = {"b": sparse(2)}
    features["b_weights"] = features["b"].with_values(
        np.random.RandomState(4).uniform(0.5, 2, features["b"].values.shape).astype(np.float32)
    )
    made = column("b", "tpu_tensor_core", combiner, weighted=True)
    wanted = tpu_columns.lookup.pooled_lookup(
        tf.constant(TABLE), features["b"], features["b_weights"], combiner
    )
    values, mask = padded_lookup.pad_for_tensor_core(features["b"], features["b_weights"], WIDTH)
    table = tf.Variable(TABLE)

    @tf.function(jit_compile=True)
    def compiled(values, mask):
        with tf.GradientTape() as tape:
            found = padded_lookup.tensor_core_lookup(table, values, mask, combiner)
        return found, tf.convert_to_tensor(tape.gradient(found, table))

    found, gradient = compiled(values, mask)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert np.abs(gradient).sum() > 0
    with tf.Graph().as_default(), placement.running(mode, Hardware.TPU), tf1.Session() as session:
        graph_features = {
            key: tf.SparseTensor(v.indices.numpy(), v.values.numpy(), v.dense_shape.numpy())
            for key, v in features.items()
        }
        if mode is Mode.TRAIN:
            graph_features = tensor_core.pad([made], graph_features)
        layer = tpu_columns.input_layer(graph_features, [made])
        session.run(tf1.global_variables_initializer())
        np.testing.assert_allclose(session.run(layer), wanted, rtol=1e-5, atol=1e-6)


class TestRefusals:
    """Errors of inputs that the tensor core doesn't support."""

    def train(self, tmp_path, columns, change):
        """Trains on changed features."""
        data = lambda params: input_fn(params).map(lambda f, y: (change(dict(f)), y))  # noqa: E731
        Program(tmp_path, columns).estimator.train(data, steps=1)

    def test_a_mask_key_in_use(self, tmp_path):
        """A feature with the name of the mask raises an error."""
        with pytest.raises(ValueError, match="Mask key a__TENSOR_CORE_MASK.*already in use"):
            self.train(
                tmp_path,
                [column("a", "tpu_tensor_core"), column("c")],
                lambda f: {**f, "a__TENSOR_CORE_MASK": tf.zeros([BATCH, 1])},
            )

    def test_strings(self, tmp_path):
        """String ids raise an error, as on a TPU."""
        with pytest.raises(ValueError, match="'a'.*string as values are not supported"):
            self.train(
                tmp_path,
                [column("a", "tpu_tensor_core"), column("c")],
                lambda f: {**f, "a": f["a"].with_values(tf.strings.as_string(f["a"].values))},
            )

    def test_another_batch_size(self, tmp_path):
        """A tensor_core_shape with another batch size raises an error."""
        columns = [column("a", "tpu_tensor_core", shape=(BATCH + 1, WIDTH)), column("c")]
        with pytest.raises(ValueError, match="a_embedding.*the batch has 4 rows"):
            self.train(tmp_path, columns, lambda f: f)

    def test_one_table_on_two_devices(self, tmp_path):
        """Shared columns with different devices raise an error."""
        a, c = tpu_columns.shared_embedding_columns(
            [fc.categorical_column_with_identity(key, ROWS) for key in "ac"],
            2,
            tensor_core_shape=[None, WIDTH],
        )
        columns = [a._replace(embedding_lookup_device="tpu_tensor_core"), c]
        with pytest.raises(ValueError, match="c_shared_embedding.*different lookup devices"):
            self.train(tmp_path, columns, lambda f: f)

    def test_an_id_out_of_range(self, tmp_path):
        """The tensor core's error of an id out of range names column, id and vocabulary size."""
        columns = [column("a", "tpu_tensor_core"), column("c")]
        with pytest.raises(ValueError, match="'a_embedding'.*outside of the vocabulary"):
            self.train(
                tmp_path, columns, lambda f: {**f, "a": f["a"].with_values(f["a"].values + 50)}
            )


class TestTablesBelowASize:
    """Tables below the size of EmbeddingConfigSpec(tensor_core_below=…)."""

    def test_small_tables_train_on_the_tensor_core(self, tmp_path):
        """Small tables are trainable variables, a big one isn't; results equal the plain run's."""
        big = tpu_columns.embedding_column(
            fc.categorical_column_with_identity("c", 100),
            2,
            initializer=tf1.constant_initializer(0.1),
        )
        columns = [column("a"), column("b", weighted=True), big]
        program = Program(tmp_path / "core", columns, tensor_core_below=ROWS + 1)
        found, _, predictions = program.run()
        assert len(program.seen["trainable"]) == 2
        assert "a__TENSOR_CORE_MASK" in program.seen[es.ModeKeys.TRAIN]
        plain, _, wanted = Program(
            tmp_path / "plain", columns, core=None, tensor_core_below=ROWS + 1
        ).run()
        host_runs.assert_same_values(found, plain)
        np.testing.assert_allclose(predictions, wanted, rtol=1e-5)

    def test_all_tables_small(self, tmp_path):
        """All tables may be on the tensor core."""
        program = Program(tmp_path, [column("a"), column("c")], tensor_core_below=1000)
        program.run()
        assert len(program.seen["trainable"]) == 2
