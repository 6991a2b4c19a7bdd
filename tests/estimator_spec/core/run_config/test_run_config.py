# SPDX-License-Identifier: Apache-2.0
"""Run configurations: defaults, rules, copies, strategies, TPU systems."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import types

import pytest
import tensorflow as tf
from estimator_spec.run_config import (
    RunConfig,
    TaskType,
    TPUConfig,
    TPURunConfig,
    get_default_session_config,
)
from hypothesis import given
from hypothesis import strategies as st

import estimator_spec as es

tf1 = tf.compat.v1

pytestmark = pytest.mark.usefixtures("no_tf_config")

CLUSTER = {
    "chief": ["host0:1"],
    "ps": ["host1:1", "host2:1"],
    "worker": ["host3:1", "host4:1", "host5:1"],
}
BAD_VALUES = [
    ({"model_dir": ""}, "model_dir should be non-empty"),
    ({"save_summary_steps": -1}, "save_summary_steps should be >= 0"),
    ({"save_checkpoints_steps": -1}, "save_checkpoints_steps should be >= 0"),
    ({"save_checkpoints_secs": -1}, "save_checkpoints_secs should be >= 0"),
    ({"session_config": {}}, "session_config must be instance of ConfigProto"),
    ({"keep_checkpoint_max": -1}, "keep_checkpoint_max should be >= 0"),
    ({"keep_checkpoint_every_n_hours": 0}, "keep_checkpoint_every_n_hours should be > 0"),
    ({"log_step_count_steps": 0}, "log_step_count_steps should be > 0"),
    ({"tf_random_seed": 1.0}, "tf_random_seed must be integer."),
    ({"experimental_max_worker_delay_secs": 1.5}, "delay_secs must be an integer if set."),
    ({"session_creation_timeout_secs": 0}, "session_creation_timeout_secs should be > 0"),
    ({"device_fn": lambda x: x}, 'device_fn must be callable with exactly one argument "op".'),
    ({"device_fn": "/cpu:0"}, 'device_fn must be callable with exactly one argument "op".'),
    ({"device_fn": lambda op, x: op}, 'must be callable with exactly one argument "op".'),
    ({"protocol": "http"}, "protocol should be grpc or grpc"),
    (
        {"save_checkpoints_steps": 1, "save_checkpoints_secs": 1},
        "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.",
    ),
]


class TestValues:
    def test_defaults(self):
        """Defaults: a checkpoint every 600 seconds, five kept, no cluster, chief."""
        config = RunConfig()
        assert config.model_dir is None
        assert config.tf_random_seed is None
        assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (None, 600)
        assert (config.save_summary_steps, config.log_step_count_steps) == (100, 100)
        assert (config.keep_checkpoint_max, config.keep_checkpoint_every_n_hours) == (5, 10000)
        assert config.session_creation_timeout_secs == 7200
        assert config.checkpoint_save_graph_def is True
        assert config.session_config is None
        assert (config.task_type, config.task_id, config.is_chief) == (TaskType.WORKER, 0, True)
        assert (config.master, config.evaluation_master) == ("", "")
        assert (config.num_ps_replicas, config.num_worker_replicas) == (0, 1)
        assert not config.cluster_spec

    @pytest.mark.parametrize(
        "given_values, expected",
        [
            ({"save_checkpoints_steps": 5}, (5, None)),
            ({"save_checkpoints_secs": 5}, (None, 5)),
            ({"save_checkpoints_steps": None}, (None, None)),
            ({"save_checkpoints_secs": None}, (None, None)),
            ({"save_checkpoints_steps": None, "save_checkpoints_secs": None}, (None, None)),
            ({"save_checkpoints_steps": 5, "save_checkpoints_secs": None}, (5, None)),
            ({"save_checkpoints_steps": 0}, (0, None)),
        ],
    )
    def test_checkpoint_intervals(self, given_values, expected):
        """One interval sets the other to None; None for both writes no checkpoint."""
        config = RunConfig(**given_values)
        assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == expected

    @pytest.mark.parametrize("values, message", BAD_VALUES)
    def test_bad_values_are_refused(self, values, message):
        """The constructor and `replace` refuse invalid values with the property's message."""
        with pytest.raises(ValueError, match=message):
            RunConfig(**values)
        with pytest.raises(ValueError, match=message):
            RunConfig().replace(**values)

    def test_a_value_of_another_type_names_the_argument(self):
        """A number given as text is a TypeError that names the argument and the value."""
        with pytest.raises(TypeError, match=r"save_summary_steps should be >= 0.*'100'.*str"):
            RunConfig(save_summary_steps="100")

    def test_none_switches_off(self):
        """None is accepted for every interval and limit."""
        config = RunConfig(
            save_summary_steps=None, keep_checkpoint_max=None, log_step_count_steps=None
        )
        assert config.log_step_count_steps is None

    def test_a_path_object_is_a_model_dir(self, tmp_path):
        """`model_dir` may be a path object, and becomes a string."""
        assert RunConfig(model_dir=tmp_path).model_dir == str(tmp_path)
        assert RunConfig().replace(model_dir=tmp_path).model_dir == str(tmp_path)

    def test_device_fn_is_kept(self):
        """A function of one argument `op` is accepted and returned."""

        def device(op):
            return "/cpu:0"

        assert RunConfig(device_fn=device).device_fn is device

    def test_arguments_are_positional(self):
        """The arguments can be given by position."""
        config = RunConfig("/m", 7, 10, 20)
        assert (config.model_dir, config.tf_random_seed) == ("/m", 7)
        assert (config.save_summary_steps, config.save_checkpoints_steps) == (10, 20)

    def test_default_session(self):
        """The default session has soft placement and one pass of the graph optimizers."""
        config = get_default_session_config()
        assert config.allow_soft_placement
        assert config.graph_options.rewrite_options.meta_optimizer_iterations == 1

    def test_repr_shows_the_values(self):
        """`repr` shows the values of the properties."""
        assert "model_dir='/m'" in repr(RunConfig(model_dir="/m"))
        assert repr(TPURunConfig()).startswith("RunConfig(")


