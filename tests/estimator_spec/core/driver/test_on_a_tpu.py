# SPDX-License-Identifier: Apache-2.0
"""Tests `use_tpu=True`: runs on a fake TPU of CPUs, and graphs built for a real TPU."""

from __future__ import annotations

import collections
import functools
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
import fake_tpu
import host_runs
import test_device_loop as program
from estimator_spec.convert import tpu_engine
from estimator_spec.core._tensorflow import private
from estimator_spec.core.driver import systems

tf1 = tf.compat.v1
PIPELINES = es.InputPipelineConfig


def make(model_dir, model_fn=program.model_fn, tpu_config=None, spec=(), **kwargs):
    """Makes an estimator of test_device_loop's program for a TPU."""
    made = program.columns()
    config = {"iterations_per_loop": 3, **(tpu_config or {})}
    options = {
        "train_batch_size": program.BATCH,
        "eval_batch_size": program.BATCH,
        "predict_batch_size": program.BATCH,
        "embedding_config_spec": es.EmbeddingConfigSpec(
            made, es.AdagradParameters(0.3), **dict(spec)
        ),
        **kwargs,
    }
    return es.TPUEstimator(
        model_fn,
        config=es.RunConfig(
            model_dir=str(model_dir), tf_random_seed=1, tpu_config=es.TPUConfig(**config)
        ),
        params={"columns": made, "seen": [], "host_call": False},
        use_tpu=True,
        **options,
    )


def install_fake(monkeypatch, replicas=2, hosts=1):
    """Installs a fake TPU; returns its system."""
    system = fake_tpu.FakeSystem(replicas, hosts)
    monkeypatch.setattr(systems, "find", lambda config, master: system)
    monkeypatch.setattr(tpu_engine, "MidLevelEngine", fake_tpu.FakeEngine)
    return system


@pytest.fixture
def on_fake(monkeypatch):
    """Installs a fake TPU of two replicas on one host; call it for other numbers."""
    install_fake(monkeypatch)
    return functools.partial(install_fake, monkeypatch)


def few(params):
    """Returns two batches."""
    return program.input_fn({**params, "count": 2, "repeat": 1})


