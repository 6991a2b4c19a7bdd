# SPDX-License-Identifier: Apache-2.0
"""Reads and writes checkpoints, with tables in any layout."""
