# SPDX-License-Identifier: Apache-2.0
"""Reimplements names of `tensorflow.contrib` that no installed library has."""
