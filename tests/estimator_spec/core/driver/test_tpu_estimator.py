# SPDX-License-Identifier: Apache-2.0
"""Tests the constructor checks, params, subclasses and devices of `TPUEstimator`."""

from __future__ import annotations

import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec import InputPipelineConfig, RunConfig, TPUConfig
from tpu_columns import embedding_column, environment, sequence_input_layer

tf1 = tf.compat.v1


def model_fn(features, labels, mode, params):
    """A `model_fn` whose signature is checked, but which is never called."""
    raise AssertionError("not called")


def make_on_tpu(tpu_config=None, **kwargs):
    """Makes a TPUEstimator with use_tpu=True."""
    options = {"train_batch_size": 8, **kwargs}
    return es.TPUEstimator(
        model_fn, "/tmp/never", RunConfig(tpu_config=tpu_config or TPUConfig()), **options
    )


def embeddings(partition_strategy="div"):
    """Returns a specification of one table."""
    return es.EmbeddingConfigSpec(
        feature_to_config_dict={"word": es.FeatureConfig("words")},
        table_to_config_dict={"words": es.TableConfig(10, 2)},
        partition_strategy=partition_strategy,
    )


def test_model_parallelism_needs_per_host_input():
    """PER_SHARD_V1 with several cores per replica raises an error."""
    config = TPUConfig(
        num_cores_per_replica=2, per_host_input_for_training=InputPipelineConfig.PER_SHARD_V1
    )
    with pytest.raises(ValueError, match="Model parallelism only supports per host input"):
        make_on_tpu(config)


@pytest.mark.parametrize(
    "deployment", [InputPipelineConfig.PER_SHARD_V1, InputPipelineConfig.BROADCAST]
)
def test_embeddings_need_per_host_input(deployment):
    """An embedding specification requires input per host."""
    config = TPUConfig(per_host_input_for_training=deployment)
    with pytest.raises(ValueError, match="Only PER_HOST_V1 and PER_HOST_V2 is supported"):
        make_on_tpu(config, embedding_config_spec=embeddings())


@pytest.mark.parametrize("places", [{"use_tpu": False}, {"eval_on_tpu": False}])
def test_mod_needs_no_tpu(places):
    """partition_strategy='mod' works on a CPU, where tf.estimator raises an error."""
    make_on_tpu(embedding_config_spec=embeddings("mod"), **places)


def test_one_shard_with_embeddings():
    """num_shards=1 with an embedding specification raises an error."""
    with pytest.raises(ValueError, match="Setting TPUConfig.num_shards==1 is unsupported"):
        make_on_tpu(TPUConfig(num_shards=1), embedding_config_spec=embeddings())


@pytest.mark.parametrize("version", [1, 2, *es.ExportSavedModelApiVersion])
def test_api_version(version):
    """API versions can be given as numbers or as enum members."""
    make_on_tpu(export_saved_model_api_version=version)


@pytest.mark.parametrize("task", ["train", "evaluate", "predict"])
def test_no_tpu(task, line):
    """use_tpu=True without a TPU raises an error before a graph is built, with the alternatives."""
    estimator = make_on_tpu()
    options = {"steps": 1} if task != "predict" else {}
    with pytest.raises(RuntimeError, match="Cannot find any TPU cores in the system.*use_tpu=Fal"):
        list(getattr(estimator, task)(lambda params: 1 / 0, **options))


def test_eval_on_cpu(make, line):
    """eval_on_tpu=False evaluates on the CPU, even with use_tpu=True."""
    estimator = make(use_tpu=True, eval_on_tpu=False)
    assert estimator.evaluate(line.input_fn)["loss"] > 0
    with pytest.raises(RuntimeError, match="Cannot find any TPU cores"):
        estimator.train(line.input_fn, steps=1)


def test_sliced_input(make, line):
    """SLICED input without use_tpu raises an error."""
    config = TPUConfig(eval_training_input_configuration=InputPipelineConfig.SLICED)
    config = TPUConfig(
        eval_training_input_configuration=InputPipelineConfig.SLICED,
        per_host_input_for_training=InputPipelineConfig.PER_HOST_V2,
    )
    estimator = make(config={"tpu_config": config})
    estimator.train(line.input_fn, steps=1)
    with pytest.raises(ValueError, match="SLICED mode only works on use_tpu = True"):
        estimator.evaluate(line.input_fn)


