# SPDX-License-Identifier: Apache-2.0
"""Implements `benchmarks/training.py`: workloads, sides, processes, results and pages.

| file | its one job |
|---|---|
| `workloads.py` | what is trained: tables, features, ids; NumPy alone |
| `batches.py` | the batches as a `tf.data` dataset |
| `program.py`, `census_program.py` | the programs for `TPUEstimator`, the reference's or ours |
| `canned_program.py` | canned estimators, likewise |
| `constant_layers.py` | constants in place of the feature layers |
| `reference/` | our packages' names, given to TensorFlow 2.15.1's own classes |
| `keras_program.py`, `fbgemm_program.py` | the same tables in keras-rs and in FBGEMM |
| `profiling.py` | a step's time by kind of op |
| `process.py`, `clocks.py` | one process: one workload on one side, and what it took |
| `sides.py`, `environments.py` | which sides there are, and an interpreter for each |
| `results.py`, `goals.py`, `pages.py` | figures of many processes; goals; page and plot |
"""
