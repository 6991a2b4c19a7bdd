# SPDX-License-Identifier: Apache-2.0
"""Modules that programs of PyTorch have copies of; those that need torch aren't imported here."""
