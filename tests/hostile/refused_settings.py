# SPDX-License-Identifier: Apache-2.0
"""Bad arguments of configurations, specs, exporters and warm starts."""

from __future__ import annotations

import numpy as np

import estimator_spec as es
from constructors import CONFIGS, bad
from refusal import NAN, case, each

_EXPORTERS = ("FinalExporter", "LatestExporter", "BestExporter")

RUN_CONFIGS = [
    *bad(CONFIGS, "model_dir", ["", 3, ["a"]], "model_dir should be non-empty"),
    *bad(CONFIGS, "tf_random_seed", ["3", 1.5], "tf_random_seed must be integer"),
    *(
        refusal
        for name in ("save_summary_steps", "save_checkpoints_secs", "keep_checkpoint_max")
        for refusal in (
            *bad(CONFIGS, name, [-1, NAN], f"{name} should be >= 0"),
            *bad(CONFIGS, name, ["5", [1]], f"{name} should be >= 0", TypeError),
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
            *bad(CONFIGS, name, [0, -1, NAN], f"{name} should be > 0"),
            *bad(CONFIGS, name, ["1"], f"{name} should be > 0", TypeError),
        )
    ),
    *bad(CONFIGS, "keep_checkpoint_max", [2.5], "keep_checkpoint_max must be int", TypeError),
    *bad(CONFIGS, "session_config", [3, {}], "must be instance of ConfigProto"),
    *bad(CONFIGS, "device_fn", [3, "cpu", abs], 'exactly one argument "op"'),
    *bad(CONFIGS, "protocol", ["http", 3], "protocol should be grpc"),
    *bad(
        CONFIGS,
        "experimental_max_worker_delay_secs",
        ["3", 1.5],
        "experimental_max_worker_delay_secs must be an integer",
    ),
    *(
        refusal
        for name in ("train_distribute", "eval_distribute")
        for refusal in bad(
            CONFIGS, name, [3, "mirrored"], f"{name} must be a tf.distribute.Strategy", TypeError
        )
    ),
    *bad(
        CONFIGS,
        "experimental_distribute",
        [3, "x"],
        "experimental_distribute must have the attributes",
        TypeError,
    ),
    *bad("RunConfig", "master", [3], "master must be the address of a TPU system", TypeError),
    *bad("RunConfig", "evaluation_master", [3], "evaluation_master must be the address", TypeError),
    *bad("RunConfig", "cluster", [3, "x"], "ClusterResolver", TypeError),
    case(
        "RunConfig without such an argument",
        lambda: es.RunConfig(save_checkpoint_steps=5),
        "save_checkpoint_steps",
        TypeError,
    ),
    case(
        "RunConfig.replace",
        lambda: es.RunConfig().replace(model_directory="/m"),
        "Replacing model_directory is not supported … model_dir",
    ),
    *(
        refusal
        for name in ("num_shards", "initial_infeed_sleep_secs")
        for refusal in (
            *bad("TPUConfig", name, ["2", 2.5], f"TPUConfig {name} must be int", TypeError),
            *bad("TPUConfig", name, [-1], f"TPUConfig {name} must be positive"),
        )
    ),
    *bad("TPUConfig", "num_cores_per_replica", [3, "2"], "must be 1, 2, 4, 8"),
    *bad("TPUConfig", "tpu_job_name", [3, ["a"]], "tpu_job_name must be a string", TypeError),
    *bad(
        "TPUConfig",
        "eval_training_input_configuration",
        [1, "sliced", None],
        "must be PER_HOST_V1 or SLICED",
    ),
    *bad(
        "TPUConfig",
        "experimental_host_call_every_n_steps",
        ["1", 2.5, None],
        "experimental_host_call_every_n_steps must be int",
        TypeError,
    ),
    case("TPUConfig", lambda: es.RunConfig(tpu_config=3), "TPUConfig … 3", TypeError),
    *each(
        "iterations_per_loop", [0, -1, "x", 2.5, None, "5d"], es.TPUConfig, "iterations_per_loop"
    ),
    *each(
        "input_partition_dims",
        [3, [[1], [1], [1]]],
        lambda v: es.TPUConfig(input_partition_dims=v),
        "input_partition_dims",
    ),
    *bad("TPUConfig", "experimental_feed_hook", [3], "must be a class of hooks", TypeError),
]

SPECS = [
    *bad(
        "EmbeddingConfigSpec",
        "profile_data_directory",
        [3, ["/tmp"]],
        "profile_data_directory must be a path",
        TypeError,
    ),
    *bad(
        ("TrainSpec", "EvalSpec"), "hooks", [3, [3]], "must be `SessionRunHook` instance", TypeError
    ),
    *each("TrainSpec", [None, 3, "f"], es.TrainSpec, "`input_fn` must be callable", TypeError),
    *each("EvalSpec", [None, 3, "f"], es.EvalSpec, "`input_fn` must be callable", TypeError),
    *bad("TrainSpec", "max_steps", [0, -1, NAN], "Must specify max_steps > 0"),
    *bad("TrainSpec", "max_steps", ["5", []], "max_steps > 0 … of type", TypeError),
    *bad("TrainSpec", "saving_listeners", [3, [3]], "All saving_listeners must be", TypeError),
    *bad("EvalSpec", "steps", [0, -1, NAN], "Must specify steps > 0"),
    *bad("EvalSpec", "steps", ["5"], "Must specify steps > 0", TypeError),
    *bad("EvalSpec", "name", [3, b"n"], "`name` must be string", TypeError),
    *bad("EvalSpec", "exporters", [3, [3], "x"], "`exporters` must be an Exporter", TypeError),
    *(
        refusal
        for name in ("start_delay_secs", "throttle_secs")
        for refusal in (
            *bad("EvalSpec", name, [-1, NAN], f"Must specify {name} >= 0"),
            *bad("EvalSpec", name, ["5", None], f"Must specify {name} >= 0", TypeError),
        )
    ),
]

