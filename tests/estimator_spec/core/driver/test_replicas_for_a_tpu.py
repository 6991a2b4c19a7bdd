# SPDX-License-Identifier: Apache-2.0
"""Programs of a TPU on replicas of the host, as by `run --cpu replicas`."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec import InputPipelineConfig, TPUConfig, tpu
from estimator_spec.core.driver import tpu_inputs
from tpu_columns import environment

tf1 = tf.compat.v1
STEPS = 3


@pytest.fixture(autouse=True)
def replicas(monkeypatch):
    """The environment of `run --cpu replicas`."""
    monkeypatch.setenv(environment.CPU, "replicas")


def column(dimension=2):
    """Returns an embedding column."""
    ids = tf.feature_column.categorical_column_with_identity("word", 10)
    ones = tf1.ones_initializer()
    return tpu_columns.embedding_column(ids, dimension, "sum", ones)


def input_fn(params):
    """Returns batches with an id that both replicas have."""
    size = params["batch_size"]
    ids = tf.sparse.from_dense([[1 + row % 2] for row in range(size)])
    data = tf.data.Dataset.from_tensors(({"word": ids}, tf.ones([size, 1]))).repeat()
    return data.map(lambda features, labels: (features, tf.ensure_shape(labels, [size, 1])))


def model_fn(features, labels, mode, params):
    """Sums the activations; trains their tables, too."""
    total = tf.reduce_sum(tpu_columns.input_layer(features, [column()]), 1, keepdims=True)
    loss = tf.reduce_mean((total - 3 * labels) ** 2)
    optimizer = tpu.CrossShardOptimizer(tf1.train.GradientDescentOptimizer(0.1))
    train_op = optimizer.minimize(loss, tf1.train.get_global_step())
    return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)


class Steps(tf1.train.SessionRunHook):
    """Records the global step of each session call."""

    def __init__(self):
        self.found = []

    def after_run(self, run_context, run_values):
        self.found.append(int(run_context.session.run(tf1.train.get_global_step())))


def train(model_dir, num_shards=2, **options):
    """Trains three steps with a table, in loops of two."""
    parameters = es.AdagradParameters(0.3, use_gradient_accumulation=False)
    spec = es.EmbeddingConfigSpec([column()], parameters)
    config = es.RunConfig(TPUConfig(2, num_shards), model_dir=str(model_dir), tf_random_seed=1)
    estimator = es.TPUEstimator(
        model_fn,
        config=config,
        params={},
        train_batch_size=4,
        embedding_config_spec=spec,
        **options,
    )
    hook = Steps()
    estimator.train(input_fn, steps=STEPS, hooks=[hook])
    names = estimator.get_variable_names()
    return hook.found, {name: estimator.get_variable_value(name) for name in names}


def test_it_runs_as_on_a_tpu(tmp_path):
    """A program of two shards has the loops and numbers of two replicas and a host core."""
    loops, trained = train(tmp_path / "program")
    same = {"use_tpu": False, "host_replicas": 2, "embedding_core": "host"}
    expected_loops, expected = train(tmp_path / "replicas", **same)
    assert loops == expected_loops == [2, 3]
    assert trained.keys() == expected.keys()
    for name, value in trained.items():
        np.testing.assert_array_equal(value, expected[name], name)
    # Each replica's update, by the optimizer of the spec: not what one replica's is.
    _, one = train(tmp_path / "one", None)
    table = next(name for name in trained if name.endswith("embedding_weights"))
    assert np.abs(trained[table] - one[table]).max() > 0.01


def test_without_a_tpu_program_nothing_changes(line, make):
    """`use_tpu=False` is one replica of one step a session call."""
    hook = Steps()
    make(config={"tpu_config": TPUConfig(2, 2)}).train(line.input_fn, steps=3, hooks=[hook])
    assert hook.found == [1, 2, 3]


def on_replicas(make, **options):
    """Makes the line's estimator for a TPU of two replicas."""
    return make(config={"tpu_config": TPUConfig(2, 2)}, use_tpu=True, **options)


def test_the_constructor_checks_no_sizes(line, make):
    """As on a TPU, batches that two replicas can't share are refused when a run begins."""
    estimator = on_replicas(make, train_batch_size=7, predict_batch_size=7)
    with pytest.raises(ValueError, match=r"train batch size 7 must be divisible by .*replicas 2"):
        estimator.train(line.input_fn, steps=1)
    with pytest.raises(ValueError, match="predict batch size 7 must be divisible"):
        next(estimator.predict(line.input_fn))


