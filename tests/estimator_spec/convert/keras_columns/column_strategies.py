# SPDX-License-Identifier: Apache-2.0
"""Draws feature columns of all kinds, and batches of features for them; runs them in a graph."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st

import tpu_columns
from estimator_spec.convert import to_keras

tf1 = tf.compat.v1
fc = tf.feature_column

WORDS = ("ant", "bee", "cow", "dog")
TEXTS = (*WORDS, "", "été", "zzz", "-1", "3")
COMBINERS = ("mean", "sum", "sqrtn")
BOUNDARIES = (-1.0, 0.0, 2.5)
FILES = Path(tempfile.mkdtemp(prefix="vocabularies"))
(FILES / "words.txt").write_text("\n".join(WORDS) + "\n")
(FILES / "integers.txt").write_text("7\n1\n4\n")

NORMALIZERS = (
    None,
    lambda x: (tf.cast(x, tf.float32) - 1.0) / 3.0,
    lambda x: tf.math.log1p(tf.maximum(tf.cast(x, tf.float32), 0.0)),
)


@dataclasses.dataclass
class Feature:
    """Values of one feature in a batch.

    Attributes:
        rows: the values of each example.
        kind: 'dense', 'sparse' or 'ragged'.
        dtype: TensorFlow's dtype.
    """

    rows: list[list[Any]]
    kind: str
    dtype: Any

    def tensor(self, for_columns: bool) -> Any:
        """Returns the tensor; columns of TensorFlow take no ragged ones."""
        if self.kind == "dense":
            width = len(self.rows[0]) if self.rows else 1
            return tf.reshape(tf.constant(self.rows, self.dtype), [len(self.rows), width])
        ragged = tf.ragged.constant(self.rows, self.dtype, ragged_rank=1)
        return ragged if self.kind == "ragged" and not for_columns else ragged.to_sparse()


def rows(values: st.SearchStrategy, size: int, kind: str) -> st.SearchStrategy:
    """Draws the rows of a feature: of one width if it is dense."""
    if kind == "dense":
        return st.integers(1, 3).flatmap(
            lambda width: st.lists(
                st.lists(values, min_size=width, max_size=width), min_size=size, max_size=size
            )
        )
    return st.lists(st.lists(values, max_size=4), min_size=size, max_size=size)


@st.composite
def features(draw: st.DrawFn, min_size: int = 0) -> dict[str, Feature]:
    """Draws a batch: strings `a` and `b`, ids `i`, words with weights, numbers `n` and `m`."""
    size = draw(st.integers(min_size, 4))
    kinds = st.sampled_from(("dense", "sparse", "ragged"))
    sparse = st.sampled_from(("sparse", "ragged"))
    texts, ids = st.sampled_from(TEXTS), st.integers(-1, 7)
    number = st.floats(width=32) | st.sampled_from((*BOUNDARIES, math.nan, math.inf, -math.inf))
    found = {}
    for key, values, dtype in (
        ("a", texts, tf.string),
        ("b", texts, tf.string),
        ("i", ids, draw(st.sampled_from((tf.int64, tf.int32)))),
    ):
        kind = draw(kinds)
        found[key] = Feature(draw(rows(values, size, kind)), kind, dtype)
    weighed = draw(rows(texts, size, "sparse"))
    weight = st.sampled_from((0.5, 2.0, 1.0, 0.0, -1.5))
    weights = [[draw(weight) for _ in row] for row in weighed]
    found["words"] = Feature(weighed, draw(sparse), tf.string)
    found["weights"] = Feature(weights, found["words"].kind, tf.float32)
    for key, width in (("n", 1), ("m", 3)):
        values = [[draw(number) for _ in range(width)] for _ in range(size)]
        shaped = np.array(values, np.float32).reshape(size, width).tolist()
        found[key] = Feature(shaped, "dense", tf.float32)
    return found


def hashed(key: str) -> st.SearchStrategy:
    """Draws a hash column."""
    dtype = tf.int64 if key == "i" else tf.string
    return st.sampled_from((5, 11)).map(
        lambda size: fc.categorical_column_with_hash_bucket(key, size, dtype)
    )


def vocabulary(key: str) -> st.SearchStrategy:
    """Draws a vocabulary column of a list or a file, with each way to treat other words."""
    others = st.sampled_from(({}, {"num_oov_buckets": 1}, {"num_oov_buckets": 3}))
    others |= st.just({"default_value": 2})
    words, file, dtype = WORDS, FILES / "words.txt", tf.string
    if key == "i":
        words, file, dtype = (7, 1, 4), FILES / "integers.txt", tf.int64

    def of_list(more: dict[str, Any]) -> Any:
        return fc.categorical_column_with_vocabulary_list(key, words, dtype=dtype, **more)

    def of_file(more: dict[str, Any]) -> Any:
        size = len(words)
        return fc.categorical_column_with_vocabulary_file(key, str(file), size, dtype=dtype, **more)

    return others.map(of_list) | others.map(of_file)


IDENTITIES = st.sampled_from((None, 0, 3)).map(
    lambda default: fc.categorical_column_with_identity("i", 8 if default is None else 5, default)
)
BUCKETS = st.tuples(st.sampled_from((("n", 1), ("m", 3))), st.sampled_from(NORMALIZERS)).map(
    lambda drawn: fc.bucketized_column(
        fc.numeric_column(*drawn[0], normalizer_fn=drawn[1]), BOUNDARIES
    )
)
PLAIN = hashed("a") | vocabulary("a") | hashed("i") | vocabulary("i") | IDENTITIES
WEIGHTED = (hashed("words") | vocabulary("words")).map(
    lambda column: fc.weighted_categorical_column(column, "weights")
)


@st.composite
def crossed(draw: st.DrawFn) -> Any:
    """Draws a crossed column of two or three keys, one of which may be a cross itself."""
    keys = ["b", draw(st.sampled_from(("a",)) | vocabulary("a") | BUCKETS | vocabulary("i"))]
    if draw(st.booleans()):
        keys = [draw(st.permutations(keys)), fc.bucketized_column(fc.numeric_column("n"), [0.0])]
        keys = [fc.crossed_column(keys[0], 50), keys[1]]
    hash_key = draw(st.sampled_from((None, 7)))
    return fc.crossed_column(keys, draw(st.sampled_from((1, 23))), hash_key)


CATEGORICAL = PLAIN | WEIGHTED | crossed() | BUCKETS


@st.composite
def embedding(draw: st.DrawFn, categorical: st.SearchStrategy = CATEGORICAL) -> Any:
    """Draws an embedding column."""
    combiner, norm = draw(st.sampled_from(COMBINERS)), draw(st.sampled_from((None, None, 0.5)))
    return fc.embedding_column(draw(categorical), draw(st.integers(1, 3)), combiner, max_norm=norm)


NUMERIC = st.tuples(st.sampled_from((("n", 1), ("m", (3,)))), st.sampled_from(NORMALIZERS)).map(
    lambda drawn: fc.numeric_column(*drawn[0], normalizer_fn=drawn[1])
)
TPU_CATEGORICAL = (
    vocabulary("a")
    | vocabulary("i")
    | IDENTITIES
    | vocabulary("words").map(lambda column: fc.weighted_categorical_column(column, "weights"))
)


@st.composite
def tpu_embedding(draw: st.DrawFn) -> Any:
    """Draws a TPU embedding column with any policy for invalid ids."""
    column, combiner = draw(TPU_CATEGORICAL), draw(st.sampled_from((*COMBINERS, None)))
    policy = draw(st.sampled_from((None, "drop", "clip", "mod", 1)))
    return tpu_columns.embedding_column(column, 2, combiner, invalid_ids=policy)


@st.composite
def shared(draw: st.DrawFn) -> list[Any]:
    """Draws two columns with one table, of TF1's API or of TPU columns."""
    oov = draw(st.integers(0, 2))
    columns = [
        fc.categorical_column_with_vocabulary_list(key, WORDS, num_oov_buckets=oov)
        for key in ("a", "b")
    ]
    combiner = draw(st.sampled_from(COMBINERS))
    if draw(st.booleans()):
        return tpu_columns.shared_embedding_columns(columns, 2, combiner)
    norm = draw(st.sampled_from((None, 0.5)))
    with tf.Graph().as_default():  # refused where execution is eager
        return tf1.feature_column.shared_embedding_columns(columns, 2, combiner, max_norm=norm)


