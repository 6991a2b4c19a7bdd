# SPDX-License-Identifier: Apache-2.0
"""Uses the public names of both packages with full types; `nox -s dist` checks and runs it.

mypy --strict sees the installed wheel. `assert_type` fails where a signature has lost its type.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from typing_extensions import assert_type

import estimator_spec
import tpu_columns
from estimator_spec import checkpoints, convert

tf1 = tf.compat.v1

WORD = tf.feature_column.categorical_column_with_identity("word", num_buckets=100)


def input_fn(params: dict[str, Any]) -> Any:
    """Words, and whether they are odd."""
    words = np.arange(1000)[:, np.newaxis] % 100
    arrays: Any = ({"word": words}, words[:, 0] % 2)
    dataset = tf.data.Dataset.from_tensor_slices(arrays)
    return dataset.batch(params["batch_size"], drop_remainder=True)


def serving_input_receiver_fn() -> estimator_spec.ServingInputReceiver:
    """Takes words, one an example."""
    words = tf1.placeholder(tf.int64, [None, 1])
    receiver = estimator_spec.ServingInputReceiver({"word": words}, {"word": words})
    assert_type(receiver, estimator_spec.ServingInputReceiver)
    return receiver


def make_columns() -> list[tpu_columns.EmbeddingColumn]:
    """The model's columns, and what can be said of them."""
    column = tpu_columns.embedding_column(WORD, dimension=8, combiner="sum")
    assert_type(column, tpu_columns.EmbeddingColumn)
    assert_type(column.get_embedding_table_size(), tuple[int, int])
    assert_type(column.name, str)
    device = tpu_columns.route(column, tpu_columns.Mode.TRAIN, tpu_columns.Hardware.CPU)
    assert_type(device, tpu_columns.LookupDevice)
    shared = tpu_columns.shared_embedding_columns([WORD], dimension=8)
    assert_type(shared, list[tpu_columns.SharedEmbeddingColumn])
    partition = tpu_columns.RowPartition("mod", num_rows=100, num_shards=4)
    assert_type(partition.shard_sizes, tuple[int, ...])
    assert_type(tpu_columns.__version__, str)
    return [column]


def make_spec(columns: list[tpu_columns.EmbeddingColumn]) -> estimator_spec.EmbeddingConfigSpec:
    """A specification, from columns and from dictionaries."""
    optimizer: estimator_spec.OptimizationParameters = estimator_spec.AdamParameters(
        0.01, beta1=0.9, lazy_adam=False, clip_gradient_max=1.0
    )
    table = estimator_spec.TableConfig(100, 8, combiner="sum", optimization_parameters=optimizer)
    estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": estimator_spec.FeatureConfig("words")},
        table_to_config_dict={"words": table},
        optimization_parameters=optimizer,
        partition_strategy="mod",
    )
    spec = estimator_spec.EmbeddingConfigSpec(
        feature_columns=columns, optimization_parameters=optimizer
    )
    assert_type(spec, estimator_spec.EmbeddingConfigSpec)
    assert_type(spec.feature_columns, list[Any] | None)
    assert_type(spec.tensor_core_feature_columns, list[Any] | None)
    assert_type(spec.optimization_parameters, estimator_spec.OptimizationParameters | None)
    assert_type(spec.clipping_limit, float | None)
    assert_type(spec.pipeline_execution_with_tensor_core, bool)
    assert_type(spec.experimental_gradient_multiplier_fn, Callable[[Any], Any] | None)
    assert_type(spec.feature_to_config_dict, Mapping[str, estimator_spec.FeatureConfig] | None)
    assert_type(spec.table_to_config_dict, Mapping[str, estimator_spec.TableConfig] | None)
    assert_type(spec.partition_strategy, str)
    assert_type(spec.profile_data_directory, str | None)
    assert_type(table.dimension, int)
    assert_type(table.learning_rate, float | None)
    tables, features = estimator_spec.tables_and_features(spec)
    assert_type(tables, dict[str, estimator_spec.TableConfig])
    assert_type(features, dict[str, estimator_spec.FeatureConfig])
    return spec


def make_config(model_dir: str) -> estimator_spec.RunConfig:
    """A run's configuration."""
    config = estimator_spec.RunConfig(
        model_dir=model_dir,
        tf_random_seed=1,
        tpu_config=estimator_spec.TPUConfig(iterations_per_loop=10),
    ).replace(save_checkpoints_steps=10)
    assert_type(config, estimator_spec.RunConfig)
    assert_type(config.model_dir, str | None)
    assert_type(config.save_checkpoints_steps, int | None)
    assert_type(config.tpu_config, estimator_spec.TPUConfig)
    assert_type(config.tpu_config.num_shards, int | None)
    assert_type(config.is_chief, bool)
    return config


