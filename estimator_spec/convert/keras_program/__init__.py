# SPDX-License-Identifier: Apache-2.0
"""Writes the Keras 3 program of an Estimator program, and compares the two.

`python -m estimator_spec to-keras`. The data flows one way: `first_use` runs the program until it
uses an estimator, `batches` reads its input, `written` writes the program and its trained weights,
`proof` compares, `report` says what became of each column.
"""
