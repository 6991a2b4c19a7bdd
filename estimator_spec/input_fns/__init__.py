# SPDX-License-Identifier: Apache-2.0
"""Input functions that read arrays and data frames in memory."""
