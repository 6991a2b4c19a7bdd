# SPDX-License-Identifier: Apache-2.0
"""Plans of whole specs: what fits, what doesn't, and the numbers of the fixes."""

from __future__ import annotations

import re
import time
import tracemalloc

import pytest
import tensorflow as tf

import estimator_spec as es
import tpu_columns
from estimator_spec import planning
from estimator_spec.planning import Place, ProblemKind, System
from estimator_spec.planning.data import to_data
from tpu_columns import Hardware, LookupDevice, Mode

fc = tf.feature_column


def kinds(plan):
    """Returns the kinds of a plan's errors."""
    return [problem.kind for problem in plan.errors]


MEMORY = [ProblemKind.CORE_MEMORY, ProblemKind.HOST_MEMORY, ProblemKind.SERVING_MEMORY]


@pytest.mark.parametrize(("hosts", "errors"), [(1, MEMORY), (8, MEMORY[2:]), (64, MEMORY[2:])])
def test_a_model_of_200_gigabytes(dlrm, hosts, errors):
    """26 tables of 209 GB: one host is too small, 8 and 64 train them, none serves them."""
    plan = es.plan(dlrm, System(hosts=hosts))
    assert len(plan.estimate.tables) == 26
    assert sum(table.num_bytes for table in plan.estimate.tables) > 200e9
    assert kinds(plan) == errors
    assert plan.errors[-1].tables == ("c01", "c10", "c20")


def test_fixes_have_the_numbers_of_today(dlrm):
    """Each fix of a model that doesn't fit says what it changes, and what then is needed."""
    cores, hosts, serving = es.plan(dlrm).errors
    assert [str(fix) for fix in cores.fixes] == [
        "Take 4 hosts (32 cores) instead of 1: the fullest core then needs 12.2 GiB of 13.6 GiB.",
        "Take cores of at least 57.3 GiB of memory instead of 16.0 GiB.",
        "Train by StochasticGradientDescentParameters (0 slot variables) instead of Adagrad (1): "
        "the fullest core then needs 24.3 GiB of 13.6 GiB. That alone is not enough.",
    ]
    assert str(hosts.fixes[0]) == (
        "Take 4 hosts instead of 1: the fullest host then needs 97.4 GiB of 108.8 GiB."
    )
    assert [str(fix) for fix in serving.fixes] == [
        "Export by export_saved_model(…, tables='float16'): the serving machine then needs "
        "97.4 GiB of 108.8 GiB.",
        "Take serving machines of at least 229.1 GiB of memory instead of 128.0 GiB.",
    ]


def test_the_text_has_everything_even_if_nothing_fits(dlrm):
    """A plan that doesn't work still prints its tables, memory, shards and numbered fixes."""
    text = str(es.plan(dlrm))
    assert text.startswith("26 tables of 204,184,588 rows, 194.7 GiB: doesn't work: 3 problems")
    lines = text.splitlines()
    for number in range(1, 27):
        assert sum(line.startswith(f"c{number:02} ") for line in lines) == 2  # sizes, shards
    assert any(re.match(r"cores +8 +48\.\d GiB", line) for line in lines)
    assert sum(line.startswith("PROBLEM, ") for line in lines) == 3
    assert any(line.startswith("  1. Take 4 hosts (32 cores)") for line in lines)


def test_a_table_has_its_three_names():
    """The text has key, variable and features of a table once each, plain data has them, too."""
    word = fc.categorical_column_with_identity("word", 9)
    columns = [tpu_columns.embedding_column(word, 2)]
    plan = es.plan(es.EmbeddingConfigSpec(columns, es.AdagradParameters(0.1)))
    line = next(line for line in str(plan).splitlines() if line.startswith("tbl_word"))
    assert line.split()[-2:] == ["word_embedding", "word"]
    table = to_data(plan)["tables"][0]
    assert (table["key"], table["variable"], table["features"]) == (
        "tbl_word",
        "word_embedding",
        ["word"],
    )


def test_the_error_has_problems_and_fixes(dlrm):
    """`check` raises a ValueError with the plan, the problems and their numbered fixes."""
    plan = es.plan(dlrm, System(hosts=8))
    with pytest.raises(planning.PlanError, match=r"(?s)serving memory: .* 1\. Export") as raised:
        plan.check()
    assert isinstance(raised.value, ValueError)
    assert raised.value.plan is plan
    narrow = es.plan(dlrm, System(hosts=8), serving_dtype="float16")
    assert narrow.fits
    narrow.check()


