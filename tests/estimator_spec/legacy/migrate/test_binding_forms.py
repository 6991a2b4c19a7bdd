# SPDX-License-Identifier: Apache-2.0
"""What `migrate` reports as whole runs without `install()`, whatever binds the names.

Programs bind modules of TensorFlow by every statement and expression of Python that binds a name or
stores a value, one in another, and read old names of them. They run with the modules of
`named_modules`: as they are with all names, and migrated without those that TensorFlow removed.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from estimator_spec.legacy.migrate.migration import migrate
from estimator_spec.legacy.migrate.results import Finding, Subject
from named_modules import Named, Today, values

# Import, the name that it binds, and what is read of it.
IMPORTS = [
    ("import tensorflow as tf", "tf", "estimator.ModeKeys.TRAIN"),
    ("import tensorflow as tf", "tf", "contrib.tpu.TPUConfig"),
    ("import tensorflow as tf", "tf", "contrib.crf.crf_decode"),
    ("import tensorflow as tf", "tf", "Session"),
    ("import tensorflow", "tensorflow", "estimator.tpu.RunConfig"),
    ("import tensorflow.contrib.tpu", "tensorflow", "contrib.tpu.TPUConfig"),
    ("import tensorflow.compat.v1 as tf", "tf", "tpu.experimental.embedding_column"),
    ("import tensorflow.contrib.rnn as rnn", "rnn", "LSTMCell"),
    ("from tensorflow import estimator", "estimator", "ModeKeys.TRAIN"),
    ("from tensorflow.compat import v1 as tf", "tf", "estimator.Estimator"),
    ("from tensorflow.contrib import tpu, crf", "tpu", "TPUEstimator"),
    ("from tensorflow.estimator import RunConfig as config", "config", "x"),
    ("from tensorflow.python.tpu import tpu_config", "tpu_config", "TPUConfig"),
]
# What the name is bound to.
FULL = {
    "import tensorflow as tf": "tensorflow",
    "import tensorflow": "tensorflow",
    "import tensorflow.contrib.tpu": "tensorflow",
    "import tensorflow.compat.v1 as tf": "tensorflow.compat.v1",
    "import tensorflow.contrib.rnn as rnn": "tensorflow.contrib.rnn",
    "from tensorflow import estimator": "tensorflow.estimator",
    "from tensorflow.compat import v1 as tf": "tensorflow.compat.v1",
    "from tensorflow.contrib import tpu, crf": "tensorflow.contrib.tpu",
    "from tensorflow.estimator import RunConfig as config": "tensorflow.estimator.RunConfig",
    "from tensorflow.python.tpu import tpu_config": "tensorflow.python.tpu.tpu_config",
}
# What binds a name `n` or stores a value `v`, with the place USE of a statement that reads it or
# READ of an expression, and how the value is reached there.
FORMS = [
    ("n = v\nUSE", "n"),
    ("n = (v)\nUSE", "n"),
    ("n = other = v\nUSE", "n"),
    ("n: object = v\nUSE", "n"),
    ("n, other = v, 1\nUSE", "n"),
    ("[*other, n] = 1, v\nUSE", "n"),
    ("(n := v)\nUSE", "n"),
    ("n = v if record else None\nUSE", "n"),
    ("n = None or v\nUSE", "n"),
    ("n = []\nn += [v]\nUSE", "n[0]"),
    ("if record:\n    n = v\nelse:\n    n = None\nUSE", "n"),
    ("n = None\nn = v\nUSE\nn = None", "n"),
    ("n = v\nUSE\ndel n", "n"),
    ("n = {'key': v}\nUSE", "n['key']"),
    ("n = [v for _ in [1]]\nUSE", "n[0]"),
    ("def n(): pass\nn.attribute = v\nUSE", "n.attribute"),
    ("def n(): pass\nsetattr(n, 'attribute', v)\nUSE", "n.attribute"),
    ("globals()['n'] = v\nUSE", "globals()['n']"),
    ("def n(): return v\nUSE", "n()"),
    ("def n(): yield v\nUSE", "next(n())"),
    ("def n(n=v):\n    USE\nn()", "n"),
    ("def f(n, /):\n    USE\nf(v)", "n"),
    ("def f(*, n=v):\n    USE\nf()", "n"),
    ("def f(*n):\n    USE\nf(v)", "n[0]"),
    ("def f(**n):\n    USE\nf(key=v)", "n['key']"),
    ("def f():\n    global n\n    n = v\nf()\nUSE", "n"),
    ("def f():\n    n = v\n    def g():\n        USE\n    g()\nf()", "n"),
    ("def f(n=None):\n    def g():\n        nonlocal n\n        n = v\n    g()\n    USE\nf()", "n"),
    ("for n in [v]:\n    USE", "n"),
    ("import contextlib\nwith contextlib.nullcontext(v) as n:\n    USE", "n"),
    ("try:\n    raise ValueError(v)\nexcept ValueError as n:\n    USE", "n.args[0]"),
    ("match v:\n    case n:\n        USE", "n"),
    ("match v:\n    case object() as n:\n        USE", "n"),
    ("match [1, v]:\n    case [1, *n]:\n        USE", "n[0]"),
    ("match {'key': v}:\n    case {**n}:\n        USE", "n['key']"),
    ("class n:\n    n = v\n    USE", "n"),
    ("class C:\n    n = v\nUSE", "C.n"),
    ("class C:\n    n = v\n    def f(self):\n        USE\nC().f()", "self.n"),
    ("class C:\n    def f(self, n=v):\n        self.n = n\n        USE\nC().f()", "self.n"),
    ("class C:\n    def n(self): return v\nUSE", "C().n()"),
    ("class C:\n    LOCAL = LOCAL\n    def f(self):\n        USE\nC().f()", "self.LOCAL"),
    ("(lambda n: READ)(v)", "n"),
    ("(lambda n=v: READ)()", "n"),
    ("(lambda: READ)()", "v"),
    ("[READ for n in [v]]", "n"),
    ("{READ: 1 for n in [v]}", "n"),
    ("{READ for n in [v]}", "n"),
    ("list(READ for n in [v])", "n"),
    ("READ if (n := v) else None", "n"),
    ("def f(n: object = READ): pass", "v"),
    ("@(lambda f: READ)\ndef f(): pass", "v"),
    ("class C(object if READ else object): pass", "v"),
    ("print(end=f'{READ and 1:}'[:0])", "v"),
    ("assert v is not None\nUSE", "v"),
    ("print(v, end='') if not v else hasattr(v, 'x')\nUSE", "v"),
    ("import importlib\nn = importlib.import_module('FULL')\nUSE", "n"),
    ("n = __import__('FULL', fromlist=['x'])\nUSE", "n"),
    ("import sys\nn = sys.modules['FULL']\nUSE", "n"),
]
BLOCKS = [form for form in FORMS if "READ" not in form[0]]
READS = [
    "record(value.name)",
    "read = value.name\nrecord(read)",
    "def read():\n    return value.name\nrecord(read())",
    "record(getattr(value, 'name'))",
    "record(eval('value.name'))",
    "record(globals()['value'].name) if 'value' in globals() else record(value.name)",
]
PLACES = ["HERE", "if record:\n    HERE", "def main():\n    HERE\nmain()", "class Main:\n    HERE"]


def put(text: str, place: str, inner: str) -> str:
    """Returns a text with lines in a place of their own, indented as that is."""
    lines = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(textwrap.indent(inner, indent) if line.strip() == place else line)
    return "\n".join(lines)


def words(text: str, **new: str) -> str:
    """Returns a text with words replaced, all at once."""
    pattern = "|".join(rf"\b{word}\b" for word in new)
    return re.sub(pattern, lambda match: new[match.group()], text)


def program(
    imported: tuple[str, str, str],
    place: str,
    forms: Sequence[tuple[tuple[str, str], str, int]],
    read: str,
) -> str:
    """Returns a program.

    Args:
        imported: one of IMPORTS.
        place: one of PLACES.
        forms: forms, one in another; for each the name that it binds and the number of parts of
            the old name that are read before.
        read: one of READS.
    """
    statement, local, path = imported
    value, parts, text = local, path.split("."), f"{statement}\nUSE"
    full = FULL[statement]
    for (form, reached), name, count in forms:
        count = min(count, len(parts) - 1)
        bound = ".".join([value, *parts[:count]])
        full = ".".join([full, *parts[:count]])
        parts = parts[count:]
        new = {"n": name, "v": bound, "LOCAL": local, "FULL": full}
        value = words(reached, **new)
        text = put(text, "USE", words(form, **new))
    at = ".".join([value, *parts[:-1]])
    new = {"value.name": ".".join([value, *parts])}
    read = read.replace("value.name", new["value.name"])
    read = read.replace("value, 'name'", f"{at}, {parts[-1]!r}").replace("'value'", repr(value))
    text = put(text.replace("READ", f"record({new['value.name']})"), "USE", read)
    return put(place, "HERE", text) + "\n"


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Draws a program whose last form alone may have its read in an expression."""
    count = draw(st.integers(1, 3))
    forms = [draw(st.sampled_from(FORMS if at + 1 == count else BLOCKS)) for at in range(count)]
    drawn = [
        (form, draw(st.sampled_from(["tf", "name", "other_name"])), draw(st.integers(0, 2)))
        for form in forms
    ]
    return program(
        draw(st.sampled_from(IMPORTS)),
        draw(st.sampled_from(PLACES)),
        drawn,
        draw(st.sampled_from(READS)),
    )


