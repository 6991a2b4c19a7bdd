# SPDX-License-Identifier: Apache-2.0
"""Writes the PyTorch program of an Estimator program, and compares the two.

`python -m estimator_spec to-torch`. What runs the program and the estimator is that of `to-keras`,
`convert/keras_program/`; what is written is in `convert/torch_columns/`.
"""
