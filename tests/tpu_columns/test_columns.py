# SPDX-License-Identifier: Apache-2.0
"""Columns: metadata, equality, copies and configs, and errors of bad arguments."""

from __future__ import annotations

import copy
import json
import math
import pickle

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tpu_columns
from tpu_columns import EmbeddingColumn, LookupDevice, SharedEmbeddingColumn

fc = tf.feature_column
tf1 = tf.compat.v1


def identity(key: str = "a", buckets: int = 10):
    """Returns an identity column."""
    return fc.categorical_column_with_identity(key, buckets)


def rate(step):
    """Returns a learning rate; this function can be imported by name."""
    return 0.1 / (1.0 + step)


@pytest.fixture
def vocabulary_file(tmp_path):
    """Writes a vocabulary of four words."""
    path = tmp_path / "words.txt"
    path.write_text("one\ntwo\nthree\nfour\n")
    return str(path)


def every_kind(vocabulary_file: str):
    """Returns each supported column with (feature key, weight key, buckets, sequence)."""
    sequence = fc.sequence_categorical_column_with_identity("s", 7)
    return [
        (identity(), ("a", None, 10, False)),
        (fc.categorical_column_with_vocabulary_list("l", ["x", "y"]), ("l", None, 2, False)),
        (
            fc.categorical_column_with_vocabulary_list("l", ["x", "y"], num_oov_buckets=3),
            ("l", None, 5, False),
        ),
        (
            fc.categorical_column_with_vocabulary_file("f", vocabulary_file, 4),
            ("f", None, 4, False),
        ),
        (fc.weighted_categorical_column(identity(), "w"), ("a", "w", 10, False)),
        (sequence, ("s", None, 7, True)),
        (
            fc.sequence_categorical_column_with_vocabulary_list("sl", ["x", "y", "z"]),
            ("sl", None, 3, True),
        ),
        (
            fc.sequence_categorical_column_with_vocabulary_file("sf", vocabulary_file, 4),
            ("sf", None, 4, True),
        ),
        (fc.weighted_categorical_column(sequence, "w"), ("s", "w", 7, True)),
    ]


def test_getters_tell_what_is_looked_up(vocabulary_file):
    """The legacy getters return key, weights, sizes and sequence for each kind of column."""
    for categorical, (key, weight, buckets, is_sequence) in every_kind(vocabulary_file):
        length = 3 if is_sequence else 0
        column = tpu_columns.embedding_column(categorical, 4, max_sequence_length=length)
        assert column.get_feature_key_name() == key
        assert column.get_weight_key_name() == weight
        assert column.is_categorical_column_weighted() is (weight is not None)
        assert column.get_embedding_table_size() == (buckets, 4)
        assert column.is_sequence_column() is is_sequence
        assert column.get_max_sequence_length() == length
        assert column.get_sequence_length_feature_key_name() == f"{key}_seq_length_"
        assert column.get_embedding_var_name() == categorical.name
        assert column.name == f"{categorical.name}_embedding"
        assert column.variable_shape.as_list() == [4]
        assert column.get_combiner() == "mean"
        assert column.get_learning_rate_fn() is None
        assert column.parse_example_spec == categorical.parse_example_spec


def test_getters_agree_with_the_old_columns(vocabulary_file):
    """Names and metadata equal those of TensorFlow's own TPU columns, where they exist."""
    old = tf1.tpu.experimental
    for categorical, (_, weight, _, is_sequence) in every_kind(vocabulary_file):
        if weight and is_sequence:
            continue  # TensorFlow's refuses it
        length = 3 if is_sequence else 0
        ours = tpu_columns.embedding_column(categorical, 4, "sum", max_sequence_length=length)
        theirs = old.embedding_column(categorical, 4, "sum", max_sequence_length=length)
        for getter in (
            "get_combiner",
            "get_embedding_table_size",
            "get_feature_key_name",
            "get_weight_key_name",
            "get_embedding_var_name",
            "get_max_sequence_length",
            "get_learning_rate_fn",
            "get_sequence_length_feature_key_name",
            "is_sequence_column",
            "is_categorical_column_weighted",
        ):
            assert getattr(ours, getter)() == getattr(theirs, getter)(), getter
        assert ours.name == theirs.name
        assert ours.parse_example_spec == theirs.parse_example_spec
        assert ours.get_initializer().get_config() == theirs.get_initializer().get_config()


