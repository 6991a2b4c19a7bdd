# SPDX-License-Identifier: Apache-2.0
"""SparseCore's limits against a count by hand, and against what Google's preprocessing counts."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_spec as es
from estimator_spec.planning import IdSample, System
from tpu_columns import Hardware

SYSTEM = System(hosts=1, cores=2, sparse_cores=4)
DATA = Path(__file__).resolve().parents[2] / "data" / "tpu_rules"
EIGHT = 8  # SparseCores of the system


@given(st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=16, max_size=16))
@settings(max_examples=60)
def test_against_a_count(make_spec, batch):
    """A limit is the largest number of ids that one SparseCore looks up on another."""
    spec = make_spec({"words": es.TableConfig(31, 8)})
    sample = IdSample.from_arrays([{"of_words": np.array(batch)}])
    (limits,) = es.plan(spec, SYSTEM, sample=sample).limits
    groups = collections.defaultdict(list)
    for example, ids in enumerate(batch):
        for i in set(ids):
            groups[example // 2, i % EIGHT].append(i)
    assert limits.most_ids == max(map(len, groups.values()))
    assert limits.most_unique_ids == max(len(set(ids)) for ids in groups.values())
    assert limits.most_ids * 1.2 <= limits.max_ids_per_partition < limits.most_ids * 1.2 + 8
    assert limits.max_unique_ids_per_partition % 8 == 0


def test_features_of_one_table_add_up():
    """Ids of all features of a table are in one group, and the largest batch counts."""
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"a": es.FeatureConfig("t"), "b": es.FeatureConfig("t")},
        table_to_config_dict={"t": es.TableConfig(100, 8)},
        optimization_parameters=es.AdagradParameters(0.1),
    )
    small = {"a": np.zeros(8, int), "b": np.full(8, 8)}
    large = {"a": np.full((8, 2), [16, 32]), "b": np.full((8, 3), [16, 24, 32])}
    (limits,) = es.plan(spec, SYSTEM, sample=IdSample.from_arrays([small, large])).limits
    assert (limits.most_ids, limits.most_unique_ids) == (5, 3)


def test_without_a_sample_or_a_tpu(make_spec):
    """There are no limits without ids, nor without a TPU; a table without ids needs none."""
    spec = make_spec({"words": es.TableConfig(31, 8)})
    sample = IdSample.from_arrays([{"of_words": [-1, -1]}])
    assert es.plan(spec, SYSTEM).limits == ()
    assert es.plan(spec, System(hardware=Hardware.CPU), sample=sample).limits == ()
    (limits,) = es.plan(spec, SYSTEM, sample=sample).limits
    assert (limits.most_ids, limits.max_ids_per_partition) == (0, 0)


def test_an_id_counts_once_in_an_example():
    """An id that an example repeats is one lookup; in other features, or steps, it is another."""
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={
            "a": es.FeatureConfig("t"),
            "b": es.FeatureConfig("t"),
            "c": es.FeatureConfig("t", max_sequence_length=3),
        },
        table_to_config_dict={"t": es.TableConfig(100, 8, combiner="sum")},
        optimization_parameters=es.AdagradParameters(0.1),
    )
    repeated = np.full((8, 3), 16)

    def most_ids(features, sequences=()):
        sample = IdSample.from_arrays([features], sequences)
        (limits,) = es.plan(spec, SYSTEM, sample=sample).limits
        assert limits.most_unique_ids == 1
        return limits.most_ids

    assert most_ids({"a": repeated}) == 1
    assert most_ids({"a": repeated, "b": repeated}) == 2
    assert most_ids({"c": repeated}, ["c"]) == 3

    def input_fn(params):
        return tf.data.Dataset.from_tensors({key: tf.constant(repeated) for key in "abc"})

    (limits,) = es.plan(spec, SYSTEM, sample=es.planning.sample_ids(spec, input_fn)).limits
    assert limits.most_ids == 5


def test_limits_are_those_of_googles_preprocessing(subtests):
    """The largest groups are those that Google's preprocessing of the same batches counts."""
    checked = 0
    for batch in json.loads((DATA / "preprocessing.json").read_text()):
        system = System(hosts=1, cores=batch["devices"], sparse_cores=batch["cores"])
        for table, (rows, _) in batch["tables"].items():
            name = batch["layout"][table]["stack"]
            if name != table:
                continue  # limits are of tables
            ids = {
                key: own["ids"] for key, own in batch["features"].items() if own["table"] == table
            }
            spec = es.EmbeddingConfigSpec(
                feature_to_config_dict={key: es.FeatureConfig(table) for key in ids},
                table_to_config_dict={table: es.TableConfig(rows, 8)},
                optimization_parameters=es.AdagradParameters(0.1),
            )
            sample = IdSample.from_arrays([{key: padded(value) for key, value in ids.items()}])
            (limits,) = es.plan(spec, system, sample=sample).limits
            with subtests.test(table=table):
                recorded = batch["out"][name]
                assert limits.most_ids == max(recorded["max_ids_per_partition"])
                assert limits.most_unique_ids == max(recorded["max_unique_ids_per_partition"])
            checked += 1
    assert checked > 20


def padded(ids):
    """Returns lists of ids as a matrix, padded with -1."""
    width = max(1, *map(len, ids))
    return np.array([[*row, *[-1] * (width - len(row))] for row in ids])
