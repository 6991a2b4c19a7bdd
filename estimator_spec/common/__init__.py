# SPDX-License-Identifier: Apache-2.0
"""Checks, files, terminals, pages and options of command lines, for all other folders."""
