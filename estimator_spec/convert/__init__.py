# SPDX-License-Identifier: Apache-2.0
"""Converts a spec and its trained tables to today's systems, without a TPU.

| function                   | result                                                            |
|----------------------------|-------------------------------------------------------------------|
| `to_config_proto`          | the old system's `TPUEmbeddingConfiguration` message              |
| `to_mid_level`             | `FeatureConfig`s and `TableConfig`s of TensorFlow 2's own API     |
| `to_tpu_embedding`         | a `TPUEmbedding` of it                                            |
| `to_tpu_embedding_v2`      | configurations and layouts for SparseCore                         |
| `to_serving`               | a `TPUEmbeddingForServing` with trained tables                    |
| `to_keras`                 | a Keras 3 model of feature columns, or of a canned estimator      |
| `to_distributed_embedding` | a Keras 3 `keras_rs.layers.DistributedEmbedding` with them        |
| `to_partial_embedding`     | a `PartialEmbedding` layer with them                              |
| `to_partial_tpu_embedding` | the `PartialTPUEmbedding` of tensorflow-recommenders with them    |
| `to_ydf`                   | boosted trees as a model of Yggdrasil Decision Forests            |

All but the last have a report of exact, changed and lost options (`.report` or
`.conversion.report`; for the message, `config_proto_report`). A loss is an error unless
`allow_lossy=True`. `features_for` converts a legacy features dict to a target's input.
"""

from typing import TYPE_CHECKING, Any

from estimator_spec.convert.config_proto import config_proto_report, to_config_proto
from estimator_spec.convert.decision_forests import to_ydf
from estimator_spec.convert.features import features_for
from estimator_spec.convert.keras_columns import to_keras
from estimator_spec.convert.keras_optimizers import load_optimizer_classes
from estimator_spec.convert.keras_rs import to_distributed_embedding
from estimator_spec.convert.mid_level import to_mid_level, to_tpu_embedding
from estimator_spec.convert.partial import partial_embedding_class, to_partial_embedding
from estimator_spec.convert.report import LossyConversionError
from estimator_spec.convert.serving import look_up, save_serving, to_serving
from estimator_spec.convert.sparse_core import to_tpu_embedding_v2
from estimator_spec.convert.tfrs import to_partial_tpu_embedding

__all__ = [
    "LossyConversionError",
    "config_proto_report",
    "features_for",
    "load_optimizer_classes",
    "look_up",
    "partial_embedding_class",
    "save_serving",
    "to_config_proto",
    "to_distributed_embedding",
    "to_keras",
    "to_mid_level",
    "to_partial_embedding",
    "to_partial_tpu_embedding",
    "to_serving",
    "to_tpu_embedding",
    "to_tpu_embedding_v2",
    "to_ydf",
]

if TYPE_CHECKING:
    from estimator_spec.convert.partial import PartialEmbeddingMethods as PartialEmbedding

    # Not at run time: `import *` would read it, and so select the program's Keras.
    __all__ += ["PartialEmbedding"]


def __getattr__(name: str) -> Any:
    # The class is created on first use: its base class is in Keras, which the program selects.
    if name == "PartialEmbedding":
        return partial_embedding_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
