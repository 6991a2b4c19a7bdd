# SPDX-License-Identifier: Apache-2.0
"""Finds ops that today's TensorFlow can't run in SavedModels, and rewrites those it can replace."""
