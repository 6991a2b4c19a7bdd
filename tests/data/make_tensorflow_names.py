# SPDX-License-Identifier: Apache-2.0
"""Records the names of TensorFlow by version, for `estimator_spec.legacy.tensorflow_names`.

Each version's own Python writes its names; the file of the package is made of all of them:

    TF_USE_LEGACY_KERAS=1 python make_tensorflow_names.py record 2.21.0.json   # and so on
    python make_tensorflow_names.py merge 1.15.5.json 2.8.4.json 2.15.1.json 2.21.0.json

Recording imports every module of TensorFlow's package, in some seconds. It also runs on Python 3.7,
which TensorFlow 1.15 needs.
"""

import importlib
import inspect
import json
import os
import sys
import types
import zlib

_API = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")
# Folders of TensorFlow's package whose files programs import, and that aren't its API.
_PRIVATE = (
    *("contrib", "core", "dtensor", "examples", "lite", "python", "security", "tools", "tsl"),
)
_OURS = ("tensorflow", "tensorflow_core", "tensorflow_estimator", "keras", "tf_keras")
_FUTURE = ("absolute_import", "division", "print_function", "annotations")
_OUTPUT = os.path.join(
    os.path.dirname(__file__), "..", "..", "estimator_spec", "legacy", "tensorflow_names.z"
)


def record_api(tf):
    """Returns the public names of each module of TensorFlow's API, and of each class."""
    found, classes = {}, {}

    def visit(name, value, around):
        names = [each for each in dir(value) if not each.startswith("_")]
        found[name] = names
        for each in names:
            full = f"{name}.{each}"
            if full in _API or (each == "compat" and name != "tensorflow"):
                continue
            inner = getattr(value, each, None)
            if isinstance(inner, types.ModuleType):
                if _is_api(inner) and all(inner is not other for other in around):
                    visit(full, inner, [*around, inner])
            elif isinstance(inner, type) and not hasattr(inner, "DESCRIPTOR"):
                classes[full] = [member for member in dir(inner) if not member.startswith("_")]

    for name in _API:
        value = tf
        for part in name.split(".")[1:]:
            value = getattr(value, part)
        visit(name, value, [value])
    return found, classes


def _is_api(module):
    """Returns whether a module has public names only: not those of the modules that it imports."""
    parts = module.__name__.split(".")
    if "Lazy" in type(module).__name__:  # it has the name of the attribute
        return True
    is_ours = parts[0] == "tensorflow" and parts[1:2] not in [[each] for each in _PRIVATE]
    return is_ours or (parts[0] in _OURS and ("api" in parts or "_api" in parts))


def record_files(tf):
    """Returns the names of each module of TensorFlow's package, other than its API."""
    # TensorFlow 1.15's files are in tensorflow_core, to which `tensorflow` forwards.
    root = os.path.dirname(sys.modules.get("tensorflow_core", tf).__file__)
    found = {}
    for part in _PRIVATE:
        for folder, folders, files in os.walk(os.path.join(root, part)):
            folders.sort()
            if "__init__.py" not in files:
                folders.clear()
                continue
            for file in sorted(files):
                stem = file.split(".")[0]
                if not file.endswith((".py", ".so")) or stem.endswith("_test"):
                    continue
                path = os.path.relpath(folder, root).split(os.sep)
                if stem != "__init__":
                    path.append(stem)
                name = ".".join(["tensorflow", *path])
                found[name] = _members(name)
    for name in found:
        parent, _, last = name.rpartition(".")
        if found.get(parent) is not None:
            found[parent] = sorted({*found[parent], last})
    return found


def _members(name):
    """Returns the names in a module; None if it can't be imported."""
    try:
        module = importlib.import_module(name)
    except BaseException as error:  # whatever a module raises that isn't meant to be imported
        sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n"[:200])
        return None
    return [
        key
        for key in dir(module)
        if key.isidentifier()
        and not key.startswith("__")
        and key not in _FUTURE
        and not _is_foreign(module, key)
    ]


def _is_foreign(module, key):
    """Returns whether a module has a name by its import of a package other than TensorFlow."""
    value = inspect.getattr_static(module, key, None)
    return isinstance(value, types.ModuleType) and value.__name__.split(".")[0] not in _OURS


def record(output):
    """Writes the names of the installed TensorFlow."""
    import tensorflow as tf

    api, classes = record_api(tf)  # first: imports add names to modules
    modules = record_files(tf)
    for name, names in api.items():  # `tf.lite` is a folder and has an API
        modules[name] = sorted({*names, *(modules.get(name) or ())})
    with open(output, "w") as file:
        json.dump({"version": tf.__version__, "modules": modules, "classes": classes}, file)


def merge(paths):
    """Writes the package's file of the recorded names of all versions, the oldest first."""
    recorded = []
    for path in paths:
        with open(path) as file:
            recorded.append(json.load(file))
    modules = _by_name([each["modules"] for each in recorded])
    classes = _by_name([each["classes"] for each in recorded])
    newest = 1 << len(recorded) - 1
    # Of the members of classes only those count that the newest version has lost.
    lost = {
        name: {member: mask for member, mask in members.items() if not (member and mask & newest)}
        for name, members in classes.items()
        if members[""] & newest
    }
    found = {**{name: members for name, members in lost.items() if len(members) > 1}, **modules}
    lines = [" ".join(each["version"] for each in recorded)]
    # Modules of one name, of several versions of the API, are alike.
    for name in sorted(found, key=lambda name: (name.replace("compat.v", ""), name)):
        groups = {}
        for member in sorted(set(found[name]) - {""}):
            groups.setdefault(found[name][member], []).append(member)
        kind = "module" if name in modules else "class"
        texts = [f"{mask:x} {' '.join(members)}" for mask, members in sorted(groups.items())]
        lines.append(":".join([f"{kind} {name} {found[name]['']:x}", *texts]))
    with open(_OUTPUT, "wb") as file:
        file.write(zlib.compress("\n".join(lines).encode(), 9))


def _by_name(recorded):
    """Returns by module the versions that have each of its names, as bits; '' is the module.

    `*` is a name of a module whose names aren't known.
    """
    found = {}
    for number, names in enumerate(recorded):
        for name, members in names.items():
            masks = found.setdefault(name, {})
            for member in ["", *(["*"] if members is None else members)]:
                masks[member] = masks.get(member, 0) | 1 << number
    return found


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(sys.argv[2])
    else:
        merge(sys.argv[2:])
