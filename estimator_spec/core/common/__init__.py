# SPDX-License-Identifier: Apache-2.0
"""Checks, files, text output, optional packages and command lines, for all other folders."""
