# SPDX-License-Identifier: Apache-2.0
"""Shows what importing every module of this project changes in a process.

    python tests/data/process_state.py

prints the changes as JSON: old and new values, by kind and name.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import random
import signal
import sys
import threading
import types
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from absl import flags
from absl import logging as absl_logging

import column_round_trips

LIBRARIES = ("tensorflow", "keras", "tf_keras", "tensorflow_estimator", "absl", "numpy")


def registries() -> dict[str, Any]:
    """Returns TensorFlow's and Keras' registries, by their names."""
    find = importlib.import_module
    framework = "tensorflow.python.framework"
    columns = find("tensorflow.python.feature_column.serialization")._FEATURE_COLUMNS
    ops = find(f"{framework}.ops")
    found = {
        "columns": {kind.__name__: kind for kind in columns},
        "custom objects of tf.keras": tf.keras.utils.get_custom_objects(),
        "custom objects of keras": keras.saving.get_custom_objects(),
        "gradients": ops.gradient_registry._registry,
        "statistics of ops": ops._stats_registry._registry,
        "collections in protos": ops._proto_function_registry._registry,
        "conversions to tensors": find(
            f"{framework}.tensor_conversion_registry"
        )._tensor_conversion_func_registry,
        "type specs": find(f"{framework}.type_spec_registry")._NAME_TO_TYPE_SPEC,
        "revived types": find("tensorflow.python.saved_model.revived_types")._REVIVED_TYPE_REGISTRY,
        "classes in SavedModels": find(
            "tensorflow.python.saved_model.registration.registration"
        )._class_registry._registered_map,
    }
    op_list = find(f"{framework}.op_def_registry")
    names = {*vars(tf.raw_ops)}
    found["ops"] = {name: str(op_list.get(name)) for name in names}
    return found


def describe(value: Any) -> str:
    """Returns a text that tells an object from others."""
    if isinstance(value, str | int | float | bool | bytes | None):
        return repr(value)
    if isinstance(value, tuple | list | set | frozenset):
        return str([describe(each) for each in value])
    return f"{type(value).__name__} {getattr(value, '__qualname__', '')} {id(value)}"


def loggers() -> dict[str, Any]:
    """Returns levels, handlers and filters of all loggers and their handlers."""
    known = dict(logging.root.manager.loggerDict, root=logging.root)
    found: dict[str, Any] = {
        "absl": absl_logging.get_verbosity(),
        "disabled": logging.root.disabled,
    }
    for name, logger in known.items():
        if isinstance(logger, logging.Logger):
            handlers = [(each, each.level, each.filters) for each in logger.handlers]
            state = (logger.level, logger.propagate, logger.disabled, logger.filters, handlers)
            found[name] = describe(state)
    python_handler = absl_logging.get_absl_handler().python_handler
    found["absl's handler"] = describe((python_handler.level, python_handler.filters))
    return found


def attributes() -> dict[str, Any]:
    """Returns the functions and classes of the libraries' modules, and the classes' members."""
    found: dict[str, Any] = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in LIBRARIES or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType | type):
                found[f"{name}.{key}"] = id(value)
            if isinstance(value, type) and value.__module__ == name:
                for member, content in list(vars(value).items()):
                    if callable(content) or isinstance(content, property):
                        found[f"{name}.{key}.{member}"] = id(content)
    return found


def state() -> dict[str, dict[str, str]]:
    """Returns what programs share in a process, as texts by kind and name."""
    kinds: dict[str, dict[Any, Any]] = {
        **registries(),
        "attributes of libraries": attributes(),
        "logging": loggers(),
        "environment": dict(os.environ),
        "flags": {name: flags.FLAGS[name] for name in flags.FLAGS},
        "signals": {str(each): signal.getsignal(each) for each in signal.valid_signals()},
        "other": {
            "warnings": [str(each) for each in warnings.filters],
            "path": sys.path,
            "finders": [*sys.meta_path, *sys.path_hooks],
            "hooks": [sys.excepthook, sys.displayhook, threading.excepthook, sys.gettrace()],
            "import": __import__,
            "switch interval": sys.getswitchinterval(),
            "recursion limit": sys.getrecursionlimit(),
            "random numbers": str(random.getstate()) + str(np.random.get_state()),
            "numpy's errors": str(np.geterr()),
            "eager": tf.executing_eagerly(),
            "resource variables": tf.compat.v1.resource_variables_enabled(),
            "control flow": tf.compat.v1.control_flow_v2_enabled(),
            "threads of TensorFlow": tf.config.threading.get_inter_op_parallelism_threads(),
            "working directory": os.getcwd(),
        },
    }
    return {
        kind: {str(name): describe(value) for name, value in list(values.items())}
        for kind, values in kinds.items()
    }


def changes(before: dict[str, dict[str, str]], after: dict[str, dict[str, str]]) -> dict[str, str]:
    """Returns what differs between two states, in words.

    What a library's module, or logging, has in addition is none: modules load others.
    """
    found = {}
    for kind, values in after.items():
        for name in {*values, *before[kind]}:
            old, new = before[kind].get(name), values.get(name)
            is_loaded = old is None and kind in ("attributes of libraries", "logging")
            if old != new and not is_loaded:
                found[f"{kind}: {name}"] = f"{old} -> {new}"
    return found


if __name__ == "__main__":
    first = state()
    assert not changes(first, state())
    column_round_trips.import_everything()
    print(json.dumps(changes(first, state())))
