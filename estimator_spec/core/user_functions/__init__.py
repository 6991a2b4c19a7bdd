# SPDX-License-Identifier: Apache-2.0
"""Batches of an `input_fn` and specs of a `model_fn`; input functions for data in memory."""