def test_model_fn_takes_params(make, line):
    """A model_fn without params raises an error."""

    def no_params(features, labels, mode):
        raise AssertionError("not reached")

    with pytest.raises(ValueError, match="does not include params argument"):
        make(no_params).train(line.input_fn, steps=1)


def test_params_of_each_mode(make, line):
    """params, a copy, have the mode's batch size, and in model_fn use_tpu."""
    seen = []

    def input_fn(params, mode):
        seen.append(("input", mode, dict(params)))
        params["batch_size"] = 1
        return line.input_fn(mode, {"batch_size": 8})

    def own(features, labels, mode, params):
        seen.append(("model", mode, dict(params)))
        params["mine"] = "changed"
        return line.model_fn(features, labels, mode, {})

    estimator = make(
        own, params={"mine": 1}, train_batch_size=2, eval_batch_size=3, predict_batch_size=None
    )
    estimator.train(input_fn, steps=1)
    estimator.evaluate(input_fn)
    next(estimator.predict(input_fn))
    receiver = es.build_raw_serving_input_receiver_fn({"x": tf.zeros([1, 1])})
    estimator.export_saved_model(estimator.model_dir + "-export", receiver)
    assert seen == [
        ("input", "train", {"mine": 1, "batch_size": 2}),
        ("model", "train", {"mine": 1, "batch_size": 2, "use_tpu": False}),
        ("input", "eval", {"mine": 1, "batch_size": 3}),
        ("model", "eval", {"mine": 1, "batch_size": 3, "use_tpu": False}),
        ("input", "infer", {"mine": 1}),
        ("model", "infer", {"mine": 1, "use_tpu": False}),
        ("model", "infer", {"mine": 1, "use_tpu": False}),
    ]
    assert estimator.params == {"mine": 1}


class HParams:
    """Hyperparameters with the interface of TF1's HParams class."""

    def __init__(self, **values):
        self.values = values

    def __contains__(self, key):
        return key in self.values

    def add_hparam(self, key, value):
        assert key not in self.values
        self.values[key] = value

    def set_hparam(self, key, value):
        assert key in self.values
        self.values[key] = value

    def get(self, key, default=None):
        return self.values.get(key, default)


def test_hparams(make, line):
    """params may be an HParams object; entries are added or set by its methods."""
    seen = []

    def own(features, labels, mode, params):
        seen.append(params.values)
        return line.model_fn(features, labels, mode, params)

    estimator = make(own, params=HParams(use_tpu="mine", rate=1))
    estimator.train(line.input_fn, steps=1)
    assert seen == [{"use_tpu": False, "rate": 1, "batch_size": 8}]
    with pytest.raises(ValueError, match="are reserved keys"):
        make(own, params=HParams(batch_size=1))


def test_subclasses_override_what_they_like(make, line):
    """Overrides of protected and public methods are called, and can use _ctx."""
    answers = []

    class Mine(es.TPUEstimator):
        def _call_model_fn(self, features, labels, mode, config):
            with self._ctx.with_mode(mode) as ctx:
                answers.append((ctx.mode, ctx.is_running_on_cpu(), ctx.batch_size_for_model_fn))
            return super()._call_model_fn(features, labels, mode, config)

        def _call_input_fn(self, input_fn, mode, input_context=None):
            return super()._call_input_fn(input_fn, mode)

        def _convert_train_steps_to_hooks(self, steps, max_steps):
            with self._ctx.with_mode("train") as ctx:
                if ctx.is_running_on_cpu():
                    return super()._convert_train_steps_to_hooks(steps, max_steps)
            raise AssertionError("not on a TPU")

        def train(self, *args, **kwargs):
            answers.append("train")
            return super().train(*args, **kwargs)

    config = RunConfig(model_dir=make().model_dir)
    estimator = Mine(line.model_fn, config=config, use_tpu=False, train_batch_size=4)
    estimator.train(line.input_fn, steps=2)
    assert answers == ["train", ("train", True, 4)]


@pytest.mark.parametrize(
    "places",
    [
        {"master": "grpc://10.2.3.4:8470"},
        {
            "cluster": tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec({"worker": ["10.2.3.4:8470"]}), master="grpc://10.2.3.4:8470"
            )
        },
    ],
)
def test_the_host_asks_no_tpu_system(make, line, monkeypatch, places):
    """If the host replaces the TPU, the TPU's address isn't contacted."""
    monkeypatch.setenv(environment.CPU, "1")
    estimator = make(config=places, use_tpu=True)
    estimator.train(line.input_fn, steps=1)
    assert estimator.evaluate(line.input_fn, steps=1)["global_step"] == 1
    assert (estimator.config.master, estimator.config.evaluation_master) == ("", "")
    on_tpu = RunConfig(**places)
    assert on_tpu.master == on_tpu.evaluation_master == "grpc://10.2.3.4:8470"


