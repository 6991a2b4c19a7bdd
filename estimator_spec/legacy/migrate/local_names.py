# SPDX-License-Identifier: Apache-2.0
"""Chooses how a rewritten program spells names: by its own imports, or by new ones."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from estimator_spec.legacy.migrate.program import Binding, Form, ParsedModule
from estimator_spec.legacy.program_source.places import Places
from estimator_spec.legacy.program_source.scopes import names_bound_by

TF1 = "tensorflow.compat.v1"


class LocalNames:
    """Spellings of full names in a program.

    Args:
        program: the program.
        dropped: indices of the bindings that the rewriting removes.
        others: offsets of the program's imports of other modules, by their names.
    """

    def __init__(
        self,
        program: ParsedModule,
        dropped: Iterable[int] = (),
        others: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        gone = set(dropped)
        kept = [b for i, b in enumerate(program.bindings) if i not in gone]
        self._statements = program.statements
        self._others = others
        self._usable = [binding for binding in kept if self._is_usable(binding, program)]
        self._taken = set(program.names) | {binding.local for binding in kept}
        self._new: dict[str, str] = {}
        self._roots: set[str] = set()  # first parts of new imports without `as`

    @staticmethod
    def _is_usable(binding: Binding, program: ParsedModule) -> bool:
        """Returns whether a binding has one meaning in the whole program."""
        others = [b for b in program.bindings if b.local == binding.local]
        return (
            binding.form in (Form.IMPORT, Form.FROM)
            and not binding.in_function
            and binding.local not in program.names
            and len({other.full for other in others}) == 1
            and program.statements[binding.statement].block == 0
        )

    def spell(self, module: str, name: str, at: int, root: Binding | None = None) -> str:
        """Returns an expression for a name of a module; adds an import if none leads there.

        >>> from estimator_spec.legacy.migrate import syntax
        >>> names = LocalNames(syntax.parse("import tensorflow.compat.v1 as tf"))
        >>> names.spell("tensorflow.compat.v1.train", "SessionRunHook", 99)
        'tf.train.SessionRunHook'
        >>> names.spell("estimator_spec", "TPUEstimator", 99)
        'estimator_spec.TPUEstimator'
        >>> names.imports()
        ['import estimator_spec']

        Args:
            module: the full name of the module.
            name: the name in it.
            at: offset of the expression; imports behind it don't serve.
            root: the binding of the expression that this one replaces, if there is one.
        """
        bindings = [b for b in self._usable if self._statements[b.statement].start < at]
        known = {binding.full: binding.local for binding in reversed(bindings)}
        if root is not None:
            known[root.full] = root.local
        if self._others.get(module, at) < at:
            known[module] = module
        return f"{self._module(module, known)}.{name}"

    def _module(self, module: str, known: Mapping[str, str]) -> str:
        parts = module.split(".")
        for end in range(len(parts), 0, -1):
            local = known.get(".".join(parts[:end]))
            if local is not None:
                return ".".join([local, *parts[end:]])
        if parts[0] == "tensorflow":
            tf1 = known.get(TF1)
            if tf1 is not None:
                return ".".join([tf1, "compat", "v2", *parts[1:]])
            return ".".join([self._add("tensorflow", "tf"), *parts[1:]])
        if module not in self._new:
            self._add(module, parts[0])
        return self._new[module]

    def _add(self, module: str, local: str) -> str:
        """Adds an import of a module, as `local` if that name is free."""
        if module in self._new:
            return self._new[module]
        root = module.split(".")[0]
        if local == root and (root in self._roots or root not in self._taken):
            self._new[module] = module
            self._roots.add(root)
            self._taken.add(root)
            return module
        free = local if local != root else f"{module.split('.')[-1]}_lib"
        while free in self._taken:
            free += "_"
        self._taken.add(free)
        self._new[module] = free
        return free

    def imports(self) -> list[str]:
        """Returns the statements of the added imports."""
        return [
            f"import {module}" if local == module else f"import {module} as {local}"
            for module, local in sorted(self._new.items())
        ]


def other_imports(tree: ast.Module, in_source: Places) -> dict[str, int]:
    """Returns the names that `import name` alone binds, for the whole module, with its offset."""
    times_bound = Counter(name for node in ast.walk(tree) for name in names_bound_by(node))
    return {
        alias.name: in_source.span(node)[0]
        for node in tree.body
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.asname is None and times_bound[alias.name] == 1
    }
