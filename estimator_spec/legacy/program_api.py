# SPDX-License-Identifier: Apache-2.0
"""Decides which API of TensorFlow a program was written for, for `run` and `migrate` alike.

A program is of TensorFlow 1 if one of its modules uses a name of `tensorflow` that only TensorFlow
1 had. All its modules then get that API under `import tensorflow`, with the first generation of
canned estimators: a module without such names may use others that TensorFlow 2 changed.
"""

from __future__ import annotations

from estimator_spec.legacy import api_differences, program_names, tensorflow_names
from estimator_spec.legacy.program_source import program_files
from estimator_spec.legacy.program_source.modules import Modules
from estimator_spec.legacy.program_source.names import ModuleNames

# Packages of TensorFlow that don't belong to an API version.
SHARED = ("compat", "core", "lite", "python", "tools", "tsl")
TF1 = "tensorflow.compat.v1"
_TENSORFLOW = "tensorflow"
_OF_TF2 = ("2.15.1", "2.21.0")


def uses_tf1_names(program: program_files.StartedProgram) -> bool:
    """Returns whether a program is of TensorFlow 1.

    Its files are those that it imports, from its main one on; they are parsed, not run. A file that
    isn't valid Python 3 uses no names.
    """
    modules = Modules(program_files.find_files(program))
    return any(is_of_tf1(names) for _, names in modules.all())


def is_of_tf1(names: ModuleNames) -> bool:
    """Returns whether a module uses names of `tensorflow` that only TensorFlow 1 had.

    `tf.flags` counts; `tf.compat.v1.flags`, names of `import tensorflow.compat.v1 as tf` and names
    whose absence the program handles don't.
    """
    of_tf1 = [
        use
        for use in program_names.uses(names)
        if use.from_tensorflow and is_tf1_name(use.name.partition(".")[2])
    ]
    if not of_tf1:
        return False
    handling = program_names.handling_of(names, lambda full: False)
    return not all(handling.handles(use.name, use.start, use.errors) for use in of_tf1)


def is_tf1_name(name: str) -> bool:
    """Returns whether `tensorflow` has a name in no version of TensorFlow 2.

    >>> is_tf1_name("Session"), is_tf1_name("metrics.auc"), is_tf1_name("estimator.DNNClassifier")
    (True, True, False)

    Args:
        name: relative to `tensorflow`.
    """
    return all(tensorflow_names.is_only_in_tf1(name, version) for version in _OF_TF2)


def name_in_tf1(name: str) -> str:
    """Returns the full name of what `tensorflow.name` is in a program of TensorFlow 1.

    >>> name_in_tf1("tensorflow.estimator.DNNClassifier"), name_in_tf1("tensorflow.optimizers.SGD")
    ('tensorflow.compat.v1.estimator.DNNClassifier', 'tensorflow.optimizers.SGD')

    Args:
        name: a full name that is reached from the module `tensorflow`.
    """
    root, _, rest = name.partition(".")
    first = rest.split(".")[0]
    if root != _TENSORFLOW or first in SHARED or is_only_in_tf2(first):
        return name
    return f"{TF1}.{rest}" if rest else TF1


def differs_in_tf1(name: str) -> bool:
    """Returns whether a name is something else in a program of TensorFlow 1.

    >>> differs_in_tf1("tensorflow.nn.dropout"), differs_in_tf1("tensorflow.nn.relu")
    (True, False)

    Args:
        name: a full name that is reached from the module `tensorflow`.
    """
    parts = name.split(".")[1:]
    return any(
        parts[end] in api_differences.NAMES.get(".".join(parts[:end]), ())
        for end in range(len(parts))
    )


def is_only_in_tf2(name: str) -> bool:
    """Returns whether `tensorflow` has a name that `tensorflow.compat.v1` lacks.

    A program of TensorFlow 1 reads it of TensorFlow 2's API.

    Args:
        name: the name, without dots; '' isn't one.
    """
    if name in ("", "contrib", "estimator"):
        return False
    exists = tensorflow_names.exists
    return exists(f"{_TENSORFLOW}.{name}") and not exists(f"{TF1}.{name}")