_PARSING = ("classifier_parse_example_spec", "regressor_parse_example_spec")
_STOPPING = ("stop_if_higher_hook", "stop_if_no_increase_hook", "stop_if_no_decrease_hook")
INPUTS_AND_HOOKS = [
    *bad("numpy_input_fn", "batch_size", ["2", 2.5, None], "batch_size must be int", TypeError),
    *bad("numpy_input_fn", "batch_size", [0, -1], "batch_size should be > 0"),
    *bad("numpy_input_fn", "num_epochs", ["2", []], "num_epochs must be a number", TypeError),
    *bad("numpy_input_fn", "queue_capacity", ["5"], "queue_capacity must be int", TypeError),
    *bad("numpy_input_fn", "queue_capacity", [0], "queue_capacity must not be 0"),
    *bad("numpy_input_fn", "num_threads", ["2"], "num_threads must be int", TypeError),
    *bad("numpy_input_fn", "num_threads", [0, -1], "num_threads should be > 0"),
    *bad(
        "numpy_input_fn",
        "shuffle",
        [None, "no", 1],
        "shuffle must be provided and explicitly set as boolean",
    ),
    *each(
        "arrays",
        [({"x": [1, 2]}, None), (np.arange(2), 3)],
        lambda v: es.numpy_input_fn(*v, shuffle=False)(),
        "x and y must be arrays … numpy.array",
        TypeError,
    ),
    *bad(_PARSING, "feature_columns", [3, None], "feature_columns must be a list of", TypeError),
    *bad(_PARSING, "label_key", [3, None], "label_key must be the label's name", TypeError),
    *bad(_PARSING[1], "label_dimension", ["2", 1.5], "label_dimension must be int", TypeError),
    *bad(_PARSING[1], "label_dimension", [0], "label_dimension should be > 0"),
    *bad(_STOPPING, "metric_name", [3, None], "metric_name must be a key of", TypeError),
    *bad(
        ("stop_if_higher_hook", "stop_if_lower_hook"),
        "threshold",
        ["x", None],
        "threshold must be a number",
        TypeError,
    ),
    *bad("stop_if_higher_hook", "threshold", [NAN], "threshold must not be NaN"),
    *bad(
        "stop_if_no_increase_hook",
        "max_steps_without_increase",
        ["5", None],
        "max_steps_without_increase must be a number",
        TypeError,
    ),
    *bad(_STOPPING, "eval_dir", [3], "eval_dir must be a path", TypeError),
    *bad(_STOPPING, "min_steps", ["5", None], "min_steps must be a number", TypeError),
    *bad(_STOPPING, "run_every_secs", ["5"], "run_every_secs must be a number", TypeError),
]

EXPORTS = [
    *bad(_EXPORTERS, "name", [3, ["a"]], "name must be a string", TypeError),
    *bad(
        _EXPORTERS,
        "serving_input_receiver_fn",
        [3, "f"],
        "serving_input_receiver_fn must be a function",
        TypeError,
    ),
    *bad(
        _EXPORTERS,
        "assets_extra",
        [3, ["a"], {"a": 3}],
        "assets_extra must be a dict of files",
        TypeError,
    ),
    *bad(
        ("LatestExporter", "BestExporter"),
        "exports_to_keep",
        [0, -1, 2.5, "3", True],
        "`exports_to_keep`, if provided, must be a positive number",
    ),
    *bad("BestExporter", "event_file_pattern", [3], "event_file_pattern must be a str", TypeError),
    *bad("BestExporter", "compare_fn", [3, "f"], "compare_fn must be callable", TypeError),
    *bad("BestExporter", "compare_fn", [None], "`compare_fn` must not be None"),
    *bad(
        "BestExporter", "compare_fn", [lambda a, b: True], "must include best_eval_result argument"
    ),
]

WARM_STARTS = [
    *bad(
        "WarmStartSettings",
        "vars_to_warm_start",
        [3, {}, ("a",)],
        "`vars_to_warm_start` must be a `list` or `str`",
    ),
    *bad(
        "WarmStartSettings",
        "vars_to_warm_start",
        ["(", ["ok", "("]],
        "`vars_to_warm_start` must be a regular expression",
    ),
    *bad(
        "WarmStartSettings",
        "var_name_to_vocab_info",
        [3, ["a"], {"a": 3}],
        "`var_name_to_vocab_info` must be a dict of VocabInfo",
        TypeError,
    ),
    *bad(
        "WarmStartSettings",
        "var_name_to_prev_var_name",
        [3, ["a"], {"a": 3}, "a"],
        "`var_name_to_prev_var_name` must be a dict of names",
        TypeError,
    ),
    *each("checkpoint", [None, ""], es.WarmStartSettings, "MUST be set in WarmStartS"),
    *each("checkpoint", [3, ["a"]], es.WarmStartSettings, "the path of a checkpoint", TypeError),
]

REFUSALS = [*RUN_CONFIGS, *SPECS, *INPUTS_AND_HOOKS, *EXPORTS, *WARM_STARTS]
