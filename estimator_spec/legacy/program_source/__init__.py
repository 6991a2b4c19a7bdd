# SPDX-License-Identifier: Apache-2.0
"""Resolves the names in the source of a program, in every scope and module, without running it.

`run`, `run --check`, `doctor` and `migrate` read programs by these functions, which need neither
TensorFlow nor another package. `scopes` finds the scopes of a module and what each binds, `flow`
the statements that may have bound a name where it is read, `names` the full names of these,
`versions` the branches that are for other versions of TensorFlow, and `modules` follows names from
one module of a program to another and decides which API of TensorFlow the program was written for.
"""
