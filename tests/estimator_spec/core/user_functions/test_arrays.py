# SPDX-License-Identifier: Apache-2.0
"""Input functions of arrays and data frames; also run on TensorFlow 2.15's functions."""

from __future__ import annotations

import builtins
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es

tf1 = tf.compat.v1

X = {"a": np.arange(5.0), "b": np.arange(10).reshape(5, 2) + 100}
Y = np.arange(5) - 10


def batches(input_fn, count=None):
    """Returns all batches of an input, or the first ones."""
    with tf.Graph().as_default():
        tensors = input_fn()
        tf1.train.create_global_step()
        found = []
        with tf1.train.MonitoredSession() as session:
            while not session.should_stop() and len(found) != count:
                found.append(session.run(tensors))
    return found


def rows(found):
    """Returns the values of feature 'a' of all batches."""
    return [value for features, _ in found for value in features["a"].tolist()]


def test_in_order(api):
    """Batches are in order and span epochs; the last one is smaller."""
    found = batches(api.numpy_input_fn(X, Y, batch_size=4, num_epochs=2, shuffle=False))
    assert [len(labels) for _, labels in found] == [4, 4, 2]
    assert rows(found) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    features, labels = found[1]
    assert features["b"].tolist() == [[108, 109], [100, 101], [102, 103], [104, 105]]
    assert labels.tolist() == [-6, -10, -9, -8]


def test_a_batch_larger_than_the_data(api):
    """With a `batch_size` above the number of examples, one smaller batch has all of them."""
    found = batches(api.numpy_input_fn(X, Y, batch_size=128, shuffle=False))
    assert rows(found) == [0, 1, 2, 3, 4]


def test_for_ever(api):
    """num_epochs=None never ends and gives full batches of static size."""
    input_fn = api.numpy_input_fn(X, Y, batch_size=4, num_epochs=None, shuffle=False)
    assert rows(batches(input_fn, 4)) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0]
    with tf.Graph().as_default():
        features, labels = input_fn()
        assert features["b"].shape == (4, 2)
        assert labels.shape == (4,)
        ending, _ = api.numpy_input_fn(X, Y, batch_size=4, num_epochs=1, shuffle=False)()
        assert ending["b"].shape.as_list() == [None, 2]


def test_shuffled(api):
    """shuffle=True gives every example equally often, in varying order."""
    x = {"a": np.arange(400.0)}
    input_fn = api.numpy_input_fn(x, x["a"], batch_size=50, num_epochs=1, shuffle=True)
    first, second = (rows(batches(input_fn)) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(400))
    assert first != sorted(first)
    assert first != second


def test_shuffled_within_a_small_queue(api):
    """The queue may be smaller than a batch."""
    input_fn = api.numpy_input_fn(X, Y, batch_size=5, shuffle=True, queue_capacity=4)
    assert sorted(rows(batches(input_fn))) == [0, 1, 2, 3, 4]


def test_threads_read_an_epoch_each(api):
    """Each thread reads num_epochs epochs."""
    input_fn = api.numpy_input_fn(X, Y, batch_size=3, num_epochs=2, shuffle=True, num_threads=3)
    assert sorted(rows(batches(input_fn))) == sorted(6 * [0, 1, 2, 3, 4])


def test_threads_warn(tf_log):
    """Several threads log warnings about epochs and order."""
    with tf.Graph().as_default():
        es.numpy_input_fn(X, Y, shuffle=False, num_epochs=2, num_threads=3)()
    text = "\n".join(tf_log)
    assert "num_epochs is applied per thread, so every example is read 6 times" in text
    assert "several threads add examples in no fixed order" in text


def test_an_array_alone(api):
    """Features in one array become one tensor."""
    (found,) = batches(api.numpy_input_fn(X["b"], shuffle=False))
    assert found.tolist() == X["b"].tolist()
    ((features, labels),) = batches(api.numpy_input_fn(X["b"], Y, shuffle=False))
    assert features.tolist() == X["b"].tolist()
    assert labels.tolist() == Y.tolist()


def test_labels_by_name(api):
    """Labels by name become tensors by name; without labels there are only features."""
    y = {"z": Y, "c": -Y}
    ((features, labels),) = batches(api.numpy_input_fn(X, y, shuffle=False))
    assert sorted(features) == ["a", "b"]
    assert {name: value.tolist() for name, value in labels.items()} == {
        name: value.tolist() for name, value in y.items()
    }
    (features,) = batches(api.numpy_input_fn(X, shuffle=False))
    assert sorted(features) == ["a", "b"]


def test_a_feature_with_the_labels_internal_name(api):
    """A feature may have the internal name of the labels."""
    x = {"__target_key__": X["a"], "__target_key___n": X["a"] + 1}
    ((features, labels),) = batches(api.numpy_input_fn(x, Y, shuffle=False))
    assert features["__target_key__"].tolist() == X["a"].tolist()
    assert labels.tolist() == Y.tolist()


