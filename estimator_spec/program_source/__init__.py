# SPDX-License-Identifier: Apache-2.0
"""What the source of a program means: which name is bound to what, in every scope and module.

`run`, `run --check`, `doctor` and `migrate` read programs by these functions, which need neither
TensorFlow nor another package. `scopes` finds the scopes of a module and what each binds, `flow`
the statements that may have bound a name where it is read, `names` the full names of these,
`versions` the branches that are for other versions of TensorFlow, and `modules` follows names from
one module of a program to another and decides which API of TensorFlow the program was written for.
"""
