# SPDX-License-Identifier: Apache-2.0
"""Byte equality of a spec's proto and TensorFlow 2.15.1's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import estimator_spec
from estimator_spec import FeatureConfig, ModeKeys, TableConfig
from estimator_spec.convert import config_proto_report, to_config_proto, to_mid_level
from estimator_spec.core._tensorflow import private
from tpu_columns import Mode

FAMILY = Path(__file__).with_name("proto_family.py")
_SPEC = importlib.util.spec_from_file_location("proto_family", FAMILY)
proto_family = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(proto_family)

Configuration = private.tpu_embedding_configuration_pb2.TPUEmbeddingConfiguration
OURS = proto_family.Ours()


class Server:
    """TensorFlow 2.15.1 in a process that returns one proto after the other."""

    def __init__(self, python):
        """Starts the process."""
        environment = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
        environment["TF_CPP_MIN_LOG_LEVEL"] = "3"
        self.process = subprocess.Popen(
            [python, str(FAMILY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )

    def __call__(self, description):
        """Returns the reference's proto, or its error."""
        print(json.dumps(description), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        assert answer, "the reference ended"
        if answer.startswith("error: "):
            return answer
        return Configuration.FromString(bytes.fromhex(answer))


@pytest.fixture(scope="module")
def reference(reference_python):
    """Returns the reference's proto of a description: from this process or its own."""
    if reference_python == sys.executable:
        side = proto_family.Reference()
        yield lambda description: Configuration.FromString(
            side.proto(description).SerializeToString()
        )
        return
    server = Server(reference_python)
    yield server
    server.process.stdin.close()
    server.process.wait(30)


def optimizers(names):
    """Strategy of the named optimizers with any valid arguments."""
    rate = st.floats(0, 4, width=32)
    positive = st.floats(2**-10, 4, width=32)
    part = st.floats(0, 0.9375, width=32)
    l1_l2 = {"l1_regularization_strength": rate, "l2_regularization_strength": rate}
    betas = {"beta1": part, "beta2": part, "epsilon": positive}
    own = {
        "StochasticGradientDescentParameters": {},
        "AdagradParameters": {"initial_accumulator": positive},
        "AdagradMomentumParameters": {
            "use_nesterov": st.booleans(),
            "exponent": positive,
            "beta2": part,
            "epsilon": positive,
        },
        "ProximalAdagradParameters": {"initial_accumulator": positive, **l1_l2},
        "AdamParameters": {**betas, "lazy_adam": st.just(False), "sum_inside_sqrt": st.booleans()},
        "FtrlParameters": {
            "learning_rate_power": rate.map(lambda x: -x),
            "beta": rate,
            **l1_l2,
            "initial_accumulator_value": positive,
            "multiply_linear_by_learning_rate": st.booleans(),
            "allow_zero_accumulator": st.booleans(),
        },
        "ProximalYogiParameters": {**betas, **l1_l2, "initial_accumulator_value": positive},
        "MomentumParameters": {"use_nesterov": st.booleans()},
        "RMSPropParameters": {},
        "FrequencyEstimatorParameters": {},
    }
    required = {
        "AdagradMomentumParameters": {"momentum": part},
        "MomentumParameters": {"momentum": part},
        "RMSPropParameters": {"rho": part, "momentum": part, "epsilon": positive},
    }
    accumulation = st.one_of(
        st.fixed_dictionaries({"use_gradient_accumulation": st.just(True)}),
        st.fixed_dictionaries({}, optional={"clip_gradient_min": rate.map(lambda x: -x - 1)}),
        st.fixed_dictionaries({}, optional={"clip_gradient_max": rate}),
    )
    common = {
        "clip_weight_min": rate.map(lambda x: -x - 1),
        "clip_weight_max": rate,
        "weight_decay_factor": rate,
        "multiply_weight_decay_factor_by_learning_rate": st.booleans(),
    }

    def of(name):
        if name == "FrequencyEstimatorParameters":
            numbers = ("tau", "max_delta", "outlier_threshold", "weight_exponent")
            arguments = st.fixed_dictionaries(dict.fromkeys(numbers, positive))
        else:
            fixed = {"learning_rate": rate, **required.get(name, {})}
            arguments = st.tuples(
                st.fixed_dictionaries(fixed, optional={**own[name], **common}), accumulation
            ).map(lambda both: {**both[0], **both[1]})
        return arguments.map(lambda values: [name, values])

    return st.sampled_from(names).flatmap(of)


ALL = (
    "StochasticGradientDescentParameters",
    "AdagradParameters",
    "AdagradMomentumParameters",
    "ProximalAdagradParameters",
    "AdamParameters",
    "FtrlParameters",
    "ProximalYogiParameters",
    "MomentumParameters",
    "RMSPropParameters",
    "FrequencyEstimatorParameters",
)
OF_COLUMNS = tuple(
    name
    for name in ALL
    if name.removesuffix("Parameters")
    not in ("AdagradMomentum", "ProximalYogi", "FrequencyEstimator")
)
COMBINERS = st.sampled_from(["mean", "sum", "sqrtn", None])
RATES = st.sampled_from([None, None, "decayed", "halved"])
LENGTHS = st.sampled_from([0, 0, 0, 3])


@st.composite
def runs(draw):
    """Strategy of batch size, mode, hosts and cores."""
    hosts = draw(st.integers(1, 4))
    cores = hosts * draw(st.integers(1, 4))
    return {
        "batch_size": cores * draw(st.integers(1, 8)),
        "mode": draw(st.sampled_from(["train", "eval", "infer"])),
        "num_hosts": hosts,
        "num_cores": cores,
    }


def specs(optimizer):
    """Strategy of a spec's other arguments."""
    return st.fixed_dictionaries(
        {"optimizer": optimizer},
        optional={
            "partition_strategy": st.sampled_from(["div", "mod"]),
            "pipeline_execution_with_tensor_core": st.booleans(),
            "profile_data_directory": st.sampled_from(["/tmp/profile", ""]),
            "clipping_limit": st.just(1.0),
        },
    )


@st.composite
def of_columns(draw):
    """Strategy of column specs: plain, shared, weighted, sequences, on the tensor core."""
    groups = []
    keys = iter("abcdefgh")
    for size in draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)):
        rows, kind = draw(st.integers(2, 20)), draw(st.sampled_from(["identity", "list"]))
        lengths = draw(st.lists(LENGTHS, min_size=size, max_size=size))
        members = []
        for length in lengths:
            key = next(keys)
            weighted = not length and draw(st.booleans())
            members.append(
                {
                    "key": key,
                    "rows": rows,
                    "kind": kind,
                    "max_sequence_length": length,
                    "weight": f"{key}_weight" if weighted else None,
                }
            )
        # The reference's tensor-core columns support neither weights nor sequences.
        plain = not any(m["weight"] or m["max_sequence_length"] for m in members)
        on_tensor_core = bool(groups) and plain and draw(st.booleans())
        groups.append(
            {
                "members": members,
                "dimension": draw(st.integers(1, 8)),
                "combiner": draw(st.sampled_from(["sum", "mean"]) if on_tensor_core else COMBINERS),
                "rate": draw(RATES),
                "device": "tpu_tensor_core" if on_tensor_core else None,
                "tensor_core_shape": [None, 4] if on_tensor_core else None,
            }
        )
    spec = draw(specs(optimizers(OF_COLUMNS)))
    return {"spec": spec, "columns": groups, "run": draw(runs())}


