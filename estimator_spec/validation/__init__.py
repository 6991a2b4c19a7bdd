# SPDX-License-Identifier: Apache-2.0
"""Checks arguments and reads the signatures of user functions."""
