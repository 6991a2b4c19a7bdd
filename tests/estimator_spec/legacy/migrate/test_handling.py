# SPDX-License-Identifier: Apache-2.0
"""Programs that handle that an old name is missing, and those that only seem to."""

from __future__ import annotations

import pytest

from estimator_spec.legacy.check import NameOutcome, check
from estimator_spec.legacy.migrate.migration import migrate
from estimator_spec.legacy.migrate.results import Subject
from estimator_spec.legacy.program_source.program_files import StartedProgram
from named_modules import Today, values

TRIED = "try:\n    from tensorflow.contrib.rnn import LSTMStateTuple as Y\n{}\nrecord(Y)\n"
TRIED_MODULE = "try:\n    from tensorflow.contrib import distributions as r\n{}\nrecord(r.Normal)\n"
HANDLED = [
    *(
        TRIED.format(f"except {caught}:\n    Y = dict")
        for caught in [
            "ImportError",
            "ImportError as error",
            "ModuleNotFoundError",
            "(AttributeError, ImportError)",
            "Exception",
            "BaseException",
            "KeyError:\n    raise\nexcept ImportError",
        ]
    ),
    TRIED.format("except:\n    from collections import OrderedDict as Y"),
    TRIED.format("except ImportError:\n    try: Y = dict\n    except NameError: Y = None"),
    TRIED.format("except ImportError:\n    def Y(): pass"),
    TRIED.format("except ImportError:\n    class Y: pass\nfinally:\n    pass"),
    TRIED.format(
        "except ImportError:\n    from tensorflow.compat.v1.nn.rnn_cell import GRUCell as Y"
    ),
    TRIED_MODULE.format("except ImportError:\n    import tensorflow.compat.v1.distributions as r"),
    TRIED_MODULE.format(
        "except ImportError:\n    import types; r = types.SimpleNamespace(Normal=1)"
    ),
    "import contextlib\nY = dict\nwith contextlib.suppress(ImportError):\n"
    "    from tensorflow.contrib.rnn import LSTMStateTuple as Y\nif Y: record(Y)",
    "try:\n    from tensorflow.contrib import resampler\n    HAS = True\nexcept ImportError:\n"
    "    HAS = False\nif HAS and record:\n    record(resampler.x)\nrecord(HAS and resampler.x)",
    "try:\n    from tensorflow.contrib import resampler\nexcept ImportError:\n"
    "    resampler = None\ndef f():\n    record(resampler.x if resampler else 3)\nf()",
    "import tensorflow as tf\ntry:\n    x = tf.contrib.resampler.x\nexcept AttributeError:\n"
    "    x = 1\nrecord(x)",
    "import tensorflow as tf\nif hasattr(tf, 'contrib'):\n    record(tf.contrib.resampler.x)\n"
    "else:\n    record(2)",
    "import tensorflow as tf\nif not hasattr(tf, 'contrib') or not record:\n    record(2)\n"
    "elif record:\n    record(tf.contrib.resampler.x)",
    "import tensorflow as tf\nrecord(tf.contrib.resampler.x if hasattr(tf, 'contrib') else 2)\n"
    "record(hasattr(tf, 'contrib') and tf.contrib.resampler.x)",
    "import tensorflow as tf\nif hasattr(tf, 'contrib') and record:\n"
    "    from tensorflow.contrib import distributions as r\nelse:\n    r = 2\nrecord(r)",
    "try:\n    import tensorflow.compat.v1 as tf\nexcept ImportError:\n"
    "    from tensorflow.contrib import resampler\nrecord(tf.nn)",
]
NOT_HANDLED = [
    TRIED_MODULE.format("except AttributeError:\n    r = dict"),
    TRIED_MODULE.format("except ImportError:\n    raise"),
    TRIED_MODULE.format("except ImportError:\n    import sys; sys.exit(1)"),
    TRIED_MODULE.format("except ImportError:\n    pass"),
    TRIED_MODULE.format("except ImportError:\n    r = None"),
    TRIED_MODULE.format("finally:\n    pass"),
    "import tensorflow as tf\ntry:\n    f = lambda: tf.contrib.resampler.x\n"
    "except AttributeError:\n    f = None\nf()",
    "import tensorflow as tf\nif not hasattr(tf, 'contrib'):\n    tf.contrib.resampler.x()",
    "import tensorflow as tf\nif hasattr(tf, 'nn'):\n    tf.contrib.resampler.x()",
    "try:\n    from tensorflow import contrib\nexcept ModuleNotFoundError:\n    contrib = None\n"
    "contrib.resampler.x()",
]


