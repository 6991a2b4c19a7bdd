# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of configurations, specs, exporters and warm starts."""

from __future__ import annotations

import numpy as np

import estimator_spec as es
from constructors import CONFIGS, bad
from refusal import NAN, each, refused

_EXPORTERS = ("FinalExporter", "LatestExporter", "BestExporter")

RUN_CONFIGS = [
    *bad(CONFIGS, "model_dir", ["", 3, ["a"]], ValueError, "model_dir should be non-empty"),
    *bad(CONFIGS, "tf_random_seed", ["3", 1.5], ValueError, "tf_random_seed must be integer"),
    *(
        refusal
        for name in ("save_summary_steps", "save_checkpoints_secs", "keep_checkpoint_max")
        for refusal in (
            *bad(CONFIGS, name, [-1, NAN], ValueError, f"{name} should be >= 0"),
            *bad(CONFIGS, name, ["5", [1]], TypeError, f"{name} should be >= 0"),
        )
    ),
    *(
        refusal
        for name in (
            "keep_checkpoint_every_n_hours",
            "log_step_count_steps",
            "session_creation_timeout_secs",
        )
        for refusal in (
            *bad(CONFIGS, name, [0, -1, NAN], ValueError, f"{name} should be > 0"),
            *bad(CONFIGS, name, ["1"], TypeError, f"{name} should be > 0"),
        )
    ),
    *bad(CONFIGS, "keep_checkpoint_max", [2.5], TypeError, "keep_checkpoint_max must be int"),
    *bad(CONFIGS, "session_config", [3, {}], ValueError, "must be instance of ConfigProto"),
    *bad(CONFIGS, "device_fn", [3, "cpu", abs], ValueError, 'exactly one argument "op"'),
    *bad(CONFIGS, "protocol", ["http", 3], ValueError, "protocol should be grpc"),
    *bad(
        CONFIGS,
        "experimental_max_worker_delay_secs",
        ["3", 1.5],
        ValueError,
        "experimental_max_worker_delay_secs must be an integer",
    ),
    *(
        refusal
        for name in ("train_distribute", "eval_distribute")
        for refusal in bad(
            CONFIGS,
            name,
            [3, "mirrored"],
            TypeError,
            f"{name} must be a tf.distribute.Strategy",
        )
    ),
    *bad(
        CONFIGS,
        "experimental_distribute",
        [3, "x"],
        TypeError,
        "experimental_distribute must have the attributes",
    ),
    *bad("RunConfig", "master", [3], TypeError, "master must be the address of a TPU system"),
    *bad("RunConfig", "evaluation_master", [3], TypeError, "evaluation_master must be the address"),
    *bad("RunConfig", "cluster", [3, "x"], TypeError, "ClusterResolver"),
    refused(
        "RunConfig without such an argument",
        lambda: es.RunConfig(save_checkpoint_steps=5),
        TypeError,
        "save_checkpoint_steps",
    ),
    refused(
        "RunConfig.replace",
        lambda: es.RunConfig().replace(model_directory="/m"),
        ValueError,
        "Replacing model_directory is not supported",
        "model_dir",
    ),
    *(
        refusal
        for name in ("num_shards", "initial_infeed_sleep_secs")
        for refusal in (
            *bad("TPUConfig", name, ["2", 2.5], TypeError, f"TPUConfig {name} must be int"),
            *bad("TPUConfig", name, [-1], ValueError, f"TPUConfig {name} must be positive"),
        )
    ),
    *bad("TPUConfig", "num_cores_per_replica", [3, "2"], ValueError, "must be 1, 2, 4, 8"),
    *bad("TPUConfig", "tpu_job_name", [3, ["a"]], TypeError, "tpu_job_name must be a string"),
    *bad(
        "TPUConfig",
        "eval_training_input_configuration",
        [1, "sliced", None],
        ValueError,
        "must be PER_HOST_V1 or SLICED",
    ),
    *bad(
        "TPUConfig",
        "experimental_host_call_every_n_steps",
        ["1", 2.5, None],
        TypeError,
        "experimental_host_call_every_n_steps must be int",
    ),
    refused("TPUConfig", lambda: es.RunConfig(tpu_config=3), TypeError, "TPUConfig", "3"),
    *each(
        "iterations_per_loop",
        [0, -1, "x", 2.5, None, "5d"],
        es.TPUConfig,
        ValueError,
        "iterations_per_loop",
    ),
    *each(
        "input_partition_dims",
        [3, [[1], [1], [1]]],
        lambda v: es.TPUConfig(input_partition_dims=v),
        ValueError,
        "input_partition_dims",
    ),
    *bad("TPUConfig", "experimental_feed_hook", [3], TypeError, "must be a class of hooks"),
]

