# SPDX-License-Identifier: Apache-2.0
"""Trains, evaluates, predicts and exports models with sharded embedding tables.

The core imports no other folder of `estimator_spec`.
"""