def unlike(columns: list[Any]) -> list[Any]:
    """Returns columns of different names: one layer takes no others."""
    return list({column.name: column for column in columns}.values())


DENSE_COLUMN = NUMERIC | BUCKETS | CATEGORICAL.map(fc.indicator_column) | embedding()
DENSE = st.tuples(
    st.lists(DENSE_COLUMN | tpu_embedding(), min_size=1, max_size=4), st.just([]) | shared()
).map(lambda drawn: unlike([*drawn[1], *drawn[0]]))
# TensorFlow's linear_model has no TPU columns.
LINEAR = st.lists(CATEGORICAL | DENSE_COLUMN, min_size=1, max_size=4).map(unlike)


@st.composite
def sequences(draw: st.DrawFn) -> tuple[list[Any], dict[str, Feature]]:
    """Draws sequence columns, and a batch in which all sequences are equally long."""
    size = draw(st.integers(1, 4))
    lengths = [draw(st.integers(0, 4)) for _ in range(size)]
    kinds = st.sampled_from(("sparse", "ragged"))

    def of(values: tuple[Any, ...], dtype: Any) -> Feature:
        steps = [[draw(st.sampled_from(values)) for _ in range(n)] for n in lengths]
        return Feature(steps, draw(kinds), dtype)

    batch = {
        "a": of(TEXTS, tf.string),
        "i": of((0, 1, 3, 4), tf.int64),
        "n": of((0.5, -2.0, math.nan), tf.float32),
    }
    words = draw(
        st.sampled_from(
            (
                fc.sequence_categorical_column_with_hash_bucket("a", 7),
                fc.sequence_categorical_column_with_vocabulary_list("a", WORDS),
                fc.sequence_categorical_column_with_vocabulary_list("a", WORDS, num_oov_buckets=2),
            )
        )
    )
    ids = fc.sequence_categorical_column_with_identity("i", 5)
    columns = [
        fc.embedding_column(words, 2, draw(st.sampled_from(COMBINERS))),
        fc.indicator_column(ids),
        fc.sequence_numeric_column("n", default_value=draw(st.sampled_from((0.0, 9.0)))),
    ]
    return draw(st.lists(st.sampled_from(columns), min_size=1, unique=True)), batch


