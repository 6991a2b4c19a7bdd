# SPDX-License-Identifier: Apache-2.0
"""Fixtures that write checkpoints by TensorFlow and read them back."""

from checkpoint_files import files, module_files, same, tf1_checkpoint

__all__ = ["files", "module_files", "same", "tf1_checkpoint"]
