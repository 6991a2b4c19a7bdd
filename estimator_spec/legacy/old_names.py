# SPDX-License-Identifier: Apache-2.0
"""Decides what becomes of an old name, by the tables of names: for `run --check` and `migrate`."""

from __future__ import annotations

import dataclasses
import enum
import functools
from dataclasses import dataclass

import estimator_spec
from estimator_spec.legacy import library_names, names, tensorflow_names, unsupported_names
from estimator_spec.legacy.module_spellings import MOVED, REMOVED, is_removed, prefixes
from estimator_spec.legacy.name_rows import Row, When

# Public modules with the names of private ones.
_PUBLIC = {"estimator_spec.legacy.tpu_stand_ins": "estimator_spec.tpu"}
_PUBLIC_MODULES = (
    "estimator_spec.canned",
    "estimator_spec.canned.v1",
    "estimator_spec.experimental",
    "estimator_spec.export",
    "estimator_spec.heads",
    "estimator_spec.run_config",
    "tpu_columns",
)

# Functions of Keras 2 that call a removed package. TensorFlow 1's saves variables by their names.
MODEL_TO_ESTIMATOR_V1 = "tensorflow.compat.v1.keras.estimator.model_to_estimator"
_OF_KERAS = (
    MODEL_TO_ESTIMATOR_V1,
    "tensorflow.keras.estimator.model_to_estimator",
    "tensorflow.compat.v2.keras.estimator.model_to_estimator",
)


class Fate(enum.Enum):
    """Treatment of an old name by a migration.

    PUBLIC: it has another name, in TensorFlow or in a public module of ours.
    ON_TPU: it needs a TPU; `estimator_spec.tpu` also has it on the host.
    RESTORED: `estimator_spec.restored` returns it.
    LIBRARY: the same, if the library of `tpu-columns[contrib]` is installed.
    MODULE: a removed module.
    UNSUPPORTED: nothing here corresponds to it; `estimator_spec.restored` returns a stand-in.
    GONE: an earlier TensorFlow had it, and nothing here says more about it.
    """

    PUBLIC = enum.auto()
    ON_TPU = enum.auto()
    RESTORED = enum.auto()
    LIBRARY = enum.auto()
    MODULE = enum.auto()
    UNSUPPORTED = enum.auto()
    GONE = enum.auto()


@dataclass(frozen=True)
class OldName:
    """An old name at the beginning of a dotted name.

    Attributes:
        length: number of the dotted name's parts that are the old name.
        fate: what happens to it.
        module: for PUBLIC and ON_TPU, the module that has it now.
        name: its present name in `module`.
        removed: number of leading parts that name a removed module, at most `length`; 0 if its
            module still exists.
        advice: for UNSUPPORTED and GONE, what to use instead.
        ours: the full name of what `install()` puts in its place, or ''.
        library: for LIBRARY, the library that has it.
    """

    length: int
    fate: Fate
    module: str = ""
    name: str = ""
    removed: int = 0
    advice: str = ""
    ours: str = ""
    library: str = ""


@functools.cache
def _rows() -> dict[str, dict[str, Row]]:
    """Returns the rows of the tables by former module and name."""
    table: dict[str, dict[str, Row]] = {}
    for case in (When.ON_HOST, When.WITH_OURS, When.ALWAYS):
        for row in names.rows():
            if row.when is case:
                for module in row.modules():
                    table.setdefault(module, {})[row.name] = row
    return table


@functools.cache
def _modules() -> frozenset[str]:
    """Returns the modules of the tables and the packages that they are in."""
    found: set[str] = set()
    for module in (*_rows(), *names.homes_by_module()):
        found.update(prefixes(module))
    return frozenset(found)


def is_module(full: str) -> bool:
    """Returns whether a name is a removed module, or a package that had one."""
    return full in _modules()


@functools.cache
def _with_old_names() -> frozenset[str]:
    fulls = [f"{module}.{name}" for module, names_in_it in _rows().items() for name in names_in_it]
    # Programs pass `tf.nn` and `tf.image` on, and few of them have names of TensorFlow 0.x.
    fulls = [full for full in fulls if full not in tensorflow_names.of_version_0()]
    return frozenset(
        prefix
        for full in (*fulls, *REMOVED)
        if find(full, False) is not None
        for prefix in prefixes(full)[1:]
        if find(prefix, False) is None
    )


def has_old_names(full: str) -> bool:
    """Returns whether a name is that of a module that still exists, and that had old names.

    >>> has_old_names("tensorflow.compat.v1"), has_old_names("tensorflow.nn")
    (True, False)
    """
    return full in _with_old_names()