class TestReplace:
    valid = st.fixed_dictionaries(
        {},
        optional={
            "model_dir": st.text("abc/", min_size=1),
            "tf_random_seed": st.none() | st.integers(),
            "save_summary_steps": st.none() | st.integers(0),
            "keep_checkpoint_max": st.none() | st.integers(0),
            "keep_checkpoint_every_n_hours": st.floats(0.1, 1e6),
            "log_step_count_steps": st.none() | st.integers(1),
            "protocol": st.sampled_from([None, "grpc", "grpc+verbs"]),
            "experimental_max_worker_delay_secs": st.none() | st.integers(),
            "session_creation_timeout_secs": st.integers(1),
            "checkpoint_save_graph_def": st.booleans(),
        },
    )

    @given(values=valid, steps=st.none() | st.integers(0))
    def test_replace_is_construction(self, values, steps):
        """`replace` on a default configuration equals construction with these values."""
        if steps is not None:
            values = {**values, "save_checkpoints_steps": steps}
        before = RunConfig()
        kept = dict(vars(before))
        assert repr(before.replace(**values)) == repr(RunConfig(**values))
        assert {k: v for k, v in vars(before).items() if k != "_cluster_spec"} == {
            k: v for k, v in kept.items() if k != "_cluster_spec"
        }

    def test_an_interval_replaces_the_other(self):
        """One checkpoint interval sets the other to None; None leaves it unchanged."""
        by_secs = RunConfig(save_checkpoints_secs=60)
        assert by_secs.replace(save_checkpoints_steps=5).save_checkpoints_secs is None
        assert by_secs.replace(save_checkpoints_steps=None).save_checkpoints_secs == 60
        by_steps = by_secs.replace(save_checkpoints_steps=5)
        assert by_steps.replace(save_checkpoints_secs=60).save_checkpoints_steps is None

    @pytest.mark.parametrize("name", ["master", "task_id", "cluster_spec", "nonsense"])
    def test_other_names_are_refused(self, name):
        """Properties of TF_CONFIG and unknown names can't be replaced."""
        with pytest.raises(ValueError, match=f"Replacing {name} is not supported"):
            RunConfig().replace(**{name: 1})

    def test_replace_keeps_the_class_and_the_place(self, monkeypatch):
        """A copy has the same class and the same cluster task."""
        task = {"type": "worker", "index": 1}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": task}))
        config = TPURunConfig(tpu_config=TPUConfig(7)).replace(model_dir="/m")
        assert isinstance(config, TPURunConfig)
        assert config.tpu_config.iterations_per_loop == 7
        assert (config.task_id, config.master) == (1, "grpc://host4:1")

    @pytest.mark.parametrize("make", [RunConfig, TPURunConfig])
    def test_copies(self, make):
        """Deep copies and pickles have equal values and their own session configuration.

        Estimators share one configuration and must not change it.
        """
        config = make(model_dir="/m", session_config=get_default_session_config())
        for other in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):
            assert repr(other) == repr(config)
            other.session_config.log_device_placement = True
            assert not config.session_config.log_device_placement


