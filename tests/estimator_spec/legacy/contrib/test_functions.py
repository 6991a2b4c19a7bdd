# SPDX-License-Identifier: Apache-2.0
"""Reimplemented functions of tensorflow.contrib: layers, hyperparameters, datasets, summaries."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import estimator_spec
from estimator_spec.legacy import summaries
from estimator_spec.legacy.contrib import functions as contrib
from estimator_spec.legacy.contrib.hparams import HParams

tf1 = tf.compat.v1


def run(build):
    """Evaluates what a function builds, in a session with initialized variables."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        fetches = build()
        session.run(tf1.global_variables_initializer())
        return session.run(fetches)


# layers


def test_layer_norm_formula():
    """Each row is (x - mean) / deviation, times gamma, plus beta."""
    x = np.random.RandomState(0).normal(size=(4, 3, 8)).astype(np.float32)
    got = run(lambda: contrib.layer_norm(x, begin_norm_axis=-1))
    mean, deviation = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    np.testing.assert_allclose(got, (x - mean) / deviation, rtol=1e-4, atol=1e-5)


def test_layer_norm_default_axes():
    """By default all axes but the first are normalized, and the last axis has parameters."""
    x = np.random.RandomState(0).normal(size=(4, 3, 8)).astype(np.float32)
    got = run(lambda: contrib.layer_norm(x, activation_fn=tf.nn.relu))
    flat = x.reshape(4, -1)
    expected = (flat - flat.mean(1, keepdims=True)) / flat.std(1, keepdims=True)
    np.testing.assert_allclose(got.reshape(4, -1), np.maximum(expected, 0), rtol=1e-4, atol=1e-5)


def test_layer_norm_variables():
    """Names, shapes and collections of variables are those of existing checkpoints."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 5])
        contrib.layer_norm(x)
        contrib.layer_norm(x, scope="mine", center=False, variables_collections=["extra"])
        contrib.layer_norm(x, scope="mine", center=False, reuse=True, outputs_collections="outs")
        names = {v.op.name: v.shape.as_list() for v in tf1.trainable_variables()}
        assert names == {"LayerNorm/beta": [5], "LayerNorm/gamma": [5], "mine/gamma": [5]}
        assert [v.op.name for v in tf1.get_collection("extra")] == ["mine/gamma"]
        assert len(tf1.get_collection("outs")) == 1
        assert len(tf1.get_collection(tf1.GraphKeys.MODEL_VARIABLES)) == 3


@pytest.mark.parametrize(
    ("shape", "kwargs", "words"),
    [
        (None, {}, "known rank"),
        ([2, 3], {"begin_norm_axis": 2}, "begin_norm_axis .2. must be < rank"),
        ([2, 3], {"begin_params_axis": -3}, "begin_params_axis"),
        ([2, None], {}, "not fully defined"),
    ],
)
def test_layer_norm_refuses(shape, kwargs, words):
    """Axes out of range and unknown parameter shapes are refused."""
    with tf.Graph().as_default(), pytest.raises(ValueError, match=words):
        contrib.layer_norm(tf1.placeholder(tf.float32, shape), **kwargs)


@pytest.mark.parametrize("uniform", [True, False])
@pytest.mark.parametrize("mode, n", [("FAN_IN", 200), ("FAN_OUT", 400), ("FAN_AVG", 300)])
def test_variance_scaling(uniform, mode, n):
    """The variance is factor / n for both distributions."""
    initializer = contrib.variance_scaling_initializer(3.0, mode, uniform, seed=4)
    got = run(lambda: initializer([200, 400]))
    # 1.3 makes up for the tails that are cut off a normal distribution, within two percent.
    np.testing.assert_allclose(got.var(), 3.0 / n, rtol=0.03)


def test_xavier_of_a_convolution():
    """The receptive field counts: the limit is √(6 / (fan_in + fan_out))."""
    got = run(lambda: contrib.xavier_initializer(seed=1)([3, 3, 10, 20]))
    limit = np.sqrt(6 / (9 * 30))
    assert 0.98 * limit < np.abs(got).max() <= limit


def test_variance_scaling_refuses_another_mode():
    """A mode that isn't one of the three is a ValueError."""
    with pytest.raises(ValueError, match="Unknown mode 'FAN'"):
        contrib.variance_scaling_initializer(mode="FAN")


