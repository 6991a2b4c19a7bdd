# SPDX-License-Identifier: Apache-2.0
"""Outputs, receivers and exporters of SavedModels."""
