# SPDX-License-Identifier: Apache-2.0
"""Embedding specs: arguments, checks, copies, tables and features."""

from __future__ import annotations

import copy
import math
import pickle
import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import estimator_spec as es
import tpu_columns
from estimator_spec import (
    AdagradMomentumParameters,
    AdagradParameters,
    AdamParameters,
    EmbeddingConfigSpec,
    FeatureConfig,
    FrequencyEstimatorParameters,
    FtrlParameters,
    MomentumParameters,
    ProximalAdagradParameters,
    ProximalYogiParameters,
    RMSPropParameters,
    StochasticGradientDescentParameters,
    TableConfig,
    tables_and_features,
)
from estimator_spec.core.embedding.spec import table_name

fc = tf.feature_column
tf1 = tf.compat.v1

ADAGRAD = AdagradParameters(0.1)
FIELDS = (
    "feature_columns tensor_core_feature_columns optimization_parameters "
    "clipping_limit pipeline_execution_with_tensor_core "
    "experimental_gradient_multiplier_fn feature_to_config_dict "
    "table_to_config_dict partition_strategy profile_data_directory"
)


def identity(key="word", buckets=10):
    """A categorical column of integers."""
    return fc.categorical_column_with_identity(key, buckets)


def column(key="word", dimension=4, **values):
    """A TPU embedding column."""
    return tpu_columns.embedding_column(identity(key), dimension, **values)


def rate(step):
    """Learning rate function."""
    return 1.0 / (1.0 + step)


def dictionaries():
    """The two dictionaries of dict mode."""
    return {
        "feature_to_config_dict": {
            "clicked": FeatureConfig("items", 5),
            "bought": FeatureConfig("items", weight_key="times"),
            "user": FeatureConfig("users"),
        },
        "table_to_config_dict": {"items": TableConfig(100, 8), "users": TableConfig(50, 4)},
    }