@functools.lru_cache(maxsize=65536)
def find(full: str, also_on_tpu: bool = True) -> OldName | None:
    """Returns the old name that a dotted name begins with, or None.

    >>> find("tensorflow.estimator.tpu.InputPipelineConfig.PER_HOST_V2").name
    'InputPipelineConfig'
    >>> find("tensorflow.nn.relu") is None
    True

    Args:
        full: a full dotted name, such as 'tensorflow.estimator.ModeKeys.TRAIN'.
        also_on_tpu: finds names that TensorFlow has, and that need a TPU.
    """
    parts = full.split(".")
    for name in _OF_KERAS:
        if full == name or full.startswith(f"{name}."):
            return OldName(name.count(".") + 1, Fate.PUBLIC, "estimator_spec", "model_to_estimator")
    for end in range(len(parts) - 1, 0, -1):
        row = _rows().get(".".join(parts[:end]), {}).get(parts[end])
        if row is not None:
            return _from_row(row, parts, end, also_on_tpu)
    for module in prefixes(full):
        if module in MOVED:
            ours = f"{MOVED[module]}{full.removeprefix(module)}"
            return OldName(len(parts), Fate.RESTORED, removed=module.count(".") + 1, ours=ours)
    if is_removed(full):
        return _in_removed_module(parts)
    for end in range(len(parts) - 1, 0, -1):
        module = ".".join(parts[:end])
        if unsupported_names.is_listed(module, parts[end]):
            advice = unsupported_names.advice(module, parts[end])
            return OldName(end + 1, Fate.UNSUPPORTED, advice=advice)
    return _gone(parts)


def _gone(parts: list[str]) -> OldName | None:
    """Returns what is known of a name that only earlier versions of TensorFlow have, or None."""
    full = ".".join(parts)
    if parts[0] != "tensorflow" or tensorflow_names.exists(full):
        return None
    versions = tensorflow_names.versions_of(full)
    if not versions or tensorflow_names.is_only_in_tf1(full.partition(".")[2]):
        return None
    # The shortest part of the name that the newest TensorFlow lacks.
    length = next(
        end
        for end in range(2, len(parts) + 1)
        if not tensorflow_names.exists(".".join(parts[:end]))
    )
    last = versions[-1].rpartition(".")[0]
    advice = f"TensorFlow {last} had it, {tensorflow_names.NEWEST} doesn't."
    return OldName(length, Fate.GONE, advice=advice)


def present_name(full: str) -> str:
    """Returns the present name of a dotted name that may be an old one.

    >>> present_name("tensorflow.estimator.tpu.RunConfig"), present_name("tensorflow.nn.relu")
    ('estimator_spec.RunConfig', 'tensorflow.nn.relu')
    """
    old = find(full)
    if old is None or not old.module:
        return full
    return ".".join([old.module, old.name, *full.split(".")[old.length :]])


def _from_row(row: Row, parts: list[str], end: int, also_on_tpu: bool) -> OldName | None:
    """Returns what a row of the tables says about the first `end + 1` parts."""
    removed = end if is_removed(".".join(parts[:end])) else 0
    module, _, name = row.ours.rpartition(".")
    module = _PUBLIC.get(module, module)
    fate = Fate.RESTORED
    if module == "estimator_spec.tpu":
        if not also_on_tpu and not removed:
            return None
        fate = Fate.ON_TPU if also_on_tpu else Fate.RESTORED
    elif module.split(".")[0] == "tensorflow":
        fate = Fate.PUBLIC
        # A name of tf.contrib that is in TensorFlow now may need a TPU, too.
        again = find(row.ours, also_on_tpu)
        if again is not None and again.fate in (Fate.ON_TPU, Fate.PUBLIC):
            fate, module, name = again.fate, again.module, again.name
    elif module in _PUBLIC_MODULES or (
        module == "estimator_spec" and name in vars(estimator_spec)["__all__"]
    ):
        fate = Fate.PUBLIC
    if fate is Fate.RESTORED:
        module = name = ""
    return OldName(end + 1, fate, module, name, removed, ours=row.ours)


def _in_removed_module(parts: list[str]) -> OldName:
    """Returns what becomes of a removed module, or of a name in one that no row has."""
    end = len(parts)
    while ".".join(parts[:end]) not in _modules():
        end -= 1
    if end == len(parts):
        return OldName(end, Fate.MODULE, removed=end)
    module = ".".join(parts[:end])
    removed = end if is_removed(module) else end + 1
    advice = unsupported_names.advice(".".join(parts[:-1]), parts[-1])
    homes = names.homes_by_module().get(module)
    if homes is not None and not unsupported_names.is_listed(module, parts[end]):
        library = homes[0].partition(".")[0]
        found = OldName(end + 1, Fate.LIBRARY, removed=removed, library=library)
        if not names.is_installed(library):
            return found
        for home in homes:
            if parts[end] in library_names.public_names(home):
                return dataclasses.replace(found, ours=f"{home}.{parts[end]}")
        advice = f"{library} doesn't have it. Copy it from TensorFlow 1.15's sources."
    return OldName(end + 1, Fate.UNSUPPORTED, removed=removed, advice=advice)