class TestTheLoop:
    """Runs of the TPU's loop on a fake TPU."""

    @pytest.fixture(scope="class")
    def on_host(self, tmp_path_factory):
        """Trains the same program on the host core by single steps, in two parts."""
        estimator = program.make(tmp_path_factory.mktemp("host"), None)
        estimator.train(program.input_fn, steps=4)
        estimator.train(program.input_fn, steps=1)
        return estimator

    @pytest.fixture(scope="class")
    def trained(self, on_host, tmp_path_factory):
        """Trains on fakes of one and two replicas to the host core's variables."""
        estimators = []
        for replicas in (1, 2):
            with pytest.MonkeyPatch.context() as monkeypatch:
                system = install_fake(monkeypatch, replicas)
                estimator = make(tmp_path_factory.mktemp("fake"))
                calls = program.Calls()
                estimator.train(program.input_fn, hooks=[calls], max_steps=4)
                estimator.train(program.input_fn, hooks=[calls], steps=1)
            assert calls.steps == [3, 4, 5]
            assert system.started == ["tables of the fake"] * 2
            host_runs.assert_same_values(estimator, on_host)
            estimators.append(estimator)
        return estimators[-1]

    def test_train_evaluate_predict(self, on_host, on_fake, trained):
        """Checkpoints, metrics and predictions equal the host core's, by name and to 1e-5."""
        estimator = trained
        found = estimator.evaluate(few, steps=2)
        assert found == pytest.approx(on_host.evaluate(few), rel=1e-5)
        wanted, found = ([p["p"] for p in e.predict(few)] for e in (on_host, estimator))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)

    def test_a_checkpoint_goes_to_the_host_and_comes_back(self, on_fake, tmp_path):
        """The host core and the TPU's core can continue each other's checkpoints."""
        on_tpu = make(tmp_path)
        batch = program.input_fn

        def same(params):
            return batch({**params, "count": 1})

        on_tpu.train(same, max_steps=2)
        program.make(tmp_path, None).train(same, max_steps=4)
        on_tpu.train(same, max_steps=5)
        whole = program.make(tmp_path / "whole", None)
        whole.train(same, max_steps=5)
        host_runs.assert_same_values(on_tpu, whole)

    def test_evaluation_on_the_cpu(self, on_host, on_fake, trained):
        """eval_on_tpu=False evaluates with ordinary variables, to the same metrics."""
        found = make(trained.model_dir, eval_on_tpu=False).evaluate(few)
        assert found == pytest.approx(on_host.evaluate(few), rel=1e-5)

    def test_what_the_program_sees(self, on_fake, tmp_path):
        """params of both functions have the batch size, `use_tpu` and the `context`."""
        seen = []

        def model_fn(features, labels, mode, params, config):
            context = params["context"]
            seen.append((mode, params["use_tpu"], params["batch_size"], context.num_replicas))
            return program.model_fn(features, labels, mode, params, config)

        def input_fn(params):
            seen.append(params["context"].current_input_fn_deployment()[1:])
            return few(params)

        estimator = make(tmp_path, model_fn, {"num_shards": 2})
        estimator.train(program.input_fn, steps=1)
        assert seen == [("train", True, 4, 2)] * 2
        seen.clear()
        assert len(list(estimator.predict(input_fn))) == 2 * program.BATCH
        assert seen == [(0, 1, 2), *[("infer", True, 4, 2)] * 2]

    def test_the_last_batch_of_a_prediction(self, on_fake, trained):
        """A partial last batch yields exactly the predictions of its examples."""

        def uneven(params):
            whole = program.input_fn({**params, "count": 2, "repeat": 1}).unbatch()
            return whole.take(11).batch(program.BATCH).map(lambda features, labels: features)

        whole = [p["p"] for p in trained.predict(few)]
        found = [p["p"] for p in trained.predict(uneven)]
        assert len(found) == 11
        np.testing.assert_allclose(found, whole[:11], rtol=1e-6)

    @pytest.mark.parametrize(
        "per_host, hosts, sizes",
        [
            (PIPELINES.PER_HOST_V1, 1, [8]),
            (PIPELINES.PER_HOST_V1, 2, [4, 4]),
            (PIPELINES.PER_HOST_V2, 1, [4]),
            (PIPELINES.PER_HOST_V2, 2, [4, 4]),
            (PIPELINES.PER_SHARD_V1, 1, [4, 4]),
            (PIPELINES.BROADCAST, 1, [8]),
        ],
    )
    def test_per_host_input(self, on_fake, tmp_path, per_host, hosts, sizes):
        """Each input configuration has its input_fn calls, batch sizes and batches per replica."""
        on_fake(2, hosts)
        asked = []

        def input_fn(params):
            call = params["context"].current_input_fn_deployment()[1]
            asked.append(params["batch_size"])
            numbers = tf.data.Dataset.range(100, output_type=tf.int64)
            numbers = numbers.map(lambda n: {"n": n + 1000 * call})
            return numbers.batch(params["batch_size"], drop_remainder=True)

        def model_fn(features, labels, mode, params):
            n = tf.cast(features["n"], tf.float32)
            first = tf1.get_variable("first", [], initializer=tf1.zeros_initializer())
            step = tf1.train.get_global_step()
            loss = tf.reduce_mean(n) + 0 * first
            got.append(loss)
            return es.TPUEstimatorSpec(
                mode,
                loss=loss,
                train_op=tf1.assign_add(step, 1),
                host_call=(lambda n: tf.print(n, summarize=-1, output_stream=out), [n]),
            )

        got, out = [], f"file://{tmp_path}/numbers"
        config = {"per_host_input_for_training": per_host, "iterations_per_loop": 2}
        estimator = make(tmp_path, model_fn, config, embedding_config_spec=None)
        estimator.train(input_fn, steps=2)
        assert asked == sizes
        lines = Path(f"{tmp_path}/numbers").read_text().replace("[", "").replace("]", "")
        batches = [[int(float(n)) for n in line.split()] for line in lines.splitlines()]
        first, second = list(range(4)), list(range(4, 8))
        wanted = {
            (PIPELINES.PER_HOST_V1, 1): [[*range(8)], [*range(8, 16)]],
            (PIPELINES.PER_HOST_V2, 1): [[*range(8)], [*range(8, 16)]],
            (PIPELINES.BROADCAST, 1): [[*range(8)] * 2, [*range(8, 16)] * 2],
        }.get(
            (per_host, hosts),
            [first + [n + 1000 for n in first], second + [n + 1000 for n in second]],
        )
        assert batches == wanted

    def test_batch_axis(self, on_fake, tmp_path):
        """Tensors are split along the dimensions of batch_axis."""

        def input_fn(params):
            x = tf.reshape(tf.range(24.0), [3, params["batch_size"]])
            return tf.data.Dataset.from_tensors((x, tf.range(8.0))).repeat()

        def model_fn(features, labels, mode, params):
            seen.append((features.shape.as_list(), labels.shape.as_list()))
            loss = tf.reduce_mean(features) + tf.reduce_mean(labels)
            train_op = tf1.assign_add(tf1.train.get_global_step(), 1)
            return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

        seen = []
        options = {"embedding_config_spec": None, "model_fn": model_fn}
        make(tmp_path, batch_axis=(1, 0), **options).train(input_fn, steps=1)
        assert seen == [([3, 4], [4])] * 2
        with pytest.raises(ValueError, match="batch_axis has 1 dimensions, but .* 2 tensors"):
            make(tmp_path / "b", batch_axis=(1,), **options).train(input_fn, steps=1)

    def test_sliced_evaluation(self, on_fake, tmp_path):
        """SLICED calls input_fn once with the global batch size and splits the batch."""
        on_fake(2, 2)
        config = {"eval_training_input_configuration": PIPELINES.SLICED}
        estimator = make(tmp_path, tpu_config=config)
        sizes = []

        def input_fn(params):
            sizes.append(params["batch_size"])
            return few(params)

        assert estimator.evaluate(input_fn, steps=2)["loss"] > 0
        assert sizes == [8]

    def test_host_calls_of_some_steps(self, on_fake, tmp_path):
        """experimental_host_call_every_n_steps runs the host call in every n-th step."""
        config = {"experimental_host_call_every_n_steps": 2, "iterations_per_loop": 5}
        estimator = make(tmp_path, tpu_config=config)
        estimator._params["host_call"] = True
        estimator.train(program.input_fn, steps=5)
        (path,) = (tmp_path / "host_call").iterdir()
        events = [e.step for e in tf1.train.summary_iterator(str(path)) if e.summary.value]
        assert len(events) == 3

    def test_metrics_need_a_tpu_spec(self, on_fake, tmp_path):
        """Evaluation of a model that returns an EstimatorSpec raises an error."""

        def model_fn(features, labels, mode, params, config):
            spec = program.model_fn(features, labels, mode, params, config)
            return es.EstimatorSpec(mode, loss=spec.loss)

        with pytest.raises(RuntimeError, match="must have type`TPUEstimatorSpec`"):
            make(tmp_path, model_fn).evaluate(few, steps=1)


