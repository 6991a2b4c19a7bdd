# SPDX-License-Identifier: Apache-2.0
"""Columns in legacy feature layers: values and variable names against TensorFlow's own columns."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest
import tensorflow as tf

import tpu_columns
from estimator_spec.core.common import legacy_keras
from tpu_columns import Hardware, Mode, feature_layers, placement, tables

fc = tf.feature_column
tf1 = tf.compat.v1
OLD = tf1.tpu.experimental
serialization = tf.__internal__.feature_column
OTHER = fc.categorical_column_with_identity("other", 4)


def init(seed):
    """Returns an initializer whose values don't depend on the rest of the graph."""
    return tf1.random_normal_initializer(seed=seed)


def pooled_columns(api):
    """Returns columns of each pooled kind and combiner, made by our functions or TensorFlow's."""
    identity = fc.categorical_column_with_identity
    words = fc.categorical_column_with_vocabulary_list("words", ["x", "y", "z"], num_oov_buckets=2)
    return [
        api.embedding_column(identity("one", 9), 3, initializer=init(1)),
        api.embedding_column(identity("many", 9, default_value=0), 2, "sqrtn", init(2)),
        api.embedding_column(words, 4, "sum", init(3)),
        api.embedding_column(
            fc.weighted_categorical_column(identity("ids", 9), "weights"), 2, "mean", init(4)
        ),
        api.embedding_column(
            identity("fast", 9), 3, "mean", init(5), use_safe_embedding_lookup=False
        ),
    ]


def shared_columns(api):
    """Returns two columns that share a table."""
    return api.shared_embedding_columns(
        [fc.categorical_column_with_identity(key, 8) for key in ("p", "q")], 3, initializer=init(6)
    )


def sequence_columns(api):
    """Returns two sequence columns of equal length, one with a vocabulary."""
    words = fc.sequence_categorical_column_with_vocabulary_list("steps_words", ["x", "y"])
    return [
        api.embedding_column(
            fc.sequence_categorical_column_with_identity("steps", 9),
            3,
            initializer=init(7),
            max_sequence_length=4,
        ),
        api.embedding_column(words, 2, initializer=init(8), max_sequence_length=4),
    ]


def batch():
    """Returns three rows: dense and sparse, missing values, empty rows, unknown words."""
    return {
        "one": tf.constant([[1], [-1], [8]]),
        "many": tf.sparse.from_dense([[1, 2, 2], [0, 0, 0], [44, 3, 0]]),
        "words": tf.constant([["x", "z"], ["", ""], ["new", "y"]]),
        "ids": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [3, 4, 5], [3, 2]),
        "weights": tf.SparseTensor([[0, 0], [0, 1], [2, 0]], [0.5, 2.0, 1.0], [3, 2]),
        "fast": tf.constant([[1, 2], [3, 3], [0, 4]]),
        "p": tf.constant([[1], [2], [3]]),
        "q": tf.constant([[3, 2], [0, 1], [7, -1]]),
        "steps": tf.sparse.from_dense([[1, 2, 3, 8], [4, 0, 0, 0], [5, 6, 0, 0]]),
        "steps_words": tf.sparse.from_dense(
            [["x", "y", "x", "x"], ["y", "", "", ""], ["x", "y", "", ""]]
        ),
    }


def run(build, scope=None):
    """Builds and runs a new graph; returns values and variable names."""
    with tf.Graph().as_default() as graph:
        around = tf1.variable_scope(scope) if scope else contextlib.nullcontext()
        with around:
            tensors = build(batch())
        names = sorted(variable.op.name for variable in tf1.global_variables())
        with tf1.Session(graph=graph) as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            return session.run(tensors), names


def dense_features(columns):
    """Calls Keras' layer in a graph."""
    return lambda features: feature_layers.DenseFeatures(columns)(features)


