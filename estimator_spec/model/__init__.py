# SPDX-License-Identifier: Apache-2.0
"""Defines what a `model_fn` returns and what an exported model receives and serves."""