def test_columns_are_checked_before_the_input(make):
    """Two columns of one feature are refused before `input_fn` is called."""
    spec = es.EmbeddingConfigSpec([column(2), column(4)], es.AdagradParameters(0.1))
    with pytest.raises(ValueError, match="word is used with multiple embeddings"):
        on_replicas(make, embedding_config_spec=spec).train(lambda params: 1 / 0, steps=1)


def points(line):
    """Returns whole batches of the line, endlessly."""
    data = tf.data.Dataset.from_tensor_slices(({"x": line.x}, line.y))
    return data.repeat().batch(8, drop_remainder=True)


@pytest.mark.parametrize("argument", ["steps", "max_steps"])
def test_numbers_of_steps_are_integers(line, make, argument):
    """A float is refused, as on a TPU; replicas that a program asks for round it up."""
    with pytest.raises(TypeError, match=f"train {argument} must be int"):
        on_replicas(make).train(line.input_fn, **{argument: 2.5})
    estimator = make(host_replicas=2)
    estimator.train(lambda params: points(line), **{argument: 2.5})
    assert estimator.get_variable_value("global_step") == 3


def test_the_host_has_a_local_tpus_name(line, make):
    """`params['context']` names the host's device as on a TPU of this machine."""
    found = []

    def input_fn(params):
        context = params["context"]
        found.extend([context.current_input_fn_deployment()[0], context.device_for_replica(1)])
        return points(line)

    on_replicas(make).train(input_fn, steps=1)
    assert found == ["/replica:0/task:0/device:CPU:0", ("/task:0/device:CPU:0", 1)]


@pytest.mark.parametrize("of", ["features", "labels"])
def test_inputs_have_static_shapes(line, make, of):
    """A tensor whose size a graph doesn't know is refused, and its key named."""

    def varying(params):
        def spoil(features, labels):
            size = tf.random.uniform([], 1, 2, tf.int32)
            if of == "features":
                return {"x": features["x"][:, :size]}, labels
            return features, labels[:, :size]

        return tf.data.Dataset.from_tensors(({"x": line.x[:8]}, line.y[:8])).map(spoil)

    match = rf"The {of} to the model.*must have static shape.*" + "Key: 'x'" * (of == "features")
    with pytest.raises(ValueError, match=match):
        on_replicas(make).train(varying, steps=1)


def test_predictions_have_static_sizes(line, make):
    """A prediction whose number of rows isn't known is refused."""

    def some(mode):
        return {"predictions": {"y": tf1.placeholder(tf.float32, [None, 2])}}

    estimator = on_replicas(make, params={"spec": some})
    with pytest.raises(ValueError, match=r"key \(y\).*has dynamic shape \(should be static\)"):
        next(estimator.predict(line.input_fn))


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ([{"x": [1, 2]}, None], ""),
        ([{"x": [1, 2]}], ""),
        ([None, {"a": {"b": None}, "c": [1, 2]}], ""),
        ([{"y": [1, 2]}, None], r"dims\[0\] mismatched feature keys. Expected the keys \['x'\]"),
        ([None, {"a": {"b": {"d": None}}, "c": None}], "mismatched the structure of labels"),
        ([None, {"a": {"b": None}}], r"dims\[1\] mismatched label keys"),
        ([None, {"a": None, "c": None}], r"dims\[1\] mismatched the structure of labels"),
        ([{"x": [1, 0]}], "All input partition dims must be >= 1"),
        ([{"x": [2]}], "Input partition dims must have the same number of dimensions"),
        ([{"x": [2, 2]}], "product of each input partition dim should equal to num_cores_per_rep"),
    ],
)
def test_partitions_fit_the_inputs(dims, words):
    """What the cores of a replica would get is checked, by names, structure and dimensions."""
    config = TPUConfig(
        num_cores_per_replica=2,
        per_host_input_for_training=InputPipelineConfig.PER_HOST_V2,
        input_partition_dims=dims,
    )
    labels = {"a": {"b": tf.zeros([4])}, "c": tf.zeros([4, 2])}

    def check():
        tpu_inputs.check_partition(config, {"x": tf.zeros([4, 2])}, labels)

    if not words:
        check()
        return
    with pytest.raises(ValueError, match=words):
        check()
