# SPDX-License-Identifier: Apache-2.0
"""Settings of a warm start: initial values of variables from an earlier checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.core.common import argument_rules

# TensorFlow's class: old and new vocabulary of a variable whose rows are words.
VocabInfo = tf.compat.v1.train.VocabInfo


class _WarmStartFields(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: Any
    var_name_to_vocab_info: Mapping[str, Any]
    var_name_to_prev_var_name: Mapping[str, str]


class WarmStartSettings(_WarmStartFields):
    """Variables of a warm start, and the checkpoint to restore them from.

    >>> WarmStartSettings('/tmp/model', vars_to_warm_start='.*embedding.*').vars_to_warm_start
    '.*embedding.*'

    Args:
        ckpt_to_initialize_from: a checkpoint, or a directory, whose latest checkpoint is used.
        vars_to_warm_start: a regular expression for names of trainable variables (the default,
            '.*', matches all; slot variables and moving averages are not trainable); a list of such
            expressions for names of all variables; a list of variables; or None: only variables in
            `var_name_to_vocab_info`.
        var_name_to_vocab_info: `VocabInfo` by variable name, for tables whose vocabulary changed;
            rows are moved to the new ids of their words.
        var_name_to_prev_var_name: names in the checkpoint by variable name, for renamed variables.

    Raises:
        ValueError: no checkpoint is given, or the variables are no list, or no regular expression.
        TypeError: a value has another type.
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
        argument_rules.check("WarmStartSettings", locals())
        return super().__new__(
            cls,
            ckpt_to_initialize_from,
            vars_to_warm_start,
            var_name_to_vocab_info or {},
            var_name_to_prev_var_name or {},
        )


def default_warm_start_settings(warm_start_from: Any) -> WarmStartSettings | None:
    """Returns the settings for the `warm_start_from` argument of an estimator.

    Args:
        warm_start_from: `WarmStartSettings`, or a path (str, bytes or path object) of a
            checkpoint, of a directory of checkpoints, or of a SavedModel; or None.

    Returns:
        Settings, or None. For a path: settings for all trainable variables.

    Raises:
        ValueError: the argument is something else.
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