class TestStrategies:
    def test_experimental_distribute_fills_in(self):
        """The strategies of `experimental_distribute` become properties of the configuration."""
        train, evaluate = object(), object()
        given_both = types.SimpleNamespace(
            train_distribute=train, eval_distribute=evaluate, remote_cluster=None
        )
        config = RunConfig(experimental_distribute=given_both)
        assert config.train_distribute is train
        assert config.eval_distribute is evaluate
        assert config.is_chief

    @pytest.mark.parametrize("name", ["train_distribute", "eval_distribute"])
    def test_two_strategies_for_one_purpose_are_refused(self, name):
        """A strategy can't be given by both arguments."""
        both = {"train_distribute": None, "eval_distribute": None, name: object()}
        with pytest.raises(ValueError, match=f"Either `{name}` or"):
            RunConfig(
                experimental_distribute=types.SimpleNamespace(**both, remote_cluster=None),
                **{name: object()},
            )

    def test_a_remote_cluster_excludes_tf_config(self, monkeypatch):
        """`remote_cluster` and a cluster in TF_CONFIG exclude each other."""
        remote = tf.train.ClusterSpec(CLUSTER)
        distribute = types.SimpleNamespace(
            train_distribute=object(), eval_distribute=None, remote_cluster=remote
        )
        assert RunConfig(experimental_distribute=distribute).cluster_spec is remote
        task = {"type": "chief", "index": 0}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": CLUSTER, "task": task}))
        with pytest.raises(ValueError, match="Cannot set both"):
            RunConfig(experimental_distribute=distribute)

    def test_a_strategy_of_session_days_is_needed(self):
        """TF2's parameter server strategy is refused, because it has no sessions."""
        newer = tf.compat.v2.distribute.experimental.ParameterServerStrategy
        strategy = newer.__new__(newer)
        with pytest.raises(ValueError, match="for parameter server strategy with estimator"):
            RunConfig(train_distribute=strategy)


class Resolver:
    """A cluster resolver of a TPU."""

    def __init__(self, cluster=None):
        self._cluster = cluster

    def master(self):
        return "grpc://tpu:8470"

    def cluster_spec(self):
        return self._cluster and tf.train.ClusterSpec(self._cluster)