LAYERS = {
    "input_layer": lambda f, api: tf1.feature_column.input_layer(f, pooled_columns(api)),
    "DenseFeatures": lambda f, api: feature_layers.DenseFeatures(
        pooled_columns(api) + shared_columns(api)
    )(f),
    "SequenceFeatures": lambda f, api: feature_layers.SequenceFeatures(sequence_columns(api))(f),
    # The second layer's table has the scope of legacy checkpoints.
    "two input layers": lambda f, api: [
        tf1.feature_column.input_layer(f, [column]) for column in pooled_columns(api)[:2]
    ],
    "two DenseFeatures": lambda f, api: [
        feature_layers.DenseFeatures([column])(f) for column in pooled_columns(api)[:2]
    ],
}


@pytest.mark.parametrize("scope", [None, "model"])
@pytest.mark.parametrize("kind", LAYERS)
def test_layers_equal_tensorflows(kind, scope):
    """Layers give equal values and variable names for our columns and TensorFlow's."""
    (ours, our_names), (theirs, their_names) = (
        run(lambda features: LAYERS[kind](features, api), scope)  # noqa: B023 - called at once
        for api in (tpu_columns, OLD)
    )
    assert our_names == their_names
    if kind == "two input layers":
        assert our_names[1].endswith("input_layer_1/many_embedding/embedding_weights")
    for value, expected in zip(tf.nest.flatten(ours), tf.nest.flatten(theirs), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7)


def ragged(features):
    """Returns features with ragged tensors in place of sparse ones, without empty rows."""
    found = {
        "ids": tf.ragged.constant([[3, 4], [5], [6, 7, 7]]),
        "weights": tf.ragged.constant([[0.5, 2.0], [1.0], [1.0, 1.0, 4.0]]),
        "steps": tf.ragged.constant([[1, 2, 3, 8], [4], [5, 6]]),
        "steps_words": tf.ragged.constant([["x", "y", "x", "x"], ["y"], ["x", "y"]]),
    }
    return {**features, **found}


def sparse(features):
    """Returns the same features as sparse tensors."""
    found = ragged(features)
    return {
        key: value.to_sparse() if isinstance(value, tf.RaggedTensor) else value
        for key, value in found.items()
    }


@pytest.mark.parametrize(
    "layer",
    [
        lambda f: tf1.feature_column.input_layer(f, pooled_columns(tpu_columns)),
        lambda f: tpu_columns.input_layer(f, pooled_columns(tpu_columns)),
        lambda f: feature_layers.DenseFeatures(pooled_columns(tpu_columns))(f),
        lambda f: tpu_columns.sequence_input_layer(f, sequence_columns(tpu_columns)),
        lambda f: feature_layers.SequenceFeatures(sequence_columns(tpu_columns))(f),
    ],
    ids=["tf1", "input_layer", "DenseFeatures", "sequence_input_layer", "SequenceFeatures"],
)
def test_ragged_equals_sparse(layer):
    """Ragged ids and weights give the result of the same ids as sparse tensors."""
    as_ragged, names = run(lambda features: layer(ragged(features)))
    as_sparse, expected_names = run(lambda features: layer(sparse(features)))
    assert names == expected_names
    for ours, expected in zip(tf.nest.flatten(as_ragged), tf.nest.flatten(as_sparse), strict=True):
        np.testing.assert_array_equal(ours, expected)


DENSE_WEIGHTS = [
    ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
    ([[1, 2], [3, 4]], [[1.0, 0.0], [3.0, 4.0]]),
    ([[1, 2], [3, -1]], [[1.0, 2.0], [3.0, 0.0]]),
    ([[1, 2], [3, -1]], [[0.0, 2.0], [3.0, 1.0]]),
    ([[1, 2], [3, -1]], [[1.0, 2.0], [3.0, 1.0]]),
    ([[1, 2], [3, 4]], [[1.0], [3.0]]),
    ([[1, 2], [3, 4]], [[1.0, -2.0], [-3.0, 4.0]]),
]


