# SPDX-License-Identifier: Apache-2.0
"""Files of written programs that don't depend on their plan alone: vocabularies, whole modules."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

import tensorflow as tf

from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.core.common import own_files

# Longer vocabularies are files.
INLINE_WORDS = 20
HERE = os.path.dirname(os.path.abspath(__file__))
# Modules that programs without TensorFlow have copies of, by path.
RECORDS = os.path.join(HERE, "records.py")
RECORDED = os.path.join(HERE, "recorded.py")


def module_text(path: str) -> str:
    """Returns the source of a module as a program has it: without the line of the license."""
    with open(path, encoding="utf-8") as file:
        _, _, text = file.read().partition("\n")
    return text


def write_files(texts: Mapping[str, str], plan: ModelPlan, directory: str) -> None:
    """Writes the texts of a program by the names of their files, and its vocabularies."""
    for name, text in texts.items():
        own_files.write_file(os.path.join(directory, name), text.encode())
    for name, words in plan.vocabularies.items():
        folder = os.path.join(directory, "vocabularies")
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name)
        if isinstance(words, list):
            lines = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            own_files.write_file(path, b"\n".join(lines) + b"\n")
        else:
            with tf.io.gfile.GFile(words, "rb") as old, open(path, "wb") as new:
                shutil.copyfileobj(old, new)
