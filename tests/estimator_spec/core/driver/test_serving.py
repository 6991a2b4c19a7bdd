# SPDX-License-Identifier: Apache-2.0
"""Tests SavedModels with embedding tables of any layout, as float32 or quantized."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import host_runs
import tpu_columns

tf1 = tf.compat.v1

ROWS = 50
TABLE = "input_layer/word_weighted_by_weight_embedding/embedding_weights"

# Serves what is in a .npz by several models, in a process that can't import this project.
SERVE = """
import sys
import numpy as np
import tensorflow as tf
for name in ("tpu_columns", "estimator_spec"):
    assert name not in sys.modules
    sys.modules[name] = None  # whoever imports it gets an ImportError
out, data, *paths = sys.argv[1:]
data = {key: tf.constant(value) for key, value in np.load(data, allow_pickle=True).items()}
loaded = [tf.saved_model.load(path).signatures["serving_default"] for path in paths]
np.save(out, [serve(**data)["output"].numpy() for serve in loaded])
"""


def columns():
    """Returns a weighted column, two that share a table, and a sequence."""
    make = tf.feature_column.categorical_column_with_identity
    weighted = tf.feature_column.weighted_categorical_column(make("word", ROWS), "weight")
    pooled = [
        tpu_columns.embedding_column(weighted, 4, combiner="sum"),
        *tpu_columns.shared_embedding_columns([make("one", 9), make("two", 9)], 3),
    ]
    steps = tf.feature_column.sequence_categorical_column_with_identity("steps", 20)
    return pooled, [tpu_columns.embedding_column(steps, 5, max_sequence_length=3)]


def batch():
    """Returns features of 12 examples as dense arrays, and labels."""
    generator = np.random.default_rng(0)
    features = {
        "word": generator.integers(0, ROWS, (12, 2)),
        "weight": generator.random((12, 2)).astype(np.float32) + 0.5,
        "one": generator.integers(0, 9, (12, 1)),
        "two": generator.integers(0, 9, (12, 2)),
        "steps": generator.integers(0, 20, (12, 4)),
    }
    return features, generator.random((12, 1)).astype(np.float32)


def sparse(features):
    """Returns dense ids as sparse tensors, as a parser does."""
    return {
        key: tf.sparse.from_dense(value + 1).with_values(tf.reshape(value, [-1]))
        for key, value in features.items()
    }


def input_fn(mode, params):
    """Returns the batch, repeated in training."""
    data = tf.data.Dataset.from_tensor_slices(batch()).batch(4)
    data = data.map(lambda features, labels: (sparse(features), labels))
    return data.repeat() if mode == es.ModeKeys.TRAIN else data


def model_fn(features, labels, mode, params):
    """A model of every kind of column with one output."""
    pooled, sequence = columns()
    first = tpu_columns.input_layer(features, pooled)
    steps, _ = tpu_columns.sequence_input_layer(features, sequence)
    joined = tf.concat([first, tf.reshape(steps, [-1, 15])], 1)
    kernel = tf1.get_variable("kernel", [25, 1], initializer=tf1.constant_initializer(0.3))
    spec = host_runs.regression(
        tf.matmul(joined, kernel), labels, mode, tf1.train.AdagradOptimizer, 0.1
    )
    return spec._replace(scaffold_fn=params.get("scaffold_fn"))


def make(model_dir, strategy="div", shards=1, core=None, params=None):
    """Makes an estimator of the model."""
    pooled, sequence = columns()
    spec = es.EmbeddingConfigSpec(
        pooled + sequence, es.AdagradParameters(0.1), partition_strategy=strategy
    )
    return host_runs.make_estimator(
        model_fn,
        model_dir,
        4,
        config={"tf_random_seed": 3},
        params=params or {},
        embedding_config_spec=spec,
        embedding_core=core,
        embedding_shards=shards,
    )


def raw_receiver():
    """A receiver of dense placeholders that gives the model sparse features."""
    features, _ = batch()
    inputs = {
        key: tf1.placeholder(value.dtype, [None, value.shape[1]], name=f"in_{key}")
        for key, value in features.items()
    }
    return es.ServingInputReceiver(sparse(inputs), inputs)


def parsing_receiver():
    """A receiver of serialized examples."""
    pooled, sequence = columns()
    spec = tf.feature_column.make_parse_example_spec(pooled + sequence)
    return es.build_parsing_serving_input_receiver_fn(spec)()


def examples():
    """Returns the batch as serialized examples."""
    features, _ = batch()
    found = []
    for i in range(12):
        example = tf.train.Example()
        for key, value in features.items():
            feature = example.features.feature[key]
            kind = feature.float_list if value.dtype == np.float32 else feature.int64_list
            kind.value.extend(value[i].tolist())
        found.append(example.SerializeToString())
    return np.array(found, object)  # bytes of another type would lose zeros at their ends


DTYPES = {"float32": 1e-6, "float16": 1e-3, "int8": 2e-2}  # largest errors of predictions


def check_served(trained, tmp_path, receiver, data, python=sys.executable):
    """Checks the predictions of models of each dtype in a process without these packages."""
    estimator, wanted = trained("mod", 4, None)
    paths = [
        estimator.export_saved_model(str(tmp_path / dtype), receiver, tables=dtype).decode()
        for dtype in DTYPES
    ]
    np.savez(tmp_path / "data.npz", **data)
    out = str(tmp_path / "out.npy")
    command = [python, "-I", "-c", SERVE, out, str(tmp_path / "data.npz"), *paths]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    assert done.returncode == 0, done.stderr
    for found, largest in zip(np.load(out), DTYPES.values(), strict=True):
        np.testing.assert_allclose(found, wanted, atol=largest)


def here(path, data):
    """Returns the predictions of a SavedModel in this process."""
    serve = tf.saved_model.load(path).signatures["serving_default"]
    given = {key: tf.constant(value) for key, value in data.items()}
    return {key: v.numpy() for key, v in serve(**given).items()}


# The last but one has more shards than the shared table has rows.
LAYOUTS = [
    ("div", 1, None),
    ("div", 3, None),
    ("mod", 4, None),
    ("mod", 12, None),
    ("mod", 3, "host"),
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns a function that trains a layout's estimator once; it returns predictions, too."""
    base = tmp_path_factory.mktemp("trained")

    @functools.cache
    def train(*layout):
        estimator = make(base / f"{layout[0]}{layout[1]}{layout[2]}", *layout)
        estimator.train(input_fn, steps=6)
        return estimator, np.stack([p["output"] for p in estimator.predict(input_fn)])

    return train


