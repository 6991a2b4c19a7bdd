# SPDX-License-Identifier: Apache-2.0
"""Reports of exact, changed and lost options, and the page of optimizers."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
from pathlib import Path

import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import FeatureConfig, TableConfig
from estimator_spec.convert import report, resolved_spec, target_support
from estimator_spec.convert.report import LossyConversionError, Status
from tpu_columns import Hardware, embedding_column

DOCS = Path(__file__).resolve().parents[3] / "docs"
ADAM = estimator_spec.AdamParameters(0.1)


def read(parameters=ADAM, hardware=None, table=None, **arguments):
    """Returns a resolved spec of one table."""
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": FeatureConfig("words")},
        table_to_config_dict={"words": table or TableConfig(10, 4)},
        optimization_parameters=parameters,
        **arguments,
    )
    return resolved_spec.resolve(spec, hardware)


def made(target, parameters, allow_lossy=True):
    """Returns the report of one optimizer in one target."""
    return report.build_report(target, read(parameters), [], allow_lossy, target)


@pytest.mark.parametrize("kind", target_support.optimizers())
@pytest.mark.parametrize("target", target_support.TARGETS)
def test_each_argument_of_each_optimizer_has_a_fact(target, kind):
    """Each target has a rule for each argument, and no other rules."""
    assert set(target_support.find_support(target, kind).arguments) == set(
        target_support.argument_names(kind)
    )


def test_a_report_has_all_names_of_a_table_once():
    """A line for each table has its variable, its key and its features; entries have its key."""
    word = tf.feature_column.categorical_column_with_identity("word", 10)
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_columns=[embedding_column(word, 4)], optimization_parameters=ADAM
    )
    source = resolved_spec.resolve(spec, Hardware.CPU)
    found = str(report.build_report("tpu_embedding", source, [], True, "tpu_embedding"))
    assert found.count("table    'word_embedding/embedding_weights' (tbl_word, word)") == 1
    assert found.count("word_embedding") == 1
    assert "table    'words' (word)" in str(made("tpu_embedding", ADAM))


def test_a_report_has_a_line_for_each_argument():
    """Entries have table, argument and value; changed defaults are shown as old → new."""
    found = made("tpu_embedding", ADAM)
    lines = {entry.argument.removeprefix("Adam."): entry for entry in found.entries}
    assert list(lines) == [field.name for field in dataclasses.fields(ADAM)]
    assert {entry.table for entry in found.entries} == {"words"}
    epsilon = lines["epsilon"]
    assert (epsilon.status, epsilon.old, epsilon.new) == (Status.CHANGED, 1e-8, 1e-7)
    assert lines["beta1"].status is Status.EXACT
    assert "Adam.epsilon: 1e-08 → 1e-07" in str(found)
    assert found.lost == ()


def test_a_report_has_each_tables_own_rate():
    """A table's rate replaces the optimizer's; the report names the counterpart of functions."""

    def decayed(step):
        return 0.1

    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={name: FeatureConfig(name) for name in "abc"},
        table_to_config_dict={
            "a": TableConfig(10, 4),
            "b": TableConfig(10, 4, learning_rate=0.5),
            "c": TableConfig(10, 4, learning_rate_fn=decayed),
        },
        optimization_parameters=ADAM,
    )
    for target in target_support.TARGETS:
        found = report.build_report(target, resolved_spec.resolve(spec), [], True, target)
        rates = {e.table: e for e in found.entries if "learning_rate" in e.argument[:18]}
        assert (rates["a"].value, rates["b"].value) == (0.1, 0.5)
        assert rates["c"].argument == "learning_rate_fn"
        assert (rates["c"].old, rates["c"].new) == (
            "decayed",
            target_support.RATE_FUNCTIONS[target],
        )
        assert sum("learning_rate" in e.argument and e.table == "c" for e in found.entries) == 2


def test_a_rate_of_zero_is_none_of_its_own():
    """A table with learning_rate 0 has the optimizer's."""
    found = read(table=TableConfig(10, 4, learning_rate=0.0))
    assert found.learning_rate("words") == found.required_learning_rate("words") == 0.1


def test_a_feature_is_one_cores():
    """A feature with columns on both cores is refused with advice."""
    words = tf.feature_column.categorical_column_with_identity("word", 10)
    weighted = tf.feature_column.weighted_categorical_column(words, "weight")
    spec = estimator_spec.EmbeddingConfigSpec(
        [
            embedding_column(words, 4),
            embedding_column(
                weighted, 4, embedding_lookup_device="tpu_tensor_core", tensor_core_shape=[None, 3]
            ),
        ],
        ADAM,
    )
    with pytest.raises(ValueError, match="both want the feature 'word'.*embedding_lookup_device"):
        resolved_spec.resolve(spec)


