# SPDX-License-Identifier: Apache-2.0
"""Balance of rows and lookups over shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_spec as es
from estimator_spec.planning import IdSample, ProblemKind, System
from tpu_columns.partition import RowPartition

STRATEGIES = ("div", "mod")


def by_strategy(plan, table="words"):
    """Returns the balance of one table by strategy."""
    return {b.strategy: b for b in plan.balances if b.table == table}


@given(
    st.integers(1, 60), st.integers(1, 4), st.lists(st.integers(-1, 70), min_size=1, max_size=40)
)
@settings(max_examples=60)
def test_every_lookup_is_on_the_shard_of_its_row(make_spec, rows, hosts, ids):
    """Shards look up the ids whose rows they have, and no id is counted twice."""
    spec = make_spec({"words": es.TableConfig(rows, 4)})
    sample = IdSample.from_arrays([{"of_words": np.array(ids)}])
    plan = es.plan(spec, System(hosts=hosts, cores=2), sample=sample)
    for strategy, balance in by_strategy(plan).items():
        layout = RowPartition(strategy, rows, 2 * hosts)
        expected = [sum(i in layout.rows_of(shard) for i in ids) for shard in range(2 * hosts)]
        assert balance.lookups == tuple(expected)
        assert balance.rows == layout.shard_sizes
        assert balance.empty_shards == max(0, 2 * hosts - rows)


def test_frequent_ids_are_first(make_spec):
    """Where low ids are frequent, div has them on one shard; the plan proposes mod by numbers."""
    ids = np.arange(64) % 16
    sample = IdSample.from_arrays([{"of_words": ids}] * 2)
    spec = make_spec({"words": es.TableConfig(64, 4)})
    plan = es.plan(spec, System(cores=4), sample=sample)
    found = by_strategy(plan)
    assert found["div"].lookups == (128, 0, 0, 0)
    assert (found["div"].lookup_imbalance, found["mod"].lookup_imbalance) == (4.0, 1.0)
    (warning,) = plan.problems
    assert warning.kind is ProblemKind.IMBALANCE
    assert "looks up 4.00 times the mean, under div" in warning.text
    assert "partition_strategy='mod'" in warning.fixes[0].text
    assert "1.00 times the mean" in warning.fixes[0].text
    assert "TPUEmbedding, which use_tpu=True trains with, has div only" in warning.fixes[0].text
    moved = es.plan(spec._replace(partition_strategy="mod"), System(cores=4), sample=sample)
    assert moved.problems == ()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_even_lookups_are_no_problem(make_spec, strategy):
    """Lookups that both strategies distribute alike lead to no proposal."""
    sample = IdSample.from_arrays([{"of_words": np.arange(64)}])
    spec = make_spec({"words": es.TableConfig(64, 4)}, partition_strategy=strategy)
    assert es.plan(spec, System(cores=4), sample=sample).problems == ()


def test_without_lookups(make_spec):
    """Without a sample, or ids, there is no imbalance of lookups; rows always have one."""
    spec = make_spec({"words": es.TableConfig(5, 4)})
    for sample in (None, IdSample.from_arrays([{"of_words": [-1]}])):
        plan = es.plan(spec, System(cores=2), sample=sample)
        for balance in plan.balances:
            assert balance.lookup_imbalance is None
            assert balance.row_imbalance == pytest.approx(3 / 2.5)
        assert str(plan)
