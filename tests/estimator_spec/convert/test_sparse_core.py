# SPDX-License-Identifier: Apache-2.0
"""Conversion to SparseCore without a TPU: configurations, layouts and features."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import FeatureConfig, TableConfig
from estimator_spec.convert import features_for, to_tpu_embedding_v2
from estimator_spec.convert.report import LossyConversionError
from estimator_spec.core.embedding import optimizers
from tpu_columns import Hardware

HAS_V2 = hasattr(tf.tpu.experimental.embedding, "TPUEmbeddingV2")
needs_v2 = pytest.mark.skipif(
    not HAS_V2, reason=f"TensorFlow {tf.__version__} has no TPUEmbeddingV2"
)
ADAGRAD = optimizers.AdagradParameters(0.1)


def spec_of(parameters=ADAGRAD, **tables):
    """Returns a spec with one feature for each table."""
    tables = tables or {"words": TableConfig(10, 4)}
    return estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={f"of_{name}": FeatureConfig(name) for name in tables},
        table_to_config_dict=tables,
        optimization_parameters=parameters,
    )


@pytest.mark.skipif(HAS_V2, reason="this TensorFlow has it")
def test_an_older_tensorflow_is_told():
    """TensorFlow 2.15 has no SparseCore, and the error says so."""
    with pytest.raises(RuntimeError, match="has no TPUEmbeddingV2"):
        to_tpu_embedding_v2(spec_of(), batch_size=8)


@needs_v2
def test_features_have_the_shape_of_one_chip(tools):
    """output_shape is [B] for pooled features, [B, L] for sequences, for one chip."""
    spec = tools.column_spec(("mean",))
    converted = to_tpu_embedding_v2(spec, batch_size=64, num_chips=4)
    shapes = {key: f.output_shape.as_list() for key, f in converted.feature_config.items()}
    assert shapes["left"] == shapes["dense_mean"] == [16]
    assert shapes["steps_mean"] == shapes["weighted_steps"] == shapes["both"] == [16, 3]
    assert "small" not in shapes
    changed = {e.note for e in converted.report.changed if e.argument == "max_sequence_length"}
    assert changed == {f"feature {key}" for key in ("steps_mean", "weighted_steps", "both")}


@needs_v2
def test_layouts_count_the_samples_of_all_features():
    """Layouts count the samples of all features of a table, not of the first only."""
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={
            "a": FeatureConfig("words"),
            "b": FeatureConfig("words", 3),
            "c": FeatureConfig("places"),
        },
        table_to_config_dict={"words": TableConfig(100, 5), "places": TableConfig(50, 5)},
        optimization_parameters=ADAGRAD,
    )
    layouts = to_tpu_embedding_v2(spec, batch_size=32, num_chips=2).layouts
    words, places = layouts["words"], layouts["places"]
    assert words.stacked_table_name == places.stacked_table_name
    assert (words.num_partitions, words.num_sparse_cores) == (2, 8)
    assert list(words.unsharded_shape) == [100, 5]
    assert words.num_features == 2
    assert words.per_sparse_core_batch_size == (16 + 16 * 3) // 4
    assert places.per_sparse_core_batch_size == 16 // 4


@needs_v2
def test_tables_are_stacked_by_optimizer():
    """Different optimizers or rates, and disable_table_stacking, prevent stacking."""
    tables = {
        "a": TableConfig(10, 4),
        "b": TableConfig(10, 4),
        "c": TableConfig(10, 4, learning_rate=0.5),
        "d": TableConfig(10, 4, optimization_parameters=optimizers.AdamParameters(0.1)),
    }
    stacks = {
        name: layout.stacked_table_name
        for name, layout in to_tpu_embedding_v2(spec_of(**tables), batch_size=8).layouts.items()
    }
    assert stacks["a"] == stacks["b"]
    assert len(set(stacks.values())) == 3
    apart = to_tpu_embedding_v2(spec_of(**tables), batch_size=8, disable_table_stacking=True)
    assert len({layout.stacked_table_name for layout in apart.layouts.values()}) == 4


@needs_v2
@pytest.mark.parametrize(
    ("parameters", "argument"),
    [
        (optimizers.AdagradParameters(0.1, clip_weight_min=-1.0), "clip_weight_min"),
        (optimizers.AdagradParameters(0.1, clip_gradient_max=1.0), "clip_gradient_max"),
        (
            optimizers.AdagradParameters(0.1, use_gradient_accumulation=False),
            "use_gradient_accumulation",
        ),
        (optimizers.AdagradParameters(0.1, weight_decay_factor=0.1), "weight_decay_factor"),
        (optimizers.AdamParameters(0.1, lazy_adam=False), "lazy_adam"),
        (optimizers.FtrlParameters(0.1, allow_zero_accumulator=True), "allow_zero_accumulator"),
        (optimizers.ProximalYogiParameters(0.1, weight_decay_factor=0.1), "ProximalYogi"),
    ],
)
def test_what_v2_ignores_is_refused(parameters, argument):
    """Each argument that TPUEmbeddingV2 ignores is an error, or reported if allowed."""
    spec = spec_of(parameters)
    with pytest.raises(LossyConversionError, match=argument):
        to_tpu_embedding_v2(spec, batch_size=8)
    converted = to_tpu_embedding_v2(spec, batch_size=8, allow_lossy=True)
    assert argument in converted.report.lost[0].argument
    made = converted.feature_config["of_words"].table.optimizer
    # TPUEmbeddingV2 refuses both arguments.
    assert made.weight_decay_factor is None
    assert made.multiply_weight_decay_factor_by_learning_rate is None


@needs_v2
def test_huge_vocabularies_are_lost():
    """A vocabulary size above 2³¹ is lost, as ids become int32."""
    with pytest.raises(LossyConversionError, match="int32"):
        to_tpu_embedding_v2(spec_of(words=TableConfig(2**31 + 1, 4)), batch_size=8)
    to_tpu_embedding_v2(spec_of(words=TableConfig(2**31, 4)), batch_size=8)


@needs_v2
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 6}, "isn't a multiple of the 4 SparseCores"),
        ({"batch_size": 8, "num_chips": 4}, "isn't a multiple of the 16"),
        ({"batch_size": 0}, "batch_size must be a positive int"),
    ],
)
def test_batches_that_would_lose_examples_are_refused(arguments, words):
    """An indivisible batch size is refused."""
    with pytest.raises(ValueError, match=words):
        to_tpu_embedding_v2(spec_of(), **arguments)


@needs_v2
def test_a_table_without_optimizer_is_refused():
    """A table without an optimizer is refused by name."""
    with pytest.raises(ValueError, match=r"\['words'\] have no optimizer"):
        to_tpu_embedding_v2(spec_of(None), batch_size=8)


@needs_v2
def test_the_object_needs_a_tpu():
    """The constructor raises TensorFlow's error without a TPUStrategy."""
    converted = to_tpu_embedding_v2(spec_of(), batch_size=8)
    with pytest.raises(RuntimeError, match="should be created under TPUStrategy"):
        converted.embedding()