@pytest.mark.parametrize(
    "values", [np.array(["ä", "bc"]), np.array([b"x", b"yz"]), np.array(["ä", "b"], object)]
)
def test_strings(api, values):
    """Strings become UTF-8 bytes."""
    ((features),) = batches(api.numpy_input_fn({"s": values}, shuffle=False))
    expected = [v if isinstance(v, bytes) else v.encode() for v in values.tolist()]
    assert features["s"].tolist() == expected


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "bool", "float16", "float64"])
def test_types(api, dtype):
    """Tensors have the dtypes of their arrays."""
    x = np.array([0, 1, 1, 0]).astype(dtype)
    (found,) = batches(api.numpy_input_fn(x, shuffle=False))
    assert found.dtype == dtype
    assert found.tolist() == x.tolist()


@pytest.mark.parametrize("shuffle", [None, 1, "yes"])
def test_shuffle_must_be_said(api, shuffle):
    """shuffle is required."""
    with pytest.raises(ValueError, match="shuffle must be provided and explicitly set as boolean"):
        api.numpy_input_fn(X, Y, shuffle=shuffle)


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        ({}, None, ValueError, "x cannot be an empty dict"),
        (np.array([]), None, ValueError, "x cannot be an empty array"),
        ([1, 2], None, TypeError, "x must be a dict or array; got list"),
        (X, {}, ValueError, "y cannot be empty dict, use None instead"),
        (X, {"a": Y, "c": Y}, ValueError, "1 duplicate keys are found in both x and y: .'a'"),
        (X, Y[:3], ValueError, "Length of tensors in x and y is mismatched"),
        ({**X, "c": Y[:2]}, None, ValueError, "Length of tensors in x and y is mismatched"),
        (X, {"y": Y, "z": Y[:4]}, ValueError, "Length of tensors in x and y is mismatched"),
    ],
)
def test_arrays_are_checked(api, x, y, error, message):
    """Invalid arrays are refused when the input is built."""
    with tf.Graph().as_default(), pytest.raises(error, match=message):
        api.numpy_input_fn(x, y, shuffle=False)()


def test_no_rows():
    """Arrays without examples are refused with a message."""
    with tf.Graph().as_default(), pytest.raises(ValueError, match="x has no examples"):
        es.numpy_input_fn({"a": np.zeros([0, 3])}, shuffle=False)()


def test_through_an_estimator(fit):
    """Training, evaluation and prediction read from queues."""
    api = fit.api
    estimator = fit.estimator()
    x = {"x": fit.x}
    train = api.numpy_input_fn(x, fit.y, batch_size=8, num_epochs=None, shuffle=True)
    estimator.train(train, steps=20)
    once = api.numpy_input_fn(x, fit.y, batch_size=10, shuffle=False)
    metrics = estimator.evaluate(once)
    assert metrics["global_step"] == 20
    predictions = [p["y"] for p in estimator.predict(api.numpy_input_fn(x, shuffle=False))]
    assert len(predictions) == 32
    np.testing.assert_allclose(metrics["mae"], np.abs(predictions - fit.y).mean(), rtol=1e-5)


def test_training_ends_with_the_input(fit):
    """Training for an epoch takes as many steps as there are batches."""
    estimator = fit.estimator()
    estimator.train(fit.api.numpy_input_fn({"x": fit.x}, fit.y, 10, 3, shuffle=False))
    assert estimator.get_variable_value("global_step") == 10


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_graph_is_op_for_op_as_it_was(old_estimator, shuffle):
    """The graph has the ops of tf.estimator's, because op seeds depend on their number."""

    def ops(numpy_input_fn):
        with tf.Graph().as_default() as graph:
            numpy_input_fn(X, {"y": Y}, batch_size=2, shuffle=shuffle, num_threads=2)()
        return [(op.type, op.name) for op in graph.get_operations()]

    theirs = ops(old_estimator.inputs.numpy_input_fn)
    assert [kind for kind, _ in ops(es.numpy_input_fn)] == [kind for kind, _ in theirs]


def test_an_error_in_a_thread_reaches_the_program():
    """An error of a feeding thread is raised by the session."""
    values = np.array(["a", object()], dtype=object)
    with pytest.raises(tf.errors.InternalError, match="Unsupported object type object"):
        batches(es.numpy_input_fn({"s": values}, shuffle=False, batch_size=1))


def test_the_checkpoint_has_no_trouble_with_queues(fit, tf_log):
    """Saving a graph with a queue logs no warning."""
    estimator = fit.estimator()
    estimator.train(fit.api.numpy_input_fn({"x": fit.x}, fit.y, shuffle=False), steps=1)
    assert not [line for line in tf_log if "serializing queue_runners" in line]


