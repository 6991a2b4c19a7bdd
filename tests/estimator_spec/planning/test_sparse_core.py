# SPDX-License-Identifier: Apache-2.0
"""SparseCore's limits against a count by hand; TensorFlow's own count has kernels on TPUs only."""

from __future__ import annotations

import collections

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_spec as es
from estimator_spec.planning import IdSample, System
from tpu_columns import Hardware

SYSTEM = System(hosts=1, cores=2, sparse_cores=4)
EIGHT = 8  # SparseCores of the system


@given(st.lists(st.lists(st.integers(0, 30), min_size=3, max_size=3), min_size=8, max_size=8))
@settings(max_examples=60)
def test_against_a_count(make_spec, batch):
    """A limit is the largest number of ids that one SparseCore looks up on another."""
    spec = make_spec({"words": es.TableConfig(31, 8)})
    sample = IdSample.from_arrays([{"of_words": np.array(batch)}])
    (limits,) = es.plan(spec, SYSTEM, sample=sample).limits
    groups = collections.defaultdict(list)
    for example, ids in enumerate(batch):
        for i in ids:
            groups[example, i % EIGHT].append(i)
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
    large = {"a": np.full((8, 2), 16), "b": np.full((8, 3), 24)}
    (limits,) = es.plan(spec, SYSTEM, sample=IdSample.from_arrays([small, large])).limits
    assert (limits.most_ids, limits.most_unique_ids) == (5, 2)


def test_without_a_sample_or_a_tpu(make_spec):
    """There are no limits without ids, nor without a TPU; a table without ids needs none."""
    spec = make_spec({"words": es.TableConfig(31, 8)})
    sample = IdSample.from_arrays([{"of_words": [-1, -1]}])
    assert es.plan(spec, SYSTEM).limits == ()
    assert es.plan(spec, System(hardware=Hardware.CPU), sample=sample).limits == ()
    (limits,) = es.plan(spec, SYSTEM, sample=sample).limits
    assert (limits.most_ids, limits.max_ids_per_partition) == (0, 0)