class TestSpec:
    def test_fields_and_defaults(self):
        """Ten fields in TensorFlow's order, and their defaults."""
        spec = EmbeddingConfigSpec([column()], ADAGRAD)
        assert " ".join(spec._fields) == FIELDS
        assert spec == ([column()], [], ADAGRAD, None, False, None, None, None, "div", None)

    def test_positions(self):
        """The nine arguments can be given by position."""
        spec = EmbeddingConfigSpec(
            [column()], ADAGRAD, 0.5, True, rate, None, None, "mod", "/profiles"
        )
        assert spec[2:] == (ADAGRAD, 0.5, True, rate, None, None, "mod", "/profiles")
        assert spec.partition_strategy == spec[8] == "mod"

    def test_columns_are_split_by_device(self):
        """Columns are split by their device, in order."""
        on_tensor_core = {
            "embedding_lookup_device": "tpu_tensor_core",
            "tensor_core_shape": [None, 2],
        }
        columns = [
            column("a"),
            column("b", **on_tensor_core),
            column("c", embedding_lookup_device="cpu"),
            column("d", **on_tensor_core),
            column("e", embedding_lookup_device="tpu_embedding_core"),
        ]
        spec = EmbeddingConfigSpec(columns, ADAGRAD)
        assert spec.feature_columns == [columns[0], columns[2], columns[4]]
        assert spec.tensor_core_feature_columns == [columns[1], columns[3]]
        only = EmbeddingConfigSpec(columns[1:2], ADAGRAD)
        assert (only.feature_columns, only.tensor_core_feature_columns) == ([], [columns[1]])
        assert tables_and_features(only) == ({}, {})

    def test_any_iterable_of_columns(self):
        """Any iterable of columns is accepted; the user's list isn't changed."""
        columns = [column("a"), column("b")]
        for given_columns in (tuple(columns), iter(columns), columns):
            assert EmbeddingConfigSpec(given_columns, ADAGRAD).feature_columns == columns
        assert EmbeddingConfigSpec(columns, ADAGRAD).feature_columns is not columns

    def test_other_dense_columns_are_accepted(self):
        """Numeric columns and TensorFlow's embedding columns are accepted."""
        with tf.Graph().as_default():
            shared = tf1.feature_column.shared_embedding_columns([identity("a"), identity("b")], 2)
        columns = [fc.numeric_column("age"), fc.embedding_column(identity("c"), 2), *shared]
        spec = EmbeddingConfigSpec([*columns, column()], ADAGRAD)
        assert spec.feature_columns == [*columns, column()]

    def test_dict_mode(self):
        """In dict mode the dictionaries are kept and the columns are None."""
        given_both = dictionaries()
        spec = EmbeddingConfigSpec(optimization_parameters=ADAGRAD, **given_both)
        assert spec.feature_columns is spec.tensor_core_feature_columns is None
        assert spec.feature_to_config_dict == given_both["feature_to_config_dict"]
        assert spec.table_to_config_dict == given_both["table_to_config_dict"]

    @pytest.mark.parametrize(
        "parameters",
        [
            StochasticGradientDescentParameters(0.1),
            AdagradParameters(0.1),
            AdamParameters(0.1),
            FtrlParameters(0.1),
            MomentumParameters(0.1, 0.9),
            RMSPropParameters(0.1, 0.9, 0.5, 1e-8),
            ProximalAdagradParameters(0.1),
        ],
    )
    def test_optimizers_of_columns(self, parameters):
        """Seven optimizers are accepted with columns."""
        spec = EmbeddingConfigSpec([column()], parameters)
        assert spec.optimization_parameters is parameters

    @pytest.mark.parametrize(
        "parameters",
        [
            None,
            "adagrad",
            AdagradMomentumParameters(0.1, 0.9),
            ProximalYogiParameters(),
            FrequencyEstimatorParameters(0.5, 100, 3, 0.75),
        ],
    )
    def test_other_optimizers_are_refused_with_columns(self, parameters):
        """Three optimizers are accepted in dict mode only."""
        with pytest.raises(ValueError, match="optimization_parameters must be an instance of type"):
            EmbeddingConfigSpec([column()], parameters)
        if parameters == "adagrad":
            with pytest.raises(ValueError, match="optimization_parameters must be an instance of"):
                EmbeddingConfigSpec(optimization_parameters=parameters, **dictionaries())
        else:
            EmbeddingConfigSpec(optimization_parameters=parameters, **dictionaries())