class Index(list):
    pass


class Series:
    """Minimal pandas Series."""

    def __init__(self, values, index=None):
        self.values = np.asarray(values)
        self.index = Index(range(len(self.values)) if index is None else index)
        self.dtype = self.values.dtype

    def to_numpy(self, copy=False):
        return np.array(self.values, copy=True)


class DataFrame:
    """Minimal pandas DataFrame."""

    def __init__(self, columns, index=None):
        self._columns = {name: Series(values, index) for name, values in columns.items()}
        self.columns = list(self._columns)
        self.index = next(iter(self._columns.values())).index

    def __contains__(self, name):
        return name in self._columns

    def __getitem__(self, name):
        return self._columns[name]

    def __len__(self):
        return len(self.index)


@pytest.fixture
def pd(monkeypatch):
    """Installs a minimal pandas, unless it is installed."""
    try:
        import pandas
    except ImportError:
        pandas = types.ModuleType("pandas")
        pandas.DataFrame, pandas.Series = DataFrame, Series
        monkeypatch.setitem(sys.modules, "pandas", pandas)
    return pandas


def test_a_data_frame(pd):
    """Each column is a feature; a Series of labels is one tensor."""
    x = pd.DataFrame({"a": [1.0, 2.0, 3.0], "s": ["u", "v", "w"]})
    y = pd.Series([7, 8, 9])
    found = batches(es.pandas_input_fn(x, y, batch_size=2, shuffle=False))
    assert [labels.tolist() for _, labels in found] == [[7, 8], [9]]
    assert found[0][0]["a"].tolist() == [1, 2]
    assert found[0][0]["s"].tolist() == [b"u", b"v"]


def test_a_data_frame_of_labels(pd):
    """A DataFrame of labels gives tensors by name, also by the name of a feature."""
    x = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    y = pd.DataFrame({"a": [5, 6], "c": [7, 8]})
    ((features, labels),) = batches(es.pandas_input_fn(x, y, shuffle=False))
    assert {name: value.tolist() for name, value in features.items()} == {"a": [1, 2], "b": [3, 4]}
    assert {name: value.tolist() for name, value in labels.items()} == {"a": [5, 6], "c": [7, 8]}


def test_a_data_frame_without_labels(pd):
    """Without labels the input has only features."""
    x = pd.DataFrame({"a": [1, 2]})
    (features,) = batches(es.pandas_input_fn(x, shuffle=False))
    assert features["a"].tolist() == [1, 2]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_queue_as_large_as_the_data_frame(pd, shuffle):
    """queue_capacity=None takes the number of rows."""
    x = pd.DataFrame({"a": np.arange(6)})
    input_fn = es.pandas_input_fn(x, shuffle=shuffle, queue_capacity=None, batch_size=4)
    found = [value for batch in batches(input_fn) for value in batch["a"].tolist()]
    assert sorted(found) == list(range(6))


@pytest.mark.parametrize(("shuffle", "capacity"), [(False, 6), (True, 24)])
def test_the_capacity_without_a_given_one(pd, shuffle, capacity):
    """The queue holds all rows, four times over where they are shuffled."""
    x = pd.DataFrame({"a": np.arange(6)})
    with tf.Graph().as_default() as graph:
        es.pandas_input_fn(x, shuffle=shuffle, queue_capacity=None)()
        found = [op.get_attr("capacity") for op in graph.get_operations() if "QueueV2" in op.type]
    assert capacity in found


@pytest.mark.parametrize(
    ("y", "kwargs", "error", "message"),
    [
        (None, {"shuffle": None}, ValueError, "shuffle must be provided"),
        (None, {"target_column": 5}, TypeError, "target_column must be a string type"),
        ([1, 2], {"target_column": "a"}, ValueError, "Cannot use name a for target column"),
        ([1, 2, 3], {}, ValueError, "Index for x and y are mismatched"),
        ({5: 1, 6: 2}, {}, ValueError, "Index for x and y are mismatched"),
    ],
)
def test_data_frames_are_checked(pd, y, kwargs, error, message):
    """Invalid arguments are refused immediately."""
    x = pd.DataFrame({"a": [1, 2]})
    y = None if y is None else pd.Series(y)
    with pytest.raises(error, match=message):
        es.pandas_input_fn(x, y, **{"shuffle": False, **kwargs})


def test_without_pandas(monkeypatch):
    """The error names the package to install."""
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    real = builtins.__import__

    def no_pandas(name, *args, **kwargs):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pandas)
    with pytest.raises(ImportError, match="should not be called without pandas installed"):
        es.pandas_input_fn(None, shuffle=False)