@st.composite
def of_dictionaries(draw):
    """Strategy of dict specs: each table may have its own optimizer, rate and replication."""
    names = draw(st.lists(st.sampled_from("zyxw"), min_size=1, max_size=3, unique=True))
    own = draw(st.booleans())
    tables = {}
    for name in names:
        rate = draw(RATES)
        tables[name] = {
            "vocabulary_size": draw(st.integers(1, 12)),
            "dimension": draw(st.integers(1, 8)),
            "combiner": draw(COMBINERS),
            "hot_id_replication": draw(st.booleans()),
            "rate": rate,
            "learning_rate": None if rate else draw(st.sampled_from([None, 0.0, 0.25])),
            "optimizer": draw(optimizers(ALL)) if own else None,
        }
    features = {}
    for number, name in enumerate(names + draw(st.lists(st.sampled_from(names), max_size=3))):
        features[draw(st.sampled_from("qrs")) + str(number)] = {
            "table_id": name,
            "max_sequence_length": draw(LENGTHS),
            "weight_key": draw(st.sampled_from([None, "weight"])),
        }
    default = None if own and draw(st.booleans()) else draw(optimizers(ALL))
    run = draw(runs())
    if own and default is None and run["mode"] != "train":
        default = ["StochasticGradientDescentParameters", {"learning_rate": 0.5}]
    return {
        "spec": draw(specs(st.just(default))),
        "tables": tables,
        "features": features,
        "run": run,
    }


