# SPDX-License-Identifier: Apache-2.0
"""Makes input functions from arrays and data frames in memory."""
