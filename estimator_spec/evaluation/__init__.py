# SPDX-License-Identifier: Apache-2.0
"""Defines `TrainSpec`, `EvalSpec` and exporters, and reads earlier evaluation results."""