def test_shared_columns_agree_with_the_old_ones():
    """Collection name, column names and order equal those of TensorFlow's own shared columns."""
    categoricals = [identity("z", 5), identity("b", 5), identity("k", 5)]
    ours = tpu_columns.shared_embedding_columns(categoricals, 3)
    theirs = tf1.tpu.experimental.shared_embedding_columns(categoricals, 3)
    assert [c.name for c in ours] == [c.name for c in theirs]
    assert {c.get_embedding_var_name() for c in ours} == {"b_k_z_shared_embedding"}
    assert [c.get_embedding_var_name() for c in ours] == [
        c.get_embedding_var_name() for c in theirs
    ]
    named = tpu_columns.shared_embedding_columns(
        categoricals, 3, shared_embedding_collection_name="t"
    )
    assert {c.get_embedding_var_name() for c in named} == {"t"}


def test_positional_arguments_keep_their_order():
    """Legacy calls with positional arguments keep their meaning."""
    init = tf1.ones_initializer()
    column = tpu_columns.embedding_column(
        identity(), 4, "sum", init, 0, rate, "tpu_tensor_core", [None, 8], False
    )
    assert (column.dimension, column.combiner, column.initializer) == (4, "sum", init)
    assert column.learning_rate_fn is rate
    assert column.embedding_lookup_device is LookupDevice.TPU_TENSOR_CORE
    assert column.tensor_core_shape == (None, 8)
    assert column.use_safe_embedding_lookup is False
    (shared,) = tpu_columns.shared_embedding_columns(
        [identity()], 4, "sum", init, "t", [0], rate, "cpu", None, False
    )
    assert shared.shared_embedding_collection_name == "t"
    assert shared.embedding_lookup_device is LookupDevice.CPU


def test_default_initializer_is_scaled_by_dimension():
    """The default initializer is truncated normal with mean 0 and deviation 1/√dimension."""
    column = tpu_columns.embedding_column(identity(), 16)
    config = column.get_initializer().get_config()
    assert (config["mean"], config["stddev"]) == (0.0, 1 / math.sqrt(16))


CHANGES = {
    "categorical_column": identity("other"),
    "dimension": 5,
    "combiner": "sqrtn",
    "initializer": tf1.zeros_initializer(),
    "learning_rate_fn": rate,
    "embedding_lookup_device": LookupDevice.CPU,
    "tensor_core_shape": (None, 3),
    "use_safe_embedding_lookup": False,
}


@pytest.mark.parametrize("field", CHANGES)
def test_equality_and_hash_see_every_field(field):
    """Columns that differ in any one field are unequal and hash differently."""
    column = tpu_columns.embedding_column(identity(), 4)
    changed = column._replace(**{field: CHANGES[field]})
    assert changed != column
    assert hash(changed) != hash(column)
    assert getattr(column, field) != CHANGES[field], "the original keeps its value"
    (shared,) = tpu_columns.shared_embedding_columns([identity()], 4)
    assert shared._replace(**{field: CHANGES[field]}) != shared


def test_equality_sees_sequence_length_and_collection_name():
    """Two sequence columns of different length, or two collections of different name, differ."""
    sequence = fc.sequence_categorical_column_with_identity("s", 7)
    make = tpu_columns.embedding_column
    assert make(sequence, 4, max_sequence_length=3) != make(sequence, 4, max_sequence_length=4)
    share = tpu_columns.shared_embedding_columns
    assert share([identity()], 4, shared_embedding_collection_name="t") != share([identity()], 4)
    assert tpu_columns.embedding_column(identity(), 4) != share([identity()], 4)[0]


