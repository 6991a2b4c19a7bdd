# SPDX-License-Identifier: Apache-2.0
"""Puts the removed names back, and takes them away again.

TensorFlow from 2.16 on has no Estimator: there every name of the table is put back, and its TPU
columns, left over from that time, give way to ours. TensorFlow 2.15 has an Estimator of its own,
and its columns and parameter classes belong to it: there `install()` touches none of them. It adds
the spellings that 2.15 has lost (`tf.contrib.tpu`, `tf.estimator.tpu`), and they lead to
TensorFlow's own classes, since the two families don't mix. `install(replace=True)` puts ours
everywhere, whatever the version; `python -m estimator_spec run` does that.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_spec.config import host_fallback
from estimator_spec.legacy import names
from estimator_spec.legacy.module_spellings import is_removed
from estimator_spec.legacy.modules import Finder, LegacyModule, resolve
from estimator_spec.legacy.undo import Changes

_LOCK = threading.RLock()
# TensorFlow's API has each of its v1 and v2 faces several times.
_OTHER_FACES = {
    "tensorflow.compat.v1": ("v1.compat.v1", "v2.compat.v1"),
    "tensorflow.compat.v2": ("v1.compat.v2", "v2.compat.v2"),
}

_Getters = dict[str, Callable[[], Any]]


class _State(NamedTuple):
    """What is installed.

    Attributes:
        replace: ours everywhere; else only where TensorFlow has nothing.
        cases: the names of which cases are in place.
    """

    replace: bool
    cases: frozenset[names.When]


class _Now:
    """The state of this process."""

    state: _State | None = None
    changes = Changes()


class Installed:
    """What `install()` returns; as a context manager it takes its change back at the end."""

    def __init__(self, before: _State | None, after: _State) -> None:
        self._before = before
        self._after = after

    def __enter__(self) -> Installed:
        """Does nothing: the names are in place since `install()` returned."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Takes back what this call of `install()` changed."""
        if self._before != self._after:
            with _LOCK:
                _switch(self._before)


def install(replace: bool = False) -> Installed:
    """Puts the names that TensorFlow has removed back, in all their spellings.

    After it `tf.estimator`, `tf.compat.v1.estimator`, `tf.contrib.tpu`, `tensorflow_estimator`,
    `tensorflow.python.tpu.tpu_estimator` and so on have our classes, as attributes and for import.
    docs/legacy_names.md lists them all. Call it before the program's other imports:

        import estimator_spec
        estimator_spec.install()
        from tensorflow.compat.v1 import estimator

    or around a part of it:

        with estimator_spec.install():
            import old_program

    A second call changes nothing. Names that TensorFlow itself has stay, except for what was left
    of its Estimator: on TensorFlow 2.16 and newer its TPU embedding columns become ours, and
    `tf.compat.v1.tpu.CrossShardOptimizer` becomes a subclass that works without a TPU too.

    Args:
        replace: on TensorFlow 2.15, which has an Estimator of its own, put ours in its place. By
            default that one stays, and the lost spellings lead to it. No effect on newer ones.

    Returns:
        An object for `with`; at its end the names are as they were before.
    """
    with _LOCK:
        before = _Now.state
        wanted = _State(replace or not _tensorflow_has_estimator(), frozenset(_cases()))
        if before is not None and before.replace and not replace:
            wanted = wanted._replace(replace=True)
        _switch(wanted)
        return Installed(before, wanted)


def uninstall() -> None:
    """Takes the names away again; TensorFlow and `sys.modules` are as before `install()`.

    Without an `install()` before, nothing happens.
    """
    with _LOCK:
        _switch(None)


def _switch(wanted: _State | None) -> None:
    if wanted == _Now.state:
        return
    _Now.changes.undo()
    _Now.state = None
    if wanted is None:
        return
    try:
        _put(wanted, _Now.changes)
    except BaseException:
        _Now.changes.undo()
        raise
    _Now.state = wanted