class PretendedStrategy(tf.distribute.TPUStrategy):
    """Minimal TPUStrategy for TPUEmbeddingV2's constructor."""

    def __init__(self, chips, cores):
        """Skips the search for a TPU."""
        self._chips, self._cores = chips, cores

    @property
    def num_replicas_in_sync(self):
        """Returns the number of replicas, one for each chip."""
        return self._chips

    @property
    def extended(self):
        """Returns the hardware feature."""
        feature = types.SimpleNamespace(num_embedding_devices_per_chip=self._cores)
        return types.SimpleNamespace(tpu_hardware_feature=feature)


@needs_v2
@pytest.mark.parametrize("chips", [1, 4])
def test_v2_takes_configurations_and_layouts(tools, monkeypatch, chips):
    """TPUEmbeddingV2's constructor accepts the configurations and keeps our layouts."""
    from tensorflow.python.distribute import distribute_lib

    strategy = PretendedStrategy(chips, 4)
    monkeypatch.setattr(distribute_lib, "get_strategy", lambda: strategy)
    converted = to_tpu_embedding_v2(
        tools.column_spec(),
        batch_size=64,
        num_chips=chips,
        hardware=Hardware.CPU,
        max_ids_per_chip_per_sample=32,
    )
    embedding = converted.embedding()
    assert embedding.embedding_layouts == converted.layouts
    assert embedding.max_ids_per_chip_per_sample == 32
    samples = sum(
        int(np.prod(feature.output_shape)) for feature in converted.feature_config.values()
    )
    assert sum(embedding._table_to_sample_count.values()) == samples


def look_up_samples(converted, tables, batch):
    """Looks up as SparseCore does, in NumPy: samples are the input's first index."""
    found = features_for(converted, batch)
    activations = {}
    for key, ids in found.inputs.items():
        feature = converted.feature_config[key]
        table = tables[feature.table.name]
        rows = ids.indices.numpy()[:, 0]
        weights = np.ones(len(rows), np.float32)
        if found.weights is not None and found.weights[key] is not None:
            weights = found.weights[key].values.numpy()
        samples = int(ids.dense_shape[0])
        summed = np.zeros([samples, table.shape[1]], np.float32)
        norm = np.zeros([samples, 1], np.float32)
        np.add.at(summed, rows, table[ids.values.numpy()] * weights[:, None])
        combiner = feature.table.combiner
        power = {"mean": weights, "sqrtn": weights**2}.get(combiner, weights)
        np.add.at(norm, rows, power[:, None])
        if combiner != "sum":
            norm = np.sqrt(norm) if combiner == "sqrtn" else norm
            summed = np.divide(summed, norm, out=np.zeros_like(summed), where=norm != 0)
        steps = feature.output_shape.as_list()[1:]
        activations[key] = summed.reshape([-1, *steps, table.shape[1]])
    return {**activations, **found.sequence_lengths}


@needs_v2
@pytest.mark.parametrize("kind", ["columns", "dictionaries"])
def test_features_are_samples(families, tools, kind):
    """SparseCore's lookups of converted features equal the legacy lookups."""
    family = families[kind]
    converted = to_tpu_embedding_v2(family.spec, batch_size=8, hardware=Hardware.CPU)

    def look_up(batch):
        return look_up_samples(converted, family.tables, batch)

    for found, expected in tools.check(family, look_up):
        assert expected - found == ({"small"} if kind == "columns" else set())
