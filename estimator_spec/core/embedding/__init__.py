# SPDX-License-Identifier: Apache-2.0
"""Defines the embedding specification: tables, features, optimizers, and their devices."""
