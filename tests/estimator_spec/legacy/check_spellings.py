# SPDX-License-Identifier: Apache-2.0
"""Program of test_installation.py for a fresh process: reads every removed name in every spelling.

Prints one JSON object: by case, what went wrong (empty lists are good).
"""

from __future__ import annotations

import importlib
import json
import sys

import tensorflow as tf

import estimator_spec
from estimator_spec.core.common import legacy_keras
from estimator_spec.legacy import names
from estimator_spec.legacy.modules import LegacyModule, resolve
from estimator_spec.legacy.name_rows import When

MISSING = object()


def walk(full):
    """Returns a name as an attribute of `tf`."""
    first, *parts = full.split(".")
    found = {"tensorflow": tf}.get(first) or importlib.import_module(first)
    for part in parts:
        found = getattr(found, part, MISSING)
    return found


def spellings(module, name):
    """Yields the ways in which a program can get a name of a module: (description, function)."""

    def from_import():
        scope = {}
        exec(f"from {module} import {name} as found", scope)
        return scope["found"]

    def import_as():
        scope = {}
        exec(f"import {module} as module", scope)
        return getattr(scope["module"], name)

    yield "from", from_import
    yield "import as", import_as
    yield "import_module", lambda: getattr(importlib.import_module(module), name)
    # `del python` ends tensorflow/__init__.py: there is no such attribute.
    if not module.startswith("tensorflow.python"):
        yield "attribute", lambda: walk(f"{module}.{name}")


def wrong(expected):
    """Returns the spellings that give the wrong object."""
    found = []
    for row in names.rows():
        if row.when is not When.ALWAYS:
            continue
        for module in row.modules():
            for how, get in spellings(module, row.name):
                try:
                    value = get()
                except Exception as error:  # reported, whatever it is
                    found.append(f"{how} {module}.{row.name}: {type(error).__name__} {error}")
                    continue
                if not expected(row, value):
                    found.append(f"{how} {module}.{row.name}: {value}")
    return found


def is_ours(row, value):
    """Returns the object that the table names."""
    return value is resolve(row.ours)


def is_one_of_tensorflows(row, value):
    """Returns names of TensorFlow 2.15 that `install()` without replace=True has changed."""
    if row.ours.startswith("estimator_spec.legacy.contrib.learn"):
        return is_ours(row, value)  # TensorFlow 2.15 has other classes of these names only
    name = row.name.removesuffix("V2")
    for module in (tf.compat.v1.estimator, tf.compat.v1.estimator.tpu, tf.compat.v1.tpu):
        if hasattr(module, name) and row.name != "RunConfig":
            return value is not resolve(row.ours) or value is getattr(module, name)
    return True


def state():
    """Returns the state of modules that an uninstall must restore."""
    faces = [tf, tf.compat.v1, tf.compat.v2, tf.compat.v1.tpu, tf.compat.v1.tpu.experimental]
    faces += [sys.modules["tensorflow._api.v2.compat.v1"], tf.compat.v1.compat.v1]
    faces += [sys.modules["tensorflow.python"], sys.modules["tensorflow.python.tpu"]]
    return {
        "sys.modules": dict(sys.modules),
        "sys.meta_path": {str(i): finder for i, finder in enumerate(sys.meta_path)},
        **{f"vars({face.__name__})": dict(vars(face)) for face in faces},
    }


def changes(before, after):
    """Returns the differences of two states, apart from modules of this package."""
    return [
        f"{where}: {key}"
        for where, values in before.items()
        for key in sorted({*values, *after[where]})
        if not key.startswith(("_tfmw", "estimator_spec", "tpu_columns"))
        and values.get(key, MISSING) is not after[where].get(key, MISSING)
    ]


def main():
    """Installs with and without `replace`, and prints the differences."""
    keep = hasattr(tf, "estimator")
    report = {}
    importlib.import_module("tensorflow.tpu")  # a part of the API loaded by name, before
    legacy_keras.select_legacy_keras()
    # These load Keras, which stays.
    assert tf.compat.v1.nn.rnn_cell.RNNCell
    assert tf.compat.v1.keras.layers
    assert tf.keras.metrics.Mean
    # So do the modules of our packages, which load at their first use.
    assert all(hasattr(estimator_spec, name) for name in estimator_spec.__all__)
    before = state()
    estimator_spec.install(replace=True)
    report["replace"] = wrong(is_ours)
    estimator_spec.uninstall()
    report["left by replace"] = changes(before, state())

    if keep:  # it loads its Estimator, and Keras with it, when it is asked about a name of theirs
        for face in (tf, tf.compat.v1, tf.compat.v2, tf.compat.v1.compat.v1):
            assert face.estimator.Estimator
            assert face.keras.Model
        before = state()
    estimator_spec.install()
    report["default"] = wrong(is_one_of_tensorflows if keep else is_ours)
    if keep:
        config = importlib.import_module("tensorflow.contrib.tpu").RunConfig
        report["default"] += [] if config is tf.compat.v1.estimator.tpu.RunConfig else [str(config)]
    estimator_spec.uninstall()
    left = changes(before, state())
    if keep:
        # What was imported meanwhile is TensorFlow's, and stays.
        imported = ("sys.modules: ", "vars(tensorflow.python")
        left = [change for change in left if not change.startswith(imported)]
    left += [name for name, module in sys.modules.items() if isinstance(module, LegacyModule)]
    report["left by default"] = left
    report["attributes"] = [name for name in ("contrib", "estimator") if hasattr(tf, name)]
    print(json.dumps(report))


if __name__ == "__main__":
    main()
