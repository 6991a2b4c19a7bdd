# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.distribute.estimator_training` is back, on our configuration and driver."""

from __future__ import annotations

import json
import types

import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.legacy import training_parts

CLUSTER = {"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}}
WORKER = {**CLUSTER, "task": {"type": "worker", "index": 1}}


@pytest.fixture
def module():
    """Returns the module as an old program imports it."""
    with estimator_spec.install(replace=True):
        from tensorflow.python.distribute import estimator_training

        yield estimator_training


class ConfigOfProgram:
    """Copy of the old RunConfig, as far as the functions read it."""

    def __init__(self, train_distribute=None, remote_cluster=None):
        self._train_distribute = train_distribute
        self._eval_distribute = None
        self._experimental_distribute = types.SimpleNamespace(
            train_distribute=None, eval_distribute="evaluating", remote_cluster=remote_cluster
        )
        self.cluster_spec = self._cluster_spec = None
        self.tasks = []

    def _init_distributed_setting_from_environment_var(self, tf_config):
        self.tasks.append(tf_config)

    def _maybe_overwrite_session_config_for_distributed_training(self):
        self.cluster_spec = self._cluster_spec


@pytest.mark.parametrize(
    ("arguments", "tf_config", "mode", "task"),
    [
        ({}, WORKER, None, WORKER),
        ({"train_distribute": "training"}, {}, None, {}),
        ({"train_distribute": "training"}, WORKER, "independent_worker", {}),
        ({"train_distribute": "training", "remote_cluster": "far"}, {}, "standalone_client", {}),
    ],
)
def test_configurations_of_programs(module, arguments, tf_config, mode, task):
    """A program's own RunConfig gets its mode and its task as by TensorFlow 2.15."""
    config = ConfigOfProgram(**arguments)
    module.init_run_config(config, tf_config)
    assert config._distribute_coordinator_mode == mode
    assert config._eval_distribute == "evaluating"
    assert config.tasks == [task]
    config.cluster_spec = config._cluster_spec
    assert module.should_run_distribute_coordinator(config) == (mode is not None)


def test_our_configuration(module, monkeypatch):
    """A RunConfig is initialized the same way again, and lacks the mode without a strategy."""
    monkeypatch.setenv(
        "TF_CONFIG",
        json.dumps(
            {
                "cluster": {"chief": ["a:1"], "worker": ["b:1"]},
                "task": {"type": "worker", "index": 0},
            }
        ),
    )
    config = estimator_spec.RunConfig()
    assert not module.should_run_distribute_coordinator(config)
    module.init_run_config(config, {})
    assert (config.task_type, config.num_worker_replicas) == ("worker", 1)
    assert not module.should_run_distribute_coordinator(types.SimpleNamespace())
    with pytest.raises(ValueError, match="estimator_spec.train_and_evaluate"):
        module.train_and_evaluate(types.SimpleNamespace(config=config), None, None, None)


def test_index_in_the_cluster(module):
    """Tasks are counted from the chief on, parameter servers last."""
    cluster = tf.train.ClusterSpec(CLUSTER["cluster"])
    indices = [
        module._get_global_id(cluster, job, index, module.CHIEF)
        for job, index in ((None, 3), (module.WORKER, 1), (module.PS, 0))
    ]
    assert indices == [0, 1, 2]
    with pytest.raises(RuntimeError, match="evaluator"):
        module._get_global_id(cluster, module.EVALUATOR, 0, module.CHIEF)


def test_what_cannot_run(module):
    """A remote cluster, and another class than the restored executor, are refused by name."""
    executor = training_parts.TrainingExecutor

    def estimator(mode):
        return types.SimpleNamespace(
            config=types.SimpleNamespace(_distribute_coordinator_mode=mode)
        )

    for function in (module.estimator_train, module.estimator_evaluate):
        with pytest.raises(ValueError, match="STANDALONE_CLIENT"):
            function(estimator("independent_worker"), None, [])
        with pytest.raises(NotImplementedError, match="remote_cluster"):
            function(estimator("standalone_client"), None, [])
    with pytest.raises(NotImplementedError, match="remote_cluster"):
        module.train_and_evaluate(estimator("standalone_client"), None, None, executor)
    with pytest.raises(NotImplementedError, match="executor_cls is .*Other"):
        module.train_and_evaluate(
            estimator("independent_worker"), None, None, type("Other", (), {})
        )
    with pytest.raises(TypeError, match="must have type `tf.estimator.EvalSpec`"):
        module.train_and_evaluate(estimator("independent_worker"), None, None, executor)


def test_migrated_programs_have_it(module):
    """`restored` has the functions, too; other names of the module can be imported only."""
    full = "tensorflow.python.distribute.estimator_training"
    assert estimator_spec.restored(f"{full}.init_run_config") is module.init_run_config
    with pytest.raises(AttributeError, match="train_distribute"):
        module._init_run_config_from_worker_context(None, None)