class TestNumbers:
    """Checks of the configuration against the system, before a graph is built."""

    @pytest.mark.parametrize(
        "task, kwargs, message",
        [
            ("train", {"train_batch_size": 7}, "train batch size 7 must be divisible by number of"),
            ("evaluate", {"eval_batch_size": 7}, "eval batch size 7 must be divisible by number"),
            ("predict", {"predict_batch_size": 7}, "predict batch size 7 must be divisible by nu"),
            ("evaluate", {"eval_batch_size": None}, "eval_batch_size in TPUEstimator constructor"),
            ("predict", {"predict_batch_size": None}, "predict_batch_size in TPUEstimator const"),
            ("train", {"tpu_config": {"num_shards": 8}}, "num_shards is not set correctly"),
            (
                "train",
                {
                    "tpu_config": {
                        "num_cores_per_replica": 2,
                        "input_partition_dims": [{"number": [2, 1]}, None],
                        "per_host_input_for_training": PIPELINES.PER_HOST_V2,
                    }
                },
                "input_partition_dims isn't supported",
            ),
        ],
    )
    def test_refused(self, on_fake, tmp_path, task, kwargs, message):
        """Missing or indivisible batch sizes and a wrong num_shards raise an error."""
        estimator = make(tmp_path, **kwargs)
        options = {"steps": 1} if task != "predict" else {}
        with pytest.raises(ValueError, match=message):
            list(getattr(estimator, task)(lambda params: 1 / 0, **options) or ())

    @pytest.mark.parametrize("task", ["evaluate", "predict"])
    def test_several_hosts(self, on_fake, tmp_path, task):
        """Input configurations without support for several hosts raise tf.estimator's error."""
        on_fake(2, 2)
        with pytest.raises(ValueError, match=f"{task} is only supported under three conditions"):
            list(getattr(make(tmp_path), task)(few))

    def test_context_knows(self, on_fake, tmp_path):
        """The context has the number of replicas and hosts, for subclasses."""
        on_fake(4, 2)
        with make(tmp_path)._ctx.with_mode("train") as ctx:
            assert (ctx.num_replicas, ctx.num_hosts, ctx.is_running_on_cpu()) == (4, 2, False)
            assert (ctx.batch_size_for_input_fn, ctx.batch_size_for_model_fn) == (4, 2)


