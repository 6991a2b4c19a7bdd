# SPDX-License-Identifier: Apache-2.0
"""Installs and uninstalls the names that TensorFlow removed.

TensorFlow 2.16 and newer have no Estimator: `install()` adds every name of the table, and replaces
TensorFlow's leftover TPU columns by ours. TensorFlow 2.15 has an Estimator of its own, with columns
and parameter classes that belong to it: `install()` leaves all of them, and adds the spellings that
2.15 has lost (`tf.contrib.tpu`, `tf.estimator.tpu`). These refer to TensorFlow's own classes, since
the two implementations can't be mixed. `install(replace=True)`, which `estimator_spec run`
calls, installs ours on every version.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import tensorflow as tf

from estimator_spec.core.run_config import host_fallback
from estimator_spec.legacy import import_hooks, names, recommenders, stand_ins
from estimator_spec.legacy.module_spellings import is_of_library, is_removed, prefixes
from estimator_spec.legacy.modules import Finder, LegacyModule, resolve
from estimator_spec.legacy.name_rows import Row, When
from estimator_spec.legacy.undo import ReversibleChanges
from tpu_columns import log_messages

_LOCK = threading.RLock()
# TensorFlow's API has several module objects for each of its v1 and v2 modules.
_API_COPIES = {
    "tensorflow.compat.v1": ("v1.compat.v1", "v2.compat.v1"),
    "tensorflow.compat.v2": ("v1.compat.v2", "v2.compat.v2"),
}

_Getters = dict[str, Callable[[], Any]]


class State(NamedTuple):
    """Options of the current installation.

    Attributes:
        replace: our names replace TensorFlow's own.
        cases: the conditional groups of names that are installed.
    """

    replace: bool
    cases: frozenset[When]


class Installed:
    """Result of `install()`: a context manager that undoes the installation on exit.

    Names stay that another call still needs, such as one of another thread.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self._thread = threading.get_ident()

    def __enter__(self) -> Installed:
        """Does nothing: `install()` has installed the names already."""
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Undoes what this call of `install()` changed, and later ones of its thread."""
        with _LOCK:
            calls = _Installation.calls
            if self in calls:
                start = calls.index(self)
                calls[start:] = [call for call in calls[start:] if call._thread != self._thread]
                _set_state(_needed())


class _Installation:
    """The installation in this process.

    Attributes:
        calls: the calls of `install()` that no exit or `uninstall()` has undone, in their order.
        state: what is installed; None: nothing.
        changes: undoes it.
    """

    calls: ClassVar[list[Installed]] = []
    state: State | None = None
    changes = ReversibleChanges()


def _needed() -> State | None:
    """Returns what all calls need."""
    states = [call.state for call in _Installation.calls]
    return State(any(state.replace for state in states), states[-1].cases) if states else None


def install(replace: bool = False) -> Installed:
    """Installs the names that TensorFlow has removed, in all their spellings.

    `tf.estimator`, `tf.compat.v1.estimator`, `tf.contrib.tpu`, `tensorflow_estimator`,
    `tensorflow.python.tpu.tpu_estimator` and so on get our classes, as attributes and for import.
    docs/legacy_names.md lists them all. Names that aren't restored can be imported, but not used.
    Call it before the program's other imports:

        import estimator_spec
        estimator_spec.install()
        from tensorflow.compat.v1 import estimator

    or around a part of the program:

        with estimator_spec.install():
            import old_program

    A second call changes nothing. TensorFlow's own names stay, except for leftovers of its
    Estimator: on TensorFlow 2.16 and newer its TPU embedding columns become ours, and
    `tf.compat.v1.tpu.CrossShardOptimizer` becomes a subclass that works without a TPU too, and so
    do `TPUEmbedding` and `TPUEmbeddingV2` of `tf.tpu.experimental.embedding`, and the layer of
    TensorFlow Recommenders that uses them.

    Args:
        replace: replaces TensorFlow 2.15's own Estimator by ours. By default that one stays, and
            the lost spellings refer to it. No effect on newer versions.

    Returns:
        A context manager that restores the previous names on exit.
    """
    log_messages.install()
    with _LOCK:
        made = Installed(State(replace or not _tensorflow_has_estimator(), frozenset(cases())))
        _Installation.calls.append(made)
        try:
            _set_state(_needed())
        except BaseException:
            _Installation.calls.remove(made)
            raise
        return made


def uninstall() -> None:
    """Removes the installed names; TensorFlow and `sys.modules` are as before `install()`.

    Does nothing if nothing is installed.
    """
    with _LOCK:
        _Installation.calls.clear()
        _set_state(None)


def _set_state(target: State | None) -> None:
    """Undoes the current installation and makes the target one; None installs nothing."""
    if target == _Installation.state:
        return
    _Installation.changes.undo()
    stand_ins.remove_all()
    _Installation.state = None
    if target is None:
        return
    try:
        _install_names(target, _Installation.changes)
    except BaseException:
        _Installation.changes.undo()
        raise
    _Installation.state = target


def cases() -> Iterator[When]:
    """Yields the groups of names that apply to this process."""
    yield When.ALWAYS
    yield When.WITH_OURS
    if host_fallback.host_instead_of_tpu():
        yield When.ON_HOST
    if hasattr(tf.tpu.experimental.embedding, "TPUEmbeddingV2"):
        yield When.WITH_SPARSE_CORE
    if importlib.util.find_spec("tensorboard") is None:
        yield When.WITHOUT_TENSORBOARD


@functools.cache
def _tensorflow_has_estimator() -> bool:
    """Returns whether this TensorFlow has an Estimator of its own, without loading it."""
    # Cached, because install() adds the attribute.
    return "estimator" in vars(tf) and importlib.util.find_spec("tensorflow_estimator") is not None


def _install_names(state: State, changes: ReversibleChanges) -> None:
    """Adds the names of the table to TensorFlow's modules, and creates the removed modules."""
    table = getters_by_module(state)
    if state.replace:
        recommenders.replace_layer(changes)
    # Before the removed modules are created: afterwards they would be found.
    existing = set() if state.replace else {name for name in table if _exists(name)}
    kept = [name for name in table if name in existing or not _is_missing(name)]
    of_libraries = [name for name in kept if is_of_library(name)]
    copies = {name: _module_objects(name) for name in kept if name not in of_libraries}
    libraries = names.libraries_by_module()
    created = {
        name: LegacyModule(name, table[name], libraries.get(name, ()))
        for name in table
        if name not in kept
    }
    changes.clear_modules(name for name in created if name.rpartition(".")[0] not in created)
    changes.add_finder(Finder())
    for name, modules in copies.items():
        if name not in sys.modules:
            changes.set_module(name, modules[0])
        for module in modules:
            # Not hasattr: TensorFlow 2.15's wrappers of modules remember names that were removed.
            present = frozenset() if state.replace else frozenset(dir(module))
            for attribute, get in table[name].items():
                if attribute not in present:
                    changes.set_attribute(module, attribute, get())
    for name, module in created.items():
        changes.set_module(name, module)
        parent, _, last = name.rpartition(".")
        for above in [created[parent]] if parent in created else copies.get(parent, ()):
            changes.set_attribute(above, last, module)
    for parent in of_libraries:
        children = {
            name.rpartition(".")[2]: module
            for name, module in created.items()
            if name.rpartition(".")[0] == parent
        }
        add = functools.partial(_add_modules, changes, children)
        import_hooks.when_imported(parent, add, changes)