def test_columns_made_alike_are_equal():
    """A column is the value of its arguments, the default initializer included."""
    assert tpu_columns.embedding_column(identity(), 4) == tpu_columns.embedding_column(
        identity(), 4
    )
    assert len({tpu_columns.embedding_column(identity(), 4) for _ in range(3)}) == 1
    init = lambda: tf1.random_uniform_initializer(-1, 1, seed=3)  # noqa: E731 - local shorthand
    assert tpu_columns.embedding_column(
        identity(), 4, initializer=init()
    ) == tpu_columns.embedding_column(identity(), 4, initializer=init())


class Pretrained(tf1.keras.initializers.Initializer):
    """Initializer whose values aren't in its config, which it inherits."""

    def __init__(self, values):
        self.values = values

    def __call__(self, shape, dtype=None, **_):
        return tf.reshape(tf.cast(self.values, dtype), shape)


def with_equal_corners():
    """Returns two tables that NumPy prints alike, as it leaves out their middle."""
    first = np.arange(7 * 400, dtype=np.float32).reshape(7, 400)
    second = first.copy()
    second[3, 200] = 0.5
    assert repr(first) == repr(second)
    return first, second


DIFFERENT_VALUES = {
    "corners": with_equal_corners(),
    "digits": (np.full((7, 4), 0.1), np.full((7, 4), 0.1) + 1e-12),
    "shape": (np.zeros((7, 4)), np.zeros((4, 7))),
    "dtype": (np.zeros((7, 4), np.float32), np.zeros((7, 4), np.float64)),
    "sign": (np.float32(0.0), np.float32(-0.0)),
    "number": (np.float32(0.1), np.float64(np.float32(0.1))),
    "tensor": tuple(tf.constant(values) for values in with_equal_corners()),
    "strings": (np.array(["a", "b"], object), np.array(["a", "c"], object)),
}


@pytest.mark.parametrize("make", [tf1.constant_initializer, Pretrained])
@pytest.mark.parametrize("what", DIFFERENT_VALUES)
def test_equality_sees_every_element_of_pretrained_values(what, make):
    """Columns whose initializers hold other arrays are unequal; copies of an array are equal."""
    if what == "tensor" and make is tf1.constant_initializer:
        pytest.skip("constant_initializer takes no tensors")
    first, second = (
        tpu_columns.embedding_column(identity(), 4, initializer=make(values))
        for values in DIFFERENT_VALUES[what]
    )
    assert first != second
    assert hash(first) != hash(second)
    alike = copy.deepcopy(DIFFERENT_VALUES[what][0])
    again = tpu_columns.embedding_column(identity(), 4, initializer=make(alike))
    assert again == first
    assert hash(again) == hash(first)


def test_pretrained_values_of_one_collection_differ():
    """A graph and a spec refuse two tables of one name and other values; the error is short."""
    first, second = (
        tpu_columns.shared_embedding_columns(
            [identity(key)],
            400,
            initializer=tf1.constant_initializer(values),
            shared_embedding_collection_name="words",
        )[0]
        for key, values in zip("pq", with_equal_corners(), strict=True)
    )
    with tf.Graph().as_default(), pytest.raises(ValueError, match="'words'.*initializer") as error:
        features = {key: tf.constant([[1]]) for key in "pq"}
        tpu_columns.input_layer(features, [first, second])
    assert len(str(error.value)) < 700


def test_initializers_with_opaque_values_are_equal_only_to_themselves():
    """What a config holds beside numbers and arrays is compared by its own equality."""
    first, second = Pretrained(object()), Pretrained(object())
    make = lambda initializer: tpu_columns.embedding_column(  # noqa: E731 - local shorthand
        identity(), 4, initializer=initializer
    )
    assert make(first) == make(first)
    assert make(first) != make(second)


