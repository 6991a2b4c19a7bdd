# SPDX-License-Identifier: Apache-2.0
"""Which variables begin as they were in an earlier checkpoint."""

from __future__ import annotations

import collections
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

# TensorFlow's own: old and new vocabulary of a variable whose rows are words.
VocabInfo = tf.compat.v1.train.VocabInfo

_Fields = collections.namedtuple(
    "_Fields",
    [
        "ckpt_to_initialize_from",
        "vars_to_warm_start",
        "var_name_to_vocab_info",
        "var_name_to_prev_var_name",
    ],
)


class WarmStartSettings(_Fields):
    """What to take from which checkpoint.

    >>> WarmStartSettings('/tmp/model', vars_to_warm_start='.*embedding.*').vars_to_warm_start
    '.*embedding.*'

    Args:
        ckpt_to_initialize_from: a checkpoint, or a directory whose latest one is taken.
        vars_to_warm_start: a regular expression over trainable variables (the default, '.*',
            takes all; optimizer slots and moving averages are not trainable); a list of such
            expressions over all variables; a list of variables; or None: only those named in
            `var_name_to_vocab_info`.
        var_name_to_vocab_info: `VocabInfo` by variable name, for tables whose vocabulary
            changed: rows move to their words' new places.
        var_name_to_prev_var_name: the name in the checkpoint, for variables that were renamed.

    Raises:
        ValueError: no checkpoint is given.
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: str,
        vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Mapping[str, Any] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> WarmStartSettings:
        """Checks the values; see the class."""
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        return super().__new__(
            cls,
            ckpt_to_initialize_from,
            vars_to_warm_start,
            var_name_to_vocab_info or {},
            var_name_to_prev_var_name or {},
        )


def default_warm_start_settings(warm_start_from: Any) -> WarmStartSettings | None:
    """Reads the `warm_start_from` argument of an estimator.

    Args:
        warm_start_from: `WarmStartSettings`, or a path (str, bytes or path object) of a
            checkpoint, of a directory of checkpoints, or of a SavedModel; or None.

    Returns:
        Settings, or None. For a path they take all trainable variables.

    Raises:
        ValueError: something else.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if isinstance(warm_start_from, (str, bytes, os.PathLike)):
        path = tf.compat.as_str_any(os.fspath(warm_start_from))
        in_saved_model = os.path.join(path, "variables", "variables")
        if path and tf.io.gfile.exists(in_saved_model + ".index"):
            tf.compat.v1.logging.info("Warm-starting from a SavedModel")
            path = in_saved_model
        return WarmStartSettings(ckpt_to_initialize_from=path)
    if getattr(warm_start_from, "_fields", None) == WarmStartSettings._fields:
        return WarmStartSettings(*warm_start_from)  # TensorFlow 2.15's own class
    raise ValueError(
        "warm_start_from must be a string or a WarmStartSettings, instead got "
        f"{type(warm_start_from)}"
    )