def test_dense_weights_as_tensorflows(subtests):
    """Dense weights give the values of TensorFlow's columns, and fail where theirs do."""
    cases = list(itertools.product(["mean", "sum", "sqrtn"], [True, False], DENSE_WEIGHTS))

    def run_each(api):
        with tf.Graph().as_default() as graph:
            layers = []
            for combiner, safe, (ids, weights) in cases:
                categorical = fc.categorical_column_with_identity("ids", 9)
                column = api.embedding_column(
                    fc.weighted_categorical_column(categorical, "weights"),
                    3,
                    combiner,
                    init(1),
                    use_safe_embedding_lookup=safe,
                )
                features = {"ids": ids, "weights": weights}
                layers.append(tf1.feature_column.input_layer(features, [column]))
            with tf1.Session(graph=graph) as session:
                session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
                for layer in layers:
                    try:
                        yield session.run(layer)
                    except tf.errors.InvalidArgumentError:
                        yield None

    ours, theirs = list(run_each(tpu_columns)), list(run_each(OLD))
    assert len({value is None for value in theirs}) == 2
    for case, found, wanted in zip(cases, ours, theirs, strict=True):
        with subtests.test(str(case)):
            assert (found is None) == (wanted is None)
            if wanted is not None:
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("policy", [None, "drop"])
def test_sequences_of_dense_and_sparse_words(policy):
    """Words in a matrix have the steps and lengths of the same words in a SparseTensor."""
    words = np.array([["x", "", "unknown", "y", ""], ["", "", "", "", ""], ["y"] * 5])
    rows, places = np.argwhere(words != ""), words != ""
    inputs = {"dense": tf.constant(words)}
    inputs["sparse"] = tf.SparseTensor(rows, words[places], words.shape)
    column = fc.sequence_categorical_column_with_vocabulary_list("steps_words", ["x", "y"])
    more = {"invalid_ids": policy} if policy else {}
    layer = feature_layers.SequenceFeatures(
        [tpu_columns.embedding_column(column, 2, max_sequence_length=4, **more)]
    )
    found = {
        kind: [tensor.numpy() for tensor in layer({"steps_words": value})]
        for kind, value in inputs.items()
    }
    np.testing.assert_array_equal(found["dense"][0], found["sparse"][0])
    np.testing.assert_array_equal(found["dense"][1], found["sparse"][1])
    assert found["dense"][1].tolist() == [4, 0, 4]
    assert found["dense"][0][0].any(axis=1).tolist() == [True, False, False, True]


def test_sequence_input_layer():
    """sequence_input_layer has the scope of tf.contrib's and the values of SequenceFeatures."""
    (values, lengths), names = run(
        lambda f: tpu_columns.sequence_input_layer(f, sequence_columns(tpu_columns))
    )
    assert names == [
        "sequence_input_layer/steps_embedding/embedding_weights",
        "sequence_input_layer/steps_words_embedding/embedding_weights",
    ]
    (keras, keras_lengths), _ = run(
        lambda f: feature_layers.SequenceFeatures(sequence_columns(tpu_columns))(f)
    )
    np.testing.assert_allclose(values, keras)
    assert lengths.tolist() == keras_lengths.tolist()
    assert values.shape == (3, 4, 5)


@pytest.mark.parametrize("scope", [None, "model", "outer/model"])
def test_input_layer_takes_shared_columns(scope):
    """Shared tables are outside of the layer's scope, in TensorFlow's function and in ours."""
    prefix = f"{scope}/" if scope else ""
    columns = shared_columns(tpu_columns)
    keras, _ = run(dense_features(columns), scope)
    for layer in (tpu_columns.input_layer, tf1.feature_column.input_layer):
        value, names = run(lambda f, layer=layer: layer(f, columns), scope)
        assert names == [f"{prefix}p_q_shared_embedding"]
        np.testing.assert_allclose(value, keras)


def test_shared_sequence_columns():
    """Sequence columns can share a table with each other and with a pooled column."""
    identity, sequence = (
        fc.categorical_column_with_identity,
        fc.sequence_categorical_column_with_identity,
    )
    pooled, steps = tpu_columns.shared_embedding_columns(
        [identity("one", 9), sequence("steps", 9)], 3, max_sequence_lengths=[0, 4]
    )

    def build(features):
        flat = tpu_columns.input_layer(features, [pooled])
        return flat, tpu_columns.sequence_input_layer(features, [steps])[0]

    (flat, sequence_values), names = run(build)
    assert names == ["one_steps_shared_embedding"]
    np.testing.assert_allclose(flat[0], sequence_values[0, 0])  # both look up id 1


