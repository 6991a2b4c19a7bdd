# SPDX-License-Identifier: Apache-2.0
"""What a program's functions return: batches of an `input_fn`, specs of a `model_fn`.

Also ready-made input functions, for data in memory.
"""
