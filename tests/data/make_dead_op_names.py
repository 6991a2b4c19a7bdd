# SPDX-License-Identifier: Apache-2.0
"""Records the ops of TensorFlow by version, for `estimator_spec.saved_models.dead_ops.names`.

Each version's own Python writes its ops; the module is made of what the last can't run:

    python make_dead_op_names.py record 2.21.0.json   # and so on
    python make_dead_op_names.py merge 1.15.5.json 2.8.4.json 2.21.0.json

It also runs on Python 3.7, which TensorFlow 1.15 needs.
"""

import collections
import json
import os
import re
import sys

_OUTPUT = os.path.join(
    *(os.path.dirname(os.path.abspath(__file__)), "..", "..", "estimator_spec", "saved_models"),
    *("dead_ops", "names.py"),
)
_HEAD = '''\
# SPDX-License-Identifier: Apache-2.0
"""Names of ops that TensorFlow {old} had and {new} can't run.

Made by tests/data/make_dead_op_names.py.
"""

from __future__ import annotations

# By the last of these versions that had an op, where it was defined ('core', or a library of
# contrib), and whether TensorFlow {new} still knows it (and has no kernel).
NAMES: dict[tuple[str, str, bool], str] = {{
'''


def record(path):
    """Writes the ops of the installed TensorFlow: those with a Python function, and kernels'."""
    import tensorflow as tf
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.framework import kernels

    devices = {name: set() for name in _registered(op_def_pb2.OpList())}
    for kernel in kernels.get_all_registered_kernels().kernel:
        devices.setdefault(kernel.op, set()).add(kernel.device_type)
    # TensorFlow 1.15's files are in tensorflow_core, to which `tensorflow` forwards.
    root = os.path.dirname(sys.modules.get("tensorflow_core", tf).__file__)
    recorded = {
        "version": tf.__version__,
        "functions": _functions(root),
        "devices": {name: sorted(found) for name, found in sorted(devices.items())},
    }
    with open(path, "w") as file:
        json.dump(recorded, file, indent=1)


def _registered(ops):
    """Returns the names of the ops that are registered."""
    try:
        from tensorflow.python.client import pywrap_tf_session as session
    except ImportError:  # 1.15
        from tensorflow.python import pywrap_tensorflow as session
    ops.ParseFromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
    return [op.name for op in ops.op]


def _functions(root):
    """Returns the folder of contrib, or 'core', of each op that has a generated function."""
    found = {}
    for folder, _, files in os.walk(root):
        parts = os.path.relpath(folder, root).split(os.sep)
        library = "contrib." + parts[1] if parts[0] == "contrib" and parts[1:] else "core"
        for name in files:
            # The core has ops for TensorFlow's own tests, whose files have other names.
            if name.endswith(".py") and (name.startswith("gen_") or library != "core"):
                with open(os.path.join(folder, name), errors="replace") as file:
                    for op in re.findall(r'_apply_op_helper\(\s*"(\w+)"', file.read()):
                        found[op] = library
    return found


def merge(paths):
    """Writes the package's module; the last file is of the newest version."""
    recorded = []
    for path in paths:
        with open(path) as file:
            recorded.append(json.load(file))
    *old, new = recorded
    groups, seen = collections.defaultdict(list), set()
    for each in reversed(old):
        version = each["version"].rpartition(".")[0]
        for name, library in each["functions"].items():
            if name not in seen and not new["devices"].get(name):
                groups[version, library, name in new["devices"]].append(name)
                seen.add(name)
    versions = " or ".join(each["version"] for each in old)
    lines = [_HEAD.format(old=versions, new=new["version"].rpartition(".")[0])]
    for (version, library, is_known), names in sorted(groups.items()):
        lines.append(f'    ("{version}", "{library}", {is_known}): """\n')
        line = "       "
        for name in sorted(names):
            if len(line) + len(name) > 98:
                lines.append(line + "\n")
                line = "       "
            line += " " + name
        lines.append(f'{line}\n    """,\n')
    with open(_OUTPUT, "w") as file:
        file.write("".join([*lines, "}\n"]))
    print({key: len(names) for key, names in sorted(groups.items())})


if __name__ == "__main__":
    record(sys.argv[2]) if sys.argv[1] == "record" else merge(sys.argv[2:])