def weighted_features(dtype):
    """Returns ids with the weights 2, 3 and 4: dense, sparse and ragged ones, and sequences."""
    ids = tf.sparse.from_dense(tf.constant([[1, 2], [3, 0]], tf.int64))
    weights = ids.with_values(tf.cast([2, 3, 4], dtype))
    ragged = [tf.RaggedTensor.from_sparse(each) for each in (ids, weights)]
    dense = [tf.constant([[1, 2], [3, -1]]), tf.cast([[2, 3], [4, 0]], dtype)]
    pairs = {"dense": dense, "sparse": [ids, weights], "ragged": ragged, "steps": [ids, weights]}
    return {
        f"{name}_{part}": value
        for name, pair in pairs.items()
        for part, value in zip("iw", pair, strict=True)
    }


def sum_weights(features, mode, params):
    """Predicts the sums of the weights, by the layers of both generations."""
    del params
    fc = tf.feature_column

    def column(name, ids=fc.categorical_column_with_identity, **options):
        weighted = fc.weighted_categorical_column(ids(f"{name}_i", 5), f"{name}_w")
        ones = tf.compat.v1.ones_initializer()
        return embedding_column(weighted, 1, "sum", initializer=ones, **options)

    columns = [column(name) for name in ("dense", "sparse", "ragged")]
    sequence = column("steps", fc.sequence_categorical_column_with_identity, max_sequence_length=2)
    steps, _ = sequence_input_layer(features, [sequence])
    predictions = {
        "tf1": tf.compat.v1.feature_column.input_layer(features, columns),
        "tf2": tf.compat.v1.keras.layers.DenseFeatures(columns)(features),
        "steps": tf.squeeze(steps, -1),
    }
    return es.TPUEstimatorSpec(mode, predictions)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.float64, tf.bool])
def test_weights_of_other_types(monkeypatch, tmp_path, dtype):
    """In place of a TPU, which casts weights of any type, the host casts them; else it doesn't."""

    def predict(dtype, use_tpu):
        config = RunConfig(model_dir=str(tmp_path))
        sizes = {"train_batch_size": 2, "predict_batch_size": 2}
        estimator = es.TPUEstimator(sum_weights, config=config, use_tpu=use_tpu, **sizes)

        def input_fn(params):
            del params
            return tf.data.Dataset.range(1).map(lambda _: weighted_features(dtype))

        return list(estimator.predict(input_fn))

    monkeypatch.setenv(environment.CPU, "1")
    first, second = predict(dtype, use_tpu=True)
    sums, steps = ([2, 1], [1, 1]) if dtype == tf.bool else ([5, 4], [2, 3])
    for layer in ("tf1", "tf2"):
        assert [list(first[layer]), list(second[layer])] == [[sums[0]] * 3, [sums[1]] * 3]
    assert list(first["steps"]) == steps
    with pytest.raises(ValueError, match="Bad dtype, expected.*The weights '.*_w' must have"):
        predict(dtype, use_tpu=False)


def test_a_mode_is_needed(make):
    """The context raises an error outside of with_mode."""
    with pytest.raises(RuntimeError, match="`mode` needs to be set via contextmanager"):
        make()._ctx.is_input_slice_broadcast_to_all_cores()


def test_logging_by_a_duration(make, line, tf_log):
    """An iterations_per_loop that is a duration is also the logging interval of the speed."""
    estimator = make(config={"tpu_config": TPUConfig("1h"), "log_step_count_steps": 1})
    estimator.train(line.input_fn, steps=3)
    assert not [entry for entry in tf_log if entry.startswith("examples/sec")]
    assert [entry for entry in tf_log if entry.startswith("loss = ")]


def test_global_step_is_a_resource(make, line):
    """The global step is a resource variable named global_step, whatever the default is."""
    seen = []

    def own(features, labels, mode, params):
        seen.append(tf1.train.get_global_step())
        return line.model_fn(features, labels, mode, params)

    make(own).evaluate(line.input_fn)
    assert seen[0].name == "global_step:0"
    assert seen[0].dtype == tf.int64
    assert "ResourceVariable" in type(seen[0]).__name__
