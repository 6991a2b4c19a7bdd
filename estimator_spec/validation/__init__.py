# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments, and signatures of user functions."""