def outcome(source: str, kind: type[Named] = Named) -> list[str] | None:
    """Returns what a program records; None if it fails, which it may do with all names as well."""
    try:
        return values(source, kind)
    except Exception:
        return None


def unfinished(source: str) -> tuple[str, list[Finding]]:
    """Returns a migrated program and what the report says is left to do."""
    done = migrate(source)
    return done.source, [each for each in done.findings if each.kind is Subject.NOT_REWRITTEN]


def check(source: str) -> bool:
    """Checks the property on a program; returns whether the report says that it is whole."""
    before = outcome(source)
    assume(before is not None)
    new, findings = unfinished(source)
    lines = source.count("\n")
    assert all(1 <= finding.line <= lines for finding in findings)
    if not findings:
        assert outcome(new, Today) == before, f"{source}\n# becomes\n{new}"
        assert unfinished(new) == (new, [])
    return not findings


@settings(settings.get_profile("patient"), max_examples=100, derandomize=True)
@example("import tensorflow as tf\nname = tf\nrecord(name.Session)\n")
@given(programs())
def test_what_is_reported_as_whole_runs(source: str) -> None:
    """A program without a line on names that aren't rewritten does today what it did before."""
    check(source)


# Forms that are followed, and expressions that bind nothing.
FOLLOWED = {"n = v\nUSE", "n = (v)\nUSE", "(lambda: READ)()", "assert v is not None\nUSE"}


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form[0].split("\n")[0])
def test_each_form(form: tuple[str, str]) -> None:
    """With each form alone a program is whole, or has a line of the report if it isn't followed."""
    is_whole = check(program(IMPORTS[0], "HERE", [(form, "name", 0)], READS[0]))
    assert is_whole or form[0] not in FOLLOWED


def test_all_forms_of_python_are_made() -> None:
    """Each statement and expression of Python that binds a name or passes a value is in a form."""
    made = {type(node).__name__ for form, _ in FORMS for node in ast.walk(ast.parse(form))}
    binding = {
        *("AnnAssign", "Assign", "AugAssign", "Call", "ClassDef", "Delete", "Dict", "DictComp"),
        *("ExceptHandler", "For", "FunctionDef", "GeneratorExp", "Global", "Import", "Lambda"),
        *("List", "ListComp", "MatchAs", "MatchMapping", "MatchStar", "NamedExpr", "Nonlocal"),
        *("Return", "SetComp", "Starred", "Tuple", "With", "Yield", "alias", "arg"),
        *("comprehension", "keyword"),
    }
    assert binding <= made