@pytest.mark.parametrize("layout", LAYOUTS)
def test_serving_predicts_the_same(trained, tmp_path, layout):
    """A SavedModel predicts as `predict` does, from raw and parsed input, and has whole tables."""
    estimator, wanted = trained(*layout)
    raw = estimator.export_saved_model(str(tmp_path / "raw"), raw_receiver).decode()
    np.testing.assert_allclose(here(raw, batch()[0])["output"], wanted, rtol=1e-6, atol=1e-6)
    parsing = estimator.export_saved_model(str(tmp_path / "parsing"), parsing_receiver).decode()
    found = here(parsing, {"examples": examples()})
    np.testing.assert_allclose(found["output"], wanted, rtol=1e-6, atol=1e-6)
    names = [name for name, _ in tf.train.list_variables(raw + "/variables/variables")]
    assert not any("Adagrad" in name for name in names)
    np.testing.assert_array_equal(
        tf.train.load_variable(raw + "/variables/variables", TABLE), tpu_columns_table(estimator)
    )


@pytest.mark.parametrize(("tables", "largest"), DTYPES.items())
def test_narrow_tables(trained, tmp_path, tables, largest, tf_log):
    """Quantized tables have the stated size, and predictions and errors within bounds."""
    estimator, wanted = trained("mod", 4, None)
    path = estimator.export_saved_model(str(tmp_path), raw_receiver, tables=tables).decode()
    found = here(path, batch()[0])["output"]
    assert np.abs(found - wanted).max() < largest
    reader = tf.train.load_checkpoint(path + "/variables/variables")
    assert reader.get_variable_to_dtype_map()[TABLE] == tf.as_dtype(tables)
    table = tpu_columns_table(estimator)
    extra = os.path.join(path, "assets.extra", "tables.json")
    if tables == "float32":
        assert not os.path.exists(extra)
        np.testing.assert_array_equal(reader.get_tensor(TABLE), table)
        return
    worth = reader.get_tensor(TABLE).astype(np.float32)
    if tables == "int8":
        worth *= reader.get_tensor(TABLE + "_scale")
    error = np.abs(worth - table)
    limit = 1 / 2048 if tables == "float16" else 0.51 / 127
    assert (error <= limit * np.abs(table).max(axis=1, keepdims=True)).all()
    with open(extra) as file:
        told = json.load(file)
    assert len(told) == 3
    assert told[TABLE]["dtype"] == tables
    assert told[TABLE]["largest_error"] == pytest.approx(error.max(), rel=1e-5)
    assert told[TABLE]["rms_error"] == pytest.approx(np.sqrt((error**2).mean()), rel=1e-4)
    assert any(f"{TABLE} is stored as {tables}: largest error" in line for line in tf_log)