def test_regularizers():
    """L1 is the sum of absolute values, L2 half the sum of squares, each times the scale."""
    w = tf.constant([3.0, -4.0])
    assert float(contrib.l1_regularizer(0.5)(w)) == pytest.approx(3.5)
    assert float(contrib.l2_regularizer(0.5)(w)) == pytest.approx(6.25)


# data


def test_data_functions():
    """A partial last batch is dropped, and files are interleaved."""
    data = tf.data.Dataset.range(7).apply(contrib.batch_and_drop_remainder(3))
    assert [batch.tolist() for batch in data.as_numpy_iterator()] == [[0, 1, 2], [3, 4, 5]]
    ragged = tf.data.Dataset.range(1, 5).map(lambda n: tf.fill([n], n))
    data = ragged.apply(contrib.padded_batch_and_drop_remainder(3, [None]))
    assert [b.tolist() for b in data.as_numpy_iterator()] == [[[1, 0, 0], [2, 2, 0], [3, 3, 3]]]
    data = tf.data.Dataset.range(3).apply(
        contrib.sloppy_interleave(lambda n: tf.data.Dataset.from_tensors(n).repeat(2), 3)
    )
    assert sorted(data.as_numpy_iterator()) == [0, 0, 1, 1, 2, 2]


# summary


def test_summaries_in_a_graph(tmp_path, events):
    """A host call writes scalars through contrib.summary."""
    with estimator_spec.install(replace=True), tf.Graph().as_default():
        summary = tf.contrib.summary
        step = tf1.train.get_or_create_global_step()
        with summary.create_file_writer(str(tmp_path), max_queue=2).as_default():
            with summary.always_record_summaries():
                summary.scalar("loss", 0.25, step=step)
            with summary.never_record_summaries():
                summary.scalar("hidden", 1.0, step=step)
            ops = summary.all_summary_ops()
            start, flush = summary.summary_writer_initializer_op(), summary.flush()
        with tf1.Session() as session:
            session.run([start, tf1.global_variables_initializer()])
            session.run(ops)
            session.run(flush)
    values = events(tmp_path)
    assert values == {"loss": {0: 0.25}}


def test_scalar_without_tensorboard(tmp_path):
    """The replacement of `tf.summary.scalar` writes what TensorBoard reads as a scalar."""
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default(), tf.name_scope("train"):
        assert summaries.scalar("loss", 0.5, step=7, description="how wrong")
    writer.close()
    (path,) = tmp_path.iterdir()
    (value,) = (v for e in tf1.train.summary_iterator(str(path)) for v in e.summary.value)
    assert value.tag == "train/loss"
    assert tf.make_ndarray(value.tensor) == np.float32(0.5)
    assert value.metadata.plugin_data.plugin_name == "scalars"
    assert value.metadata.data_class == 1
    assert value.metadata.summary_description == "how wrong"


def test_scalar_without_tensorboard_refuses_a_vector(tmp_path):
    """A tensor of several numbers is refused, as in TensorBoard."""
    with tf.summary.create_file_writer(str(tmp_path)).as_default(), pytest.raises(ValueError):
        summaries.scalar("loss", [0.5], step=7)


# HParams


def test_hparams_hold_values():
    """Values are read by attribute, `in`, iteration, `get`, `values` and JSON."""
    hparams = HParams(rate=0.1, layers=[2, 3], name="a", flag=True, maybe=None)
    assert (hparams.rate, hparams.layers, "rate" in hparams, "x" in hparams) == (
        0.1,
        [2, 3],
        True,
        False,
    )
    assert hparams.get("rate") == 0.1
    assert hparams.get("nothing", 5) == 5
    assert hparams["name"] == "a"
    assert list(hparams) == ["rate", "layers", "name", "flag", "maybe"]
    assert HParams(**hparams.values()).to_json() == hparams.to_json()
    assert copy.deepcopy(hparams).values() == hparams.values()
    with pytest.raises(KeyError):
        hparams["parse"]


