# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of plans: totals are sums, and shards are those of `RowPartition`."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import estimator_spec as es
from estimator_spec import checkpoints
from estimator_spec.planning import Place, ProblemKind, System
from tpu_columns import Hardware
from tpu_columns.partition import RowPartition

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "census"
OPTIMIZERS = (
    es.StochasticGradientDescentParameters(0.1),
    es.AdagradParameters(0.1),
    es.AdamParameters(0.1),
)

tables = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(
        # A class of named tuples would get every field from its type.
        lambda *sizes, optimizer: es.TableConfig(*sizes, optimization_parameters=optimizer),
        st.integers(1, 3000),
        st.integers(1, 64),
        optimizer=st.sampled_from(OPTIMIZERS),
    ),
    min_size=1,
)
systems = st.builds(
    System,
    hosts=st.integers(1, 20),
    cores=st.integers(1, 8),
    hbm=st.integers(1, 200_000),
    host_memory=st.integers(1, 1_000_000),
    hardware=st.sampled_from(Hardware),
)
quick = settings(max_examples=60)


@given(tables, systems, st.sampled_from(("div", "mod")))
@quick
def test_totals_are_sums(make_spec, tables, system, strategy):
    """Devices of a place hold all its tables, each row with its slots once."""
    plan = es.plan(make_spec(tables, partition_strategy=strategy), system)
    weights = sum(table.num_bytes for table in plan.estimate.tables)
    with_slots = sum(table.num_bytes + table.slot_bytes for table in plan.estimate.tables)
    assert weights == sum(t.vocabulary_size * t.dimension * 4 for t in tables.values())
    for use in plan.estimate.uses:
        assert use.total == (weights if use.place is Place.SERVING else with_slots)
        assert (
            use.num_devices
            == (
                {Place.CORES: system.num_shards, Place.HOSTS: system.hosts, Place.SERVING: 1}[
                    use.place
                ]
            )
        )
        assert use.largest == max(group.num_bytes for group in use.groups)


@given(tables, systems, st.sampled_from(("div", "mod")))
@quick
def test_the_fullest_device_holds_its_rows(make_spec, tables, system, strategy):
    """The fullest host has the bytes of the rows that `RowPartition` places there."""
    plan = es.plan(make_spec(tables, partition_strategy=strategy), system)
    by_host = [
        sum(
            len(RowPartition(strategy, table.rows, system.hosts).rows_of(host))
            * (1 + table.num_slots)
            * table.width
            * 4
            for table in plan.estimate.tables
        )
        for host in range(system.hosts)
    ]
    assert plan.estimate.use(Place.HOSTS).largest == max(by_host)


@given(tables, systems)
@quick
def test_a_proposed_number_of_hosts_is_the_smallest(make_spec, tables, system):
    """A fix by more hosts is enough, and one host less isn't."""
    spec = make_spec(tables)
    plan = es.plan(spec, system)
    for problem in plan.errors:
        if problem.kind not in (ProblemKind.CORE_MEMORY, ProblemKind.HOST_MEMORY):
            continue
        for fix in problem.fixes:
            if fix.text.startswith("Take") and "hosts" in fix.text.split(" instead")[0]:
                words = fix.text.split()
                if not words[1].isdigit():
                    continue  # hosts with more memory
                hosts = int(words[1])
                kinds = [
                    {p.kind for p in es.plan(spec, _with_hosts(system, number)).errors}
                    for number in (hosts, hosts - 1)
                ]
                assert problem.kind not in kinds[0]
                assert problem.kind in kinds[1]


def _with_hosts(system, hosts):
    return System(hosts, system.cores, system.hbm, system.host_memory, hardware=system.hardware)


@given(tables, systems)
@quick
def test_devices_of_the_proposed_memory_are_enough(make_spec, tables, system):
    """The least memory that a plan asks for is enough for the fullest device."""
    use = es.plan(make_spec(tables), system).estimate.use(Place.SERVING)
    needed = system.needed(use.largest)
    assert system.usable(needed) >= use.largest
    assert needed <= use.largest / (1 - system.reserved) + 2


@pytest.fixture
def census(monkeypatch):
    """Returns the example's modules."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module("census_data"), importlib.import_module("census_model")


@pytest.mark.slow
@pytest.mark.parametrize("core", ["host", None])
def test_bytes_are_those_of_a_checkpoint(census, tmp_path, core):
    """Tables and slots of the census model have the planned sizes in its checkpoint.

    On the host core the spec's Adagrad trains them, otherwise the model's Adam.
    """
    data, model = census
    columns = model.embedding_columns(data.DATA_DIR)
    spec = es.EmbeddingConfigSpec(columns, es.AdagradParameters(0.05))
    made = es.TPUEstimator(
        model.model_fn_builder(columns, str(tmp_path), 0.001, 100, False),
        config=es.RunConfig(model_dir=str(tmp_path), tf_random_seed=1),
        use_tpu=False,
        train_batch_size=32,
        embedding_config_spec=spec,
        embedding_core=core,
    )
    made.train(
        data.input_fn_builder(
            data.DATA_DIR, data.TRAIN_FILE, True, False, columns if core else None
        ),
        steps=1,
    )
    found: dict[str, list[int]] = {}
    entries = checkpoints.inspect(str(tmp_path), spec).entries
    keys = {entry.name: entry.key for entry in entries if entry.kind == "table"}
    for entry in entries:
        key = keys.get(entry.beside or entry.name)
        if key:
            found.setdefault(key, []).append(entry.num_bytes)
    plan = es.plan(spec, System(hardware=Hardware.TPU if core else Hardware.CPU), model_slots=2)
    planned = {
        table.key: [table.num_bytes] * (1 + table.num_slots) for table in plan.estimate.tables
    }
    assert found == planned
    assert {len(sizes) for sizes in planned.values()} == {2 if core else 3}
    assert plan.estimate.use(Place.HOSTS).total == sum(map(sum, found.values()))
    tf.compat.v1.reset_default_graph()
