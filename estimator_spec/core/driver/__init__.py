# SPDX-License-Identifier: Apache-2.0
"""Trains, evaluates, predicts with and exports models in TensorFlow sessions."""