def test_it_allocates_nothing(dlrm):
    """Planning creates no variable and no op, and needs less than 4 MiB of memory."""

    def refuse(creator, **kwargs):
        raise AssertionError("a variable was created")

    es.plan(dlrm)  # whatever is imported once
    graph = tf.Graph()
    tracemalloc.start()
    try:
        with graph.as_default(), tf.variable_creator_scope(refuse):
            es.plan(dlrm, System(hosts=64))
        with tf.variable_creator_scope(refuse):
            es.plan(dlrm, System(hosts=64))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert graph.get_operations() == []
    assert peak < 4 << 20


@pytest.mark.timing("CPU time of one call")
def test_it_takes_less_than_a_second(dlrm):
    """Plans for 1, 8 and 64 hosts take less than a second of CPU time together."""
    es.plan(dlrm)  # whatever is imported once
    start = time.process_time()
    for hosts in (1, 8, 64):
        es.plan(dlrm, System(hosts=hosts))
    assert time.process_time() - start < 1


def column(key, rows=1000, **kwargs):
    """Returns a column of width 4."""
    return tpu_columns.embedding_column(fc.categorical_column_with_identity(key, rows), 4, **kwargs)


def column_spec(*columns, **kwargs):
    """Returns a spec of columns, trained by Adam."""
    return es.EmbeddingConfigSpec(list(columns), es.AdamParameters(0.1), **kwargs)


def lookups(plan):
    """Returns device and reason of each table's lookups in training, by feature."""
    return {table.features[0]: table.training for table in plan.estimate.tables}


def test_lookup_devices_are_those_of_route():
    """Every request of a device is planned as `route` decides, with the rule as the reason."""
    columns = {
        device: column(
            device or "none", embedding_lookup_device=device, tensor_core_shape=[None, 2]
        )
        for device in (None, "cpu", "tpu_tensor_core", "tpu_embedding_core")
    }
    for hardware in Hardware:
        found = lookups(es.plan(column_spec(*columns.values()), System(hardware=hardware)))
        for device, made in columns.items():
            planned = found[device or "none"]
            if device == "cpu":
                with pytest.raises(ValueError, match="during training is not supported") as raised:
                    tpu_columns.route(made, Mode.TRAIN, hardware)
                assert (planned.device, planned.reason) == (None, str(raised.value))
            else:
                assert planned.device is tpu_columns.route(made, Mode.TRAIN, hardware)
                assert planned.reason


def test_reasons():
    """A device's reason is the request, the size of the table, or the default."""
    spec = column_spec(
        column("default"),
        column("asked", embedding_lookup_device="tpu_embedding_core"),
        column("small", 9, tensor_core_shape=[None, 2]),
        tensor_core_below=10,
    )
    found = lookups(es.plan(spec))
    assert found["small"].device is LookupDevice.TPU_TENSOR_CORE
    assert found["small"].reason == "fewer rows than tensor_core_below=10"
    assert found["asked"].reason == "its columns request it"
    assert found["default"].reason == "default of a training on a TPU"
    serving = {table.serving for table in es.plan(spec).estimate.tables}
    assert [lookup.device for lookup in serving] == [LookupDevice.CPU]


def test_a_forbidden_device_is_a_problem():
    """A column that can't be trained is named, with what to do."""
    plan = es.plan(column_spec(column("word", embedding_lookup_device="cpu")))
    (problem,) = plan.problems
    assert problem.kind is ProblemKind.LOOKUP_DEVICE
    assert problem.tables == ("tbl_word",)
    assert "during training is not supported" in problem.text
    assert "Leave embedding_lookup_device" in problem.fixes[0].text


def test_columns_of_one_table_on_different_devices():
    """A shared table whose columns request different devices is a problem that names both."""
    first, second = tpu_columns.shared_embedding_columns(
        [fc.categorical_column_with_identity(key, 10) for key in ("a", "b")],
        4,
        shared_embedding_collection_name="both",
        tensor_core_shape=[None, 2],
        embedding_lookup_device="tpu_tensor_core",
    )
    moved = second._replace(embedding_lookup_device="tpu_embedding_core")
    (problem,) = es.plan(column_spec(first, moved)).problems
    assert problem.kind is ProblemKind.LOOKUP_DEVICE
    assert "a_shared_embedding: tpu_tensor_core, b_shared_embedding: tpu_embedding_core" in (
        problem.text
    )


