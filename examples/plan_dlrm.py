# SPDX-License-Identifier: Apache-2.0
"""A recommendation model of 26 tables and 209 GB to plan: a spec and its input, and no training.

    python -m estimator_spec plan examples/plan_dlrm.py:spec --hosts 8

The numbers of rows are those of MLPerf's DLRM-DCNv2 on Criteo's click logs; the ids are made up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import estimator_spec

WIDTH = 256
ROWS = (
    *(40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956),
    *(405_282, 10, 2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152),
    *(12_973, 108, 36),
)
TABLES = {f"c{number:02}": rows for number, rows in enumerate(ROWS, 1)}

spec = estimator_spec.EmbeddingConfigSpec(
    feature_to_config_dict={name: estimator_spec.FeatureConfig(name) for name in TABLES},
    table_to_config_dict={
        name: estimator_spec.TableConfig(rows, WIDTH, combiner=None)
        for name, rows in TABLES.items()
    },
    optimization_parameters=estimator_spec.AdagradParameters(0.01),
)


def input_fn(params: dict[str, Any]) -> Any:
    """Returns batches of one id a table; an id of twice the size is half as frequent."""
    random = np.random.RandomState(0)

    def batches() -> Any:
        while True:
            draws = random.uniform(size=[len(TABLES), params["batch_size"]])
            powers = zip(TABLES.items(), draws, strict=True)
            yield {name: (rows**draw).astype(np.int64) - 1 for (name, rows), draw in powers}

    signature = {name: tf.TensorSpec([params["batch_size"]], tf.int64) for name in TABLES}
    return tf.data.Dataset.from_generator(batches, output_signature=signature)
