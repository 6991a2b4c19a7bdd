# SPDX-License-Identifier: Apache-2.0
"""Finds where a program may read an old name in a way that no rule follows.

A module of TensorFlow may become an argument, an attribute, an element or a result, or be bound by
a statement other than an import and a plain assignment. The places where it does are found, and the
expressions that end with an old name though it isn't known what they begin with.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from estimator_spec.legacy import old_names, unsupported_names
from estimator_spec.legacy.migrate.program import ROOTS, Binding, BoundUse, Form, Unfollowed
from estimator_spec.legacy.old_names import Fate, OldName
from estimator_spec.legacy.program_source.expressions import last_name
from estimator_spec.legacy.program_source.names import Chain, ModuleNames
from estimator_spec.legacy.program_source.places import Places
from estimator_spec.legacy.tensorflow_names import is_only_in_tf1

_TENSORFLOW = "tensorflow"
# Names that programs usually give to TensorFlow.
_USUAL = frozenset({"tf", "tf1", "tf2", _TENSORFLOW})
# Text of a program that may read an old name of a module which it doesn't import itself.
IN_TEXT = re.compile(r"\.(contrib|estimator)\b|\b(tf\d?|estimator|contrib)\.")
# Functions that reach variables by strings.
BY_STRINGS = frozenset({"eval", "exec", "globals", "locals", "vars"})
_IMPORTERS = frozenset({"import_module", "__import__"})


def old_name_at_end(
    root: str, attributes: list[str], likely: Collection[str], stars: Iterable[str] = ()
) -> str | None:
    """Returns the old name that an expression ends with if TensorFlow is before it, or None.

    >>> old_name_at_end("self", ["tf", "estimator", "RunConfig"], ())
    'tensorflow.estimator.RunConfig'
    >>> old_name_at_end("self", ["estimator", "train"], ()) is None
    True

    Args:
        root: the name that it begins with, or ''.
        attributes: the attributes after that.
        likely: names that the program gives to modules of TensorFlow.
        stars: modules of which the program imports all names, if `root` isn't bound otherwise.
    """
    for module in stars:
        full = ".".join([module, root, *attributes])
        if old_names.find(full, False) is not None:
            return full
    names = [root, *attributes]
    for at in range(1, len(names)):
        rest = ".".join(names[at:])
        full = f"{_TENSORFLOW}.{rest}"
        old = old_names.find(full, False)
        is_likely = names[at - 1] in likely or names[at - 1] in _USUAL
        if old is not None and (is_likely or _is_specific(full, old)):
            return full
        if is_likely and at == len(names) - len(attributes) and is_only_in_tf1(rest):
            return full
    return None


def _is_specific(full: str, old: OldName) -> bool:
    """Returns whether an old name is unlikely to be one of another module."""
    parts = full.split(".")
    if parts[1] == "contrib":
        return len(parts) > 2 and old_names.is_module(".".join(parts[:3]))
    if old.length < 3 or old.fate is Fate.MODULE:
        return False
    module, name = ".".join(parts[: old.length - 1]), parts[old.length - 1]
    return old.fate is not Fate.UNSUPPORTED or unsupported_names.is_listed(module, name)


class UnfollowedFinder:
    """Finds the places in a module.

    Args:
        names: what is known of its names.
        places: offsets in its source.
        bindings: the names that its imports and aliases bind.
    """

    def __init__(self, names: ModuleNames, places: Places, bindings: Sequence[Binding]) -> None:
        self._names = names
        self._places = places
        # Names of modules of TensorFlow, and modules of which all names are imported.
        self._modules = {b.local for b in bindings if old_names.has_old_names(b.full)} - {""}
        self._stars = [b.full for b in bindings if b.form is Form.STAR]

    def passed_on(self, uses: Iterable[BoundUse]) -> Iterator[Unfollowed]:
        """Yields the uses that are a whole module of TensorFlow, which isn't followed further."""
        for use in uses:
            modules = [name for name in use.names if old_names.has_old_names(name)]
            if modules:
                yield Unfollowed(use.start, modules[0], is_module=True)

    def in_chain(self, chain: Chain, mixed: list[str]) -> Iterator[Unfollowed]:
        """Yields the place of an expression whose name has no binding of ours alone.

        Args:
            chain: the expression.
            mixed: what it may be, if the name has a binding of ours among others.
        """
        start, _ = self._places.span(chain.nodes[0])
        for full in mixed:
            if old_names.find(full, False) is not None:
                yield Unfollowed(start, full)
                return
            if old_names.has_old_names(full):
                yield Unfollowed(start, full, is_module=True)
                return
        stars = () if chain.is_bound else self._stars
        name = old_name_at_end(chain.name, chain.attributes, self._modules, stars)
        if name is not None:
            yield Unfollowed(start, name)

    def reads_by_strings(self) -> bool:
        """Returns whether variables may be read by their names in strings."""
        return any(
            isinstance(node.func, ast.Name) and node.func.id in BY_STRINGS
            for node in self._names.calls
        )

    def elsewhere(self, known: Collection[ast.AST]) -> Iterator[Unfollowed]:
        """Yields attributes of other expressions, calls and strings.

        Args:
            known: the nodes that are followed or harmless.
        """
        names = self._names
        for node, of, attributes in names.others:
            if of in names.restored:
                continue
            full = old_name_at_end("", attributes, self._modules)
            if full is not None:
                yield Unfollowed(self._places.span(node)[0], full)
        by_strings = False
        for call in names.calls:
            name = last_name(call.func)
            text = _text(call.args[0]) if call.args else ""
            is_module = name in _IMPORTERS and text.split(".")[0] in ROOTS[:2]
            by_strings |= name in BY_STRINGS
            if name in BY_STRINGS and any(word in text for word in (*self._modules, *ROOTS[:2])):
                is_module = True
            if is_module:
                module = text if name in _IMPORTERS else _TENSORFLOW
                yield Unfollowed(self._places.span(call)[0], module, is_module=True)
        in_modules = any(
            [chain.name, *chain.attributes] == ["sys", "modules"] for chain in names.chains
        )
        for string in names.strings:
            text = _text(string)
            if string in names.restored or string in known:
                continue
            is_module = in_modules and old_names.has_old_names(text)
            if is_module or (by_strings and text in self._modules):
                yield Unfollowed(self._places.span(string)[0], text, is_module=True)
            elif is_old(text):
                yield Unfollowed(self._places.span(string)[0], text)


def is_old(text: str) -> bool:
    """Returns whether a text is an old name."""
    is_name = text.split(".")[0] in ROOTS and re.fullmatch(r"[\w.]+", text) is not None
    return is_name and old_names.find(text, False) is not None


def _text(node: ast.expr) -> str:
    """Returns the value of a string's node; '' for another one."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return node.value if is_text else ""  # type: ignore[attr-defined]
