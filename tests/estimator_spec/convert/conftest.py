# SPDX-License-Identifier: Apache-2.0
"""Specs with every kind of feature, batches for them, and what the legacy lookups give on a CPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import tpu_columns
from estimator_spec import FeatureConfig, TableConfig
from estimator_spec.core.driver import dict_mode
from tpu_columns import Hardware, RowPartition
from tpu_columns.columns import SharedEmbeddingColumn

tf1 = tf.compat.v1
COMBINERS = ("mean", "sum", "sqrtn", None)
WORDS = ("ant", "bee", "cow", "dog", "emu")
ROWS = 6  # examples of a batch
STEPS = 3  # of a sequence


@dataclasses.dataclass
class Family:
    """A spec and all that a conversion of it is compared with.

    Attributes:
        spec: it.
        tables: values by table key.
        checkpoint: prefix of a legacy checkpoint with these values.
        batches: features by key; ragged ones too.
        expected: the activations of each batch by feature key, and lengths of sequences.
        hardware: whose lookup it is.
    """

    spec: Any
    tables: dict[str, np.ndarray]
    checkpoint: str
    batches: list[dict[str, Any]]
    expected: list[dict[str, np.ndarray]]
    hardware: Any = Hardware.CPU


def variable_names(spec):
    """The names that a model with input layers gives the tables."""
    if spec.feature_columns is None:
        return {key: key for key in spec.table_to_config_dict}
    names = {}
    for column in [*spec.feature_columns, *spec.tensor_core_feature_columns]:
        variable = column.get_embedding_var_name()
        layer = "sequence_input_layer" if column.is_sequence_column() else "input_layer"
        shared = isinstance(column, SharedEmbeddingColumn)
        names[f"tbl_{variable}"] = (
            variable if shared else f"{layer}/{column.name}/embedding_weights"
        )
    return names


def write_checkpoint(prefix: str, values: dict[str, np.ndarray], strategy="div", shards=1) -> str:
    """A checkpoint of TF1's form, tables in shards as a TPU run of several hosts writes them."""
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.get_variable("global_step", initializer=tf.constant(7, tf.int64))
        for name, value in values.items():
            layout = RowPartition(strategy, value.shape[0], shards)
            stored = value[layout.inverse_permutation()]
            tf1.get_variable(
                name,
                shape=value.shape,
                initializer=lambda shape, dtype, partition_info=None, stored=stored: tf.constant(
                    stored if partition_info is None else stored[_part(shape, partition_info)],
                    dtype,
                ),
                partitioner=tf1.fixed_size_partitioner(shards) if shards > 1 else None,
            )
        session.run(tf1.global_variables_initializer())
        return tf1.train.Saver().save(session, prefix, write_meta_graph=False)


def _part(shape, partition_info):
    start = partition_info.var_offset[0]
    return slice(start, start + int(shape[0]))


def random_tables(spec, seed=5):
    """Values for all tables of a spec."""
    random = np.random.RandomState(seed)
    if spec.feature_columns is None:
        sizes = {
            key: (table.vocabulary_size, table.dimension)
            for key, table in spec.table_to_config_dict.items()
        }
    else:
        sizes = {
            f"tbl_{column.get_embedding_var_name()}": column.get_embedding_table_size()
            for column in [*spec.feature_columns, *spec.tensor_core_feature_columns]
        }
    return {key: random.normal(size=size).astype(np.float32) for key, size in sizes.items()}


def as_arrays(batch):
    """An eager batch as arrays, ragged tensors as sparse ones, that a graph can take."""
    arrays = {}
    for key, value in batch.items():
        if isinstance(value, tf.RaggedTensor):
            value = value.to_sparse()
        if isinstance(value, tf.SparseTensor):
            parts = (value.indices, value.values, value.dense_shape)
            arrays[key] = tf1.SparseTensorValue(*(part.numpy() for part in parts))
        else:
            arrays[key] = np.asarray(value)
    return arrays


def placeholders(arrays):
    """Placeholders for batches like this one."""
    return {
        key: tf1.sparse_placeholder(value.values.dtype, [None] * len(value.dense_shape))
        if isinstance(value, tf1.SparseTensorValue)
        else tf1.placeholder(tf.as_dtype(value.dtype), [None, *value.shape[1:]])
        for key, value in arrays.items()
    }


def look_up_columns(spec, tables, batches):
    """What the legacy feature layers give for each column, for each batch."""
    columns = [*spec.feature_columns, *spec.tensor_core_feature_columns]

    def build(features):
        found = {}
        for column in columns:
            key = column.get_feature_key_name()
            if column.is_sequence_column():
                found[key], lengths = tpu_columns.sequence_input_layer(features, [column])
                found[column.get_sequence_length_feature_key_name()] = lengths
            else:
                found[key] = tpu_columns.input_layer(features, [column])
        return found

    return _run(build, lambda name: tables[_table_of(name, columns)], batches)


