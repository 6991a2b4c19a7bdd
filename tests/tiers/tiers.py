# SPDX-License-Identifier: Apache-2.0
"""Which tests run with each change; see "Three tiers of tests" in CONTRIBUTING.md.

Entries name a file or folder of `tests`, or tests of a file by a pattern: `FILE::test_name`, with
`*` for any characters. A test marked `nightly` where it is defined needs no entry here.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable

# What TensorFlow's version can change: how its columns, ops, optimizers, Keras and SavedModels
# behave. With each change, the oldest TensorFlow runs these tests only (marker `versioned`). What
# isn't here is arithmetic, text or files, or calls the same ops as one of these.
VERSIONED = (
    "gpu/test_placement.py::test_ops_without_a_kernel_for_gpus_are_known",
    "tpu_columns/test_categorical.py",
    "tpu_columns/test_columns.py",
    "tpu_columns/test_feature_layers.py",
    "tpu_columns/test_log_messages.py",
    "tpu_columns/test_lookup.py",
    "tpu_columns/test_native_lookup.py",
    "tpu_columns/kernels/test_libraries.py",
    "tpu_columns/kernels/test_random_calls.py",
    "tpu_columns/kernels/test_sources.py::test_there_are_no_warnings",
    "estimator_spec/canned/test_arguments.py",
    "estimator_spec/canned/test_boosted_trees.py",
    "estimator_spec/canned/test_kmeans.py",
    "estimator_spec/canned/test_linear_model.py",
    "estimator_spec/canned/test_saved_model_estimator.py",
    "estimator_spec/checkpoints/test_objects.py",
    "estimator_spec/core/checkpoints/test_slots.py",
    "estimator_spec/core/cluster/test_cluster_training.py::test_the_cluster_continues*",
    "estimator_spec/core/cluster/test_locked_updates.py::test_no_row_is_torn[[]ad*",
    "estimator_spec/core/cluster/test_strategies.py::test_processes_train_as_one[[]1-v2*",
    "estimator_spec/convert/keras_columns/test_column_arguments.py::test_the_table*",
    "estimator_spec/convert/keras_columns/test_optimizers.py::test_the_table*",
    "estimator_spec/convert/keras_columns/test_versions.py",
    "estimator_spec/convert/test_config_proto.py",
    "estimator_spec/convert/test_mid_level.py",
    "estimator_spec/core/cores/test_against_tf1_optimizers.py",
    "estimator_spec/core/cores/test_native_tables.py",
    "estimator_spec/core/driver/test_against_tf_estimator.py",
    "estimator_spec/core/driver/test_every_row.py",
    "estimator_spec/core/driver/test_export.py",
    "estimator_spec/core/driver/test_input_layers.py",
    "estimator_spec/core/driver/test_keras.py",
    "estimator_spec/core/driver/test_native_trainings.py",
    "estimator_spec/core/driver/test_plain_estimator.py",
    "estimator_spec/core/driver/test_predictor.py",
    "estimator_spec/core/driver/test_serving.py",
    "estimator_spec/core/driver/test_shared_tables.py",
    "estimator_spec/core/driver/test_tpu_estimator.py",
    "estimator_spec/core/driver/test_warm_start.py",
    "estimator_spec/core/export",
    "estimator_spec/heads/test_in_estimators.py",
    "estimator_spec/canned/keras_models/test_model_to_estimator.py::test_metrics*",
    "estimator_spec/canned/keras_models/test_model_to_estimator.py::test_training*",
    "estimator_spec/legacy/test_model_analysis.py::test_signatures_of_an_export",
    "estimator_spec/legacy/contrib/test_learn_columns.py",
    "estimator_spec/legacy/contrib/test_learn_models.py::test_names*",
    "estimator_spec/legacy/test_estimator_api.py",
    "estimator_spec/legacy/test_installation.py",
    "estimator_spec/mid_level",
    "estimator_spec/legacy/test_tpu_stand_ins.py",
    "estimator_spec/saved_models/test_dead_ops.py::test_a_repaired_model_computes*",
    "estimator_spec/core/updates/test_native_ops.py::test_updates_equal*",
    "estimator_spec/core/updates/test_updates.py",
    "estimator_spec/core/user_functions/test_model_spec.py",
    "hostile/test_initial_values.py::test_shards*[[]mod-3]",
    "random_models/test_random_models.py::*[[]0]",
    "reference/test_against_the_reference.py::*[[]pooled_columns]",
    "reference/test_against_the_reference.py::*[[]optimizers]",
    "reference/test_canned.py::*[[]2_dnn_binary]",
    "reference/test_canned.py::*[[]1_linear_binary]",
    "reference/test_contrib_learn.py::*[[]combined_binary]",
    "reference/test_canned_variables.py::*_few[]]",
    "reference/test_op_names.py",
    "test_readme.py",
    "test_side_effects.py",
    "test_startup.py",
)

# Too slow for every change, by the reason why a faster test is enough until the night.
NIGHTLY = {
    "trains in processes of its own; nox -s gpu runs it on a GPU": ("gpu/test_on_a_gpu.py::*",),
    "another program of the same era is with every change": (
        "estimator_spec/legacy/test_programs.py::*[[]wide_deep_census]",
        "estimator_spec/legacy/test_programs.py::*[[]taxi_metrics]",
        "estimator_spec/legacy/test_programs.py::*[[]customer_segments]",
        "estimator_spec/legacy/test_programs.py::*[[]churn_workers]",
        "estimator_spec/legacy/test_programs.py::*[[]ads_warm_model]",
        "estimator_spec/legacy/test_programs.py::*[[]housing_exporters]",
        "estimator_spec/legacy/test_programs.py::*[[]executor_clients]",
        "estimator_spec/legacy/test_programs.py::*[[]resnet_imagenet]",
        "estimator_spec/legacy/test_programs.py::*[[]reviews_absl]",
        "estimator_spec/legacy/test_programs.py::*[[]wide_n_deep_contrib]",
        "estimator_spec/legacy/test_programs.py::*[[]iris_contrib]",
        "estimator_spec/legacy/test_programs.py::*[[]housing_keras]",
        "estimator_spec/legacy/test_programs.py::test_same_after_migration[[]run_classifier]",
        "estimator_spec/legacy/test_programs.py::test_as_a_module[[]moments_subclass]",
        "reference/test_against_the_reference.py::*[[]shared_dense_features]",
        "reference/test_against_the_reference.py::*[[]sequences]",
        "examples/test_census.py::test_the_checkpoint_moves_on",
        "examples/test_census_core.py",
        "benchmarks/test_training.py::test_the_command_runs_a_tiny_workload",
    ),
    "another SavedModel is with every change": (
        *(
            f"estimator_spec/saved_models/test_programs.py::test_predictions*[[]{name}]"
            for name in (
                *("baseline_reg-2.15", "combined-1.15", "combined3-2.15", "dnn_parts-1.15"),
                *("dnn_reg-2.8", "linear_weighted-1.15"),
            )
        ),
    ),
    "twelve models of each generation are with every change": (
        "reference/test_canned_variables.py::*_many[]]",
    ),
    "the other generation of this model is with every change": (
        *(
            f"reference/test_canned.py::*[[]{model}]"
            for model in (
                "1_dnn_binary",
                "1_dnn_classes",
                "2_dnn_regressor",
                "1_dnn_estimator",
                "2_dnn_classes",
                "2_dnn_estimator",
                "2_linear_binary",
                "1_linear_classes",
                "2_linear_classes",
                "1_linear_estimator",
                "1_linear_regressor",
                "2_linear_estimator",
                "1_combined_binary",
                "1_combined_regressor",
                "2_combined_regressor",
                "2_combined_estimator",
                "1_baseline_binary",
                "2_baseline_regressor",
                "1_baseline_estimator",
                "2_baseline_estimator",
            )
        ),
        *(
            f"reference/test_keras_models.py::*[[]{model}]"
            for model in (
                "functional_v1",
                "sequential_v1",
                "sequential_v2",
                "trained_v1",
                "tf1_optimizer_v1",
                "named_optimizer_v2",
            )
        ),
        "estimator_spec/canned/test_models.py::test_estimators_take_heads[[]v1]",
        "estimator_spec/canned/test_models.py::test_narrow_tables_of_partitioned*[[]v1-*",
        "estimator_spec/convert/keras_columns/test_canned_models.py::*goes_on*[[]several heads of*",
        "estimator_spec/convert/keras_columns/test_head_arguments.py::*heads_move[[]*_head-*",
        "estimator_spec/canned/test_models.py::test_two_trainings_equal_one[[]v1]",
        "estimator_spec/canned/test_models.py::test_regressors_learn[[]v1]",
        "estimator_spec/canned/test_models.py::test_the_baseline_learns_frequencies[[]v1]",
        "estimator_spec/canned/test_models.py::test_classifiers_learn*[[]v1-linear]",
        "estimator_spec/canned/test_models.py::test_classifiers_learn*[[]v2-linear]",
        "estimator_spec/canned/test_models.py::test_dropout_is_for_training_only[[]v1]",
        "estimator_spec/canned/test_models.py::test_each_part_of_a_combined*[[]v1]",
        "estimator_spec/canned/test_models.py::test_warm_start[[]v1]",
        "estimator_spec/canned/test_models.py::test_tpu_columns[[]v1-False]",
        "estimator_spec/canned/test_models.py::test_tpu_columns[[]v2-True]",
        "estimator_spec/core/cluster/test_models.py::test_canned_estimators[[]1]",
    ),
    "a parameter of a test whose other values are with every change": (
        "estimator_spec/legacy/contrib/test_learn_experiment.py::test_[etor]*[[]core]",
        "estimator_spec/legacy/contrib/test_learn_models.py::test_optimizers[[][Mo]*",
        "reference/test_kmeans.py::*[[]full_batch]",
        "reference/test_kmeans.py::*[[]mini_batch_cosine]",
        "reference/test_kmeans.py::*[[]several_steps]",
        "estimator_spec/core/cluster/test_models.py::test_joined_transfers_change_no_number[[]None]",
        "estimator_spec/core/cluster/test_cluster_training.py::test_one_trainer*[[]div-None]",
        "estimator_spec/core/cluster/test_locked_updates.py::test_no_row*[[]*references]",
        "estimator_spec/compare/test_programs.py::test_a_planted_fault*[[]initializer-*",
        "estimator_spec/compare/test_programs.py::test_a_planted_fault*[[]calls-*",
        *(
            f"estimator_spec/convert/keras_columns/test_canned_models.py::*goes_on*[[]{case}]"
            for case in (
                "combined of the first generation",
                "several numbers",
                "weighted mean",
                "baseline",
                "baseline of the first generation",
                "counts",
                "a probability",
                "labels",
                "several linear heads",
                "a loss of classes",
                "momentum",
            )
        ),
        *(
            f"estimator_spec/convert/keras_program/test_planted.py::*training[[]{plant}]"
            for plant in (
                "a schedule",
                "an argument of the optimizer",
                "clipping by value",
                "clipping by norm",
                "another optimizer",
                "a wide optimizer for a deep column",
                "a rate of dropout",
                "features that are missing",
                "a reduction of the loss",
            )
        ),
        "estimator_spec/convert/keras_program/test_training.py::test_a_rule*=0.11]",
        "estimator_spec/convert/keras_columns/test_more_steps.py::test_fifty*[[]rows of RMSprop*",
        "estimator_spec/convert/keras_columns/test_more_steps.py::test_fifty*[[]partitions*",
        "estimator_spec/convert/test_partial.py::test_it_joins_functional_models[[]tf.keras]",
        "estimator_spec/convert/test_partial.py::test_a_model_trains_both_sides[[]tf.keras]",
        "estimator_spec/convert/test_partial.py::test_lookups*[[]tf.keras-0-*",
        "estimator_spec/convert/test_partial.py::test_lookups*[[]keras 3-None-dictionaries]",
        "estimator_spec/convert/test_keras_rs.py::test_other_processes_and_backends[[]jax]",
        "estimator_spec/convert/test_keras_optimizers.py::*[[]Ftrl1]",
        "estimator_spec/convert/test_keras_optimizers.py::*[[]Adam1]",
        "estimator_spec/convert/test_keras_optimizers.py::*[[]Adagrad1]",
        "estimator_spec/convert/test_keras_optimizers.py::*[[]StochasticGradientDescent1]",
        "estimator_spec/convert/test_keras_optimizers.py::*[[]*-decayed]",
        "estimator_spec/convert/test_keras_optimizers.py::*[[]RMSProp-list]",
        "estimator_spec/convert/test_serving.py::test_any_layout_of_rows[[]mod-8-*",
        "estimator_spec/core/driver/test_keras.py::test_the_choice[[]os.environ*",
        "estimator_spec/core/driver/test_keras.py::test_the_choice[[]-tf.keras.layers-*",
        "estimator_spec/core/driver/test_routing.py::test_all_devices_train_alike[[]mean]",
        "estimator_spec/core/driver/test_routing.py::test_all_devices_train_alike[[]sqrtn]",
        "estimator_spec/core/driver/test_shards.py::test_checkpoints_of_other_shards[[]before0-*",
        "estimator_spec/core/driver/test_shards.py::test_dict_mode_and_the_host_core[[]None]",
        "hostile/test_initial_values.py::test_shards*[[]*-[12]]",
        "hostile/test_initial_values.py::test_servers*[[]div]",
        "estimator_spec/canned/keras_models/test_model_to_estimator.py::test_optimizers[[]<lambda>[1-9]]",
        "hostile/test_two_threads.py::test_two_models[[]replicas-within]",
        "estimator_spec/canned/keras_models/test_model_to_estimator.py::test_training_goes_on*[[]saver]",
        "estimator_spec/core/updates/test_dependencies.py::*[[]True]",
        "estimator_spec/planning/test_memory.py::test_bytes_are_those*[[]None]",
        "estimator_spec/core/updates/test_native_ops.py::test_training_is_the_same[[]*-False]",
        "estimator_spec/core/updates/test_native_ops.py::test_training_is_the_same[[]ftrl-True]",
        "estimator_spec/core/updates/test_native_ops.py::test_training_is_the_same[[]sgd-True]",
        "estimator_spec/core/updates/test_transfers.py::test_the_same_training[[]2-False]",
        *(f"random_models/test_random_models.py::*[[]{n}]" for n in (1, 2, 4, 5, 6, 7, 10)),
        "reference/test_checkpoints.py::test_tensorflow_1_converted[[]layout1]",
        "reference/test_heads.py::test_specs*named]",
    ),
    "many optimizers or settings, of which smaller tests show each": (
        "estimator_spec/core/driver/test_device_loop.py::test_pipelining",
        "estimator_spec/core/driver/test_embedding_core.py::test_a_pipelined_core_makes_no*",
        "estimator_spec/core/driver/test_stacked_tables.py::test_every_optimizer",
    ),
    "measures a machine, or waits": (
        "benchmarks/test_large_table.py",
        "estimator_spec/checkpoints/test_memory.py",
        "estimator_spec/checkpoints/test_cli.py::test_a_reader_that_goes_away",
        "estimator_spec/core/cluster/test_cluster_training.py::test_an_evaluator_ends_at_sigterm",
        "estimator_spec/core/cluster/test_faults.py::test_a_port_in_use",
        "estimator_spec/core/driver/test_reproducible.py",
        "processes/test_forking_python.py::test_programs_end_with_the_process_that_started_them",
        "processes/test_forking_python.py::test_a_server_that_ends",
    ),
    "another environment of a program that is with every change, and of tests in one process": (
        "processes/test_environments.py",
    ),
    "several processes, for what tests in one process show in part": (
        "estimator_spec/checkpoints/test_convert.py::test_a_program_without_eager_execution",
        "estimator_spec/core/cluster/test_cluster_training.py::test_a_master_evaluates_between_steps",
        "estimator_spec/core/cluster/test_cluster_training.py::test_synchronous_replicas",
        "estimator_spec/core/cluster/test_devices.py::test_bytes_are_balanced",
        "estimator_spec/compare/test_loops.py::test_a_call_that_only_one_side_makes_is_named",
        "estimator_spec/compare/test_loops.py::test_a_loop_is_compared*[[]0.1-*",
        "estimator_spec/compare/test_programs.py::test_an_interpreter_without_estimators_says_so",
        "estimator_spec/convert/test_legacy_to_keras.py::test_a_checkpoint_of_tensorflow_2_15_1",
        "estimator_spec/legacy/test_run.py::test_child_processes",
        "estimator_spec/convert/keras_program/test_heads.py::test_the_program_goes_on_where_this_project_is_not",
        "hostile/test_full_disk.py::test_a_full_disk_in_training",
        "estimator_spec/core/cluster/test_models.py::test_joined_transfers_change_no_number[[]host]",
        "estimator_spec/core/driver/test_device_loop.py::test_training_continues",
        "estimator_spec/core/driver/test_on_a_tpu.py::*test_a_checkpoint_goes_to_the_host_and_comes_back",
        "estimator_spec/core/driver/test_serving.py::test_the_reference_serves_it",
        "estimator_spec/legacy/test_programs.py::test_one_warning_that_the_host_takes_the_tpus_place",
        "estimator_spec/core/driver/test_stacked_tables.py::test_outside_of_training_tables_are_single",
        "estimator_spec/core/driver/test_tf1_shapes.py",
        "reference/test_compare.py::test_a_fault_is_named_across_environments",
        "reference/test_mirrored.py",
    ),
}


def matches(test: str, entry: str) -> bool:
    """Returns whether an entry names a test.

    Args:
        test: its id, relative to `tests`.
        entry: as in this module's lists.
    """
    path = test.partition("::")[0]
    if "::" in entry:
        return entry.startswith(f"{path}::") and fnmatch.fnmatchcase(test, entry)
    return path == entry or path.startswith(f"{entry}/")


def paths(entries: Iterable[str]) -> list[str]:
    """Returns the files and folders of entries, each once.

    Args:
        entries: as in this module's lists.
    """
    return list(dict.fromkeys(entry.partition("::")[0] for entry in entries))


def unused(tests: Iterable[str], entries: Iterable[str]) -> list[str]:
    """Returns the entries that name no test, of those whose file or folder has tests.

    Args:
        tests: ids of all tests of some files.
        entries: as in this module's lists.
    """
    tests = list(tests)
    paths = {test.partition("::")[0] for test in tests}
    return [
        entry
        for entry in entries
        if ("::" not in entry or entry.partition("::")[0] in paths)
        and not any(matches(test, entry) for test in tests)
    ]