def test_a_report_in_full_has_all_lines():
    """Only the short text leaves out exact entries; both have a line for the table."""
    found = made("tpu_embedding", ADAM)
    assert len(found.in_full().splitlines()) == 2 + len(found.entries)
    assert len(str(found).splitlines()) == 2 + len(found.changed)
    assert "exact    words  Adam.beta1: 0.9" in found.in_full()


def test_defaults_are_those_of_the_installed_packages():
    """Rules have a target's default exactly if it differs from ours."""
    api = tf.tpu.experimental.embedding
    classes = {"tpu_embedding": api, "tpu_embedding_v2": api}
    keras = keras_3()
    if keras is not None:
        classes["keras"] = keras.optimizers
    for target, module in classes.items():
        for kind in target_support.optimizers():
            support = target_support.find_support(target, kind)
            known = inspect.signature(getattr(module, support.name)).parameters
            assert set(support.fixed) <= set(known)
            for argument, rule in support.arguments.items():
                theirs, ours = rule.target_argument, target_support.our_default(kind, argument)
                if theirs in ("", "clipvalue"):
                    continue
                default = known[theirs].default
                differs = ours is not dataclasses.MISSING and ours != default
                assert rule.default == (default if differs else None), (target, kind, argument)


def keras_3():
    """Returns Keras 3, or None."""
    if importlib.util.find_spec("keras") is None:
        return None
    import keras

    return keras if int(keras.__version__.split(".")[0]) >= 3 else None


def test_what_is_lost_is_an_error_that_says_what():
    """lazy_adam=False is lost on SparseCore; the error has entry, report and advice."""
    parameters = dataclasses.replace(ADAM, lazy_adam=False)
    with pytest.raises(LossyConversionError, match="words  Adam.lazy_adam: False") as caught:
        made("tpu_embedding_v2", parameters, allow_lossy=False)
    assert "allow_lossy=True" in str(caught.value)
    assert [entry.argument for entry in caught.value.report.lost] == ["Adam.lazy_adam"]
    assert isinstance(caught.value, ValueError)


def test_allowed_losses_are_logged_as_warnings(monkeypatch):
    """The report is logged as a warning with losses, as information without."""
    logged = []
    log = tf.compat.v1.logging
    monkeypatch.setattr(log, "warning", lambda text, report: logged.append("warning"))
    monkeypatch.setattr(log, "info", lambda text, report: logged.append("info"))
    made("keras", estimator_spec.FtrlParameters(0.1))
    made("keras", estimator_spec.AdagradParameters(0.1))
    assert logged == ["warning", "info"]


@pytest.mark.parametrize("target", ["tpu_embedding", "tpu_embedding_v2", "keras"])
def test_an_optimizer_without_counterpart_is_one_line(target):
    """The report of Yogi has one entry with its replacement."""
    found = made(target, estimator_spec.ProximalYogiParameters(0.1))
    assert [entry.argument for entry in found.lost] == ["ProximalYogi"]
    assert "Adam" in found.lost[0].note


@pytest.mark.parametrize(
    ("target", "arguments", "lost"),
    [
        ("tpu_embedding", {"clip_gradient_min": -1.0, "clip_weight_max": 2.0}, []),
        ("tpu_embedding_v2", {"clip_gradient_min": -1.0}, ["SGD.clip_gradient_min"]),
        ("tpu_embedding_v2", {"weight_decay_factor": 0.0}, []),
        ("tpu_embedding_v2", {"weight_decay_factor": 0.1}, ["SGD.weight_decay_factor"]),
        ("keras", {"clip_gradient_min": -1.0, "clip_gradient_max": 1.0}, []),
        (
            "keras",
            {"clip_gradient_min": -1.0, "clip_gradient_max": 2.0},
            ["SGD.clip_gradient_min", "SGD.clip_gradient_max"],
        ),
        ("keras", {"clip_gradient_max": 1.0}, ["SGD.clip_gradient_max"]),
        ("keras", {"use_gradient_accumulation": False}, []),
        ("keras_core", {"clip_weight_min": -1.0, "weight_decay_factor": 0.1}, []),
        ("keras_core", {"use_gradient_accumulation": False}, []),
        (
            "keras_core",
            {"use_gradient_accumulation": False, "weight_decay_factor": 0.1},
            ["SGD.use_gradient_accumulation"],
        ),
    ],
)
def test_only_values_with_an_effect_are_lost(target, arguments, lost):
    """Unset arguments and equivalent values lose nothing."""
    parameters = estimator_spec.StochasticGradientDescentParameters(0.1, **arguments)
    found = [entry.argument for entry in made(target, parameters).lost]
    assert found == [name.replace("SGD", "StochasticGradientDescent") for name in lost]