def test_each_place_has_its_tables():
    """Cores hold shards and copies with slots, hosts the core's tables, a server all weights."""
    spec = column_spec(
        column("large", 800),
        column("small", 10, embedding_lookup_device="tpu_tensor_core", tensor_core_shape=[None, 2]),
    )
    plan = es.plan(spec, System(hosts=2, cores=4), model_slots=1)
    large, small = 800 * 4 * 4, 10 * 4 * 4
    use = {place: plan.estimate.use(place) for place in Place}
    assert use[Place.CORES].largest == large * 3 // 8 + small * 2  # Adam has two slots
    assert use[Place.CORES].total == large * 3 + 8 * small * 2
    assert (use[Place.HOSTS].largest, use[Place.HOSTS].total) == (large * 3 // 2, large * 3)
    assert (use[Place.SERVING].largest, use[Place.SERVING].num_devices) == (large + small, 1)


def test_without_a_tpu():
    """On CPUs hosts hold shards of all tables, with the slots of the model's optimizer."""
    spec = column_spec(column("word", 100), column("tag", 10))
    plan = es.plan(spec, System(hosts=2, hardware=Hardware.CPU), model_slots=0)
    assert plan.estimate.places == (Place.HOSTS, Place.SERVING)
    assert plan.estimate.use(Place.HOSTS).total == 110 * 4 * 4
    assert {table.optimizer for table in plan.estimate.tables} == {""}
    assert {b.table: len(b.rows) for b in plan.balances} == {"tbl_word": 2, "tbl_tag": 2}


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4000), ("float16", 2000), ("int8", 1400)])
def test_serving_dtypes(make_spec, dtype, size):
    """A serving machine needs the bytes of the exported dtype, with the scales of int8."""
    spec = make_spec({"words": es.TableConfig(100, 10)})
    assert es.plan(spec, serving_dtype=dtype).estimate.use(Place.SERVING).total == size


def test_tables_of_the_tensor_core_that_are_too_large():
    """More hosts don't help a table of which each core holds a copy; the embedding core does."""
    spec = column_spec(
        column(
            "word", 10**6, embedding_lookup_device="tpu_tensor_core", tensor_core_shape=[None, 2]
        )
    )
    problem = es.plan(spec, System(hbm=32 << 20)).errors[0]
    assert problem.kind is ProblemKind.CORE_MEMORY
    assert problem.fixes[0].text == (
        "Look up the tables of the tensor core (the largest is tbl_word) on the embedding core: "
        "leave embedding_lookup_device and tensor_core_below unset: the fullest core then needs "
        "5.7 MiB of 27.2 MiB."
    )
    assert not any("hosts" in fix.text for fix in problem.fixes)


def test_fewer_slots_are_proposed_up_to_the_first_that_fits(make_spec):
    """Instead of Adam, Adagrad is enough for a table that fits twice; SGD isn't mentioned."""
    spec = make_spec({"words": es.TableConfig(1000, 64)}, es.AdamParameters(0.1))
    system = System(cores=1, hbm=600_000, reserved=0)
    fixes = [fix.text for fix in es.plan(spec, system).errors[0].fixes]
    assert any(text.startswith("Train by AdagradParameters (1 slot") for text in fixes)
    assert not any("StochasticGradientDescent" in text for text in fixes)


@pytest.mark.parametrize("rows", [2**31, 2**31 + 5])
def test_ids_beyond_int32(make_spec, rows):
    """A TPU's ids are int32: the rows of a table beyond 2³¹ are a problem, one less isn't."""
    plan = es.plan(make_spec({"ids": es.TableConfig(rows, 1)}), System(hosts=16))
    assert plan.estimate.tables[0].ids_beyond_int32 == rows - 2**31
    assert (ProblemKind.INT32_IDS in kinds(plan)) == (rows > 2**31)
    if rows > 2**31:
        (problem,) = (p for p in plan.errors if p.kind is ProblemKind.INT32_IDS)
        assert "can't hold the last 5 of its ids" in problem.text
        assert problem.fixes[0].text.startswith("Split it into 2 tables of 1,073,741,827 rows")
    on_hosts = es.plan(make_spec({"ids": es.TableConfig(rows, 1)}), System(hardware=Hardware.CPU))
    assert ProblemKind.INT32_IDS not in kinds(on_hosts)


