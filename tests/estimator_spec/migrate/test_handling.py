# SPDX-License-Identifier: Apache-2.0
"""Programs that handle that an old name is missing, and those that only seem to."""

from __future__ import annotations

import pytest

from estimator_spec.migrate.migration import migrate
from estimator_spec.migrate.results import Kind
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
    assert {finding.kind for finding in done.findings} == {Kind.NOT_REWRITTEN}