def _is_missing(module: str) -> bool:
    """Returns whether a module of the table isn't there: it was removed, or isn't installed."""
    return is_removed(module) or (is_of_library(module) and not names.is_installed(module))


def _add_modules(
    changes: ReversibleChanges, children: dict[str, LegacyModule], parent: types.ModuleType
) -> None:
    """Makes modules attributes of the package that they are in."""
    for name, module in children.items():
        changes.set_attribute(parent, name, module)


def getters_by_module(state: State) -> dict[str, _Getters]:
    """Returns a getter for each name of each module; parent modules come first."""
    table: dict[str, _Getters] = {}
    for row in names.rows():
        if row.when not in state.cases:
            continue
        if row.when is not When.ALWAYS and not state.replace:
            continue  # TensorFlow's own names stay
        if state.replace:
            get = functools.partial(resolve, row.ours)
        else:
            get = functools.partial(_resolve_tensorflows_first, row)
        for module in row.modules():
            table.setdefault(module, {})[row.name] = get
    for module in (*table, *names.libraries_by_module()):
        for prefix in prefixes(module):
            table.setdefault(prefix, {})
    return dict(sorted(table.items()))


def _resolve_tensorflows_first(row: Row) -> Any:
    """Returns TensorFlow's own object under any spelling of a name, or ours if it has none."""
    for module in row.modules():
        if _exists(module):
            found = _module(module)
            if not isinstance(found, LegacyModule) and hasattr(found, row.name):
                return getattr(found, row.name)
    return resolve(row.ours)


def _exists(name: str) -> bool:
    """Returns whether TensorFlow itself has a module."""
    if _is_api(name):
        return _module(name) is not None
    if isinstance(sys.modules.get(name), LegacyModule):
        return False
    parent = name.rpartition(".")[0]
    return (not parent or _exists(parent)) and importlib.util.find_spec(name) is not None


def _is_api(name: str) -> bool:
    """Returns whether a module is part of `tf` rather than a file importable by this name."""
    return name.split(".")[0] == "tensorflow" and not name.startswith("tensorflow.python")


def _module(name: str) -> Any:
    if not _is_api(name):
        return importlib.import_module(name)
    found: Any = sys.modules["tensorflow"]
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def _module_objects(name: str) -> list[types.ModuleType]:
    """Returns all module objects that programs reach by one name of TensorFlow's API."""
    if not _is_api(name):
        return [_module(name)]
    found = [_module(name), sys.modules.get(name)]
    found.append(sys.modules.get(name.replace("tensorflow", "tensorflow._api.v2", 1)))
    for api, copies in _API_COPIES.items():
        if name == api or name.startswith(api + "."):
            rest = name[len(api) :]
            found += [_module(f"tensorflow.compat.{copy}{rest}") for copy in copies]
    unique = {id(module): module for module in found if module is not None}
    return [module for module in unique.values() if not isinstance(module, LegacyModule)]