def look_up_dictionaries(spec, tables, batches):
    """What the driver's lookups give before a model_fn, in dict mode."""

    def build(features):
        found = dict_mode.look_up(spec, features)
        return {key: found[key] for key in found if key not in features or "w_" not in key}

    return _run(build, tables.__getitem__, batches)


def _run(build, value_of, batches):
    arrays = [as_arrays(batch) for batch in batches]
    with tf.Graph().as_default(), tf1.Session() as session:
        features = placeholders(arrays[0])
        found = build(features)
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        for variable in tf1.trainable_variables():
            variable.load(value_of(variable.op.name), session)
        return [
            session.run(found, {features[key]: value for key, value in batch.items()})
            for batch in arrays
        ]


def _table_of(variable_name, columns):
    for column in columns:
        shared = isinstance(column, SharedEmbeddingColumn)
        own = column.get_embedding_var_name() if shared else f"{column.name}/embedding_weights"
        if variable_name == own or variable_name.endswith("/" + own):
            return f"tbl_{column.get_embedding_var_name()}"
    raise AssertionError(variable_name)


def ragged_ids(random, high, most, kind="random"):
    """Rows of up to `most` ids below `high`; some of them empty."""
    rows = []
    for _ in range(ROWS):
        count = 0 if kind == "empty" else random.randint(0, most + 1)
        values = random.randint(0, high, count)
        rows.append([high - 1 if v % 2 else 0 for v in values] if kind == "ends" else list(values))
    if kind != "empty" and not any(rows):
        rows[0] = [0, high - 1]
    return tf.ragged.constant(rows, dtype=tf.int64, ragged_rank=1)


def weights_of(random, ids):
    """A weight for each id, not all of them positive."""
    sparse = ids.to_sparse()
    values = random.uniform(-0.5, 2.0, sparse.values.shape).astype(np.float32)
    return tf.SparseTensor(sparse.indices, values, sparse.dense_shape)


def without_negatives(weights):
    """Weights of 0 in place of negative ones, which not all lookups know what to do with."""
    return weights.with_values(tf.maximum(weights.values, 0.0))


def column_spec(combiners=COMBINERS, **arguments):
    """Columns of all kinds with all combiners: 29 features."""
    make = tf.feature_column
    identity = make.categorical_column_with_identity
    columns = []
    for name in combiners:
        options = {"dimension": 4, "combiner": name}
        for categorical in (
            identity(f"dense_{name}", 7),
            identity(f"sparse_{name}", 7),
            identity(f"ragged_{name}", 7),
            make.weighted_categorical_column(identity(f"weighted_{name}", 7), f"w_{name}"),
            make.categorical_column_with_vocabulary_list(f"words_{name}", WORDS, num_oov_buckets=2),
        ):
            columns.append(tpu_columns.embedding_column(categorical, **options))
        columns.append(
            tpu_columns.embedding_column(
                make.sequence_categorical_column_with_identity(f"steps_{name}", 7),
                max_sequence_length=STEPS,
                **options,
            )
        )
    weighted_steps = make.weighted_categorical_column(
        make.sequence_categorical_column_with_identity("weighted_steps", 7), "w_steps"
    )
    columns.append(tpu_columns.embedding_column(weighted_steps, 4, max_sequence_length=STEPS))
    columns += tpu_columns.shared_embedding_columns(
        [
            identity("left", 9),
            identity("right", 9),
            make.sequence_categorical_column_with_identity("both", 9),
        ],
        3,
        max_sequence_lengths=[0, 0, STEPS],
    )
    columns.append(
        tpu_columns.embedding_column(
            identity("small", 5),
            2,
            embedding_lookup_device="tpu_tensor_core",
            tensor_core_shape=[None, 8],
        )
    )
    options = {"optimization_parameters": estimator_spec.AdagradParameters(0.1), **arguments}
    return estimator_spec.EmbeddingConfigSpec(columns, **options)


def column_batch(kind, seed, combiners=COMBINERS):
    """A batch for `column_spec`."""
    random = np.random.RandomState(seed)
    batch = {}

    def ids(high=7, most=4):
        return ragged_ids(random, high, most, kind)

    for name in combiners:
        batch[f"dense_{name}"] = ids().to_tensor(-1, shape=[None, 4])
        batch[f"sparse_{name}"] = ids().to_sparse()
        batch[f"ragged_{name}"] = ids()
        weighted = ids()
        batch[f"weighted_{name}"] = weighted.to_sparse()
        batch[f"w_{name}"] = weights_of(random, weighted)
        names = np.array([*WORDS, "fox", "", "gnu"])
        words = random.randint(0, len(names), (ROWS, 3))
        batch[f"words_{name}"] = tf.constant(
            names[words * (kind != "empty") + 6 * (kind == "empty")]
        )
        batch[f"steps_{name}"] = ids(most=5).to_sparse()
    steps = ids(most=5)
    batch["weighted_steps"] = steps.to_sparse()
    batch["w_steps"] = weights_of(random, steps)
    for key in ("left", "right", "both"):
        batch[key] = ids(9, 5).to_sparse()
    batch["small"] = ids(5).to_sparse()
    return batch