@pytest.mark.parametrize("source", HANDLED)
def test_nothing_to_say(source: str) -> None:
    """A program that does without the name has no line, and does today what it did without it."""
    done = migrate(source)
    assert not done.findings
    assert values(done.source, Today) == values(source, Today)
    assert migrate(done.source) == type(done)(done.source)


@pytest.mark.parametrize("source", NOT_HANDLED)
def test_a_line(source: str) -> None:
    """A program that needs the name, or catches another error, has a line."""
    done = migrate(source)
    assert done.findings
    assert {finding.kind for finding in done.findings} == {Subject.NOT_REWRITTEN}


TF = "import tensorflow as tf\n"
QUANTIZE = "try:\n    from tensorflow.contrib import quantize\n"
READ = f"{TF}try:\n    x = tf.relu6(1)\n"


@pytest.mark.parametrize(
    ("source", "is_handled"),
    [
        (f"{QUANTIZE}except ImportError:\n    quantize = None\n", True),
        (f"{QUANTIZE}except ImportError:\n    raise\n", False),
        (f"{QUANTIZE}except ImportError:\n    import sys\n    sys.exit(1)\n", False),
        (f"{QUANTIZE}except AttributeError:\n    quantize = None\n", False),
        (f"{QUANTIZE}except KeyError:\n    raise\nexcept Exception:\n    pass\n", True),
        (f"{READ}except AttributeError:\n    x = 1\n", True),
        (f"{READ}except ImportError:\n    x = 1\n", False),
        (f"{READ}except AttributeError as error:\n    raise ValueError from error\n", False),
        (f"{TF}try: f = lambda: tf.relu6(1)\nexcept AttributeError: f = None\n", False),
        (f"{TF}f = lambda: tf.relu6(1) if hasattr(tf, 'relu6') else 1\n", True),
        (f"{TF}x = tf.relu6(1) if hasattr(tf, 'relu6') else 1\n", True),
        (f"{TF}x = 1 if not hasattr(tf, 'relu6') else tf.relu6(1)\n", True),
        (f"{TF}x = 1 if hasattr(tf, 'relu6') else tf.relu6(1)\n", False),
        (f"{TF}x = hasattr(tf, 'relu6') and tf.relu6(1)\n", True),
        (f"{TF}if hasattr(tf, 'relu6'):\n    x = tf.relu6(1)\n", True),
        (f"{TF}if hasattr(tf, 'relu'):\n    x = tf.relu6(1)\n", False),
        (f"{TF}if hasattr(tf, 'relu6'): x = tf.relu6(1)\nelse: x = tf.relu6(2)\n", False),
    ],
)
def test_check_and_migrate_agree(source: str, is_handled: bool, tmp_path) -> None:
    """`migrate` has a line for what `run --check` doesn't leave to the program, and for no more."""
    path = tmp_path / "program.py"
    path.write_text(source)
    outcomes = {
        finding.outcome for finding in check(StartedProgram(str(path)), as_tf1=False).findings
    }
    assert (outcomes <= {NameOutcome.HANDLED}) is is_handled
    assert (not migrate(source).findings) is is_handled


def test_a_name_that_run_puts_back(tmp_path) -> None:
    """Under `run` there is a `tf.contrib`: a test for it says nothing of what isn't restored."""
    path = tmp_path / "program.py"
    path.write_text(f"{TF}x = tf.contrib.quantize.f() if hasattr(tf, 'contrib') else 1\n")
    (finding,) = check(StartedProgram(str(path)), as_tf1=False).findings
    assert finding.outcome is NameOutcome.REFUSED
    assert not migrate(path.read_text()).findings