def make_estimator(
    columns: list[tpu_columns.EmbeddingColumn],
    spec: estimator_spec.EmbeddingConfigSpec,
    config: estimator_spec.RunConfig,
) -> estimator_spec.TPUEstimator:
    """The estimator, its `model_fn` inside."""

    def model_fn(
        features: dict[str, Any], labels: Any, mode: str, params: dict[str, Any]
    ) -> estimator_spec.TPUEstimatorSpec:
        del params
        logits = tf.reduce_sum(tpu_columns.input_layer(features, columns), axis=1)
        odd = tf.sigmoid(logits)
        if mode == estimator_spec.ModeKeys.PREDICT:
            return estimator_spec.TPUEstimatorSpec(mode, predictions={"odd": odd})
        loss = tf1.losses.sigmoid_cross_entropy(labels, logits)
        train_op = tf1.train.AdagradOptimizer(0.5).minimize(loss, tf1.train.get_global_step())
        model = estimator_spec.TPUEstimatorSpec(mode, loss=loss, train_op=train_op)
        assert_type(model, estimator_spec.TPUEstimatorSpec)
        assert_type(model.as_estimator_spec(), estimator_spec.EstimatorSpec)
        assert_type(model.mode, str)
        assert_type(model.predictions, dict[str, Any])
        assert_type(model.training_hooks, tuple[Any, ...])
        return model

    return estimator_spec.TPUEstimator(
        model_fn,
        config=config,
        use_tpu=False,
        train_batch_size=50,
        eval_batch_size=50,
        predict_batch_size=50,
        embedding_config_spec=spec,
        fast_updates=True,
        plain=False,
    )


def run(estimator: estimator_spec.TPUEstimator) -> None:
    """Trains, evaluates, predicts and exports."""
    assert_type(estimator.train(input_fn, steps=10), estimator_spec.TPUEstimator)
    assert_type(estimator.evaluate(input_fn), dict[str, Any])
    predictions = estimator.predict(input_fn, yield_single_examples=True)
    assert_type(predictions, Iterator[Any])
    assert_type(estimator.latest_checkpoint(), str | None)
    assert_type(estimator.get_variable_names(), list[str])
    assert_type(estimator.model_dir, str)
    exported = estimator.export_saved_model(
        estimator.model_dir, serving_input_receiver_fn, tables="float16"
    )
    assert_type(exported, bytes)
    train = estimator_spec.TrainSpec(input_fn, max_steps=20)
    assert_type(train.max_steps, int | None)
    evaluation = estimator_spec.EvalSpec(
        input_fn, exporters=estimator_spec.FinalExporter("final", serving_input_receiver_fn)
    )
    assert_type(evaluation.throttle_secs, float)
    ended = estimator_spec.train_and_evaluate(estimator, train, evaluation)
    assert ended is not None
    assert_type(ended[0], dict[str, Any] | None)


def use_checkpoints(model_dir: str, spec: estimator_spec.EmbeddingConfigSpec) -> None:
    """Looks at a checkpoint, converts it, and compares the two."""
    found = checkpoints.inspect(model_dir, spec)
    assert_type(found, checkpoints.Inspection)
    assert_type(found.global_step, int | None)
    assert_type(found.tables[0].shape, tuple[int, ...])
    names = checkpoints.tables_of(model_dir, spec)
    assert_type(names, dict[str, str])
    for name in names.values():
        rows = checkpoints.read_table(model_dir, name, spec)
        assert_type(rows.ndim, int)
        for start, part in checkpoints.iterate_table(model_dir, name, spec):
            assert_type(start, int)
            assert np.array_equal(part, rows[start : start + len(part)])
    target = f"{model_dir}/converted/model.ckpt"
    report = checkpoints.convert(model_dir, target, spec, strategy="mod", shards=2)
    assert_type(report, checkpoints.ConversionReport)
    assert_type(checkpoints.verify(target).ok, bool)
    assert_type(checkpoints.diff(model_dir, target, spec), checkpoints.Differences)


def use_convert(spec: estimator_spec.EmbeddingConfigSpec) -> None:
    """Today's forms of a specification."""
    moved = convert.to_mid_level(spec, allow_lossy=True)
    assert_type(moved.feature_config, dict[str, Any])
    assert_type(str(moved.report), str)
    try:
        convert.to_mid_level(spec)
    except convert.LossyConversionError as error:
        assert_type(error.report.in_full(), str)


def main() -> None:
    """All of it, in a directory that goes away."""
    columns = make_columns()
    spec = make_spec(columns)
    with tempfile.TemporaryDirectory() as model_dir:
        estimator = make_estimator(columns, spec, make_config(model_dir))
        run(estimator)
        use_checkpoints(model_dir, spec)
    use_convert(spec)
    print("the typed program ran")


if __name__ == "__main__":
    main()
