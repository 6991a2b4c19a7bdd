# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of estimators and their configurations."""

from __future__ import annotations

import tensorflow as tf

import estimator_spec as es
from refusal import (
    column,
    dictionaries,
    each,
    estimator,
    refused,
    shared,
    spec,
)

tf1 = tf.compat.v1
ESTIMATOR_ARGUMENTS = [
    *(
        refusal
        for name in ("train_batch_size", "eval_batch_size", "predict_batch_size")
        for refusal in (
            *each(
                name, [0, -4], lambda v, n=name: estimator(**{n: v}), ValueError, name, "positiv"
            ),
            *each(name, ["4", 2.5, [4]], lambda v, n=name: estimator(**{n: v}), TypeError, name),
        )
    ),
    *each(
        "params", [[1], (1, 2), "abc", 3], lambda v: estimator(params=v), TypeError, "params must"
    ),
    *each(
        "params",
        [{"batch_size": 3}, {"context": 1}],
        lambda v: estimator(params=v),
        ValueError,
        "are reserved keys",
    ),
    *each(
        "fast_updates",
        ["no", "yes", [], 2],
        lambda v: estimator(fast_updates=v),
        TypeError,
        "fast_updates must be True, False or None",
    ),
    *each("model_fn", ["f", 3], lambda v: estimator(model_fn=v), TypeError, "model_fn must be"),
    refused("no model_fn", lambda: estimator(model_fn=None), ValueError, "mod"),
    refused(
        "model_fn without features",
        lambda: estimator(model_fn=lambda mode, params: None),
        ValueError,
        "must include features argument",
    ),
    *each("model_dir", [3, b"here"], lambda v: estimator(model_dir=v), ValueError, "model_dir"),
    *each("config", [None, "c", {}], lambda v: estimator(config=v), ValueError, "`config` must"),
    *each("batch_axis", [0, "0", ["0"]], lambda v: estimator(batch_axis=v), TypeError, "batch_axi"),
    *each(
        "embedding_core",
        ["gpu", 3],
        lambda v: estimator(embedding_core=v, embedding_config_spec=spec()),
        ValueError,
        "embedding_core must be one of",
    ),
    *each(
        "embedding_shards",
        [0, -1],
        lambda v: estimator(embedding_shards=v, embedding_config_spec=spec()),
        ValueError,
        "shards",
    ),
    *each("host_replicas", [0, -1], lambda v: estimator(host_replicas=v), ValueError, "positive"),
    refused("host_replicas", lambda: estimator(host_replicas="2"), TypeError, "host_replicas"),
    *each(
        "embedding_config_spec",
        ["spec", {}, [column()]],
        lambda v: estimator(embedding_config_spec=v),
        TypeError,
        "embedding_config_spec",
    ),
    *each("warm_start_from", [3, []], lambda v: estimator(warm_start_from=v), ValueError, "warm_s"),
    refused(
        "no train_batch_size",
        lambda: estimator(use_tpu=True, train_batch_size=None),
        ValueError,
        "`train_batch_size` cannot be `None`",
    ),
    *each(
        "name of a column",
        ["my words", "wörter", "a:b"],
        lambda v: estimator(embedding_config_spec=spec([column(v)])),
        ValueError,
        "Column of feature",
        "_embedding' is not a valid scope name",
    ),
    *each(
        "name of a table",
        ["my words", "wörter", "_words"],
        lambda v: estimator(
            embedding_config_spec=dictionaries(
                {"words": es.FeatureConfig(v)}, {v: es.TableConfig(10, 4)}
            )
        ),
        ValueError,
        "Table of table_to_config_dict",
        "is not a valid scope name",
    ),
    *each(
        "name of a shared table",
        ["my words", "wörter"],
        lambda v: estimator(embedding_config_spec=spec(shared(v))),
        ValueError,
        "shared_embedding_collection_name",
        "is not a valid scope name",
    ),
]

REFUSALS = ESTIMATOR_ARGUMENTS