class TestNamedTuple:
    def test_replace(self):
        """`_replace` sets any of the ten fields, with the checks of the constructor."""
        spec = EmbeddingConfigSpec([column()], ADAGRAD)
        assert spec._replace(partition_strategy="mod")[8] == "mod"
        assert spec._replace(feature_columns=[column("b")]).feature_columns == [column("b")]
        assert spec.partition_strategy == "div"
        for changes in ({"partition_strategy": "x"}, {"optimization_parameters": None}):
            with pytest.raises(ValueError):
                spec._replace(**changes)
        with pytest.raises((ValueError, TypeError)):
            spec._replace(nonsense=1)

    @pytest.mark.parametrize("dict_mode", [False, True])
    def test_copies(self, dict_mode):
        """Copies and pickles are equal."""
        if dict_mode:
            spec = EmbeddingConfigSpec(
                optimization_parameters=ADAGRAD,
                feature_to_config_dict={"a": FeatureConfig("t")},
                table_to_config_dict={"t": TableConfig(3, 2, initializer=rate)},
            )
        else:
            spec = EmbeddingConfigSpec([column()], ADAGRAD, partition_strategy="mod")
        for other in (copy.copy(spec), copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
            assert type(other) is EmbeddingConfigSpec
            assert other == spec

    def test_unpacking(self):
        """A spec unpacks into ten values, in the order of the fields."""
        columns, tensor_core, parameters, *rest = EmbeddingConfigSpec([column()], ADAGRAD)
        assert (columns, tensor_core, parameters, len(rest)) == ([column()], [], ADAGRAD, 7)


class TestTableConfig:
    def test_defaults(self):
        """Defaults: mean, no replication, the optimizer's rate, truncated normal initializer."""
        table = TableConfig(10, 4)
        assert table[:2] == (10, 4)
        assert (table.combiner, table.hot_id_replication) == ("mean", False)
        assert table.learning_rate is table.learning_rate_fn is None
        assert table.optimization_parameters is None
        config = table.initializer.get_config()
        assert (config["mean"], config["stddev"]) == (0.0, 1 / math.sqrt(4))

    BAD = (
        ((0, 4), {}, "vocabulary_size must >= 1"),
        ((1.5, 4), {}, "vocabulary_size must >= 1"),
        (("10", 4), {}, "vocabulary_size must >= 1"),
        ((10, 0), {}, "dimension must be a positive int"),
        ((10, None), {}, "dimension must be a positive int"),
        ((10, 4), {"initializer": 0.5}, "initializer must be callable if specified"),
        ((10, 4), {"combiner": "max"}, 'combiner must be "mean", "sum", "sqrtn" or None'),
        (
            (10, 4),
            {"learning_rate": 0.1, "learning_rate_fn": rate},
            "At most one of learning_rate and learning_rate_fn can be",
        ),
        ((10, 4), {"optimization_parameters": "sgd"}, "`optimization_parameters` must"),
    )

    @pytest.mark.parametrize("combiner", ["mean", "sum", "sqrtn", None])
    def test_combiners(self, combiner):
        """The four combiners are accepted."""
        assert TableConfig(10, 4, combiner=combiner).combiner == combiner

    def test_numbers_of_numpy(self):
        """NumPy integers become Python ints."""
        table = TableConfig(np.int64(10), np.int32(4))
        assert (type(table.vocabulary_size), type(table.dimension)) == (int, int)

    def test_an_optimizer_of_its_own(self):
        """A table may have any of the ten optimizers, and a learning rate."""
        yogi = ProximalYogiParameters()
        table = TableConfig(10, 4, learning_rate=0.5, optimization_parameters=yogi)
        assert (table.learning_rate, table.optimization_parameters) == (0.5, yogi)


class TestFeatureConfig:
    def test_defaults(self):
        """Defaults: no sequence, no weights."""
        assert FeatureConfig("t") == ("t", 0, None)


class TestTablesAndFeatures:
    def test_of_columns(self):
        """Columns give tables and features under TensorFlow's keys."""
        weighted = fc.weighted_categorical_column(identity("tag", 20), "score")
        steps = fc.sequence_categorical_column_with_identity("step", 30)
        shared = tpu_columns.shared_embedding_columns(
            [identity("seen", 40), identity("liked", 40)], 6, combiner="sqrtn"
        )
        columns = [
            column("word", 4, combiner="sum", learning_rate_fn=rate, initializer=rate),
            tpu_columns.embedding_column(weighted, 5),
            tpu_columns.embedding_column(steps, 7, max_sequence_length=3, combiner=None),
            *shared,
        ]
        tables, features = tables_and_features(EmbeddingConfigSpec(columns, ADAGRAD))
        assert features == {
            "word": ("tbl_word", 0, None),
            "tag": ("tbl_tag_weighted_by_score", 0, "score"),
            "step": ("tbl_step", 3, None),
            "seen": ("tbl_liked_seen_shared_embedding", 0, None),
            "liked": ("tbl_liked_seen_shared_embedding", 0, None),
        }
        assert {key: table[:2] for key, table in tables.items()} == {
            "tbl_word": (10, 4),
            "tbl_tag_weighted_by_score": (20, 5),
            "tbl_step": (30, 7),
            "tbl_liked_seen_shared_embedding": (40, 6),
        }
        word = tables["tbl_word"]
        assert (word.combiner, word.learning_rate_fn, word.initializer) == ("sum", rate, rate)
        assert tables["tbl_step"].combiner is None
        assert tables["tbl_liked_seen_shared_embedding"].combiner == "sqrtn"
        assert all(type(config) is TableConfig for config in tables.values())
        assert all(type(config) is FeatureConfig for config in features.values())

    def test_of_dictionaries(self):
        """Dict mode gives copies of the user's dictionaries."""
        given_both = dictionaries()
        tables, features = tables_and_features(EmbeddingConfigSpec(**given_both))
        assert tables == given_both["table_to_config_dict"]
        assert features == given_both["feature_to_config_dict"]
        tables.clear()
        assert given_both["table_to_config_dict"]

    @given(keys=st.lists(st.text("abc", min_size=1), min_size=1, max_size=5, unique=True))
    def test_one_entry_for_each(self, keys):
        """Columns of distinct features give one feature and one table each."""
        spec = EmbeddingConfigSpec([column(key) for key in keys], ADAGRAD)
        tables, features = tables_and_features(spec)
        assert list(features) == keys
        assert list(tables) == [features[key].table_id for key in keys]
        assert list(tables) == [table_name(key) for key in keys]

    def test_one_feature_in_two_columns(self):
        """A feature key in two columns is refused."""
        weighted = fc.weighted_categorical_column(identity("word"), "score")
        columns = [column("word"), tpu_columns.embedding_column(weighted, 4)]
        message = "Feature column word is used with multiple embeddings and this is not supported."
        with pytest.raises(ValueError, match=message):
            tables_and_features(EmbeddingConfigSpec(columns, ADAGRAD))

    @pytest.mark.parametrize(
        "what, values",
        [
            ("table size", {"dimension": 3}),
            ("combiner", {"combiner": "sum"}),
            ("initializer", {"initializer": rate}),
            ("learning_rate_fn", {"learning_rate_fn": rate}),
        ],
    )
    def test_shared_columns_that_disagree(self, what, values):
        """Columns that configure their table differently are refused by name."""

        def make(key, **others):
            arguments = {"dimension": 2, "shared_embedding_collection_name": "both", **others}
            return tpu_columns.shared_embedding_columns([identity(key)], **arguments)

        spec = EmbeddingConfigSpec(make("seen") + make("liked", **values), ADAGRAD)
        message = f"Columns seen_shared_embedding and liked_shared_embedding share .* in {what}"
        with pytest.raises(ValueError, match=message) as error:
            tables_and_features(spec)
        assert " at 0x" not in str(error.value)  # functions by name and line
        # Made apart, but alike: initializers with equal settings are the same.
        agreeing = EmbeddingConfigSpec(make("seen") + make("liked"), ADAGRAD)
        assert list(tables_and_features(agreeing)[0]) == ["tbl_both"]

    def test_a_plain_table_under_a_shared_name(self):
        """A column's own table can't have the name of a shared table."""
        shared = tpu_columns.shared_embedding_columns(
            [identity("seen")], 4, shared_embedding_collection_name="word"
        )
        with pytest.raises(ValueError, match=r"differ in kind.*tables of different names"):
            tables_and_features(EmbeddingConfigSpec([column("word"), *shared], ADAGRAD))

    @pytest.mark.parametrize(
        "other", [fc.numeric_column("age"), fc.embedding_column(identity("other"), 2)]
    )
    def test_other_columns(self, other):
        """Columns that an embedding core can't look up are refused."""
        spec = EmbeddingConfigSpec([column(), other], ADAGRAD)
        with pytest.raises(TypeError, match="Unsupported feature column"):
            tables_and_features(spec)

    def test_tensorflows_own_tpu_columns(self):
        """TensorFlow's own TPU columns are accepted by the spec, not by the embedding core."""
        other = tf1.tpu.experimental.embedding_column(identity(), 2)
        spec = EmbeddingConfigSpec([other], ADAGRAD)
        with pytest.raises(TypeError, match=r"Unsupported feature column.*tpu_columns.embed"):
            tables_and_features(spec)


@pytest.fixture(scope="module")
def old_module():
    """TensorFlow 2.15's module of tables and features."""
    return pytest.importorskip(
        "tensorflow.python.tpu.tpu_embedding",
        reason="this TensorFlow has no tpu_embedding to compare with (2.15 has)",
    )


@pytest.mark.reference
class TestAgainstTheOldClasses:
    def test_signatures(self, old_estimator, old_module, compare):
        """Fields, and names, order and defaults of all arguments equal TensorFlow 2.15's."""
        for ours, theirs in (
            (EmbeddingConfigSpec, old_estimator.tpu.experimental.EmbeddingConfigSpec),
            (TableConfig, old_module.TableConfig),
            (FeatureConfig, old_module.FeatureConfig),
        ):
            own = [p for p in compare.parameters(ours) if "tensor_core_below" not in str(p)]
            assert own == compare.parameters(theirs)
            assert ours._fields == theirs._fields

    @pytest.mark.parametrize("positional, values, message", TestTableConfig.BAD)
    def test_bad_tables(self, old_module, compare, positional, values, message):
        """TensorFlow 2.15 refuses the same tables with the same words."""
        compare.refuse_alike(TableConfig, old_module.TableConfig, message, *positional, **values)

    @pytest.mark.parametrize("length", [-1, 1.5, None, "3"])
    def test_bad_features(self, old_module, compare, length):
        """TensorFlow 2.15 refuses the same lengths with the same words."""
        message = "max_sequence_length must be zero or a positive int, got"
        compare.refuse_alike(FeatureConfig, old_module.FeatureConfig, message, "t", length)

    @pytest.mark.parametrize(
        "arguments, key_words",
        [
            (lambda old: {}, "Exactly one of `feature_columns` and the pair `feature_to_config_"),
            (
                lambda old: {"feature_columns": [fc.indicator_column(identity())]},
                "All feature columns must be supported types in",
            ),
            (
                lambda old: {"feature_columns": [fc.numeric_column("x")]},
                "optimization_parameters must be an instance of type",
            ),
            (
                lambda old: {
                    "feature_columns": [fc.numeric_column("x")],
                    "partition_strategy": "invalid",
                },
                'Invalid partition_strategy invalid. Must be one of "mod" or "div".',
            ),
            (
                lambda old: {
                    "feature_to_config_dict": {"a": "t"},
                    "table_to_config_dict": {"t": old.TableConfig(3, 2)},
                },
                "Config for feature a must be of type `FeatureConfig`. Got",
            ),
            (
                lambda old: {
                    "feature_to_config_dict": {"a": old.FeatureConfig("x")},
                    "table_to_config_dict": {"t": old.TableConfig(3, 2)},
                },
                "Feature a refers to table x which is not in the table_to_config_dict.",
            ),
            (
                lambda old: {
                    "feature_to_config_dict": {"a": old.FeatureConfig("t")},
                    "table_to_config_dict": {"t": old.TableConfig(3, 2), "u": 3},
                },
                "Config for table u must be of type `TableConfig`. Got",
            ),
        ],
    )
    def test_bad_specs(self, old_estimator, old_module, compare, arguments, key_words):
        """TensorFlow 2.15 refuses the same specs with the same words."""

        def ours():
            return EmbeddingConfigSpec(**arguments(es))

        def theirs():
            old = old_estimator.tpu.experimental.EmbeddingConfigSpec
            return old(**arguments(old_module))

        compare.refuse_alike(ours, theirs, re.escape(key_words))

    def test_tables_and_features(self, old_estimator, old_module):
        """TensorFlow 2.15 makes the same dictionaries of its own columns."""
        from tensorflow_estimator.python.estimator.tpu import _tpu_estimator_embedding as old

        def columns(one, many):
            weighted = fc.weighted_categorical_column(identity("tag", 20), "score")
            steps = fc.sequence_categorical_column_with_identity("step", 30)
            return [
                one(identity(), 4, combiner="sum", learning_rate_fn=rate, initializer=rate),
                one(weighted, 5, initializer=rate),
                one(steps, 7, max_sequence_length=3, initializer=rate),
                *many([identity("seen", 40), identity("liked", 40)], 6, initializer=rate),
            ]

        theirs = columns(
            tf1.tpu.experimental.embedding_column, tf1.tpu.experimental.shared_embedding_columns
        )
        ours = columns(tpu_columns.embedding_column, tpu_columns.shared_embedding_columns)
        old_tables, old_features = old.get_configs_from_feature_columns(theirs)
        tables, features = tables_and_features(EmbeddingConfigSpec(ours, ADAGRAD))
        assert features == old_features
        assert tables == old_tables


class TestTensorCoreBelow:
    """`tensor_core_below`: small tables are assigned to the tensor core."""

    @staticmethod
    def columns():
        """Columns of small and large tables, some of which can't use the tensor core."""
        wide = {"tensor_core_shape": [None, 2]}
        big = tpu_columns.embedding_column(identity("big", 11), 4)
        steps = fc.sequence_categorical_column_with_identity("steps", 5)
        return {
            "small": column("small", **wide),
            "big": big,
            "steps": tpu_columns.embedding_column(steps, 4, max_sequence_length=3),
            "uncombined": column("uncombined", combiner=None),
            "asked": column("asked", embedding_lookup_device="tpu_embedding_core"),
        }

    def test_small_tables(self):
        """Eligible columns of small tables are assigned to the tensor core, unchanged."""
        columns = self.columns()
        spec = EmbeddingConfigSpec(columns.values(), ADAGRAD, tensor_core_below=11)
        assert spec.tensor_core_feature_columns == [columns["small"]]
        assert [c.name for c in spec.feature_columns] == [
            f"{key}_embedding" for key in columns if key != "small"
        ]
        assert " ".join(spec._fields) == FIELDS
        assert spec.tensor_core_below == 11

    def test_none_and_the_border(self):
        """None assigns no table; a table of exactly that many rows isn't small."""
        for below in (None, 10):
            spec = EmbeddingConfigSpec(
                [column(tensor_core_shape=[None, 2])], ADAGRAD, tensor_core_below=below
            )
            assert spec.tensor_core_feature_columns == []

    def test_shared_tables_go_together_or_stay(self):
        """A table shared with a sequence column stays on the embedding core."""
        sequence = fc.sequence_categorical_column_with_identity("b", 10)
        for second, lengths, goes in ((identity("b"), None, True), (sequence, [0, 3], False)):
            columns = tpu_columns.shared_embedding_columns(
                [identity("a"), second],
                4,
                max_sequence_lengths=lengths,
                tensor_core_shape=[None, 2],
            )
            spec = EmbeddingConfigSpec(columns, ADAGRAD, tensor_core_below=100)
            assert spec.tensor_core_feature_columns == (columns if goes else [])

    def test_replace_and_copies(self):
        """`_replace` splits the columns again; copies and pickles keep the attribute."""
        columns = [column("a", tensor_core_shape=[None, 2]), column("b", 8)]
        plain = EmbeddingConfigSpec(columns[:1], ADAGRAD)
        small = plain._replace(tensor_core_below=11)
        assert small.tensor_core_feature_columns == columns[:1]
        assert small != plain and plain != small
        assert small._replace(tensor_core_below=None) == plain
        assert small._replace(clipping_limit=1.0).tensor_core_below == 11
        assert small != small._replace(tensor_core_below=12)
        for other in (copy.copy(small), copy.deepcopy(small), pickle.loads(pickle.dumps(small))):
            assert other == small
            assert other.tensor_core_below == 11

    def test_refusals(self):
        """Columns without a shape, values of other types and dict mode are refused."""
        with pytest.raises(ValueError, match="word_embedding has 10 rows.*tensor_core_shape"):
            EmbeddingConfigSpec([column()], ADAGRAD, tensor_core_below=11)
        for below in ("11", 1.5, True):
            with pytest.raises(TypeError, match="tensor_core_below must be a number of rows"):
                EmbeddingConfigSpec([column()], ADAGRAD, tensor_core_below=below)
        with pytest.raises(ValueError, match="tensor_core_below needs feature_columns"):
            EmbeddingConfigSpec(None, ADAGRAD, **dictionaries(), tensor_core_below=11)