class TestTPURunConfig:
    def test_it_is_the_exported_run_config(self):
        """`estimator_spec.RunConfig` is `TPURunConfig`, a subclass of `RunConfig`."""
        assert es.RunConfig is TPURunConfig
        assert issubclass(TPURunConfig, RunConfig)

    def test_masters(self):
        """The evaluation master defaults to the training master; an empty one is kept."""
        assert TPURunConfig(master="a").evaluation_master == "a"
        config = TPURunConfig(master="a", evaluation_master="")
        assert (config.master, config.evaluation_master) == ("a", "")
        assert TPURunConfig().tpu_config == TPUConfig()

    def test_an_evaluator_keeps_its_master(self, monkeypatch):
        """An evaluator keeps the master that its cluster manager set."""
        tf_config = {"cluster": CLUSTER, "task": {"type": "evaluator", "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(tf_config))
        assert TPURunConfig(master="a").evaluation_master == ""

    def test_a_cluster_resolver(self):
        """A resolver sets the master, the cluster spec and the session's `cluster_def`."""
        config = TPURunConfig(cluster=Resolver({"worker": ["h:1"]}))
        assert (config.master, config.evaluation_master) == ("grpc://tpu:8470",) * 2
        assert config.cluster_spec.as_dict() == {"worker": ["h:1"]}
        assert config.session_config.isolate_session_state
        assert config.session_config.cluster_def.job[0].name == "worker"
        assert isinstance(config.cluster, Resolver)

    def test_a_session_config_is_not_changed(self):
        """The user's session configuration is copied and can be used again."""
        own = tf1.ConfigProto(log_device_placement=True)
        for _ in range(2):
            config = TPURunConfig(cluster=Resolver({"worker": ["h:1"]}), session_config=own)
            assert config.session_config.log_device_placement
            assert config.session_config.HasField("cluster_def")
        assert not own.HasField("cluster_def")

    def test_contradictions_are_refused(self):
        """Two sources of the master or of the jobs are refused."""
        with pytest.raises(ValueError, match="Both master and cluster are set"):
            TPURunConfig(master="a", cluster=Resolver())
        own = tf1.ConfigProto()
        own.cluster_def.job.add(name="worker")
        with pytest.raises(ValueError, match=r"ClusterResolver and session_config.cluster_def"):
            TPURunConfig(cluster=Resolver({"worker": ["h:1"]}), session_config=own)

    def test_without_a_tpu_there_is_no_resolver(self):
        """`cluster=None`, which programs pass without a TPU, gives no cluster."""
        assert TPURunConfig(cluster=None, master=None).master == ""

    def test_a_model_dir_in_first_place_is_refused(self):
        """A path as first argument is refused with a hint: it is the TPUConfig."""
        with pytest.raises(TypeError, match="tpu_config must be a TPUConfig.*Got '/tmp/m'"):
            TPURunConfig("/tmp/m")

    def test_replace_tpu_config(self):
        """`tpu_config` can be replaced alone and together with others."""
        config = TPURunConfig().replace(tpu_config=TPUConfig(9), model_dir="/m")
        assert (config.tpu_config.iterations_per_loop, config.model_dir) == (9, "/m")
        with pytest.raises(TypeError, match="tpu_config must be a TPUConfig"):
            config.replace(tpu_config=3)


def test_the_arguments_of_the_base_class_are_known_by_name():
    """`help(estimator_spec.RunConfig)` has that name and all arguments, and it can be pickled."""
    made = es.RunConfig
    assert (made.__name__, made.__qualname__) == ("RunConfig", "RunConfig")
    assert pickle.loads(pickle.dumps(made)) is made
    parameters = inspect.signature(made).parameters
    for name, parameter in inspect.signature(RunConfig).parameters.items():
        assert parameters[name].default == parameter.default, name
        assert parameters[name].annotation == parameter.annotation, name


@pytest.mark.reference
class TestAgainstTheOldClasses:
    def test_signatures(self, old_estimator, compare):
        """Names, order and defaults of all arguments equal TensorFlow 2.15's."""
        assert compare.parameters(RunConfig) == compare.parameters(old_estimator.RunConfig)
        *own, others = compare.parameters(old_estimator.tpu.RunConfig)
        assert others[0] == "kwargs"
        assert compare.parameters(TPURunConfig)[: len(own)] == own

    def test_properties(self, old_estimator):
        """Every public name of TensorFlow 2.15's classes exists, with the same default."""
        for ours, theirs in (
            (RunConfig(), old_estimator.RunConfig()),
            (TPURunConfig(), old_estimator.tpu.RunConfig()),
        ):
            for name in dir(theirs):
                if not name.startswith("_") and name != "replace":
                    old, new = getattr(theirs, name), getattr(ours, name)
                    assert old == new, name

    @pytest.mark.parametrize("values, message", BAD_VALUES)
    def test_bad_values(self, old_estimator, compare, values, message):
        """TensorFlow 2.15 refuses the same values with the same words."""
        compare.refuse_alike(RunConfig, old_estimator.RunConfig, message, **values)
        compare.refuse_alike(
            RunConfig().replace, old_estimator.RunConfig().replace, message, **values
        )