def test_hparams_parse():
    """`parse` sets typed values, lists and elements of lists."""
    hparams = HParams(rate=0.1, steps=5, layers=[1], name="x", flag=False, sizes=[1, 2, 3])
    hparams.parse("rate=1e-3, steps=7,layers=[4, 5],name=a b,flag=True,sizes[1]=9")
    assert hparams.values() == {
        "rate": 1e-3,
        "steps": 7,
        "layers": [4, 5],
        "name": "a b",
        "flag": True,
        "sizes": [1, 9, 3],
    }
    assert hparams.parse("") is hparams
    assert hparams.parse_json('{"steps": 8}').override_from_dict({"rate": 1}).rate == 1.0
    assert hparams.steps == 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("unknown=1", "Unknown hyperparameter: unknown"),
        ("rate", "Malformed"),
        ("rate=abc", "Could not parse hparam 'rate' of type 'float'"),
        ("steps=1.5", "Could not parse hparam 'steps'"),
        ("flag=maybe", "Could not parse hparam 'flag'"),
        ("layers=3", "must be a list"),
        ("rate=[3]", "must be one value"),
    ],
)
def test_hparams_parse_refuses(text, words):
    """A value of the wrong type is a ValueError that names the hyperparameter."""
    hparams = HParams(rate=0.1, steps=5, layers=[1], flag=False)
    with pytest.raises(ValueError, match=words):
        hparams.parse(text)


def test_hparams_set_refuses_what_would_lose_something():
    """A fraction doesn't become an int, nor a number a string; None accepts any value."""
    hparams = HParams(steps=5, name="a", maybe=None)
    with pytest.raises(ValueError, match="steps"):
        hparams.set_hparam("steps", 1.5)
    with pytest.raises(ValueError, match="name"):
        hparams.set_hparam("name", 3)
    with pytest.raises(KeyError):
        hparams.set_hparam("nothing", 3)
    hparams.set_hparam("steps", 6.0)
    hparams.set_hparam("maybe", "text")
    assert (hparams.steps, hparams.maybe) == (6, "text")


def test_hparams_add_and_delete():
    """A name can't be added twice or be a method's; a deleted name can be added again."""
    hparams = HParams(a=1)
    for taken in ("a", "parse"):
        with pytest.raises(ValueError, match="reserved"):
            hparams.add_hparam(taken, 2)
    with pytest.raises(ValueError, match="cannot be empty"):
        hparams.add_hparam("b", [])
    hparams.del_hparam("a")
    hparams.add_hparam("a", "text")
    assert hparams.a == "text"


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]{3,8}_", fullmatch=True),
        st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans(),
        min_size=1,
    )
)
def test_hparams_read_what_they_write(values):
    """`parse` and `parse_json` return every number that they are given as text."""
    text = ",".join(f"{name}={value}" for name, value in values.items())
    empty = {name: type(value)() for name, value in values.items()}
    assert HParams(**empty).parse(text).values() == values
    assert HParams(**empty).parse_json(HParams(**values).to_json()).values() == values


def test_hparams_as_json_keep_their_order():
    """JSON has the values in the order they were given in, or sorted by name if that is wanted."""
    hparams = HParams(rate=0.5, layers=[2, 1], name="a", call=len)
    assert hparams.to_json() == '{"rate": 0.5, "layers": [2, 1], "name": "a"}'
    assert hparams.to_json(sort_keys=True) == '{"layers": [2, 1], "name": "a", "rate": 0.5}'


def test_strategies_of_contrib():
    """`tf.contrib.distribute` has the strategies with their old arguments, and DistributeConfig."""
    with estimator_spec.install(replace=True):
        distribute = tf.contrib.distribute
        assert issubclass(
            distribute.CollectiveAllReduceStrategy,
            tf1.distribute.experimental.MultiWorkerMirroredStrategy,
        )
        with tf.Graph().as_default():
            mirrored = distribute.MirroredStrategy(num_gpus=2)
            collective = distribute.CollectiveAllReduceStrategy(num_gpus_per_worker=1)
        assert [name[-5:] for name in mirrored.extended.worker_devices] == ["GPU:0", "GPU:1"]
        both = distribute.DistributeConfig(train_distribute=collective, eval_distribute=mirrored)
        config = estimator_spec.RunConfig(experimental_distribute=both)
    assert config.train_distribute is collective and config.eval_distribute is mirrored


def test_deprecated_functions(caplog):
    """`deprecated` warns at the first call, and the function does what it did."""

    @contrib.deprecated("2018-01-01", "Use another one.")
    def double(x):
        return 2 * x

    with caplog.at_level("WARNING", logger="tensorflow"):
        assert double(double(1)) == 4
    assert caplog.text.count("Use another one.") == 1
