# SPDX-License-Identifier: Apache-2.0
"""Expands places, short names of removed modules, to all spellings of the modules.

The same class was reached through `tf.estimator`, `tf.compat.v1.estimator`, `tensorflow_estimator`
and more. A place such as `estimator.tpu` stands for all spellings of one module.
"""

from __future__ import annotations

_CONTRIB = ("tensorflow.contrib", "tensorflow.compat.v1.contrib")


def _of_contrib(*packages: str) -> tuple[str, ...]:
    return tuple(f"{root}.{package}" for root in _CONTRIB for package in packages)


ROOTS: dict[str, tuple[str, ...]] = {
    # The public API.
    "tf": ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2"),
    "tf1": ("tensorflow.compat.v1",),
    "tf2": ("tensorflow", "tensorflow.compat.v2"),
    "estimator": (
        "tensorflow.estimator",
        "tensorflow.compat.v1.estimator",
        "tensorflow.compat.v2.estimator",
        "tensorflow_estimator.estimator",
    ),
    # Some names differed between the first and the second generation.
    "estimator_v1": ("tensorflow.compat.v1.estimator", "tensorflow_estimator.estimator"),
    "estimator_v2": ("tensorflow.estimator", "tensorflow.compat.v2.estimator"),
    "contrib": _CONTRIB,
    # Parts of contrib, which programs reached as packages of files, too: `_py` is these alone.
    "layers": _of_contrib("layers", "layers.python.layers"),
    "layers_py": _of_contrib("layers.python.layers"),
    "learn": _of_contrib("learn", "learn.python.learn"),
    "learn_py": _of_contrib("learn.python.learn"),
    "slim": _of_contrib("slim", "slim.python.slim"),
    "slim_py": _of_contrib("slim.python.slim"),
    # The files behind the API, which programs import directly.
    "estimator_py": ("tensorflow_estimator.python.estimator", "tensorflow.python.estimator"),
    "estimator_tpu_py": (
        "tensorflow_estimator.python.estimator.tpu",
        "tensorflow.python.tpu",
        "tensorflow.contrib.tpu.python.tpu",
    ),
    "tpu_py": ("tensorflow.python.tpu", "tensorflow.contrib.tpu.python.tpu"),
    "tf_py": ("tensorflow.python",),
}

# Removed modules and packages, which an installation creates. All other modules of the table are
# TensorFlow's own; single names are added to them.
REMOVED = (
    "tensorflow.estimator",
    "tensorflow.compat.v1.estimator",
    "tensorflow.compat.v2.estimator",
    "tensorflow.contrib",
    "tensorflow.compat.v1.contrib",
    "tensorflow_estimator",
    "tensorflow.python.distribute.estimator_training",
    "tensorflow.python.eager.profiler",
    "tensorflow.python.estimator",
    "tensorflow.python.ops.rnn_cell",
    "tensorflow.python.tpu._tpu_estimator_embedding",
    "tensorflow.python.tpu.tpu_config",
    "tensorflow.python.tpu.tpu_context",
    "tensorflow.python.tpu.tpu_embedding",
    "tensorflow.python.tpu.tpu_estimator",
    "tensorflow.python.tpu.util",
)

# Private modules of TensorFlow that have another name now.
MOVED = {
    "tensorflow.python.training.gen_training_ops": "tensorflow.python.ops.gen_training_ops",
    "tensorflow.python.training.training_ops": "tensorflow.python.ops.gen_training_ops",
}


def prefixes(name: str) -> list[str]:
    """Returns a dotted name and all that it is in, the longest first.

    >>> prefixes('tensorflow.contrib.tpu')
    ['tensorflow.contrib.tpu', 'tensorflow.contrib', 'tensorflow']
    """
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(len(parts), 0, -1)]


def canonical(name: str) -> str:
    """Returns the spelling that TensorFlow 1 had of a dotted name: it had one `tf.contrib`.

    >>> canonical('tensorflow.compat.v1.contrib.lookup')
    'tensorflow.contrib.lookup'
    """
    parts = name.split(".")
    is_contrib = parts[:4] == ["tensorflow", "compat", "v1", "contrib"]
    return ".".join(["tensorflow", *parts[3:]]) if is_contrib else name


def is_removed(module: str) -> bool:
    """Returns whether TensorFlow has removed a module of the table.

    >>> is_removed('tensorflow.contrib.tpu'), is_removed('tensorflow.python.tpu')
    (True, False)
    """
    return any(prefix in REMOVED for prefix in prefixes(module))


def spellings(place: str) -> tuple[str, ...]:
    """Returns the full names of the modules that a place stands for.

    >>> spellings('tf1.estimator')
    ('tensorflow.compat.v1.estimator',)
    >>> spellings('tpu_py.tpu_embedding')[-1]
    'tensorflow.contrib.tpu.python.tpu.tpu_embedding'
    """
    root, _, rest = place.partition(".")
    return tuple(f"{module}.{rest}" if rest else module for module in ROOTS[root])