def check(build: Any, batch: dict[str, Feature], columns: list[Any], **options: Any) -> Any:
    """Compares a layer of columns with its Keras model, over the checkpoint of the former.

    The values must be equal, and the rows of tables that a step of training looks up.

    Args:
        build: function of features that returns tensors.
        batch: the features.
        columns: the columns.
        **options: arguments of `to_keras`.

    Returns:
        The model.
    """
    with tempfile.TemporaryDirectory() as folder:
        expected, checkpoint, rows = run_columns(build, batch, folder)
        model = to_keras(columns, checkpoint, **options)
    features = model.preprocess({key: each.tensor(False) for key, each in batch.items()})
    with tf.GradientTape() as tape:
        found = model.core(features)
        tensors = tuple(found.values()) if isinstance(found, dict) else found
        total = _total(tensors)
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), tensors, expected
    )
    names = model.conversion.variables
    tables = {
        names[layer.name]: layer.embeddings for layer in model.core.layers if _is_table(layer)
    }
    gradients = tape.gradient(total, [table.value for table in tables.values()])
    for name, gradient in zip(tables, gradients, strict=True):
        np.testing.assert_array_equal(np.unique(gradient.indices), np.unique(rows[name]), name)
    return model


def _is_table(layer: Any) -> bool:
    """Returns whether a layer is a table that trains."""
    return hasattr(layer, "embeddings") and layer.trainable


def _total(tensors: Any) -> Any:
    """Returns the sum of all numbers, whose gradient has the rows that are looked up."""
    return tf.add_n(
        [tf.reduce_sum(each) for each in tf.nest.flatten(tensors) if each.dtype == "float32"]
    )


def run_columns(build: Any, batch: dict[str, Feature], folder: str) -> tuple[Any, str, Any]:
    """Runs a layer of columns in a TF1 graph.

    Args:
        build: function of features that returns tensors.
        batch: the features.
        folder: gets a checkpoint.

    Returns:
        The values, the checkpoint, and the rows that are looked up, by name of the table.
    """
    with tf.Graph().as_default():
        tf1.set_random_seed(3)
        tensors = build({key: value.tensor(for_columns=True) for key, value in batch.items()})
        variables = tf1.global_variables()
        gradients = tf.gradients(_total(tensors), variables)
        rows = {
            variable.op.name: gradient.indices
            for variable, gradient in zip(variables, gradients, strict=True)
            if isinstance(gradient, tf.IndexedSlices)
        }
        start = [
            variable.assign(tf.random.normal(variable.shape, seed=n))
            for n, variable in enumerate(variables)
        ]
        saver = tf1.train.Saver([*variables, tf1.train.get_or_create_global_step()])
        with tf1.Session() as session:
            session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
            session.run(start)
            checkpoint = saver.save(session, f"{folder}/model", write_meta_graph=False)
            values, rows = session.run([tensors, rows])
            return values, checkpoint, rows
