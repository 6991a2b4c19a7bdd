# SPDX-License-Identifier: Apache-2.0
"""Configuration of runs: `RunConfig`, `TPUConfig` and TF_CONFIG."""