def test_input_layer_reports_variables_and_tensors():
    """cols_to_vars and cols_to_output_tensors are filled, also with shared tables."""
    columns = pooled_columns(tpu_columns)[:1] + shared_columns(tpu_columns)
    with tf.Graph().as_default():
        variables, tensors = {}, {}
        tpu_columns.input_layer(
            batch(), columns, cols_to_vars=variables, cols_to_output_tensors=tensors
        )
        names = {c.name: [v.op.name for v in variables[c]] for c in columns}
    assert names == {
        "one_embedding": ["input_layer/one_embedding/embedding_weights"],
        "p_shared_embedding": ["p_q_shared_embedding"],
        "q_shared_embedding": ["p_q_shared_embedding"],
    }
    assert set(tensors) == set(columns)


def test_other_columns_may_join():
    """Numeric columns and TensorFlow's own embedding columns can be mixed with ours."""
    columns = [
        *pooled_columns(tpu_columns)[:1],
        fc.numeric_column("price"),
        fc.embedding_column(fc.categorical_column_with_identity("fast", 9), 2),
    ]
    with tf.Graph().as_default():
        features = {**batch(), "price": tf.constant([[1.0], [2.0], [3.0]])}
        assert tpu_columns.input_layer(features, columns).shape.as_list() == [3, 3 + 1 + 2]


def test_weight_collections_and_trainable():
    """Tables are added to the requested collections, and aren't trainable if so requested."""
    with tf.Graph().as_default():
        tpu_columns.input_layer(
            batch(), pooled_columns(tpu_columns)[:1], weight_collections=["mine"], trainable=False
        )
        (mine,) = tf1.get_collection("mine")
        assert mine in tf1.global_variables()
        assert not tf1.trainable_variables()


def test_reuse_finds_the_same_table():
    """A layer that is built again with reuse=True looks up in the same variables."""
    columns = pooled_columns(tpu_columns)[:1] + shared_columns(tpu_columns)

    def build(features):
        template = tf1.make_template(
            "tower", lambda f: tpu_columns.input_layer(f, columns), unique_name_="tower"
        )
        return template(features), template(features)

    (first, second), names = run(build)
    np.testing.assert_allclose(first, second)
    assert len(names) == 2


def test_partitioner_splits_tables():
    """With a partitioner the table is a partitioned variable, and lookups are unchanged."""
    columns = [
        tpu_columns.embedding_column(
            fc.categorical_column_with_identity("one", 9), 3, initializer=tf1.ones_initializer()
        )
    ]

    def build(features):
        with tf1.variable_scope("m", partitioner=tf1.fixed_size_partitioner(2)):
            return tpu_columns.input_layer(features, columns)

    value, names = run(build)
    assert names == [f"m/input_layer/one_embedding/embedding_weights/part_{i}" for i in (0, 1)]
    np.testing.assert_allclose(value, [[1, 1, 1], [0, 0, 0], [1, 1, 1]])


def test_ids_of_three_axes_are_looked_up_safely():
    """Without safe lookups only matrices of ids go unchecked, as ever: here -1 is left out."""
    column = tpu_columns.embedding_column(
        fc.categorical_column_with_identity("deep", 9),
        2,
        initializer=tf1.ones_initializer(),
        use_safe_embedding_lookup=False,
    )

    def build(_):
        ids = tf.SparseTensor([[0, 0, 0], [0, 0, 1]], tf.constant([-1, 3], tf.int64), [2, 1, 2])
        return tpu_columns.input_layer({"deep": ids}, [column])

    value, _ = run(build)
    np.testing.assert_allclose(value, [[1, 1], [0, 0]])


