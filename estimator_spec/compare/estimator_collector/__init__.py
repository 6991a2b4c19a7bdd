# SPDX-License-Identifier: Apache-2.0
"""Runs a program in a process of its own and records what its estimators compute.

The process may have no more than TensorFlow 2.15 with its own Estimator: this folder is put on its
path by itself, its files import each other relatively, and the rest of this project only where the
program runs on our estimators.
"""