def test_a_table_without_an_optimizer():
    """In dict mode each table needs an optimizer, its own or the spec's."""
    spec = es.EmbeddingConfigSpec(
        feature_to_config_dict={"a": es.FeatureConfig("a"), "b": es.FeatureConfig("b")},
        table_to_config_dict={
            "a": es.TableConfig(10, 4, optimization_parameters=es.FtrlParameters(0.1)),
            "b": es.TableConfig(10, 4),
        },
    )
    plan = es.plan(spec, System(cores=1))
    assert [(t.optimizer, t.num_slots) for t in plan.estimate.tables] == [("Ftrl", 2), ("", 0)]
    (problem,) = plan.errors
    assert (problem.kind, problem.tables) == (ProblemKind.OPTIMIZER, ("b",))


def test_small_tables_leave_cores_empty(make_spec):
    """Tables with fewer rows than cores are a warning, with the cost of the tensor core."""
    spec = make_spec({"tiny": es.TableConfig(3, 4), "large": es.TableConfig(100, 4)})
    plan = es.plan(spec)
    assert plan.fits
    (warning,) = plan.problems
    assert (warning.kind, warning.tables) == (ProblemKind.IMBALANCE, ("tiny",))
    assert "tensor_core_below=4" in warning.fixes[0].text
    empty = {balance.table: balance.empty_shards for balance in plan.balances}
    assert empty == {"large": 0, "tiny": 5}


def test_other_checks(make_spec):
    """A caller's check replaces ours: it gets the plan, and its problems are the plan's."""
    seen = []

    def check(plan):
        seen.append(plan)
        yield planning.Problem(ProblemKind.IMBALANCE, "odd", ())
        yield planning.Problem(ProblemKind.OPTIMIZER, "worse", ())

    plan = es.plan(make_spec({"words": es.TableConfig(10, 4)}), checks=[check])
    assert [problem.text for problem in plan.problems] == ["worse", "odd"]
    assert seen[0].problems == ()


def test_other_columns_have_no_table():
    """Numeric columns of a spec are left out."""
    plan = es.plan(column_spec(column("word"), fc.numeric_column("age")))
    assert [table.key for table in plan.estimate.tables] == ["tbl_word"]


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"system": {"hosts": 1}}, TypeError, "system must be a System"),
        ({"sample": [[1]]}, TypeError, "sample must be an IdSample"),
        ({"serving_dtype": "float64"}, ValueError, "serving_dtype must be one of"),
        ({"model_slots": -1}, ValueError, "model_slots must be an int of at least 0"),
        ({"model_slots": 1.5}, ValueError, "model_slots must be an int of at least 0"),
    ],
)
def test_wrong_arguments(make_spec, arguments, kind, words):
    """Each wrong argument is refused by its name."""
    with pytest.raises(kind, match=words):
        es.plan(make_spec({"words": es.TableConfig(10, 4)}), **arguments)


def test_no_spec():
    """Something else than a spec is refused."""
    with pytest.raises(TypeError, match="spec must be an EmbeddingConfigSpec"):
        es.plan({"word": 3})


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"hosts": 0}, ValueError, "hosts must be a positive int"),
        ({"cores": True}, ValueError, "cores must be a positive int"),
        ({"hbm": 1.5}, ValueError, "hbm must be a positive int"),
        ({"reserved": 1}, ValueError, r"reserved must be a fraction in \[0, 1\)"),
        ({"reserved": "much"}, ValueError, "reserved must be a fraction"),
        ({"hardware": "tpu"}, TypeError, "hardware must be a tpu_columns.Hardware"),
        ({"hosts": 8193}, ValueError, "at most 65536"),
    ],
)
def test_wrong_systems(arguments, kind, words):
    """Each wrong value of a system is refused by its name."""
    with pytest.raises(kind, match=words):
        System(**arguments)