def columns():
    """Draws columns with random values of every field."""
    categorical = st.sampled_from(
        [
            identity("a", 10),
            fc.categorical_column_with_vocabulary_list("l", ["x", "y", "z"], num_oov_buckets=1),
            fc.weighted_categorical_column(identity("a", 10), "w"),
        ]
    )
    fields = {
        "dimension": st.integers(1, 64),
        "combiner": st.sampled_from(["mean", "sum", "sqrtn"]),
        "initializer": st.sampled_from(
            [None, tf1.zeros_initializer(), tf1.truncated_normal_initializer(0.0, 0.1, seed=2)]
        ),
        "learning_rate_fn": st.sampled_from([None, rate]),
        "embedding_lookup_device": st.sampled_from(
            [None, "cpu", "tpu_tensor_core", "tpu_embedding_core"]
        ),
        "tensor_core_shape": st.sampled_from([[None, 4], [-1, 2], [8, 16]]),
        "use_safe_embedding_lookup": st.booleans(),
    }
    plain = st.builds(tpu_columns.embedding_column, categorical, **fields)
    name = st.sampled_from([None, "table"])
    shared = st.builds(
        lambda column, name, **kw: tpu_columns.shared_embedding_columns(
            [column], shared_embedding_collection_name=name, **kw
        )[0],
        categorical,
        name,
        **fields,
    )
    return plain | shared


@settings(deadline=None, max_examples=60)
@given(columns())
def test_columns_survive_every_way_of_travelling(column):
    """Copy, deepcopy, pickle and a config through JSON return an equal column and hash."""
    through_json = json.loads(json.dumps(column.get_config()))
    for other in (
        copy.copy(column),
        copy.deepcopy(column),
        pickle.loads(pickle.dumps(column)),
        type(column).from_config(through_json),
        column._replace(),
    ):
        assert other == column
        assert hash(other) == hash(column)
        assert type(other) is type(column)


def test_sharing_survives_copies_made_one_by_one():
    """Shared columns that are copied, pickled or configured separately still share one variable."""
    pair = tpu_columns.shared_embedding_columns([identity("p", 6), identity("q", 6)], 3)
    ways = {
        "deepcopy of each": [copy.deepcopy(column) for column in pair],
        "deepcopy of the list": copy.deepcopy(pair),
        "pickle of each": [pickle.loads(pickle.dumps(column)) for column in pair],
        "config of each": [SharedEmbeddingColumn.from_config(c.get_config()) for c in pair],
    }
    for way, copies in ways.items():
        with tf.Graph().as_default():
            features = {"p": tf.constant([[1]]), "q": tf.constant([[2]])}
            tpu_columns.input_layer(features, copies)
            names = [variable.op.name for variable in tf1.global_variables()]
        assert names == ["p_q_shared_embedding"], way


def test_a_pickle_made_by_another_process_is_found_in_a_set():
    """A pickle doesn't contain the cached hash: str hashes differ between processes."""
    column = tpu_columns.embedding_column(identity(), 4)
    hash(column)
    assert b"_hash" not in pickle.dumps(column)


def test_a_lambda_has_no_config():
    """The error of get_config for a lambda names the argument and what to do."""
    column = tpu_columns.embedding_column(identity(), 4, learning_rate_fn=lambda step: 0.1)
    with pytest.raises(ValueError, match="learning_rate_fn of a_embedding.*top of a module"):
        column.get_config()


def test_functions_come_back_from_custom_objects():
    """custom_objects take precedence over imports in from_config."""
    config = tpu_columns.embedding_column(identity(), 4, learning_rate_fn=rate).get_config()
    other = EmbeddingColumn.from_config(config, custom_objects={"rate": math.sqrt})
    assert other.learning_rate_fn is math.sqrt
    config["learning_rate_fn"] = {"function": "gone", "module": "no_such_module"}
    with pytest.raises(ValueError, match="'gone' of module 'no_such_module'.*custom_objects"):
        EmbeddingColumn.from_config(config)


@pytest.mark.parametrize("kind", ["class_name", "function"])
@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "system", "pickle.loads"])
@pytest.mark.parametrize("argument", ["initializer", "learning_rate_fn"])
def test_a_config_calls_only_classes_with_a_config(tmp_path, argument, name, kind):
    """A config that names another callable is refused before anything is called."""
    called = tmp_path / "called"
    module, _, name = name.rpartition(".")
    arguments = {"command": f"touch {called}"} if name == "system" else {"args": ["touch", called]}
    config = {kind: name, "module": module or "tf.compat.v1", "config": arguments}
    fields = tpu_columns.embedding_column(identity(), 4).get_config()
    with pytest.raises(ValueError, match=f"'{name}' of module .*custom_objects"):
        EmbeddingColumn.from_config({**fields, argument: config})
    assert not called.exists()


