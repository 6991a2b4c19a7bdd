# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for names that aren't restored: imports work, use raises, and questions find none."""

from __future__ import annotations

import copy
import importlib.util
import runpy
import sys
import types

import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec.legacy import LegacyAttributeError, LegacyImportError


@pytest.fixture(autouse=True)
def installed():
    """Installs the names, ours on every TensorFlow."""
    with estimator_spec.install(replace=True):
        yield


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs a program and returns its names."""

    def run(text):
        path = tmp_path / f"program{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        return runpy.run_path(str(path))

    return run


@pytest.mark.parametrize(
    "statement",
    [
        "from tensorflow.contrib import quantize as name",
        "import tensorflow.contrib.quantize as name",
        "import tensorflow.contrib.seq2seq.python.ops.attention_wrapper as name",
        "from tensorflow.contrib.seq2seq.python.ops import attention_wrapper as name",
        "from tensorflow_estimator.python.estimator.canned import rnn as name",
        "from tensorflow_estimator.python.estimator.canned.dnn import _DNNModel as name",
        "from tensorflow.estimator.experimental import LinearSDCA as name",
        "import tensorflow as tf\nname = tf.contrib.quantize",
        "import tensorflow as tf\nname = tf.estimator.experimental.LinearSDCA",
        "import tensorflow.compat.v1 as tf\nname = tf.contrib.quantize.nothing.at.all",
        "import importlib\nname = importlib.import_module('tensorflow.contrib.quantize')",
    ],
)
def test_an_import_that_is_never_used(run, statement):
    """Imports and reads of unsupported names work; the call of one names the program's line."""
    name = run(f"{statement}\n")["name"]
    with pytest.raises(LegacyAttributeError, match=f"{name.__name__} isn't among"):
        name()
    with pytest.raises(LegacyAttributeError, match=r"isn't among .*\(Used in program1.py, line 4"):
        run(
            f"{statement}\nname\n\nname.deeper.still(1, a=2)"
            if "\n" not in statement
            else f"{statement}\n\nname.deeper.still(1, a=2)"
        )


def test_subclasses():
    """A stand-in can be subclassed; constructing the subclass raises, `isinstance` is false."""

    class Head(tf.contrib.learn.SVM, tf.estimator.KMeansClustering):
        """A head."""

        def __init__(self, size):
            super().__init__()
            self.size = size

    class Narrow(Head):
        pass

    for kind in (Head, Narrow):
        with pytest.raises(LegacyAttributeError, match=r"contrib.learn.SVM isn't among"):
            kind(3)
    assert not isinstance(3, tf.contrib.learn.SVM)
    assert not issubclass(int, tf.contrib.learn.SVM)


@pytest.mark.parametrize(
    "use",
    [
        lambda name: name == 3,
        lambda name: name != "train",
        lambda name: "train" in [name],
        bool,
        list,
        lambda name: name["key"],
        lambda name: name.__enter__(),
    ],
)
def test_what_depends_on_the_value_raises(use):
    """Comparisons and the like raise: a mode that equals nothing would be a silent error."""
    name = tf.contrib.learn.Keys
    with pytest.raises(LegacyAttributeError, match="contrib.learn.Keys isn't among"):
        use(name)


def test_annotations(run):
    """Stand-ins can be parts of annotations."""
    names = run(
        "from typing import Optional, Union\n"
        "from tensorflow.contrib import seq2seq\n"
        "def f(a: seq2seq.A, b: Optional[seq2seq.B] = None) -> Union[seq2seq.A, int]:\n"
        "    return a\n"
    )
    assert names["f"](3) == 3