class TestEager:
    """Keras layers in eager mode."""

    def test_pooled(self):
        """DenseFeatures runs eagerly and trains its tables."""
        layer = feature_layers.DenseFeatures(pooled_columns(tpu_columns))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(batch()) ** 2)
        assert len(layer.trainable_variables) == 5
        assert all(g is not None for g in tape.gradient(loss, layer.trainable_variables))

    def test_shared_names_with_other_initializers(self):
        """Tables of one name but of different initial values are different variables."""
        features = {"p": tf.constant([[3]])}
        layers = [
            feature_layers.DenseFeatures(
                tpu_columns.shared_embedding_columns(
                    [fc.categorical_column_with_identity("p", 9)],
                    3,
                    initializer=initializer(),
                    shared_embedding_collection_name="one_name",
                )
            )
            for initializer in (tf1.ones_initializer, tf1.zeros_initializer)
        ]
        found = [layer(features).numpy().tolist() for layer in layers]
        assert found == [[[1.0] * 3], [[0.0] * 3]]

    def test_a_layer_travels_through_its_config(self):
        """DenseFeatures.from_config restores our columns."""
        layer = feature_layers.DenseFeatures(pooled_columns(tpu_columns)[:2])
        other = type(layer).from_config(layer.get_config())
        assert list(other._feature_columns) == list(layer._feature_columns)

    def test_columns_of_one_name_are_told_apart(self):
        """TensorFlow's deserializer keeps ours and its own, though they have one name."""
        column = fc.categorical_column_with_identity("one", 9)
        both = [tpu_columns.embedding_column(column, 3), fc.embedding_column(column, 3)]
        assert both[0].name == both[1].name
        known = {}
        again = [
            serialization.deserialize_feature_column(
                serialization.serialize_feature_column(each), None, known
            )
            for each in both
        ]
        assert [type(each) for each in again] == [type(each) for each in both]

    @pytest.mark.parametrize(
        ("suffix", "is_of_a_former_release"), [(".keras", False), (".h5", False), (".h5", True)]
    )
    def test_a_keras_model_is_saved_and_loaded(self, tmp_path, suffix, is_of_a_former_release):
        """Also a file with our columns by the former name, TensorFlow's, if the caller says so."""
        keras = legacy_keras.keras_2()
        ids = fc.categorical_column_with_identity("ids", 9)
        columns = [tpu_columns.embedding_column(ids, 3), fc.embedding_column(OTHER, 2)]
        inputs = {key: keras.Input([1], name=key, dtype=tf.int64) for key in ("ids", "other")}
        model = keras.Model(inputs, keras.layers.DenseFeatures(columns)(inputs))
        path = str(tmp_path / f"model{suffix}")
        name = tpu_columns.EmbeddingColumn.__name__
        if is_of_a_former_release:
            tpu_columns.EmbeddingColumn.__name__ = "EmbeddingColumn"
        try:
            model.save(path)
        finally:
            tpu_columns.EmbeddingColumn.__name__ = name
        known = {"EmbeddingColumn": tpu_columns.EmbeddingColumn} if is_of_a_former_release else None
        again = keras.models.load_model(path, known, compile=False)
        batch = {"ids": tf.constant([[3], [8]]), "other": tf.constant([[0], [1]])}
        np.testing.assert_array_equal(again(batch), model(batch))
        assert [type(c) for c in again.layers[-1]._feature_columns] == [type(c) for c in columns]


def test_parse_specs():
    """Both make_parse_example_spec functions accept our columns, and the result parses."""
    columns = pooled_columns(tpu_columns)[:4] + shared_columns(tpu_columns)
    spec = fc.make_parse_example_spec(columns)
    assert spec == tf1.feature_column.make_parse_example_spec(columns)
    assert set(spec) == {"one", "many", "words", "ids", "weights", "p", "q"}
    example = tf.train.Example()
    example.features.feature["one"].int64_list.value.append(4)
    parsed = tf.io.parse_example([example.SerializeToString()], spec)
    assert parsed["one"].values.numpy().tolist() == [4]