def dictionary_spec(**arguments):
    """Dictionaries with all combiners; tables with a rate or an optimizer of their own."""
    tables, features = {}, {}
    for name in COMBINERS:
        tables[f"table_{name}"] = TableConfig(7, 4, combiner=name)
        if name is not None:
            features[f"dense_{name}"] = FeatureConfig(f"table_{name}")
        features[f"sparse_{name}"] = FeatureConfig(f"table_{name}")
        features[f"ragged_{name}"] = FeatureConfig(f"table_{name}")
        features[f"weighted_{name}"] = FeatureConfig(f"table_{name}", weight_key=f"w_{name}")
        features[f"steps_{name}"] = FeatureConfig(f"table_{name}", STEPS)
    features["one_None"] = FeatureConfig("table_None")
    features["weighted_steps"] = FeatureConfig("table_mean", STEPS, "w_steps")
    options = {"optimization_parameters": estimator_spec.AdagradParameters(0.1), **arguments}
    return estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict=features, table_to_config_dict=tables, **options
    )


def dictionary_batch(kind, seed):
    """A batch for `dictionary_spec`: dense zeros are padding, or an id if there is no combiner."""
    columns = column_batch(kind, seed)
    random = np.random.RandomState(seed)
    batch = {key: columns[key] for key in ("weighted_steps", "w_steps")}
    for name in COMBINERS:
        for what in ("sparse", "ragged", "weighted", "steps", "w"):
            batch[f"{what}_{name}"] = columns[f"{what}_{name}"]
        if name is not None:
            batch[f"dense_{name}"] = np.maximum(columns[f"dense_{name}"], 0)
        if name in ("mean", "sqrtn"):
            batch[f"w_{name}"] = without_negatives(batch[f"w_{name}"])
    batch["w_steps"] = without_negatives(batch["w_steps"])
    batch["one_None"] = random.randint(0, 7, (ROWS, 1))
    return batch


def _family(folder, spec, make_batch, look_up):
    tables = random_tables(spec)
    names = variable_names(spec)
    batches = [make_batch("random", seed) for seed in range(2)]
    batches += [make_batch("ends", 2), make_batch("empty", 3)]
    return Family(
        spec,
        tables,
        write_checkpoint(
            str(Path(folder) / "model.ckpt-7"), {names[key]: tables[key] for key in tables}
        ),
        batches,
        look_up(spec, tables, batches),
    )


@pytest.fixture(scope="session")
def columns_family(tmp_path_factory):
    """A spec of columns of every kind."""
    folder = tmp_path_factory.mktemp("columns")
    return _family(folder, column_spec(), column_batch, look_up_columns)


@pytest.fixture(scope="session")
def compact_family(tmp_path_factory):
    """A spec of one column of every kind, for what takes long."""
    folder = tmp_path_factory.mktemp("compact")

    def batch(kind, seed):
        return column_batch(kind, seed, ("sqrtn",))

    return _family(folder, column_spec(("sqrtn",)), batch, look_up_columns)


@pytest.fixture(scope="session")
def dictionaries_family(tmp_path_factory):
    """A spec in dict mode."""
    folder = tmp_path_factory.mktemp("dictionaries")
    return _family(folder, dictionary_spec(), dictionary_batch, look_up_dictionaries)


@pytest.fixture(scope="session")
def families(columns_family, dictionaries_family):
    """Both families by name."""
    return {"columns": columns_family, "dictionaries": dictionaries_family}


class Tools:
    """What tests of several files make specs and checkpoints with."""

    column_spec = staticmethod(column_spec)
    column_batch = staticmethod(column_batch)
    dictionary_spec = staticmethod(dictionary_spec)
    dictionary_batch = staticmethod(dictionary_batch)
    random_tables = staticmethod(random_tables)
    variable_names = staticmethod(variable_names)
    write_checkpoint = staticmethod(write_checkpoint)

    @staticmethod
    def check(family, actual_of):
        """Every feature of every batch is the legacy lookup's to 1e-6."""
        for batch, expected in zip(family.batches, family.expected, strict=True):
            actual = actual_of(batch)
            assert set(actual) <= set(expected)
            for key, value in actual.items():
                np.testing.assert_allclose(value, expected[key], rtol=1e-6, atol=1e-6, err_msg=key)
            yield set(actual), set(expected)


@pytest.fixture(scope="session")
def tools():
    """The tools."""
    return Tools()