def test_a_combiner_of_none_must_be_told_for_columns():
    """A combiner of None is mean on a CPU, sum on a TPU, and sum for dictionaries."""
    words = tf.feature_column.categorical_column_with_identity("word", 10)
    spec = estimator_spec.EmbeddingConfigSpec([embedding_column(words, 4, combiner=None)], ADAM)
    for hardware, combiner, status in (
        (None, "sum", Status.LOST),
        (Hardware.CPU, "mean", Status.CHANGED),
        (Hardware.TPU, "sum", Status.CHANGED),
    ):
        found = resolved_spec.resolve(spec, hardware)
        (entry,) = report.table_entries(found, ["tbl_word"])
        assert (entry.status, entry.new) == (status, combiner)
        assert found.combiner("tbl_word") == combiner
    (entry,) = report.table_entries(read(table=TableConfig(10, 4, combiner=None)), ["words"])
    assert (entry.status, entry.new) == (Status.CHANGED, "sum")


@pytest.mark.parametrize("hardware", [None, Hardware.CPU, Hardware.TPU])
def test_a_combiner_of_none_is_not_lost_where_nothing_is_combined(hardware):
    """A sequence without weights has one id a step on a TPU, and the mean of several on a CPU."""
    words = tf.feature_column.sequence_categorical_column_with_identity("word", 10)
    weighted = tf.feature_column.weighted_categorical_column(words, "weight")
    lost = {}
    for column in (words, weighted):
        spec = estimator_spec.EmbeddingConfigSpec(
            [embedding_column(column, 4, combiner=None, max_sequence_length=3)], ADAM
        )
        found = resolved_spec.resolve(spec, hardware)
        (table,) = found.tables
        (entry,) = report.table_entries(found, [table])
        assert entry.new == found.combiner(table)
        lost[column] = entry.status is Status.LOST
    assert lost == {words: False, weighted: hardware is None}
    assert resolved_spec.resolve(spec, Hardware.CPU).combiner(table) == "mean"


def test_a_spec_as_a_whole_has_lines_too():
    """Shards and profiles are changed; a gradient multiplier is lost."""
    found = read(
        partition_strategy="mod",
        profile_data_directory="/tmp",
        experimental_gradient_multiplier_fn=lambda step: 2.0,
    )
    assert [entry.status for entry in report.layout_entries(found)] == [Status.CHANGED] * 2
    assert [entry.status for entry in report.multiplier_entries(found, "")] == [Status.LOST]
    assert report.layout_entries(read()) == report.multiplier_entries(read(), "") == []


@pytest.fixture(scope="module")
def make_optimizers():
    """Imports the script that generates the page of optimizers."""
    spec = importlib.util.spec_from_file_location("make_optimizers", DOCS / "make_optimizers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_optimizers_is_current(make_optimizers):
    """docs/optimizers.md equals the script's output."""
    assert (DOCS / "optimizers.md").read_text(encoding="utf-8") == make_optimizers.page()


def test_a_stale_page_is_noticed(make_optimizers, tmp_path, monkeypatch, capsys):
    """`--check` fails on another page, and passes after the page is written again."""
    page = tmp_path / "optimizers.md"
    page.write_text(make_optimizers.page().replace("1e-07", "1e-06", 1), encoding="utf-8")
    monkeypatch.setattr(make_optimizers, "PAGE", page)
    assert make_optimizers.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert make_optimizers.main([]) == make_optimizers.main(["--check"]) == 0


def test_the_page_says_what_reports_say():
    """Each optimizer's table on the page marks the options that its report loses."""
    sections = (DOCS / "optimizers.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) == 10
    for section in sections:
        name, *rows = section.splitlines()
        kind = getattr(estimator_spec, name)
        header = [cell.strip() for cell in rows[1].split("|")[1:-1]]
        for row in (row for row in rows if row.startswith("| `")):
            argument, _, *cells = (cell.strip() for cell in row.split("|")[1:-1])
            assert argument.strip("`") in target_support.argument_names(kind)
            assert len(cells) == len(header) - 2
            for target, cell in zip(target_support.TARGETS, cells, strict=True):
                rule = target_support.find_support(target, kind)
                assert cell.startswith("**lost**") == bool(rule.lost)
                if not rule.lost:
                    has_limits = rule.arguments[argument.strip("`")].condition is not None
                    assert ("only" in cell) == has_limits