class TestRefusals:
    """Errors of columns that a layer doesn't accept."""

    @pytest.mark.parametrize(
        ("layer", "columns", "message"),
        [
            (
                layer,
                sequence_columns(tpu_columns)[:1],
                "steps_embedding.*must not be of type SequenceCategoricalColumn.*fix A.*fix B",
            )
            for layer in (tpu_columns.input_layer, lambda f, c: feature_layers.DenseFeatures(c)(f))
        ]
        + [
            (tpu_columns.sequence_input_layer, columns, message)
            for columns, message in (
                (
                    pooled_columns(tpu_columns)[:1],
                    "one_embedding.*must be of type SequenceCategoricalColumn",
                ),
                ([fc.numeric_column("n")], "must be of type _SequenceDenseColumn"),
                (sequence_columns(tpu_columns)[:1] * 2, "Duplicate feature column"),
            )
        ],
    )
    def test_columns_of_another_layer(self, layer, columns, message):
        """A layer refuses columns that aren't its own, and twins, by name and with both fixes."""
        with tf.Graph().as_default(), pytest.raises(ValueError, match=message):
            layer(batch(), columns)

    def test_sequences_of_different_length_limits(self):
        """Columns of one sequence layer must agree in max_sequence_length."""
        first, second = sequence_columns(tpu_columns)
        with (
            tf.Graph().as_default(),
            pytest.raises(ValueError, match="same max_sequence_length.*'steps_embedding': 4.*9"),
        ):
            columns = [first, second._replace(max_sequence_length=9)]
            tpu_columns.sequence_input_layer(batch(), columns)

    def test_sequences_of_different_lengths(self):
        """Sequences whose lengths differ within a batch fail when run, naming both columns."""
        features = batch()
        with tf.Graph().as_default() as graph:
            features = batch()
            features["steps"] = tf.sparse.from_dense([[1, 2], [3, 4], [5, 6]])
            value, _ = tpu_columns.sequence_input_layer(features, sequence_columns(tpu_columns))
            with tf1.Session(graph=graph) as session:
                session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
                with pytest.raises(
                    tf.errors.InvalidArgumentError,
                    match="steps_embedding and steps_words_embedding differ",
                ):
                    session.run(value)


