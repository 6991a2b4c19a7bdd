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
| `to_torch`                 | a program of PyTorch of feature columns, or of a canned estimator |
| `to_distributed_embedding` | a Keras 3 `keras_rs.layers.DistributedEmbedding` with them        |
| `to_partial_embedding`     | a `PartialEmbedding` layer with them                              |
| `to_partial_tpu_embedding` | the `PartialTPUEmbedding` of tensorflow-recommenders with them    |
| `to_ydf`                   | boosted trees as a model of Yggdrasil Decision Forests            |

Results of a spec have a report of exact, changed and lost options (`.report` or
`.conversion.report`; for the message, `config_proto_report`). A loss is an error unless
`allow_lossy=True`. Those of columns, by `to_keras` and `to_torch`, say what isn't equal
(`.conversion.differences`; `to_torch` returns it). `features_for` converts a legacy features dict
to a target's input.
"""

from typing import TYPE_CHECKING, Any

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.convert.config_proto import (
        config_proto_report as config_proto_report,
        to_config_proto as to_config_proto,
    )
    from estimator_spec.convert.decision_forests import to_ydf as to_ydf
    from estimator_spec.convert.features import features_for as features_for
    from estimator_spec.convert.keras_columns import to_keras as to_keras
    from estimator_spec.convert.keras_optimizers import (
        load_optimizer_classes as load_optimizer_classes,
    )
    from estimator_spec.convert.keras_rs import (
        to_distributed_embedding as to_distributed_embedding,
    )
    from estimator_spec.convert.mid_level import (
        to_mid_level as to_mid_level,
        to_tpu_embedding as to_tpu_embedding,
    )
    from estimator_spec.convert.partial import (
        partial_embedding_class as partial_embedding_class,
        to_partial_embedding as to_partial_embedding,
    )
    from estimator_spec.convert.report import LossyConversionError as LossyConversionError
    from estimator_spec.convert.serving import (
        look_up as look_up,
        save_serving as save_serving,
        to_serving as to_serving,
    )
    from estimator_spec.convert.sparse_core import to_tpu_embedding_v2 as to_tpu_embedding_v2
    from estimator_spec.convert.tfrs import to_partial_tpu_embedding as to_partial_tpu_embedding
    from estimator_spec.convert.torch_columns import to_torch as to_torch
    from estimator_spec.convert.partial import PartialEmbeddingMethods

    PartialEmbedding = PartialEmbeddingMethods
else:
    _import_name, __dir__, __all__ = lazy_names.attach(__name__)

    def __getattr__(name: str) -> Any:
        # The class is created on first use: its base class is in Keras, which the program selects.
        # `import *` doesn't have it, which would select the program's Keras.
        if name == "PartialEmbedding":
            return _import_name("partial_embedding_class")()
        return _import_name(name)
