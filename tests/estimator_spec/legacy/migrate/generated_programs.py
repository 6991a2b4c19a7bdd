# SPDX-License-Identifier: Apache-2.0
"""Programs that read one recorded name of TensorFlow each, and what becomes of them.

As a script it migrates them, runs the results with the installed TensorFlow, and prints those that
fail, or get a stand-in, though the report has no line about them.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator

from estimator_spec.legacy import tensorflow_names
from estimator_spec.legacy.version_0_names import VERSION_0

_OLD = ("1.15.5", "2.8.4", "2.15.1")
# A program appends what it reads to `found`. NAME is the full name, MODULE and LAST its parts,
# INNER the name without `tensorflow.`, FIRST and REST the parts of that.
SPELLINGS = (
    "import tensorflow as tf\nfound.append(tf.INNER)\n",
    "import tensorflow\nfound.append(tensorflow.INNER)\n",
    "import tensorflow as t1\nt2 = t1\nfound.append(t2.INNER)\n",
    "from MODULE import LAST\nfound.append(LAST)\n",
    "from MODULE import LAST as other\nfound.append(other)\n",
    "from tensorflow import FIRST as part\nfound.append(part.REST)\n",
    "import MODULE as module\nfound.append(module.LAST)\n",
    "import MODULE\nfound.append(NAME)\n",
    "def read():\n    import tensorflow as tf\n    return tf.INNER\nfound.append(read())\n",
    "import tensorflow as tf\nclass C:\n    value = tf.INNER\nfound.append(C.value)\n",
    "import tensorflow as tf\nread = lambda tf=tf: tf.INNER\nfound.append(read())\n",
    "import tensorflow as tf\nfound += [tf.INNER for _ in range(1)]\n",
    "import tensorflow as tf\ndef read(value=tf.INNER):\n    return value\nfound.append(read())\n",
    "import tensorflow as tf\nclass C:\n    tf = tf\nfound.append(C().tf.INNER)\n",
    "import tensorflow as tf\nmine = dict(tf=tf)\nfound.append(mine['tf'].INNER)\n",
    "import tensorflow as tf\nfound.append(getattr(tf, 'FIRST').REST)\n",
    "if True:\n    import tensorflow as tf\nelse:\n    tf = None\nfound.append(tf.INNER)\n",
    "import tensorflow as tf\nfound.append((tf\n    .INNER))\n",
    "from tensorflow import *\nfound.append(INNER)\n",
    "import importlib\nfound.append(importlib.import_module('MODULE').LAST)\n",
)


def names(draw: random.Random) -> Iterator[str]:
    """Yields recorded names without end: of contrib, compat.v1, 0.x, and of private modules."""
    kinds = [
        [f"{module}.{row.name}" for row in VERSION_0 for module in row.modules()],
        *(list(_recorded(prefix)) for prefix in ("contrib", "compat.v1", "examples", "")),
        list(_private()),
    ]
    while True:
        yield draw.choice(draw.choice(kinds))


def _recorded(part: str) -> Iterator[str]:
    """Yields the public names of a part of TensorFlow; of the API for ''."""
    prefix = f"tensorflow.{part}".rstrip(".")
    for version in _OLD:
        for module in tensorflow_names.modules(version):
            inner = module.removeprefix(f"{prefix}.").split(".")[0]
            is_part = module == prefix or module.startswith(f"{prefix}.")
            if not is_part or (not part and inner in ("contrib", "compat", "examples", *_FILES)):
                continue
            # TensorFlow's folder `distribute` hides the part of its API from imports.
            for name in tensorflow_names.names_in(module, version):
                if not name.startswith("_") and inner != "distribute":
                    yield f"{module}.{name}"


_FILES = ("core", "dtensor", "lite", "python", "security", "tools", "tsl")


def _private() -> Iterator[str]:
    """Yields names of private modules that programs of TensorFlow 1 may import."""
    for module in tensorflow_names.modules("1.15.5"):
        if module.startswith(("tensorflow.python.", "tensorflow.core.")):
            for name in tensorflow_names.names_in(module, "1.15.5"):
                # What the newest TensorFlow has is imported in some of them only.
                if not tensorflow_names.exists(f"{module}.{name}"):
                    yield f"{module}.{name}"


def programs(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yields names and the programs that read them."""
    draw = random.Random(seed)
    found = names(draw)
    for number in range(count):
        name = next(found)
        module, _, last = name.rpartition(".")
        inner = name.partition(".")[2]
        first, _, rest = inner.partition(".")
        text = SPELLINGS[number % len(SPELLINGS)]
        if not rest and "REST" in text:
            text = SPELLINGS[0]
        words = {"INNER": inner, "MODULE": module, "LAST": last, "NAME": name, "FIRST": first}
        words["REST"] = rest
        for word in re.findall("|".join(words), text):
            text = text.replace(word, words[word])
        yield name, text


def run(source: str) -> str:
    """Runs a migrated program; returns what is wrong, or ''."""
    from estimator_spec.legacy.stand_ins import StandIn

    # The switch to TensorFlow 1's behaviour is the process's.
    source = re.sub(r"^.*(disable_v2_behavior|select_legacy_keras)\(\)\n", "", source, flags=re.M)
    scope: dict[str, object] = {"found": (found := list[object]())}
    try:
        exec(compile(source, "program", "exec"), scope)
    except (AttributeError, ImportError, NameError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return f"a stand-in, {found[0].__name__}" if isinstance(found[0], StandIn) else ""


def main(count: int, seed: int) -> None:
    """Prints the programs that fail without a line, and counts, as JSON."""
    from estimator_spec.legacy.migrate.migration import migrate
    from estimator_spec.legacy.migrate.results import Subject

    silent, failing, needless = [], 0, []
    for name, source in programs(count, seed):
        done = migrate(source)
        lines = [each for each in done.findings if each.kind is Subject.NOT_REWRITTEN]
        wrong = run(done.source)
        failing += bool(wrong)
        if wrong and not lines:
            silent.append([name, source, done.source, wrong])
        again = migrate(done.source)
        if wrong and not any(each.kind is Subject.NOT_REWRITTEN for each in again.findings):
            silent.append([name, source, done.source, f"second run: {wrong}"])
        if lines and not wrong:
            needless.append([name, source, done.source, lines[0].reason])
    print(json.dumps({"silent": silent, "failing": failing, "needless": needless}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