class Resolver(tf.distribute.cluster_resolver.TPUClusterResolver):
    """The resolver of a TPU that doesn't exist, for which graphs can be built."""

    def __init__(self, cores):
        self._tpu = "nowhere"
        self._cores = cores
        self.topology = None

    def get_tpu_system_metadata(self):
        device = collections.namedtuple("device", "name device_type")
        cpus = [name.replace("TPU:0", "CPU:0") for name in self._cores if "TPU:0" in name]
        return tf.tpu.experimental.TPUSystemMetadata(
            num_cores=len(self._cores),
            num_hosts=len(cpus),
            num_of_cores_per_host=len(self._cores) // len(cpus),
            topology=None,
            devices=[device(name, name.split(":")[-2]) for name in [*cpus, *self._cores]],
        )

    def cluster_spec(self):
        return tf.train.ClusterSpec({"worker": ["10.0.0.1:8470", "10.0.0.2:8470"]})

    def master(self, *args, **kwargs):
        return "grpc://10.0.0.1:8470"

    def get_job_name(self):
        return "worker"

    def set_tpu_topology(self, topology):
        self.topology = topology


def cores(hosts, each):
    """Returns device names of cores."""
    return [
        f"/job:worker/replica:0/task:{host}/device:TPU:{core}"
        for host in range(hosts)
        for core in range(each)
    ]


def built_for_tpu(monkeypatch, tmp_path, mode, hosts=1, **kwargs):
    """Builds the graph of a mode for TensorFlow's TPUStrategy and TPUEmbedding."""
    names = cores(hosts, 2)
    system = systems.TpuSystem(Resolver(names), "grpc://10.0.0.1:8470", names)
    monkeypatch.setattr(systems, "find", lambda config, master: system)
    estimator = make(tmp_path, **kwargs)
    with tf.Graph().as_default() as graph:
        built = estimator._build(graph, program.input_fn, mode)
        if mode == "train":
            assert built.loop
        saved = {
            v.op.name if v._save_slice_info is None else v._save_slice_info.full_name
            for v in tf1.global_variables()
        }
        definition = graph.as_graph_def()
    nodes = [*definition.node, *(n for f in definition.library.function for n in f.node_def)]
    return estimator, built, nodes, saved


