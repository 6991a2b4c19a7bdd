# SPDX-License-Identifier: Apache-2.0
"""Values that describe a parsed program: what its imports bind, and where these are used."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from estimator_spec.legacy import old_names
from estimator_spec.legacy.handling import Handling
from estimator_spec.legacy.program_source.names import ROOTS as ROOTS
from estimator_spec.legacy.program_source.places import Places

NO_LITERAL = object()


class ModuleApi(enum.Enum):
    """API of TensorFlow that `import tensorflow` gives a module; either of two programs decides."""

    TF1 = "TensorFlow 1"
    TF2 = "TensorFlow 2"
    EITHER = "either"


class Form(enum.Enum):
    """Statements that bind a name."""

    IMPORT = "import module [as name]"
    FROM = "from module import name [as name]"
    STAR = "from module import *"
    ALIAS = "name = module"
    OWN = "from module_of_the_program import name, or module_of_the_program.name"


@dataclass(frozen=True)
class Statement:
    """A simple statement that binds names of `ROOTS`.

    Attributes:
        start: offset of its first character.
        end: offset after its last one.
        indent: the white space before it.
        is_alone: no other statement is on its lines.
        block: number of the block that it is in; 0 is the module.
        block_size: number of statements in it; 0 for the module, which may have none left.
    """

    start: int
    end: int
    indent: str
    is_alone: bool
    block: int
    block_size: int


@dataclass(frozen=True)
class Binding:
    """A name that a statement binds.

    Attributes:
        form: form of the statement.
        local: the name in the program; empty for `import *`. `module.name` for a name of a module
            of the program.
        full: the full dotted name of what it is bound to.
        module: the module that the statement imports, or that of the program that has the name.
        statement: index of the statement in `ParsedModule.statements`.
        in_function: the name is bound when a function runs.
        in_class: it is an attribute of a class.
        origin: index of the binding that an alias is one of; None for an import.
        from_tensorflow: whether an import reaches it from the module `tensorflow`, not from a part.
    """

    form: Form
    local: str
    full: str
    module: str
    statement: int
    in_function: bool = False
    in_class: bool = False
    origin: int | None = None
    from_tensorflow: bool = False

    @property
    def imported_from(self) -> str:
        """The module of `from module import name`; '' for other statements."""
        return self.module if self.form is Form.FROM else ""


@dataclass(frozen=True)
class BoundUse:
    """An expression `name.attribute…` whose name is bound by an import.

    Attributes:
        bindings: indices of the bindings of its first name: more than one for alternatives such as
            `try: from a import x` `except ImportError: from b import x`.
        names: for each of the bindings, the full dotted name of the expression.
        start: offset of the first character.
        ends: offsets after the first name, and after each attribute.
        node: its node in the syntax tree.
        statement: offset of the statement or clause that it is in.
        is_plain: it has no parentheses and no comments inside, so that a part can be replaced.
        quote: quotation mark of strings in its place, other than that of an f-string around it.
    """

    bindings: tuple[int, ...]
    names: tuple[str, ...]
    start: int
    ends: tuple[int, ...]
    node: ast.AST
    statement: int
    is_plain: bool = True
    quote: str = '"'


@dataclass(frozen=True)
class FollowedCall:
    """A call of a name of `ROOTS`, or of a method whose name is in `METHODS`.

    Attributes:
        use: index of the called expression in `ParsedModule.uses`; None for a method of an object.
        method: the last part of the called name.
        start: offset of the called expression.
        end: offset after the closing parenthesis.
        line_of: offset of the method's name, which a report names.
        node: its node in the syntax tree.
    """

    use: int | None
    method: str
    start: int
    end: int
    line_of: int
    node: ast.Call

    def argument(self, position: int, keyword: str) -> ast.expr | None:
        """Returns an argument by position or keyword; None if the call doesn't show it."""
        for each in self.node.keywords:
            if each.arg == keyword:
                return each.value
        before = self.node.args[: position + 1]
        is_shown = len(before) > position and not any(map(_is_starred, before))
        return before[position] if is_shown else None

    def unpacks(self) -> bool:
        """Returns whether some arguments are unpacked from a list or a dict."""
        has_dict = any(each.arg is None for each in self.node.keywords)
        return has_dict or any(map(_is_starred, self.node.args))


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def literal(node: ast.expr) -> Any:
    """Returns the value of an expression, or `NO_LITERAL` if it isn't a literal."""
    try:
        return ast.literal_eval(node)
    except (ValueError, SyntaxError, TypeError, MemoryError):
        return NO_LITERAL


@dataclass(frozen=True)
class Unfollowed:
    """A place where an old name may be read in a way that isn't followed.

    Attributes:
        offset: its offset.
        name: the full dotted name, or the module that it may be read of.
        is_module: whether `name` is such a module.
    """

    offset: int
    name: str
    is_module: bool = False


# Methods of objects other than modules that rules look at.
METHODS = frozenset({"batch", "export_saved_model", "padded_batch"})


@dataclass(frozen=True)
class ParsedModule:
    """A parsed source file.

    Attributes:
        source: its text.
        statements: the statements that bind names of `ROOTS`.
        bindings: the names that they bind.
        uses: where these are used.
        calls: calls of them.
        mixed: indices of bindings whose name other statements bind as well, where it is used.
        names: all names that the program binds, other than by these statements.
        exported: the strings of `__all__`.
        unfollowed: where old names may be read in a way that isn't followed.
        by_strings: variables may be read by their names in strings, as by `globals()`.
        tree: the syntax tree.
        api: the API that its programs are written for.
        mains: the main files that reach it, by the API that they are written for.
        left: modules of the program that aren't migrated with it.
        starts: whether it switches to TensorFlow 1's behaviour, where it has that API.
    """

    source: str
    statements: tuple[Statement, ...] = ()
    bindings: tuple[Binding, ...] = ()
    uses: tuple[BoundUse, ...] = ()
    calls: tuple[FollowedCall, ...] = ()
    mixed: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    exported: frozenset[str] = frozenset()
    unfollowed: tuple[Unfollowed, ...] = ()
    by_strings: bool = False
    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))
    api: ModuleApi = ModuleApi.TF2
    mains: Mapping[ModuleApi, tuple[str, ...]] = field(default_factory=dict)
    starts: bool = True
    left: frozenset[str] = frozenset()

    @cached_property
    def places(self) -> Places:
        """Lines and columns of the offsets in the source, and offsets of the tree's nodes."""
        return Places(self.source)

    @cached_property
    def handling(self) -> Handling:
        """The code for missing names; places are offsets in the source."""
        names = {use.node: use.names[0] for use in self.uses}

        def is_there(full: str) -> bool:
            # Of a removed module the migrated program has the restored names.
            return old_names.find(full.rpartition(".")[0], False) is not None

        return Handling(self.tree, lambda node: names.get(node, ""), is_there, self.places.span)

    def import_of(self, binding: int) -> int:
        """Returns the index of the import that a binding, or what it is an alias of, is one of."""
        origin = self.bindings[binding].origin
        return binding if origin is None else self.import_of(origin)

    def name_of(self, call: FollowedCall) -> str:
        """Returns the full dotted name that a call calls; '' for a method."""
        return "" if call.use is None else self.uses[call.use].names[0]

    def calls_of(self, *last_names: str) -> Iterator[tuple[FollowedCall, str]]:
        """Yields the calls of names of `ROOTS` that end with one of these, and the full names."""
        for call in self.calls:
            if call.use is not None and call.method in last_names:
                yield call, self.name_of(call)
