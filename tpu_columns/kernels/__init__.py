# SPDX-License-Identifier: Apache-2.0
"""Ops in C++ (`cpp/`) that look up and update tables, and the shared libraries that have them.

    cpp/ ─▶ building ─▶ library and its manifest ─▶ libraries (finds, checks) ─▶ loading

A library fits one minor version of TensorFlow. A wheel has one for each, in the folder `libraries`;
`python -m estimator_spec kernels build` builds another. A training builds none.
"""
