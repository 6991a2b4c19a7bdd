# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of estimators and their configurations."""

from __future__ import annotations

import estimator_spec as es
from constructors import bad
from refusal import column, dictionaries, each, estimator, shared, spec

_SIZES = ("train_batch_size", "eval_batch_size", "predict_batch_size")
_VERSION = "export_saved_model_api_version"


def _model_fn_of_mode(mode, params):
    """A model_fn without features."""


REFUSALS = [
    *(
        refusal
        for name in _SIZES
        for use_tpu in (False, True)
        for refusal in (
            *bad(estimator, name, [0, -4], f"{name} must be positive", use_tpu=use_tpu),
            *bad(estimator, name, ["4", 2.5, [4]], f"{name} must be", TypeError, use_tpu=use_tpu),
        )
    ),
    *bad(estimator, "params", [[1], (1, 2), "abc", 3], "params must", TypeError),
    *bad(
        estimator,
        "params",
        [{"batch_size": 3}, {"context": 1}],
        "['batch_size', 'context'] are reserved keys but existed in params",
    ),
    *bad(estimator, "fast_updates", ["no", "yes", [], 2], "must be True, False or None", TypeError),
    *bad(estimator, "model_fn", ["f", 3], "model_fn must be", TypeError),
    *bad(estimator, "model_fn", [None], "model_fn must be provided to Estimator"),
    *bad(estimator, "model_fn", [_model_fn_of_mode], "must include features argument"),
    *bad(estimator, "model_dir", [3, b"here"], "model_dir"),
    *bad(
        estimator,
        "config",
        [None, "c", {}, es.run_config.RunConfig()],
        "`config` must be provided with type `tpu_config.RunConfig`",
    ),
    *bad(estimator, "batch_axis", [0, "0", "00", ["0"], (0, "N")], "batch_axis must", TypeError),
    *bad(estimator, "batch_axis", [[0, -1]], "batch_axis must"),
    *bad(
        estimator,
        "embedding_core",
        ["gpu", 3],
        "embedding_core must be one of",
        embedding_config_spec=spec(),
    ),
    *bad(
        estimator,
        "embedding_shards",
        [0, -1],
        "num_shards must be at least 1",
        embedding_config_spec=spec(),
    ),
    *bad(estimator, "host_replicas", [0, -1], "host_replicas must be positive"),
    *bad(estimator, "host_replicas", ["2"], "host_replicas must be int", TypeError),
    *bad(
        estimator,
        "embedding_config_spec",
        ["spec", {}, [column()]],
        "embedding_config_spec … must be an estimator_spec.EmbeddingConfigSpec",
        TypeError,
    ),
    *bad(estimator, "warm_start_from", [3, []], "warm_start_from must be a string"),
    *bad(
        estimator, "train_batch_size", [None], "`train_batch_size` cannot be `None`", use_tpu=True
    ),
    *bad(estimator, _VERSION, [0, 3, "1", None], f"{_VERSION} should be 1 or 2"),
    *each(
        "table without a feature",
        [{"table": es.TableConfig(10, 4), "left": es.TableConfig(3, 2)}],
        lambda v: estimator(embedding_config_spec=dictionaries(tables=v)),
        "specifies table that is not used … ['left']",
    ),
    *each(
        "name of a column",
        ["my words", "wörter", "a:b"],
        lambda v: estimator(embedding_config_spec=spec([column(v)])),
        "Column of feature … _embedding' is not a valid scope name",
    ),
    *each(
        "name of a table",
        ["my words", "wörter", "_words"],
        lambda v: estimator(
            embedding_config_spec=dictionaries(
                {"words": es.FeatureConfig(v)}, {v: es.TableConfig(10, 4)}
            )
        ),
        "Table of table_to_config_dict … is not a valid scope name",
    ),
    *each(
        "name of a shared table",
        ["my words", "wörter"],
        lambda v: estimator(embedding_config_spec=spec(shared(v))),
        "shared_embedding_collection_name … is not a valid scope name",
    ),
]