class TestEmbeddingCore:
    """Columns in a graph whose embedding core puts activations in the features."""

    @pytest.fixture(autouse=True)
    def _on_tpu(self):
        with placement.running(Mode.TRAIN, Hardware.TPU), tf.Graph().as_default():
            yield

    def test_activations_pass_through(self):
        """Columns return the activations; no variable is created, and names are recorded."""
        columns = pooled_columns(tpu_columns)[:1] + shared_columns(tpu_columns)
        activations = {key: tf.ones([2, 3]) * i for i, key in enumerate(("one", "p", "q"))}
        value = tpu_columns.input_layer(activations, columns)
        assert value.shape.as_list() == [2, 9]
        assert not tf1.global_variables()
        recorded = tables.core_tables(tf1.get_default_graph())
        names = {key: table.variable_name for key, table in recorded.items()}
        assert names["one"] == "input_layer/one_embedding/embedding_weights"
        assert names["p_q_shared_embedding"] == "p_q_shared_embedding"

    def test_keras_records_names_too(self):
        """DenseFeatures records the variable name that the table has in a CPU run."""
        columns = pooled_columns(tpu_columns)[:1] + shared_columns(tpu_columns)
        activations = {key: tf.ones([2, 3]) for key in ("one", "p", "q")}
        feature_layers.DenseFeatures(columns)(activations)
        recorded = tables.core_tables(tf1.get_default_graph())
        assert {key: table.variable_name for key, table in recorded.items()} == {
            "one": "dense_features/one_embedding/embedding_weights",
            "p_q_shared_embedding": "p_q_shared_embedding",
        }

    def test_sequences_pass_through(self):
        """A sequence layer returns the activations, and the lengths under their key."""
        column = sequence_columns(tpu_columns)[0]
        features = {"steps": tf.ones([2, 4, 3]), "steps_seq_length_": tf.constant([1, 4])}
        value, lengths = tpu_columns.sequence_input_layer(features, [column])
        with tf1.Session() as session:
            value, lengths = session.run([value, lengths])
        assert value.shape == (2, 4, 3)
        assert lengths.tolist() == [1, 4]

    def test_one_table_in_two_scopes(self):
        """A table that is used in two variable scopes is an error."""
        column = pooled_columns(tpu_columns)[0]
        features = {"one": tf.ones([2, 3])}
        tpu_columns.input_layer(features, [column])
        with pytest.raises(ValueError, match="one, the variable scope name is different"):
            tpu_columns.input_layer(features, [column])

    def test_a_shared_table_in_two_scopes(self):
        """A shared table may be used under several variable scopes; the first one names it."""
        features = {key: tf.ones([2, 3]) for key in ("p", "q")}
        for scope in ("first", "second"):
            with tf1.variable_scope(scope):
                tpu_columns.input_layer(features, shared_columns(tpu_columns))
        (table,) = tables.core_tables(tf1.get_default_graph()).values()
        assert table.variable_name == "first/p_q_shared_embedding"

    def test_one_table_under_two_names(self):
        """A table that is called differently within its scope is refused."""
        tables.record_core_table("one", "weights", scope="layer", shared=True)
        with pytest.raises(ValueError, match="one, the embedding name is different, got others"):
            tables.record_core_table("one", "others", scope="layer", shared=True)

    def test_tensor_core(self):
        """A tensor-core column looks up padded ids with their mask in its own variable."""
        column = pooled_columns(tpu_columns)[0]._replace(
            embedding_lookup_device="tpu_tensor_core", tensor_core_shape=[None, 2]
        )

        def padded(_):
            features = {
                "one": tf.constant([[1, 2], [3, 0]]),
                "one__TENSOR_CORE_MASK": tf.constant([[1.0, 1.0], [1.0, 0.0]]),
            }
            return tpu_columns.input_layer(features, [column])

        def plain(_):
            return tpu_columns.input_layer({"one": tf.constant([[1, 2], [3, -1]])}, [column])

        on_core, core_names = run(padded)
        from_sparse, _ = run(plain)
        with placement.running(Mode.EVAL, Hardware.CPU):
            on_cpu, cpu_names = run(plain)
        assert core_names == cpu_names == ["input_layer/one_embedding/embedding_weights"]
        np.testing.assert_allclose(on_core, on_cpu, rtol=1e-6)
        np.testing.assert_allclose(from_sparse, on_cpu, rtol=1e-6)


def test_keras_3_is_named():
    """Without legacy Keras the error names what to install and to set."""

    class Keras3:
        __version__ = "3.0"
        layers = object()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_layers.tf, "keras", Keras3)
        with pytest.raises(RuntimeError, match="DenseFeatures needs legacy Keras.*TF_USE_LEGACY"):
            _ = feature_layers.DenseFeatures
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = feature_layers.Nothing


def test_sequence_input_layer_takes_numeric_columns():
    """`sequence_numeric_column`, beside an embedding column; padded with its default value."""
    numbers = fc.sequence_numeric_column("x", shape=(2,), default_value=-1.0)
    steps = tpu_columns.embedding_column(
        fc.sequence_categorical_column_with_identity("steps", 9), 3, max_sequence_length=2
    )
    with tf.Graph().as_default(), tf1.Session() as session:
        x = tf.SparseTensor([[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]], tf.range(6.0), [2, 4])
        ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 3], tf.int64), [2, 2])
        layer, lengths = tpu_columns.sequence_input_layer({"x": x, "steps": ids}, [numbers, steps])
        session.run(tf1.global_variables_initializer())
        values, lengths = session.run([layer, lengths])
    assert lengths.tolist() == [2, 1]
    assert values.shape == (2, 2, 5)
    # In the order of the names, steps_embedding before x.
    assert values[:, :, 3:].tolist() == [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [-1.0, -1.0]]]