def tpu_columns_table(estimator):
    """Returns the trained table in row order."""
    return es.checkpoints.read_table(estimator.model_dir, TABLE)


@pytest.mark.parametrize("tables", ["float16", "int8"])
def test_a_table_that_holds_no_numbers(trained, tmp_path, tables):
    """A NaN in a quantized table raises an error that names the row, and exports nothing."""
    estimator, _ = trained("div", 1, None)
    broken = tmp_path / "model"
    shutil.copytree(estimator.model_dir, broken)
    variables = {
        name: tf.train.load_variable(str(broken), name)
        for name, _ in tf.train.list_variables(str(broken))
    }
    variables[TABLE][17, 2] = np.nan
    tf.raw_ops.SaveV2(
        prefix=tf.train.latest_checkpoint(str(broken)),
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=list(variables.values()),
    )
    with pytest.raises(ValueError, match=f"Row 17 of '{TABLE}' holds NaN"):
        make(broken).export_saved_model(str(tmp_path / "out"), raw_receiver, tables=tables)
    assert os.listdir(tmp_path / "out") == []


def test_narrow_tables_that_cannot_be(trained, tmp_path):
    """Unknown dtypes, training graphs, custom savers and models without tables raise an error."""
    estimator, _ = trained("div", 1, None)
    with pytest.raises(ValueError, match="not as 'int4'"):
        estimator.export_saved_model(str(tmp_path), raw_receiver, tables="int4")
    with pytest.raises(ValueError, match="can't be trained"):
        estimator.export_saved_model(
            str(tmp_path), raw_receiver, tables="int8", experimental_mode="eval"
        )
    scaffold = {"scaffold_fn": lambda: tf1.train.Scaffold(saver=tf1.train.Saver())}
    own = make(estimator.model_dir, params=scaffold)
    with pytest.raises(ValueError, match="needs TensorFlow's own saver"):
        own.export_saved_model(str(tmp_path), raw_receiver, tables="int8")
    assert os.listdir(tmp_path) == []


def test_dictionaries_in_narrow_numbers(tmp_path):
    """A model in dict mode exports quantized tables."""

    def model(features, labels, mode, params):
        output = tf.reduce_sum(features["word"], 1, keepdims=True)
        return host_runs.regression(output, labels, mode, tf1.train.AdagradOptimizer, 0.1)

    def words(params):
        ids = tf.data.Dataset.from_tensors({"word": np.arange(1, 9)[:, np.newaxis]})
        return ids.map(lambda features: (features, [[0.0]] * 8))

    estimator = host_runs.make_estimator(
        model,
        tmp_path / "model",
        8,
        config={"tf_random_seed": 1},
        embedding_shards=2,
        embedding_config_spec=es.EmbeddingConfigSpec(
            feature_to_config_dict={"word": es.FeatureConfig("words")},
            table_to_config_dict={"words": es.TableConfig(9, 4)},
            optimization_parameters=es.AdagradParameters(0.1),
            partition_strategy="mod",
        ),
    )
    estimator.train(words, steps=1)
    wanted = np.stack([p["output"] for p in estimator.predict(words)])

    def receiver():
        inputs = {"word": tf1.placeholder(tf.int64, [None, 1], name="word")}
        return es.ServingInputReceiver(inputs, inputs)

    path = estimator.export_saved_model(str(tmp_path / "out"), receiver, tables="float16")
    found = here(path.decode(), {"word": np.arange(1, 9)[:, np.newaxis]})
    np.testing.assert_allclose(found["output"], wanted, atol=4e-3)


@pytest.mark.slow
def test_a_process_without_this_project(trained, tmp_path):
    """TensorFlow serves tables of each dtype in a process that can't import these packages."""
    check_served(trained, tmp_path, raw_receiver, batch()[0])


@pytest.mark.slow
@pytest.mark.reference
def test_the_reference_serves_it(trained, tmp_path, reference_python):
    """TensorFlow 2.15.1 serves models that a newer TensorFlow exported."""
    data = {"examples": examples()}
    check_served(trained, tmp_path, parsing_receiver, data, reference_python)