SPECS = [
    *bad(
        "EmbeddingConfigSpec",
        "profile_data_directory",
        [3, ["/tmp"]],
        TypeError,
        "profile_data_directory must be a path",
    ),
    *bad(
        ("TrainSpec", "EvalSpec"), "hooks", [3, [3]], TypeError, "must be `SessionRunHook` instance"
    ),
    *each("TrainSpec", [None, 3, "f"], es.TrainSpec, TypeError, "`input_fn` must be callable"),
    *each("EvalSpec", [None, 3, "f"], es.EvalSpec, TypeError, "`input_fn` must be callable"),
    *bad("TrainSpec", "max_steps", [0, -1, NAN], ValueError, "Must specify max_steps > 0"),
    *bad("TrainSpec", "max_steps", ["5", []], TypeError, "max_steps > 0", "of type"),
    *bad("TrainSpec", "saving_listeners", [3, [3]], TypeError, "All saving_listeners must be"),
    *bad("EvalSpec", "steps", [0, -1, NAN], ValueError, "Must specify steps > 0"),
    *bad("EvalSpec", "steps", ["5"], TypeError, "Must specify steps > 0"),
    *bad("EvalSpec", "name", [3, b"n"], TypeError, "`name` must be string"),
    *bad("EvalSpec", "exporters", [3, [3], "x"], TypeError, "`exporters` must be an Exporter"),
    *(
        refusal
        for name in ("start_delay_secs", "throttle_secs")
        for refusal in (
            *bad("EvalSpec", name, [-1, NAN], ValueError, f"Must specify {name} >= 0"),
            *bad("EvalSpec", name, ["5", None], TypeError, f"Must specify {name} >= 0"),
        )
    ),
]

