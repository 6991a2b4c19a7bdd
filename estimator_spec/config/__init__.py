# SPDX-License-Identifier: Apache-2.0
"""Defines how a run is configured: `RunConfig`, `TPUConfig` and TF_CONFIG."""