def _cases() -> Iterator[names.When]:
    yield names.When.ALWAYS
    if host_fallback.host_instead_of_tpu():
        yield names.When.ON_HOST
    if importlib.util.find_spec("tensorboard") is None:
        yield names.When.WITHOUT_TENSORBOARD


@functools.cache
def _tensorflow_has_estimator() -> bool:
    # Asked once, before anything was put there. The attribute isn't read: that loads it.
    return "estimator" in vars(tf) and importlib.util.find_spec("tensorflow_estimator") is not None


def _put(wanted: _State, changes: Changes) -> None:
    table = _table(wanted)
    # Before there are other modules of these names to find.
    theirs = set() if wanted.replace else {name for name in table if _exists(name)}
    own = [name for name in table if name in theirs or not is_removed(name)]
    faces = {name: _faces(name) for name in own if name.split(".")[0] == "tensorflow"}
    old = {name: LegacyModule(name, table[name]) for name in table if name not in own}
    changes.clear_modules(name for name in old if name.rpartition(".")[0] not in old)
    changes.add_finder(Finder())
    for name, modules in faces.items():
        if name not in sys.modules:
            changes.set_module(name, modules[0])
        for module in modules:
            for attribute, get in table[name].items():
                if wanted.replace or (_is_api(name) and not hasattr(module, attribute)):
                    changes.set_attribute(module, attribute, get())
    for name, module in old.items():
        changes.set_module(name, module)
        parent, _, last = name.rpartition(".")
        for above in [old[parent]] if parent in old else faces.get(parent, ()):
            changes.set_attribute(above, last, module)


def _table(wanted: _State) -> dict[str, _Getters]:
    """How to get each name of each module; parents of modules come first."""
    table: dict[str, _Getters] = {}
    for row in names.rows():
        if row.when not in wanted.cases:
            continue
        if row.when is not names.When.ALWAYS and not wanted.replace:
            continue  # TensorFlow's own names stay
        if wanted.replace:
            get = functools.partial(resolve, row.ours)
        else:
            get = functools.partial(_theirs_or_ours, row)
        for module in row.modules():
            table.setdefault(module, {})[row.name] = get
    for module in list(table):
        for parent in _parents(module):
            table.setdefault(parent, {})
    return dict(sorted(table.items()))


def _parents(name: str) -> Iterable[str]:
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))


def _theirs_or_ours(row: names.Row) -> Any:
    """What TensorFlow has under another spelling of a name; ours if it has none."""
    for module in row.modules():
        if _exists(module):
            found = _module(module)
            if not isinstance(found, LegacyModule) and hasattr(found, row.name):
                return getattr(found, row.name)
    return resolve(row.ours)


def _exists(name: str) -> bool:
    """Whether TensorFlow itself has a module."""
    if _is_api(name):
        return _module(name) is not None
    if isinstance(sys.modules.get(name), LegacyModule):
        return False
    if not all(_exists(parent) for parent in _parents(name)):
        return False
    return importlib.util.find_spec(name) is not None


def _is_api(name: str) -> bool:
    """Whether a module is a part of `tf`, and no file that can be imported by this name."""
    return name.split(".")[0] == "tensorflow" and not name.startswith("tensorflow.python")


def _module(name: str) -> Any:
    if not _is_api(name):
        return importlib.import_module(name)
    found: Any = sys.modules["tensorflow"]
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def _faces(name: str) -> list[types.ModuleType]:
    """All module objects that programs reach by one name of TensorFlow's."""
    if not _is_api(name):
        return [_module(name)]
    found = [_module(name), sys.modules.get(name)]
    found.append(sys.modules.get(name.replace("tensorflow", "tensorflow._api.v2", 1)))
    for face, others in _OTHER_FACES.items():
        if name == face or name.startswith(face + "."):
            rest = name[len("tensorflow.compat.v1") :]
            found += [_module(f"tensorflow.compat.{other}{rest}") for other in others]
    unique = {id(module): module for module in found if module is not None}
    return [module for module in unique.values() if not isinstance(module, LegacyModule)]