def test_libraries_may_look_at_all_modules():
    """An imported stand-in is a module with the name's spelling, comparable with others."""
    importlib.import_module("tensorflow.contrib.quantize")
    module = sys.modules["tensorflow.contrib.quantize"]
    assert isinstance(module, types.ModuleType)
    assert module.__name__ == "tensorflow.contrib.quantize"
    assert bool(module) and module != tf and module == module and hash(module)
    assert not hasattr(module, "__file__")
    assert not hasattr(module, "__warningregistry__")


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from tensorflow.contrib import slim2 as s\nexcept ImportError:\n    s = None",
        "try:\n    from tensorflow.contrib.slim2 import nets as s\nexcept Exception:\n    s = None",
        "try:\n    import tensorflow.contrib.slim2 as s\n"
        "except (KeyError, ImportError):\n    s = None",
        "import tensorflow.contrib.slim2\n"
        "try:\n    import tensorflow.contrib.slim2 as s\nexcept ModuleNotFoundError:\n    s = None",
        "import tensorflow as tf\n"
        "try:\n    s = tf.contrib.slim2\nexcept AttributeError:\n    s = None",
        "import tensorflow as tf\ntry:\n    s = tf.contrib.slim2\nexcept:\n    s = None",
        "import contextlib\ns = None\n"
        "with contextlib.suppress(ImportError):\n    from tensorflow.contrib import slim2 as s",
        "import importlib\n"
        "try:\n    s = importlib.import_module('tensorflow.contrib.slim2')\n"
        "except ImportError:\n    s = None",
        "def load():\n    try:\n        try:\n            from tensorflow.contrib import slim2\n"
        "            return slim2\n        finally:\n            pass\n"
        "    except ImportError:\n        return None\ns = load()",
        "import tensorflow as tf\ns = getattr(tf.contrib, 'slim2', None)",
        "import tensorflow as tf\ns = tf.contrib.slim2 if hasattr(tf.contrib, 'slim2') else None",
        "from importlib.util import find_spec\ns = find_spec('tensorflow.contrib.slim2')",
        "from importlib.util import find_spec\ns = find_spec('tensorflow.contrib.slim2.nets')",
        "import tensorflow.estimator as e\ns = getattr(e, 'KMeans', None)",
    ],
)
def test_a_program_that_looks_for_a_name_finds_none(run, text):
    """Where a program asks for a name, or handles that it is missing, there is none."""
    assert run(text)["s"] is None


@pytest.mark.parametrize(
    "text",
    [
        # Handled elsewhere, or something else.
        "try:\n    def f():\n        from tensorflow.contrib import slim2\n"
        "        return slim2\nexcept ImportError:\n    pass\ns = f()",
        "try:\n    from tensorflow.contrib import slim2 as s\nexcept KeyError:\n    s = None",
        "try:\n    from tensorflow.contrib import slim2 as s\nfinally:\n    pass",
        "import tensorflow as tf\n"
        "try:\n    s = tf.contrib.slim2\nexcept ImportError:\n    s = None",
        "try:\n    import nothing_like_it\nexcept ImportError:\n"
        "    from tensorflow.contrib import slim2 as s",
    ],
)
def test_an_error_that_nothing_handles_is_not_raised(run, text):
    """An import or a read gets a stand-in if no handler around it would catch the error."""
    with pytest.raises(LegacyAttributeError, match="slim2 isn't among"):
        run(text)["s"]()


def test_errors_of_handled_imports_have_advice(run):
    """The error that a program catches says what to use instead."""
    failing = "try:\n    from tensorflow.contrib import quantize\n"
    error = run(f"{failing}except ImportError as e:\n    error = e")["error"]
    assert isinstance(error, LegacyImportError)
    assert "model_optimization" in str(error)


def test_uninstall_removes_stand_ins():
    """After `uninstall` no stand-in is left in `sys.modules` or in TensorFlow's modules."""
    importlib.import_module("tensorflow.contrib.quantize.python")
    tpu = importlib.import_module("tensorflow.python.tpu")
    importlib.import_module("tensorflow.python.tpu.session_support")
    estimator_spec.uninstall()
    assert not [name for name in sys.modules if "quantize.python" in name]
    assert hasattr(tpu, "session_support") == ("estimator" in vars(tf))


def test_moved_names_of_private_modules():
    """Names that moved between TensorFlow's private modules are in both, until `uninstall`."""
    ops = importlib.import_module("tensorflow.python.framework.ops")
    array_ops = importlib.import_module("tensorflow.python.ops.array_ops")
    assert ops.Tensor is tf.Tensor
    assert array_ops.stack([1, 2]).shape == [2]


def test_copies_of_a_stand_in():
    """Copies of what has a stand-in, such as of default parameters, have the same one."""
    name = estimator_spec.restored("tensorflow.contrib.seq2seq.LuongAttention")
    parameters = {"attention": name}
    assert copy.deepcopy(parameters)["attention"] is copy.copy(name) is name
    with pytest.raises(AttributeError, match="LuongAttention"):
        copy.deepcopy(name)()
