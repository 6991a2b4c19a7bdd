# SPDX-License-Identifier: Apache-2.0
"""Wrong calls that mypy must report; `nox -s dist` checks that it does.

mypy --strict reports an unused `type: ignore`, so each of these lines has to be an error of just
that kind. Never run.
"""

from __future__ import annotations

from typing import Any

import estimator_spec
import tpu_columns
from estimator_spec import checkpoints, convert


def mistakes(column: Any, model_fn: Any, input_fn: Any) -> None:
    """One wrong argument or attribute a line."""
    tpu_columns.embedding_column(column, dimension="8")  # type: ignore[arg-type]
    tpu_columns.embedding_column(column, 8, combine="sum")  # type: ignore[call-arg]
    tpu_columns.route(column, "train", tpu_columns.Hardware.CPU)  # type: ignore[arg-type]
    estimator_spec.AdamParameters("0.1")  # type: ignore[arg-type]
    estimator_spec.AdagradParameters(0.1, lazy_adam=True)  # type: ignore[call-arg]
    estimator_spec.TableConfig(100)  # type: ignore[call-arg]
    estimator_spec.EmbeddingConfigSpec([column], 0.1)  # type: ignore[arg-type]
    estimator_spec.TPUConfig(iterations_per_loop=2.5)  # type: ignore[arg-type]
    spec = estimator_spec.EmbeddingConfigSpec(
        [column], optimization_parameters=estimator_spec.AdamParameters(0.1)
    )
    spec.partition_strategy.strategies  # type: ignore[attr-defined]  # noqa: B018
    spec.feature_to_config_dict["word"]  # type: ignore[index]
    spec.optimizer  # type: ignore[attr-defined]  # noqa: B018
    estimator_spec.TPUConfig().num_shards.bit_length()  # type: ignore[union-attr]
    config = estimator_spec.RunConfig(tpu_config={})  # type: ignore[arg-type]
    estimator_spec.RunConfig(save_checkpoint_steps=10)  # type: ignore[call-arg]
    estimator_spec.RunConfig(tf_random_seed="1")  # type: ignore[arg-type]
    config.modeldir  # type: ignore[attr-defined]  # noqa: B018
    estimator = estimator_spec.TPUEstimator(model_fn, config=config, train_batch_size=50)
    estimator_spec.TPUEstimator(model_fn, config={})  # type: ignore[arg-type]
    estimator.train(input_fn, max_step=10)  # type: ignore[call-arg]
    estimator.evaluate(input_fn).items().loss  # type: ignore[attr-defined]  # noqa: B018
    estimator_spec.TPUEstimatorSpec(estimator_spec.ModeKeys)  # type: ignore[arg-type]
    estimator_spec.train_and_evaluate(model_fn, input_fn)  # type: ignore[call-arg]
    checkpoints.convert("from", "to", shards="2")  # type: ignore[arg-type]
    checkpoints.inspect("at").steps  # type: ignore[attr-defined]  # noqa: B018
    convert.to_mid_level(column, lossy=True)  # type: ignore[call-arg]
    tpu_columns.no_such_name  # type: ignore[attr-defined]  # noqa: B018
