# SPDX-License-Identifier: Apache-2.0
"""`TrainSpec`, `EvalSpec`, exporters, and results of earlier evaluations."""
