# SPDX-License-Identifier: Apache-2.0
"""Converts a spec to the old system's `TPUEmbeddingConfiguration` message.

`tf.compat.v1.tpu.initialize_system(embedding_config=…)` takes this message, and a TPU's load,
retrieve, receive and send ops have it as the attribute `config`. It has no fields for initializers
and initial values of slot variables (properties of the variables), combiners and weights (part of
each batch), and the gradient multiplier (applied by the program).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from estimator_spec.convert import report, resolved_spec, target_support
from estimator_spec.convert.report import Entry, Status
from estimator_spec.core._tensorflow import private
from estimator_spec.core.common.checks import check_positive_ints
from estimator_spec.core.embedding import optimizers
from estimator_spec.core.embedding.spec import (
    EmbeddingConfigSpec,
    TableConfig,
    table_learning_rate,
    table_optimizer,
    tables_and_features,
)
from estimator_spec.core.user_functions.model_spec import ModeKeys
from tpu_columns.checks import is_int
from tpu_columns.placement import Mode

_Configuration = private.tpu_embedding_configuration_pb2.TPUEmbeddingConfiguration
_messages = private.optimization_parameters_pb2

_TRAINING = (ModeKeys.TRAIN, Mode.TRAIN, "training", _Configuration.TRAINING)
_INFERENCE = (
    *(ModeKeys.EVAL, ModeKeys.PREDICT, Mode.EVAL, Mode.PREDICT, Mode.SERVE),
    *("inference", _Configuration.INFERENCE),
)


def to_config_proto(
    spec: EmbeddingConfigSpec,
    batch_size: int,
    mode: Any = ModeKeys.TRAIN,
    num_hosts: int = 1,
    num_cores: int = 8,
) -> Any:
    """Returns the embedding core's configuration for a spec.

    Equal to the message of TensorFlow 2.15's TPUEstimator, byte for byte, except for the tags of
    dynamic learning rates: there they follow the order of a set, here the order of the tables.

    >>> from estimator_spec import FeatureConfig, StochasticGradientDescentParameters, TableConfig
    >>> spec = EmbeddingConfigSpec(
    ...     feature_to_config_dict={'word': FeatureConfig('words')},
    ...     table_to_config_dict={'words': TableConfig(1000, 16)},
    ...     optimization_parameters=StochasticGradientDescentParameters(0.1))
    >>> proto = to_config_proto(spec, batch_size=32)
    >>> proto.table_descriptor[0].vocabulary_size, list(proto.feature_descriptor[0].input_shape)
    (1000, [4])

    `config_proto_report` returns the report.

    Args:
        spec: columns or dictionaries; columns of the tensor core are left out.
        batch_size: examples of a step on all cores together; a multiple of `num_cores`.
        mode: a `ModeKeys`, a `tpu_columns.Mode`, 'training' or 'inference', or the message's own
            enum value. In inference a table without an optimizer of its own gets SGD with rate 1.
        num_hosts: hosts of the TPU.
        num_cores: cores of all hosts together; a multiple of `num_hosts`.

    Returns:
        A `TPUEmbeddingConfiguration`: tables sorted by name, features by (table, feature).

    Raises:
        ValueError: sizes that don't divide, an unknown mode, or a table without an optimizer.
        TypeError: as `tables_and_features`.
    """
    tables, features = tables_and_features(spec)
    training = _is_training(mode)
    _check_sizes(batch_size, num_hosts, num_cores)
    tags = learning_rate_tags(tables)
    config_proto_report(spec, mode)  # logs what changes, and refuses to lose anything
    if not training:
        default = optimizers.StochasticGradientDescentParameters(1.0)
        spec = spec._replace(optimization_parameters=default)
    message = _Configuration(
        mode=_Configuration.TRAINING if training else _Configuration.INFERENCE,
        num_hosts=num_hosts,
        num_tensor_cores=num_cores,
        sharding_strategy=(
            _Configuration.MOD if spec.partition_strategy == "mod" else _Configuration.DIV_DEFAULT
        ),
        pipeline_execution_with_tensor_core=bool(spec.pipeline_execution_with_tensor_core),
        profile_data_directory=spec.profile_data_directory or "",
    )
    for number, name in enumerate(sorted(tables)):
        table = tables[name]
        # At least one row on every host.
        message.table_descriptor.add(
            name=name,
            vocabulary_size=max(table.vocabulary_size, num_hosts),
            dimension=table.dimension,
            optimization_parameters=_optimization(name, spec, table, tags),
        )
        for key in sorted(key for key, feature in features.items() if feature.table_id == name):
            shape = [batch_size // num_cores]
            if features[key].max_sequence_length:
                shape.append(features[key].max_sequence_length)
            message.feature_descriptor.add(table_id=number, input_shape=shape)
    return message


def config_proto_report(spec: EmbeddingConfigSpec, mode: Any = ModeKeys.TRAIN) -> report.Report:
    """Returns the report of `to_config_proto`: nothing is lost, some options aren't in the message.

    Args:
        spec: as in `to_config_proto`.
        mode: as in `to_config_proto`.

    Raises:
        ValueError, TypeError: as `to_config_proto`.
    """
    resolved = resolved_spec.resolve(spec)
    training = _is_training(mode)
    trained, entries = [], []
    for table in resolved.core_tables:
        old = f"combiner {resolved.tables[table].combiner}"
        entries.append(Entry.changed(table, "combiner", old, "each batch's", _ELSEWHERE))
        if training or resolved.tables[table].optimization_parameters is not None:
            trained.append(table)
        else:
            name = type(spec.optimization_parameters).__name__
            note = "nothing is trained in inference"
            entries.append(Entry.changed(table, "optimizer", name, "SGD of rate 1", note))
    for table in sorted(resolved.on_tensor_core):
        note = "its variable is the model's, it isn't the embedding core's"
        old, new = "the tensor core's", "not in the message"
        entries.append(Entry(table, "table", Status.CHANGED, None, old, new, note))
    multiplier = spec.experimental_gradient_multiplier_fn
    if multiplier is not None:
        name = getattr(multiplier, "__name__", repr(multiplier))
        argument = "experimental_gradient_multiplier_fn"
        entries.append(Entry.changed("", argument, name, "the program's", _ELSEWHERE))
    return report.build_report(
        "TPUEmbeddingConfiguration", resolved, entries, False, "config_proto", trained
    )


_ELSEWHERE = "the message never had it"


def learning_rate_tags(tables: dict[str, TableConfig]) -> dict[Callable[..., Any], int]:
    """Returns the tag of each learning-rate function, in the order of the tables' names.

    A step sends the rates to the core in this order.
    """
    tags: dict[Callable[..., Any], int] = {}
    for name in sorted(tables):
        function = tables[name].learning_rate_fn
        if function is not None:
            tags.setdefault(function, len(tags))
    return tags


def _is_training(mode: Any) -> bool:
    # bool is excluded: True == 1, a value of the enum.
    if isinstance(mode, (str, Mode)) or is_int(mode):
        if mode in _TRAINING:
            return True
        if mode in _INFERENCE:
            return False
    raise ValueError(
        f"`mode` only supports TRAINING and INFERENCE, as one of {[*_TRAINING, *_INFERENCE]}; got "
        f"{mode!r}."
    )


def _check_sizes(batch_size: int, num_hosts: int, num_cores: int) -> None:
    check_positive_ints(batch_size=batch_size, num_hosts=num_hosts, num_cores=num_cores)
    if num_cores % num_hosts:
        raise ValueError(f"num_hosts ({num_hosts}) should divide num_cores ({num_cores}).")
    if batch_size % num_cores:
        raise ValueError(
            f"`batch_size` is not a multiple of number of cores. `batch_size`={batch_size}, "
            f"`num_cores`={num_cores}."
        )


def _optimization(
    name: str, spec: EmbeddingConfigSpec, table: TableConfig, tags: dict[Any, int]
) -> Any:
    """Returns a table's `OptimizationParameters` message."""
    parameters = table_optimizer(spec, table)
    if parameters is None:
        raise ValueError(
            f"`optimization_parameters` is missing: neither the spec nor table {name} has any."
        )
    message = _messages.OptimizationParameters()
    rate = table_learning_rate(spec, table)
    if rate is None:
        raise ValueError(f"Table {name} has neither a learning_rate nor a learning_rate_fn.")
    if callable(rate):
        message.learning_rate.dynamic.tag = tags[rate]
    else:
        message.learning_rate.constant = rate
    status = _messages.GradientAccumulationStatus
    message.gradient_accumulation_status = (
        status.ENABLED if parameters.use_gradient_accumulation else status.DISABLED
    )
    for limits, what in (
        (message.gradient_clipping_limits, "clip_gradient"),
        (message.clipping_limits, "clip_weight"),
    ):
        for bound, end in ((limits.lower, "min"), (limits.upper, "max")):
            value = getattr(parameters, f"{what}_{end}")
            if value is not None:
                bound.value = value
    if parameters.weight_decay_factor:
        message.weight_decay_factor = parameters.weight_decay_factor
        message.multiply_weight_decay_factor_by_learning_rate = bool(
            parameters.multiply_weight_decay_factor_by_learning_rate
        )
    if table.hot_id_replication:
        replication = message.hot_id_replication_configuration
        replication.status = _messages.HotIdReplicationConfiguration.ENABLED
    rule = getattr(message, target_support.find_support("config_proto", parameters).name)
    rule.SetInParent()
    for argument in target_support.argument_names(type(parameters)):
        field = _FIELDS.get(argument, argument)
        # Arguments of all optimizers aren't here, and initial values are the slot variables'.
        if field in rule.DESCRIPTOR.fields_by_name and not field.startswith("initial_"):
            setattr(rule, field, getattr(parameters, argument))
    if isinstance(parameters, optimizers.AdamParameters):
        rule.use_non_lazy_adam = not parameters.lazy_adam
    return message


# Fields of the optimizers' messages whose names differ from our arguments'.
_FIELDS = {
    "l1_regularization_strength": "l1",
    "l2_regularization_strength": "l2",
    "learning_rate_power": "lr_power",
    "multiply_linear_by_learning_rate": "multiply_linear_by_lr",
    "sum_inside_sqrt": "use_sum_inside_sqrt",
}