def with_stable_tags(proto):
    """Returns the proto with the tags of dynamic rates in the order of the tables."""
    tags = {}
    for table in proto.table_descriptor:
        rate = table.optimization_parameters.learning_rate
        if rate.HasField("dynamic"):
            rate.dynamic.tag = tags.setdefault(rate.dynamic.tag, len(tags))
    return proto


def check(reference, description):
    """Asserts that both sides' protos have the same bytes."""
    theirs = reference(description)
    assert not isinstance(theirs, str), theirs
    ours = OURS.proto(description)
    assert ours.SerializeToString(deterministic=True) == with_stable_tags(theirs).SerializeToString(
        deterministic=True
    ), f"{ours}\n---\n{theirs}"


FAMILY_SETTINGS = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.reference
@FAMILY_SETTINGS
@given(description=of_columns())
def test_specs_of_columns_give_the_references_bytes(reference, description):
    """A spec of any columns gives TensorFlow 2.15.1's bytes."""
    check(reference, description)


@pytest.mark.reference
@FAMILY_SETTINGS
@given(description=of_dictionaries())
def test_specs_of_dictionaries_give_the_references_bytes(reference, description):
    """A spec in dict mode, with any of the ten optimizers, gives TensorFlow 2.15.1's bytes."""
    check(reference, description)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(optimizer=optimizers(ALL))
def test_optimizers_of_today_say_the_same_unless_the_report_says_otherwise(optimizer):
    """For any arguments the mid-level API's message is equal, or the report has a loss."""
    parameters = proto_family.make_optimizer(OURS, optimizer)
    spec = spec_of(optimization_parameters=parameters)
    converted = to_mid_level(spec, allow_lossy=True)
    theirs = Configuration.TableDescriptor()
    converted.tables["words"]._set_table_descriptor(theirs, 1, {})
    ours = to_config_proto(spec, 8).table_descriptor[0]
    # Equivalent rules, and RMSProp as Adam, whose steps another test compares.
    other_names = {"proximal_adagrad": "adagrad", "momentum": "stochastic_gradient_descent"}
    other_names["rms_prop"] = "adam"
    for message in (theirs, ours):
        rule = message.optimization_parameters
        for pair in other_names.items():
            if other_names.get(ours.optimization_parameters.WhichOneof("parameters")) == pair[1]:
                rule.ClearField(rule.WhichOneof("parameters") or pair[1])
    assert (theirs == ours) or converted.report.lost


