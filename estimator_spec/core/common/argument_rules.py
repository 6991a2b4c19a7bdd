# SPDX-License-Identifier: Apache-2.0
"""Rules for single arguments of public constructors, and the words of their errors.

`RULES` has an entry for each constructor, or for a group of constructors with the same arguments.
A constructor calls `check` first, before it allocates anything. Rules for several arguments at
once, and conversions, are in the constructors.

TensorFlow 2.15 trains with some values that are surely a mistake. A rule with `used_as` logs a
warning for such a value instead of an error, so that old programs still run.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_spec.core.common.signatures import argument_names, takes_any_keyword
from tpu_columns.checks import FLAG, Rule, check_rule, is_flag, is_int, is_number

Rules = Mapping[str, Rule | tuple[Rule, ...]]
"""The rules of each argument, in their order."""


def check(constructor: str, arguments: Mapping[str, Any]) -> None:
    """Checks arguments by their rules.

    >>> check("RunConfig", {"save_summary_steps": 100})
    >>> check("RunConfig", {"save_summary_steps": -1})
    Traceback (most recent call last):
    ...
    ValueError: save_summary_steps should be >= 0. Got -1.

    Args:
        constructor: a key of `RULES`.
        arguments: the arguments by name, such as the constructor's `locals()`; those without a rule
            aren't checked.

    Raises:
        ValueError: a value doesn't fit.
        TypeError: a value has a type that doesn't fit.
    """
    for name, rules in RULES[constructor].items():
        if name in arguments:
            for rule in [rules] if isinstance(rules, Rule) else rules:
                check_rule(rule, name, arguments[name])


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real)


def _is_string(value: Any) -> bool:
    return isinstance(value, (str, bytes))


def _is_path(value: Any) -> bool:
    return _is_string(value) or hasattr(value, "__fspath__")


def _compile(patterns: Any) -> bool:
    """Returns whether a string, or each string of a list, is a regular expression."""
    try:
        for pattern in patterns if isinstance(patterns, list) else [patterns]:
            if isinstance(pattern, str):
                re.compile(pattern)
    except re.error:
        return False
    return True


def _is_mapping(is_key: Callable[[Any], bool], is_value: Callable[[Any], bool]) -> Any:
    """Returns a check that a value is a mapping whose keys and values pass two other checks."""
    return lambda value: (
        isinstance(value, Mapping)
        and all(is_key(key) and is_value(item) for key, item in value.items())
    )


_FUNCTION = Rule(callable, "{name} must be a function, or None", TypeError)
_WHOLE = Rule(_is_whole, "{name} must be int, a whole number", TypeError)
_NAME = Rule(_is_string, "{name} must be a string, or None", TypeError)
_ADDRESS = Rule(_is_string, "{name} must be the address of a TPU system, a string", TypeError)
_NOT_NEGATIVE = Rule(lambda value: value >= 0, "{name} should be >= 0")
_ABOVE_ZERO = Rule(lambda value: value > 0, "{name} should be > 0")
_MORE_THAN_ZERO = Rule(lambda value: value > 0, "Must specify {name} > 0, given: {value}")
_AT_LEAST_ZERO = Rule(lambda value: value >= 0, "Must specify {name} >= 0, given: {value}")
_INPUT_FN = Rule(callable, "`{name}` must be callable, given: {value}", TypeError, optional=False)
_STRATEGY = Rule(
    lambda value: not isinstance(value, (str, bytes, numbers.Number, list, tuple, dict)),
    "{name} must be a tf.distribute.Strategy, or None",
    TypeError,
)
_OF_TPU_CONFIG = (
    Rule(_is_whole, "TPUConfig {name} must be int", TypeError),
    Rule(lambda value: value > 0, "TPUConfig {name} must be positive"),
)

_RUN_CONFIG: Rules = {
    "model_dir": Rule(
        lambda path: isinstance(path, str) and path,
        "{name} should be non-empty, a string or path",
    ),
    "tf_random_seed": Rule(lambda seed: isinstance(seed, int), "{name} must be integer"),
    "save_summary_steps": _NOT_NEGATIVE,
    "save_checkpoints_steps": _NOT_NEGATIVE,
    "save_checkpoints_secs": _NOT_NEGATIVE,
    "session_config": Rule(
        lambda config: isinstance(config, tf.compat.v1.ConfigProto),
        "{name} must be instance of ConfigProto",
    ),
    "keep_checkpoint_max": (_NOT_NEGATIVE, _WHOLE),
    "keep_checkpoint_every_n_hours": _ABOVE_ZERO,
    "log_step_count_steps": _ABOVE_ZERO,
    "train_distribute": _STRATEGY,
    "eval_distribute": _STRATEGY,
    "experimental_distribute": Rule(
        lambda given: not given or hasattr(given, "train_distribute"),
        "{name} must have the attributes train_distribute, eval_distribute and remote_cluster",
        TypeError,
    ),
    "device_fn": Rule(
        lambda fn: callable(fn) and argument_names(fn) == ("op",),
        '{name} must be callable with exactly one argument "op"',
    ),
    "protocol": Rule(
        lambda value: value in ("grpc", "grpc+verbs"), "{name} should be grpc or grpc+verbs"
    ),
    "experimental_max_worker_delay_secs": Rule(
        lambda secs: isinstance(secs, int), "{name} must be an integer if set"
    ),
    "session_creation_timeout_secs": _ABOVE_ZERO,
    "checkpoint_save_graph_def": FLAG,
}

_TPU_RUN_CONFIG: Rules = {
    # TensorFlow's own TPUConfig is accepted; a model_dir as first argument is not.
    "tpu_config": Rule(
        lambda config: hasattr(config, "iterations_per_loop"),
        "{name} must be a TPUConfig. The first positional argument of this RunConfig is "
        "tpu_config; pass the others by keyword",
        TypeError,
    ),
    "evaluation_master": _ADDRESS,
    "master": _ADDRESS,
    "cluster": Rule(
        lambda resolver: callable(getattr(resolver, "master", None)),
        "{name} must be a tf.distribute.cluster_resolver.ClusterResolver, or None",
        TypeError,
    ),
}

_TPU_CONFIG: Rules = {
    "num_shards": _OF_TPU_CONFIG,
    "num_cores_per_replica": Rule(
        lambda cores: cores in (1, 2, 4, 8, 16, 32, 64, 128),
        "{name} must be 1, 2, 4, 8, 16, 32, 64, 128; got {value!r}",
    ),
    "per_host_input_for_training": Rule(
        lambda value: is_flag(value) or (is_int(value) and 1 <= value <= 5),
        "{name} must be one of InputPipelineConfig, True or False",
        used_as=lambda value: "PER_HOST_V1",
        optional=False,
    ),
    "tpu_job_name": _NAME,
    "initial_infeed_sleep_secs": (
        Rule(lambda secs: not secs or _is_whole(secs), "TPUConfig {name} must be int", TypeError),
        Rule(lambda secs: not secs or secs > 0, "TPUConfig {name} must be positive"),
    ),
    "eval_training_input_configuration": Rule(
        lambda value: value in (2, 5), "{name} must be PER_HOST_V1 or SLICED", optional=False
    ),
    "experimental_host_call_every_n_steps": tuple(
        rule._replace(optional=False) for rule in _OF_TPU_CONFIG
    ),
    "experimental_allow_per_host_v2_parallel_get_next": FLAG,
    "experimental_feed_hook": Rule(callable, "{name} must be a class of hooks", TypeError),
}

_TRAIN_SPEC = {"input_fn": _INPUT_FN, "max_steps": _MORE_THAN_ZERO}

_EVAL_SPEC: Rules = {
    "input_fn": _INPUT_FN,
    "steps": _MORE_THAN_ZERO,
    "name": Rule(
        lambda name: isinstance(name, str), "`{name}` must be string, given: {value}", TypeError
    ),
    "start_delay_secs": _AT_LEAST_ZERO._replace(optional=False),
    "throttle_secs": _AT_LEAST_ZERO._replace(optional=False),
}

_EXPORTER: Rules = {
    "name": _NAME,  # EvalSpec refuses exporters without one
    "serving_input_receiver_fn": _FUNCTION,
    "assets_extra": Rule(
        _is_mapping(_is_path, _is_path),
        "{name} must be a dict of files by their paths in the SavedModel, or None",
        TypeError,
    ),
    "as_text": FLAG,
    "exports_to_keep": Rule(
        lambda number: is_int(number) and number > 0,
        "`{name}`, if provided, must be a positive number (an int). None keeps all exports",
    ),
    "event_file_pattern": _NAME,
    "compare_fn": (
        Rule(lambda fn: fn is not None, "`{name}` must not be None", optional=False),
        Rule(callable, "{name} must be callable, a function", TypeError),
    ),
}

_WARM_START_SETTINGS: Rules = {
    "ckpt_to_initialize_from": (
        Rule(bool, "`{name}` MUST be set in WarmStartSettings", optional=False),
        Rule(_is_path, "`{name}` must be the path of a checkpoint, a string", TypeError),
    ),
    "vars_to_warm_start": (
        Rule(
            lambda names: isinstance(names, (str, list)),
            "`{name}` must be a `list` or `str`, or None",
        ),
        Rule(_compile, "`{name}` must be a regular expression, or a list of them or of variables"),
    ),
    "var_name_to_vocab_info": Rule(
        _is_mapping(
            lambda name: isinstance(name, str),
            lambda info: isinstance(info, tf.compat.v1.train.VocabInfo),
        ),
        "`{name}` must be a dict of VocabInfo by variable name, or None",
        TypeError,
    ),
    "var_name_to_prev_var_name": Rule(
        _is_mapping(lambda name: isinstance(name, str), lambda previous: isinstance(previous, str)),
        "`{name}` must be a dict of names in the checkpoint by variable name, or None",
        TypeError,
    ),
}

# Of each threshold: old programs' tests match the text and the value.
THRESHOLD = Rule(
    lambda value: 0.0 < value < 1.0,
    "{name} not in (0, 1): {name} must be in (0, 1) range. Given: {value}",
)

_HEAD: Rules = {
    "thresholds": Rule(
        lambda values: isinstance(values, Iterable) and all(_is_real(value) for value in values),
        "{name} must be a list of numbers between 0 and 1, such as [0.25, 0.5], or None",
        TypeError,
    ),
    "loss_fn": _FUNCTION,
    "inverse_link_fn": _FUNCTION,
    "compute_full_loss": FLAG,
    "name": _NAME,
}

_MULTI_HEAD: Rules = {
    "heads": Rule(
        lambda heads: isinstance(heads, Iterable), "{name} must be a list of heads", TypeError
    ),
    "head_weights": (
        Rule(
            lambda weights: (
                isinstance(weights, Iterable)
                and not isinstance(weights, (str, bytes))
                and all(map(_is_real, weights))
            ),
            "{name} must be a list of numbers, one for each head",
            TypeError,
        ),
        Rule(
            lambda weights: all(math.isfinite(weight) for weight in weights),
            "{name} must be finite",
        ),
    ),
}

_RATE = Rule(
    lambda rate: is_number(rate) and 0 <= rate < 1,
    "{name} must be a number between 0 and 1 (not 1 itself), the share of outputs that are set to "
    "zero in training, or None",
)
_COMBINER = Rule(
    lambda combiner: combiner in ("mean", "sqrtn", "sum"),
    "{name} must be 'mean', 'sqrtn' or 'sum'",
    optional=False,
)
_ACTIVATION = Rule(
    lambda fn: isinstance(fn, str) or callable(fn),
    "{name} must be a function, the name of one of Keras' activation functions, or None",
    TypeError,
)

_OF_SECOND_GENERATION = Rule(
    lambda head: (
        "trainable_variables" in argument_names(head.create_estimator_spec)
        or takes_any_keyword(head.create_estimator_spec)
    ),
    "{name} must be a head of tf.estimator, of estimator_spec.heads; those of TensorFlow 1 are for "
    "estimator_spec.canned.v1",
    TypeError,
)

_ANY_HEAD = Rule(
    lambda head: callable(getattr(head, "create_estimator_spec", None)),
    "{name} must be a head, such as estimator_spec.heads.RegressionHead()",
    TypeError,
    optional=False,
)
_CANNED_V1: Rules = {
    "head": _ANY_HEAD,
    "activation_fn": _ACTIVATION,
    "dnn_activation_fn": _ACTIVATION,
    "dropout": _RATE,
    "dnn_dropout": _RATE,
    "batch_norm": FLAG,
    "sparse_combiner": _COMBINER,
    "linear_sparse_combiner": _COMBINER,
}

_TABLE_CONFIG = {"hot_id_replication": FLAG}

_EMBEDDING_CONFIG_SPEC: Rules = {
    "pipeline_execution_with_tensor_core": FLAG,
    "profile_data_directory": Rule(_is_path, "{name} must be a path, a string, or None", TypeError),
}

_REAL = Rule(_is_real, "{name} must be a number, or None", TypeError)
_NUMBER = Rule(_is_real, "{name} must be a number", TypeError, optional=False)
_POSITIVE = (_WHOLE._replace(optional=False), _ABOVE_ZERO)

_KMEANS: Rules = {
    "num_clusters": (
        Rule(
            lambda number: tf.is_tensor(number) or _is_whole(number),
            "{name} must be int, a whole number",
            TypeError,
            optional=False,
        ),
        Rule(lambda number: tf.is_tensor(number) or number > 0, "{name} should be > 0"),
    ),
    "initial_clusters": (
        Rule(
            lambda given: given is not None,
            "{name} must be 'random', 'kmeans_plus_plus', an array or a function",
            TypeError,
            optional=False,
        ),
        Rule(
            lambda given: not isinstance(given, str) or given in ("random", "kmeans_plus_plus"),
            "Unsupported initialization algorithm '{value}': {name} must be 'random', "
            "'kmeans_plus_plus', an array or a function",
        ),
    ),
    "distance_metric": Rule(
        lambda metric: metric in ("squared_euclidean", "cosine"),
        "Unsupported distance metric '{value}': {name} must be 'squared_euclidean' or 'cosine'",
        optional=False,
    ),
    "seed": _WHOLE,
    "use_mini_batch": FLAG,
    "mini_batch_steps_per_iteration": _POSITIVE,
    "kmeans_plus_plus_num_retries": _WHOLE._replace(optional=False),
    "relative_tolerance": _REAL,
}

_EXPECTED_ABOVE_ZERO = (
    _NUMBER,
    Rule(lambda value: value > 0, "Expected {name} > 0, received: {value}", optional=False),
)
_EXPECTED_AT_LEAST_ZERO = (
    _NUMBER,
    Rule(lambda value: value >= 0, "Expected {name} >= 0, received: {value}", optional=False),
)
_BOOSTED_TREES: Rules = {
    "head": _ANY_HEAD,
    **dict.fromkeys(
        ("n_trees", "max_depth", "learning_rate", "quantile_sketch_epsilon"), _EXPECTED_ABOVE_ZERO
    ),
    **dict.fromkeys(
        ("l1_regularization", "l2_regularization", "tree_complexity", "min_node_weight"),
        _EXPECTED_AT_LEAST_ZERO,
    ),
    "center_bias": FLAG,
}

_INPUT_OF_ARRAYS: Rules = {
    "batch_size": _POSITIVE,
    "num_epochs": _REAL,
    "queue_capacity": (_WHOLE, Rule(bool, "{name} must not be 0")),
    "num_threads": _POSITIVE,
}

_EARLY_STOPPING: Rules = {
    "metric_name": Rule(
        _is_string,
        "{name} must be a key of Estimator.evaluate's result",
        TypeError,
        optional=False,
    ),
    "threshold": (_NUMBER, Rule(lambda value: not math.isnan(value), "{name} must not be NaN")),
    "max_steps_without_increase": _NUMBER,
    "max_steps_without_decrease": _NUMBER,
    "eval_dir": Rule(_is_path, "{name} must be a path, or None", TypeError),
    "min_steps": _NUMBER,
    "run_every_secs": _REAL,
    "run_every_steps": _REAL,
}

_PARSE_EXAMPLE_SPEC: Rules = {
    "feature_columns": Rule(
        lambda columns: isinstance(columns, Iterable),
        "{name} must be a list of columns",
        TypeError,
        optional=False,
    ),
    "label_key": Rule(
        _is_string, "{name} must be the label's name, a string", TypeError, optional=False
    ),
    "label_dimension": _POSITIVE,
}

RULES: Mapping[str, Rules] = {
    "RunConfig": _RUN_CONFIG,
    "TPURunConfig": _TPU_RUN_CONFIG,
    "TPUConfig": _TPU_CONFIG,
    "TrainSpec": _TRAIN_SPEC,
    "EvalSpec": _EVAL_SPEC,
    "evaluate": {"name": _NAME},
    "Exporter": _EXPORTER,
    "WarmStartSettings": _WARM_START_SETTINGS,
    "TableConfig": _TABLE_CONFIG,
    "EmbeddingConfigSpec": _EMBEDDING_CONFIG_SPEC,
    "numpy_input_fn": _INPUT_OF_ARRAYS,
    "early_stopping_hook": _EARLY_STOPPING,
    "parse_example_spec": _PARSE_EXAMPLE_SPEC,
    "Head": _HEAD,
    "MultiHead": _MULTI_HEAD,
    "CannedEstimator": {
        **_CANNED_V1,
        "head": (_ANY_HEAD, _OF_SECOND_GENERATION),
    },
    "CannedEstimatorV1": _CANNED_V1,
    "KMeansClustering": _KMEANS,
    "BoostedTreesEstimator": _BOOSTED_TREES,
}
