# SPDX-License-Identifier: Apache-2.0
"""Places of rows, and preparation of ids, against what was recorded from Google's code."""

from __future__ import annotations

import collections
import json
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_spec.mid_level import TPUEmbeddingV2, samples, stacked, stacking, tables
from mid_level_cases import HAS_V2
from recorded_rules import DATA

API = tf.tpu.experimental.embedding
LAYOUTS = json.loads((DATA / "layouts.json").read_text())
BATCHES = json.loads((DATA / "preprocessing.json").read_text())
needs_v2 = pytest.mark.skipif(not HAS_V2, reason="this TensorFlow has no TPUEmbeddingV2")


def test_places_of_rows():
    """Rows are where Google's code puts them, whatever the offset and rotation of their table."""
    for table in LAYOUTS["tables"]:
        layout = types.SimpleNamespace(
            num_sparse_cores=table["sparse_cores"],
            total_rows_per_sparse_core_shard=table["stack_rows"] // table["sparse_cores"],
            sparse_core_shard_row_offset=table["row_offset"],
            sparse_core_shard_rotation=table["rotation"],
            unsharded_shape=[table["vocabulary"], table["dim"]],
        )
        found = stacking.positions(layout, tf.constant(table["rows"], tf.int64))
        assert found.numpy().tolist() == table["physical_rows"]


def features_of(sizes, optimizer):
    """Returns a feature of each table, and the tables; `sizes` has rows and width by name."""
    configs = [API.TableConfig(*size, name=name, optimizer=optimizer) for name, size in sizes]
    return [API.FeatureConfig(config, output_shape=[16]) for config in configs], configs


@needs_v2
def test_sizes_of_tables():
    """Tables are padded as Google's code does."""
    for table in LAYOUTS["tables"]:
        features, configs = features_of(
            [("t", (table["vocabulary"], table["dim"]))], API.Adagrad(0.1)
        )
        layout = stacking.layouts(configs, features, table["sparse_cores"], 1, True)["t"]
        assert layout.unsharded_padded_shape[0] == table["padded_rows"]


@needs_v2
def test_stacks():
    """Stacked tables have the offsets and rotations of Google's code."""
    for stack in LAYOUTS["stacks"]:
        sizes = [(name, (own["vocabulary"], own["dim"])) for name, own in stack["tables"].items()]
        features, configs = features_of(sizes, API.Adagrad(0.1))
        found = stacking.layouts(configs, features, stack["chips"], stack["cores_per_chip"], False)
        for name, own in stack["tables"].items():
            layout = found[name]
            assert layout.sparse_core_shard_row_offset == own["row_offset"], (name, stack)
            assert layout.sparse_core_shard_rotation == own["rotation"], (name, stack)
            assert layout.unsharded_padded_shape[0] == own["padded_rows"]
            rows = layout.total_rows_per_sparse_core_shard * layout.num_sparse_cores
            assert rows == stack["rows"]


def batch_of(recorded):
    """Returns features by key, layouts by table, and the numbers of chips and their cores."""
    chips, cores = recorded["devices"], recorded["cores"]
    configs = {
        name: API.TableConfig(rows, 8, combiner=combiner, name=name)
        for name, (rows, combiner) in recorded["tables"].items()
    }
    shape = [recorded["batch"] // chips]
    features = {
        key: API.FeatureConfig(configs[own["table"]], output_shape=shape)
        for key, own in recorded["features"].items()
    }
    layouts = {
        name: types.SimpleNamespace(
            stacked_table_name=own["stack"],
            num_sparse_cores=chips * cores,
            total_rows_per_sparse_core_shard=own["stack_vocab_size"] // (chips * cores),
            sparse_core_shard_row_offset=own["row_offset_in_shard"],
            sparse_core_shard_rotation=own["shard_rotation"],
            unsharded_shape=[configs[name].vocabulary_size, 8],
        )
        for name, own in recorded["layout"].items()
    }
    return features, layouts, chips, cores


def ragged(values, dtype):
    """Returns lists as a ragged tensor."""
    return tf.ragged.constant(values, dtype, ragged_rank=1)


@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_counts(number):
    """The largest groups of each chip are those that Google's preprocessing counts."""
    recorded = BATCHES[number]
    features, layouts, chips, cores = batch_of(recorded)
    size = recorded["batch"] // chips
    for chip in range(chips):
        own = slice(chip * size, (chip + 1) * size)
        ids = {
            key: ragged(value["ids"][own], tf.int64) for key, value in recorded["features"].items()
        }
        found = stacked.count_ids(features, ids, layouts, cores)
        targets = slice(chip * chips * cores, (chip + 1) * chips * cores)
        for name, out in recorded["out"].items():
            groups = [out["max_ids_per_partition"], out["max_unique_ids_per_partition"]]
            assert [each[name] for each in found] == [max(group[targets]) for group in groups]


@pytest.mark.parametrize("number", range(len(BATCHES)))
def test_gains(number):
    """Each row's factor in a sample is Google's to the last bit."""
    recorded = BATCHES[number]
    features, layouts, chips, cores = batch_of(recorded)
    size = recorded["batch"] // (chips * cores)  # examples of a core
    gains = collections.defaultdict(float)
    numbers = collections.Counter()
    for key, value in sorted(recorded["features"].items()):
        layout, feature = layouts[value["table"]], features[key]
        name = layout.stacked_table_name
        weights = value["weights"]
        found, _ = samples.from_ids(
            key,
            ragged(value["ids"], tf.int64),
            None if weights is None else ragged(weights, tf.float32),
            feature,
            tf.TensorShape([recorded["batch"]]),
        )
        own = tables.gains(found).numpy()
        rows = stacking.positions(layout, found.ids).numpy()
        core, place = divmod(found.segments.numpy(), size)
        for row, c, i, gain in zip(rows, core, place, own, strict=True):
            target, row_there = divmod(int(row), layout.total_rows_per_sparse_core_shard)
            where = name, int(c), target, row_there, numbers[name] * size + int(i)
            gains[where] = np.float32(gains[where] + gain)
        numbers[name] += 1
    wanted = {
        (name, core, target, row, sample): np.float32(gain)
        for name, out in recorded["out"].items()
        for core, targets in enumerate(out["partitions"])
        for target, found in enumerate(targets)
        for row, sample, gain in zip(*found, strict=True)
    }
    assert gains == wanted


@needs_v2
def test_statistics_for_chips_of_two_cores():
    """The samples are divided among as many SparseCores as the argument says."""
    config = API.TableConfig(16, 2, name="a", optimizer=API.SGD(0.1))
    features = {"x": API.FeatureConfig(config, output_shape=[2])}
    ids = {"x": tf.ragged.constant([[0, 2, 4, 4], [1]])}
    found = TPUEmbeddingV2.compute_sparse_core_stats(ids, features, 1, num_sc_per_chip=2)
    assert found == ({"a": 3}, {"a": 3})
    with pytest.raises(ValueError, match="among the 4 SparseCores"):
        TPUEmbeddingV2.compute_sparse_core_stats(ids, features, 1)