class Halves:
    """Initializer with `get_config` and without `from_config`."""

    def __init__(self, scale=0.5):
        self.scale = scale

    def __call__(self, shape, dtype=None, partition_info=None):
        return tf.fill(shape, self.scale)

    def get_config(self):
        """Returns the arguments."""
        return {"scale": self.scale}


@pytest.mark.parametrize(
    "initializer",
    [
        Halves(0.25),
        Halves,
        tf1.initializers.identity(),
        tf.initializers.RandomUniform(-1.0, 1.0),
        tf.function(rate),
        rate,
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_initializers_come_back_from_their_config(initializer):
    """Objects and classes with `get_config`, and functions, are imported by name."""
    column = tpu_columns.embedding_column(identity(), 4, initializer=initializer)
    again = EmbeddingColumn.from_config(json.loads(json.dumps(column.get_config())))
    if isinstance(initializer, Halves):
        assert again.initializer.scale == 0.25
    elif callable(getattr(initializer, "python_function", None)):
        assert again.initializer is rate
    else:
        assert again == column


def test_an_initializer_of_tensorflows_config_comes_back():
    """TensorFlow's columns write an initializer's config without a module."""
    column = tpu_columns.embedding_column(
        identity(), 4, initializer=tf1.truncated_normal_initializer(0.0, 0.25)
    )
    theirs = fc.embedding_column(identity(), 4, initializer=column.initializer).get_config()
    config = {**column.get_config(), "initializer": theirs["initializer"]}
    assert EmbeddingColumn.from_config(config) == column


class TestRefusals:
    """Errors of bad arguments when a column is created."""

    @pytest.mark.parametrize(
        "column, instead",
        [
            (fc.categorical_column_with_hash_bucket("h", 10), "to_hash_bucket_fast"),
            (fc.crossed_column(["x", "y"], 10), "cross_hashed"),
            (fc.bucketized_column(fc.numeric_column("n"), [0.0, 1.0]), "searchsorted"),
            (
                fc.weighted_categorical_column(
                    fc.categorical_column_with_hash_bucket("h", 10), "w"
                ),
                "to_hash_bucket_fast",
            ),
        ],
    )
    @pytest.mark.parametrize("shared", [False, True])
    def test_hashed_crossed_and_bucketized_columns(self, column, instead, shared):
        """A hashed, crossed or bucketized column is a TypeError that says what to use instead."""
        with pytest.raises(TypeError, match=f"denylisted(.|\n)*{instead}"):
            if shared:
                tpu_columns.shared_embedding_columns([column], 4)
            else:
                tpu_columns.embedding_column(column, 4)

    def test_numpy_integers_are_integers(self):
        """NumPy integers are accepted as dimensions and become plain ints."""
        column = tpu_columns.embedding_column(
            fc.sequence_categorical_column_with_identity("s", 7),
            np.int64(8),
            max_sequence_length=np.int32(3),
        )
        assert type(column.dimension) is int
        assert type(column.get_max_sequence_length()) is int


def test_split_sequence_columns():
    """Sequence columns come first, both lists in the given order; other types are errors."""
    sequence = fc.sequence_categorical_column_with_identity("s", 7)
    weighted = fc.weighted_categorical_column(sequence, "w")
    s, w = (tpu_columns.embedding_column(c, 4, max_sequence_length=2) for c in (sequence, weighted))
    a, b = tpu_columns.shared_embedding_columns([identity("a"), identity("b")], 4)
    assert tpu_columns.split_sequence_columns([a, s, b, w]) == ([s, w], [a, b])
    with pytest.raises(TypeError, match="column must be a TPU embedding column"):
        tpu_columns.split_sequence_columns([a, fc.numeric_column("n")])