class TestGraphsForATpu:
    """Graphs built with TensorFlow's own TPUStrategy and TPUEmbedding, not run."""

    @pytest.mark.parametrize("hosts", [1, 2])
    def test_training(self, monkeypatch, tmp_path, hosts):
        """The training graph has one traced loop that feeds each core and sends the gradients."""
        _, built, nodes, saved = built_for_tpu(
            monkeypatch,
            tmp_path,
            "train",
            hosts,
            tpu_config={"per_host_input_for_training": PIPELINES.PER_HOST_V2},
        )
        count = collections.Counter(node.op for node in nodes)
        assert count["While"] + count["StatelessWhile"] == 1
        assert count["TPUReplicateMetadata"] == 1
        assert count["RecvTPUEmbeddingActivations"] == count["SendTPUEmbeddingGradients"] == 1
        enqueues = [node for node in nodes if node.op.startswith("EnqueueTPUEmbedding")]
        assert sorted(node.attr["device_ordinal"].i for node in enqueues) == sorted([0, 1] * hosts)
        assert len({node.device for node in enqueues}) == hosts
        assert len({tuple(node.input) for node in enqueues}) == 2 * hosts
        tables = [
            v for v in saved if v.endswith(("embedding_weights", "embedding_weights/Adagrad"))
        ]
        host = program.make(tmp_path / "host", None)
        host.train(program.input_fn, steps=1)
        assert saved == set(host.get_variable_names())
        assert len(tables) >= 6
        assert count["LoadTPUEmbeddingAdagradParameters"] == 3 * hosts
        assert count["RetrieveTPUEmbeddingAdagradParameters"] == 3 * hosts
        assert built.config.master == "grpc://10.0.0.1:8470"
        assert built.config.session_config.isolate_session_state
        assert built.config.session_config.cluster_def.job[0].name == "worker"

    @pytest.mark.parametrize("mode", ["eval", "infer"])
    def test_evaluation_and_prediction(self, monkeypatch, tmp_path, mode):
        """Batches are enqueued for inference, and checkpoints have no slot variables."""
        _, _, nodes, saved = built_for_tpu(monkeypatch, tmp_path, mode)
        count = collections.Counter(node.op for node in nodes)
        assert count["RecvTPUEmbeddingActivations"] == 1
        assert not count["SendTPUEmbeddingGradients"]
        assert not count["While"]
        strings = {
            node.attr["value"].tensor.string_val[0]
            for node in nodes
            if node.op == "Const" and node.attr["value"].tensor.string_val
        }
        assert b"inference" in strings
        assert b"train" not in strings
        assert not [name for name in saved if "Adagrad" in name]
        assert {"global_step", "kernel"} < saved

    def test_starting_and_stopping(self, monkeypatch, tmp_path):
        """System and embedding core are configured before a run and shut down after it."""
        _, built, _, _ = built_for_tpu(monkeypatch, tmp_path, "train")
        ran = []

        def run(system, build):
            with tf.Graph().as_default() as graph:
                build()
                ran.append({op.type: op for op in graph.get_operations()})
            return b"topology"

        monkeypatch.setattr(systems.TpuSystem, "_run", run)
        with pytest.raises(ZeroDivisionError), built.running():
            assert len(ran) == 1
            raise ZeroDivisionError
        start, stop = ran
        assert {"ConfigureDistributedTPU", "ConfigureTPUEmbedding"} < set(start)
        assert "ShutdownDistributedTPU" in stop
        config = start["ConfigureTPUEmbedding"].get_attr("config")
        assert b"tbl_user" in config

    def test_learning_rates_of_tables(self, monkeypatch, tmp_path):
        """The value of a learning_rate_fn is sent along with the gradients."""
        spec = es.EmbeddingConfigSpec(
            feature_to_config_dict={"user": es.FeatureConfig("users")},
            table_to_config_dict={
                "users": es.TableConfig(
                    program.ROWS,
                    3,
                    learning_rate_fn=lambda step: 0.1 / tf.cast(step + 1, tf.float32),
                )
            },
            optimization_parameters=es.AdamParameters(0.1),
            pipeline_execution_with_tensor_core=True,
            experimental_gradient_multiplier_fn=lambda step: tf.cast(step, tf.float32),
        )

        def model_fn(features, labels, mode, params):
            kernel = tf1.get_variable("kernel", [3, 1])
            loss = tf.reduce_mean((tf.matmul(features["user"], kernel) - labels) ** 2)
            step = tf1.train.get_global_step()
            train_op = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
            return es.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)

        whole = program.input_fn

        def input_fn(params):
            return whole(params).map(lambda features, labels: ({"user": features["user"]}, labels))

        monkeypatch.setattr(program, "input_fn", input_fn)
        _, _, nodes, saved = built_for_tpu(
            monkeypatch, tmp_path, "train", model_fn=model_fn, embedding_config_spec=spec
        )
        (send,) = [node for node in nodes if node.op == "SendTPUEmbeddingGradients"]
        assert send.attr["NN"].i == 1
        messages = private.tpu_embedding_configuration_pb2
        config = messages.TPUEmbeddingConfiguration.FromString(send.attr["config"].s)
        assert config.pipeline_execution_with_tensor_core
        assert config.num_tensor_cores == 2
        assert [f.input_shape[0] for f in config.feature_descriptor] == [program.BATCH // 2]
        assert saved == {"global_step", "kernel", "users", "users/Adam/m", "users/Adam/v"}

    def test_what_the_mid_level_api_lacks(self, monkeypatch, tmp_path):
        """An optimizer that the mid-level API lacks raises an error that names it."""
        made = program.columns()
        spec = es.EmbeddingConfigSpec(made, es.MomentumParameters(0.1, 0.9))
        with pytest.raises(ValueError, match="Momentum"):
            built_for_tpu(monkeypatch, tmp_path, "train", embedding_config_spec=spec)


class TestFinding:
    """The search for a TPU system."""

    def found(self, monkeypatch, config, devices, master=None):
        """Finds a system whose session master answers with `devices`."""
        asked = []

        def answer(master, resolver):
            asked.append((master, type(resolver).__name__))
            return devices

        monkeypatch.setattr(systems, "_devices", answer)
        return systems.find(config, config.master if master is None else master), asked

    def test_nowhere(self, monkeypatch):
        """Without an address, environment variable or local device, no TPU is found."""
        for name in systems._ENVIRONMENT:
            monkeypatch.delenv(name, raising=False)
        assert self.found(monkeypatch, es.RunConfig(), []) == (None, [])

    def test_an_address(self, monkeypatch):
        """An address gives the system of the devices of its session master."""
        config = es.RunConfig(master="grpc://10.0.0.1:8470")
        names = ["/job:worker/replica:0/task:0/device:CPU:0", *cores(2, 4)]
        system, asked = self.found(monkeypatch, config, names)
        assert asked == [("grpc://10.0.0.1:8470", "TPUClusterResolver")]
        assert (system.num_replicas, system.num_hosts, system.cores_per_host) == (8, 2, 4)
        assert system.host_device(1) == "/job:worker/replica:0/task:1/device:CPU:0"

    def test_the_environment(self, monkeypatch):
        """TPU_NAME gives the address, as TPUClusterResolver reads it."""
        monkeypatch.setenv("TPU_NAME", "grpc://10.9.9.9:8470")
        system, asked = self.found(monkeypatch, es.RunConfig(), cores(1, 8))
        assert asked == [("grpc://10.9.9.9:8470", "TPUClusterResolver")]
        assert system.num_replicas == 8

    def test_a_resolver(self, monkeypatch):
        """RunConfig(cluster=…) is used as the resolver."""
        config = es.RunConfig(cluster=Resolver(cores(1, 2)))
        system, asked = self.found(monkeypatch, config, cores(1, 2))
        assert asked == [("grpc://10.0.0.1:8470", "Resolver")]
        assert system.num_replicas == 2

    def test_a_master_without_cores(self, monkeypatch, tmp_path, line):
        """A session master without TPU cores raises an error."""
        monkeypatch.setattr(systems, "_devices", lambda *args: ["/job:worker/device:CPU:0"])
        config = es.RunConfig(master="grpc://10.0.0.1:8470", model_dir=str(tmp_path))
        estimator = es.TPUEstimator(line.model_fn, config=config, train_batch_size=8)
        with pytest.raises(RuntimeError, match="Cannot find any TPU cores in the system.*use_tpu"):
            estimator.train(line.input_fn, steps=1)

    def test_nobody_answers(self, monkeypatch):
        """A session master that doesn't answer raises an error that names the address."""
        monkeypatch.setattr(systems, "_MASTER_TIMEOUT_MS", 100)
        with pytest.raises(RuntimeError, match=r"Cannot find any TPU cores .*127\.0\.0\.1:1' "):
            systems.find(es.RunConfig(master="grpc://127.0.0.1:1"), "grpc://127.0.0.1:1")

    def test_model_parallelism(self):
        """num_replicas is the number of cores divided by the cores per replica."""
        system = systems.TpuSystem(None, "", cores(1, 8), 2)
        assert system.num_replicas == 4
        with pytest.raises(ValueError, match="num_cores_per_replica is 16, but"):
            _ = systems.TpuSystem(None, "", cores(1, 8), 16).num_replicas
