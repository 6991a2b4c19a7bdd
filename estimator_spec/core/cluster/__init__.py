# SPDX-License-Identifier: Apache-2.0
"""Clusters of parameter servers: tasks, devices, servers, and clusters on this machine.

TF_CONFIG describes a cluster; `estimator_spec.core.run_config.tf_config` reads it. In between-graph
replication the chief and each worker build the same graph and train it in sessions of their own.
The graph's variables are on the parameter servers, its other ops on the process' own task:

    chief ────┐                    ┌──▶ ps 0    variables, their slots, and the ops that update them
    worker 0 ─┼── ids, gradients ──┼──▶ ps 1
    worker 1 ─┘                    └──▶ ...
    evaluator ◀── checkpoints in model_dir

TensorFlow's runtime does the rest (`tf.distribute.Server`). The driver opens the sessions.
"""
