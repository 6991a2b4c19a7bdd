# SPDX-License-Identifier: Apache-2.0
"""Properties of migrations on made programs: they parse, twice is once, names keep their value.

The programs run with the modules of `named_modules`. A migrated program must reach the present name
of each.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estimator_spec.legacy.migrate.migration import MigrationOptions, migrate
from named_modules import values

# The same programs in each run, however busy the machine is.
patient = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

# Imports, the name that they bind, and attributes that programs read of it.
IMPORTS = [
    ("import tensorflow as tf", "tf", "estimator.ModeKeys.TRAIN estimator.tpu.TPUConfig nn.relu"),
    ("import tensorflow as tf", "tf", "contrib.crf.crf_decode contrib.opt.X contrib.tpu.TPUConfig"),
    ("import tensorflow as tf", "tf", "compat.v1.tpu.experimental.embedding_column"),
    ("import tensorflow as tf", "tf", "estimator.SessionRunHook estimator.RunConfig estimator"),
    ("import tensorflow", "tensorflow", "estimator.tpu.RunConfig compat.v1.Session"),
    (
        "import tensorflow.compat.v1 as tf",
        "tf",
        "estimator.Estimator tpu.CrossShardOptimizer Session",
    ),
    ("import tensorflow.compat.v1 as tf1", "tf1", "contrib.training.checkpoints_iterator layers"),
    ("import tensorflow.contrib.tpu", "tensorflow", "contrib.tpu.TPUEstimator nn.relu"),
    ("import tensorflow.contrib.rnn as rnn", "rnn", "LSTMCell Nothing"),
    ("from tensorflow.contrib import tpu", "tpu", "TPUConfig bfloat16_scope InfeedQueue"),
    ("from tensorflow.contrib import tpu as contrib_tpu, crf", "contrib_tpu", "TPUEstimatorSpec"),
    ("from tensorflow.compat.v1 import estimator as tf_estimator", "tf_estimator", "ModeKeys tpu"),
    ("from tensorflow.python.tpu import tpu_config, tpu", "tpu_config", "TPUConfig Nothing"),
    (
        "from tensorflow.compat.v1.tpu import experimental as tpu_columns",
        "tpu_columns",
        "embedding_column AdagradParameters DeviceAssignment",
    ),
    (
        "from tensorflow_estimator.python.estimator import model_fn",
        "model_fn",
        "ModeKeys LOSS_METRIC_KEY",
    ),
    ("from tensorflow.estimator import RunConfig, ModeKeys as Keys", "Keys", "TRAIN EVAL"),
    ("from tensorflow.python.tpu.tpu_embedding import TableConfig", "TableConfig", "_fields"),
]
WRAPPERS = [
    "{statement}",
    "try:\n    {statement}\nexcept ValueError:\n    pass  # none",
    "if True: {statement}",
    "def load():\n    '''tf.estimator'''\n    {statement}\n    return {local}\n{local} = load()",
    "x = 1; {statement}  # pylint: disable=tf.contrib",
    "with open('/dev/null'):\n\n    # tf.contrib\n    {statement}\n",
]
USES = [
    "record({name})",
    "record(({name}), key={name})",
    "record([{name} for tf_ in range(2)])",
    "def f(a={name}):\n    return record(a, {name})\nf()",
    "class C({local}.__class__):\n    x = {name}\nrecord(C.x)",
    "alias = {name}\nrecord(alias)",
    "record(lambda {local}: {local}.estimator)",
    'record(f"{{{name}}}", "{name}")',
    "record(\n    # why\n    {name},\n)",
    "estimator_spec = {name}\nrecord(estimator_spec)",
]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Draws a program of imports and uses."""
    parts = ['"""A program."""\nfrom __future__ import annotations\n']
    for statement, local, attributes in draw(st.lists(st.sampled_from(IMPORTS), max_size=4)):
        wrapper = draw(st.sampled_from(WRAPPERS))
        parts.append(wrapper.format(statement=statement, local=local))
        for attribute in draw(st.lists(st.sampled_from(attributes.split()), max_size=3)):
            use = draw(st.sampled_from(USES))
            parts.append(use.format(name=f"{local}.{attribute}", local=local))
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    return "\n".join([*parts, ""]).replace("\n", ending)


@settings(patient, max_examples=80)
@given(programs())
def test_a_migrated_program(source: str) -> None:
    """It parses, reaches the present names of the old ones, and stays as it is where it had none.

    Comments, strings and line ends stay, and a second migration changes nothing.
    """
    new = migrate(source).source
    ast.parse(new)
    assert values(new) == values(source)
    assert migrate(new).source == new
    assert new.count("\r\n") == (new.count("\n") if "\r\n" in source else 0)
    kept = [line for line in source.splitlines() if "tf.estimator'''" in line or "# why" in line]
    assert [line for line in new.splitlines() if line in kept] == kept


def tokens(source: str, kind: int) -> list[str]:
    """Returns the tokens of a kind, without f-strings, whose expressions are code."""
    found = tokenize.generate_tokens(io.StringIO(source).readline)
    return [each.string for each in found if each.type == kind and each.string[0] not in "fF"]


@settings(patient, max_examples=60)
@given(programs())
def test_strings_and_comments(source: str) -> None:
    """They stay, in their order; the only new strings are names for `restored`."""
    new = migrate(source).source
    assert tokens(new, tokenize.COMMENT) == tokens(source, tokenize.COMMENT)
    added = re.findall(r"restored\((.*?)\)", new)
    strings = [text for text in tokens(new, tokenize.STRING) if text not in added]
    assert strings == tokens(source, tokenize.STRING)


@settings(patient, max_examples=30)
@given(programs(), st.sets(st.sampled_from(["old-names", "restored-names", "tf1-api"]), min_size=1))
def test_rules_alone(source: str, rules: set[str]) -> None:
    """Some rules without the others leave a program that parses, and are idempotent."""
    options = MigrationOptions(only=frozenset(rules))
    once = migrate(source, options).source
    ast.parse(once)
    assert migrate(once, options).source == once