def test_a_report_says_what_a_message_has_not():
    """Nothing is lost; combiners, the multiplier and inference have entries of their own."""
    table = TableConfig(10, 4, learning_rate_fn=proto_family.decayed)
    spec = spec_of(table, experimental_gradient_multiplier_fn=proto_family.halved)
    found = config_proto_report(spec)
    assert found.lost == ()
    changed = {entry.argument: (entry.old, entry.new) for entry in found.changed}
    assert changed["combiner"] == ("combiner mean", "each batch's")
    assert changed["experimental_gradient_multiplier_fn"] == ("halved", "the program's")
    assert "tag" in changed["learning_rate_fn"][1]
    arguments = {entry.argument for entry in found.exact}
    assert "StochasticGradientDescent.clip_weight_min" in arguments
    changed = {e.argument: e.new for e in config_proto_report(spec, ModeKeys.EVAL).changed}
    assert changed["optimizer"] == "SGD of rate 1"
    with pytest.raises(ValueError, match="only supports TRAINING and INFERENCE"):
        config_proto_report(spec, "serving")


def spec_of(table=None, **arguments):
    """Returns a spec of one table."""
    return estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": FeatureConfig("words")},
        table_to_config_dict={"words": table or TableConfig(10, 4)},
        **{
            "optimization_parameters": estimator_spec.StochasticGradientDescentParameters(0.1),
            **arguments,
        },
    )


@pytest.mark.parametrize(
    ("mode", "training"),
    [
        *[(mode, True) for mode in ("train", Mode.TRAIN, "training", Configuration.TRAINING)],
        *[(mode, False) for mode in (ModeKeys.EVAL, ModeKeys.PREDICT, "inference", Mode.SERVE)],
        (Configuration.INFERENCE, False),
    ],
)
def test_a_mode_may_be_spelled_in_several_ways(mode, training):
    """Modes of estimators and placements, strings and the proto's values are accepted."""
    proto = to_config_proto(spec_of(), 8, mode)
    assert proto.mode == (Configuration.TRAINING if training else Configuration.INFERENCE)


def test_tags_follow_the_order_of_tables():
    """Dynamic rates are numbered by the sorted tables, whatever the dictionary's order."""
    decayed, halved = proto_family.decayed, proto_family.halved
    rates = {"c": decayed, "b": halved, "a": decayed, "d": None}
    for names in ("abcd", "dcba", "bdac"):
        spec = estimator_spec.EmbeddingConfigSpec(
            feature_to_config_dict={f"f_{name}": FeatureConfig(name) for name in names},
            table_to_config_dict={
                name: TableConfig(10, 4, learning_rate_fn=rates[name]) for name in names
            },
            optimization_parameters=estimator_spec.AdagradParameters(0.1),
        )
        tables = to_config_proto(spec, 8).table_descriptor
        assert [table.name for table in tables] == ["a", "b", "c", "d"]
        found = [table.optimization_parameters.learning_rate for table in tables]
        assert [rate.dynamic.tag for rate in found[:3]] == [0, 1, 0]
        assert found[3].constant == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 9}, "not a multiple of number of cores"),
        ({"batch_size": 0}, "batch_size must be a positive int"),
        ({"num_hosts": 3}, "should divide num_cores"),
        ({"mode": "serving"}, "only supports TRAINING and INFERENCE"),
        ({"mode": True}, "only supports TRAINING and INFERENCE"),
    ],
)
def test_impossible_runs_are_refused(arguments, words):
    """Indivisible sizes and unknown modes are refused by name."""
    with pytest.raises(ValueError, match=words):
        to_config_proto(spec_of(), **{"batch_size": 8, **arguments})


def test_a_table_without_optimizer_or_rate_is_refused():
    """Training needs an optimizer and a rate for each table; the message names the table."""
    with pytest.raises(ValueError, match="`optimization_parameters` is missing.*words"):
        to_config_proto(spec_of(optimization_parameters=None), 8)
    no_rate = estimator_spec.AdagradParameters(None)
    with pytest.raises(ValueError, match="Table words has neither a learning_rate nor"):
        to_config_proto(spec_of(optimization_parameters=no_rate), 8)