_PARSING = ("classifier_parse_example_spec", "regressor_parse_example_spec")
_STOPPING = ("stop_if_higher_hook", "stop_if_no_increase_hook", "stop_if_no_decrease_hook")
INPUTS_AND_HOOKS = [
    *bad("numpy_input_fn", "batch_size", ["2", 2.5, None], TypeError, "batch_size must be int"),
    *bad("numpy_input_fn", "batch_size", [0, -1], ValueError, "batch_size should be > 0"),
    *bad("numpy_input_fn", "num_epochs", ["2", []], TypeError, "num_epochs must be a number"),
    *bad("numpy_input_fn", "queue_capacity", ["5"], TypeError, "queue_capacity must be int"),
    *bad("numpy_input_fn", "queue_capacity", [0], ValueError, "queue_capacity must not be 0"),
    *bad("numpy_input_fn", "num_threads", ["2"], TypeError, "num_threads must be int"),
    *bad("numpy_input_fn", "num_threads", [0, -1], ValueError, "num_threads should be > 0"),
    *bad("numpy_input_fn", "shuffle", [None, "no"], ValueError, "explicitly set as boolean"),
    *each(
        "arrays",
        [({"x": [1, 2]}, None), (np.arange(2), 3)],
        lambda v: es.numpy_input_fn(*v, shuffle=False)(),
        TypeError,
        "x and y must be arrays",
        "numpy.array",
    ),
    *bad(_PARSING, "feature_columns", [3, None], TypeError, "feature_columns must be a list of"),
    *bad(_PARSING, "label_key", [3, None], TypeError, "label_key must be the label's name"),
    *bad(_PARSING[1], "label_dimension", ["2", 1.5], TypeError, "label_dimension must be int"),
    *bad(_PARSING[1], "label_dimension", [0], ValueError, "label_dimension should be > 0"),
    *bad(_STOPPING, "metric_name", [3, None], TypeError, "metric_name must be a key of"),
    *bad(
        ("stop_if_higher_hook", "stop_if_lower_hook"),
        "threshold",
        ["x", None],
        TypeError,
        "threshold must be a number",
    ),
    *bad("stop_if_higher_hook", "threshold", [NAN], ValueError, "threshold must not be NaN"),
    *bad(
        "stop_if_no_increase_hook",
        "max_steps_without_increase",
        ["5", None],
        TypeError,
        "max_steps_without_increase must be a number",
    ),
    *bad(_STOPPING, "eval_dir", [3], TypeError, "eval_dir must be a path"),
    *bad(_STOPPING, "min_steps", ["5", None], TypeError, "min_steps must be a number"),
    *bad(_STOPPING, "run_every_secs", ["5"], TypeError, "run_every_secs must be a number"),
]

EXPORTS = [
    *bad(_EXPORTERS, "name", [3, ["a"]], TypeError, "name must be a string"),
    *bad(
        _EXPORTERS,
        "serving_input_receiver_fn",
        [3, "f"],
        TypeError,
        "serving_input_receiver_fn must be a function",
    ),
    *bad(
        _EXPORTERS,
        "assets_extra",
        [3, ["a"], {"a": 3}],
        TypeError,
        "assets_extra must be a dict of files",
    ),
    *bad(
        ("LatestExporter", "BestExporter"),
        "exports_to_keep",
        [0, -1, 2.5, "3", True],
        ValueError,
        "`exports_to_keep`, if provided, must be a positive number",
    ),
    *bad("BestExporter", "event_file_pattern", [3], TypeError, "event_file_pattern must be a str"),
    *bad("BestExporter", "compare_fn", [3, "f"], TypeError, "compare_fn must be callable"),
    *bad("BestExporter", "compare_fn", [None], ValueError, "`compare_fn` must not be None"),
    *bad(
        "BestExporter",
        "compare_fn",
        [lambda a, b: True],
        ValueError,
        "must include best_eval_result argument",
    ),
]

WARM_STARTS = [
    *bad(
        "WarmStartSettings",
        "vars_to_warm_start",
        [3, {}, ("a",)],
        ValueError,
        "`vars_to_warm_start` must be a `list` or `str`",
    ),
    *bad(
        "WarmStartSettings",
        "vars_to_warm_start",
        ["(", ["ok", "("]],
        ValueError,
        "`vars_to_warm_start` must be a regular expression",
    ),
    *bad(
        "WarmStartSettings",
        "var_name_to_vocab_info",
        [3, ["a"], {"a": 3}],
        TypeError,
        "`var_name_to_vocab_info` must be a dict of VocabInfo",
    ),
    *bad(
        "WarmStartSettings",
        "var_name_to_prev_var_name",
        [3, ["a"], {"a": 3}, "a"],
        TypeError,
        "`var_name_to_prev_var_name` must be a dict of names",
    ),
    *each("checkpoint", [None, ""], es.WarmStartSettings, ValueError, "MUST be set in WarmStartS"),
    *each("checkpoint", [3, ["a"]], es.WarmStartSettings, TypeError, "the path of a checkpoint"),
]

REFUSALS = [*RUN_CONFIGS, *SPECS, *INPUTS_AND_HOOKS, *EXPORTS, *WARM_STARTS]
