# SPDX-License-Identifier: Apache-2.0
"""Installation and removal of the removed names in every spelling."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import json
import os
import re
import runpy
import sys
import threading
from pathlib import Path

import pytest
import tensorflow as tf

import estimator_spec
import forking_python
import tpu_columns
from estimator_spec.legacy import (
    module_spellings,
    names,
    tpu_stand_ins,
    unsupported_names,
)
from estimator_spec.legacy.modules import LegacyModule, resolve
from estimator_spec.legacy.stand_ins import StandIn
from tpu_columns import environment

ROOT = Path(__file__).resolve().parents[3]
TENSORFLOW_HAS_ESTIMATOR = "estimator" in vars(tf)


@pytest.fixture
def installed():
    """Installs the names, ours on every TensorFlow."""
    with estimator_spec.install(replace=True):
        yield


@pytest.fixture
def without_tf_slim(monkeypatch):
    """Hides tf_slim."""
    monkeypatch.setattr(names, "is_installed", lambda module: not module.startswith("tf_slim"))


@pytest.fixture(scope="module")
def report():
    """Returns the report of check_spellings.py from a process of its own."""
    script = Path(__file__).with_name("check_spellings.py")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop(environment.CPU, None)
    done = forking_python.run([script], env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_every_name_in_every_spelling(report):
    """Each name is found as an attribute and by each kind of import, and is the table's object."""
    assert report["replace"] == []


@pytest.mark.slow
def test_the_default_installs_one_family(report):
    """Without `replace`, all names are ours, or all TensorFlow 2.15's own where it has them."""
    assert report["default"] == []


@pytest.mark.slow
def test_uninstall_leaves_nothing(report):
    """After `uninstall`, TensorFlow's modules, `sys.modules` and the finders are as before."""
    assert report["left by replace"] == []
    assert report["left by default"] == []
    assert report["attributes"] == (["estimator"] if TENSORFLOW_HAS_ESTIMATOR else [])


def test_every_row_leads_somewhere():
    """The replacement of every name in the table exists."""
    lost = []
    for row in names.rows():
        try:
            resolve(row.ours)
        except AttributeError:
            lost.append(row)
    assert not lost


def test_no_name_has_two_rows():
    """No module has a name twice under one condition."""
    seen = [(m, row.name, row.when) for row in names.rows() for m in row.modules()]
    assert len(seen) == len(set(seen))


def test_no_name_is_both_there_and_missing():
    """No restored name has advice on what to use instead."""
    there = {(module, row.name) for row in names.rows() for module in row.modules()}
    assert not [pair for pair in there if unsupported_names.is_listed(*pair)]


def test_estimator_api(installed):
    """`tf.estimator` and `tf.compat.v1.estimator` have the classes of model_fn programs."""
    for estimator in (tf.estimator, tf.compat.v1.estimator):
        assert estimator.Estimator is estimator_spec.Estimator
        assert estimator.EstimatorSpec is estimator_spec.EstimatorSpec
        assert estimator.train_and_evaluate is estimator_spec.train_and_evaluate
        assert estimator.SessionRunHook is tf.compat.v1.train.SessionRunHook
        # Two classes of one name: a plain Estimator's, and a TPUEstimator's.
        assert estimator.RunConfig is estimator_spec.run_config.RunConfig
        assert estimator.tpu.RunConfig is estimator_spec.RunConfig


def test_columns_and_parameters_replace_the_orphans(installed):
    """`tf.compat.v1.tpu.experimental` has our columns, with the parameters that go with them."""
    experimental = tf.compat.v1.tpu.experimental
    assert experimental.embedding_column is tpu_columns.embedding_column
    assert experimental.shared_embedding_columns is tpu_columns.shared_embedding_columns
    assert experimental.AdagradParameters is estimator_spec.AdagradParameters
    assert experimental.Topology.__module__.startswith("tensorflow.")


def test_columns_imported_by_module_name(installed):
    """`from tensorflow.compat.v1.tpu.experimental import` loads no second copy of TensorFlow's."""
    module = importlib.import_module("tensorflow.compat.v1.tpu.experimental")
    assert module is tf.compat.v1.tpu.experimental
    assert module.embedding_column is tpu_columns.embedding_column


def test_the_old_columns_come_back():
    """`uninstall` restores TensorFlow's own columns."""
    before = tf.compat.v1.tpu.experimental.embedding_column
    with estimator_spec.install(replace=True):
        assert tf.compat.v1.tpu.experimental.embedding_column is not before
    assert tf.compat.v1.tpu.experimental.embedding_column is before
    assert before.__module__.startswith("tensorflow.")


def test_a_second_install_changes_nothing():
    """One `uninstall` undoes two installations."""
    estimator_spec.install(replace=True)
    try:
        first = tf.contrib
        estimator_spec.install(replace=True)
        assert tf.contrib is first
    finally:
        estimator_spec.uninstall()
    assert not hasattr(tf, "contrib")
    estimator_spec.uninstall()


def test_the_inner_of_two_contexts_undoes_nothing():
    """A nested `with install()` leaves the outer installation in place."""
    with estimator_spec.install(replace=True):
        with estimator_spec.install(replace=True):
            assert tf.contrib.tpu.TPUConfig is estimator_spec.TPUConfig
        assert tf.contrib.tpu.TPUConfig is estimator_spec.TPUConfig
    assert not hasattr(tf, "contrib")


def test_two_threads_install():
    """Names that another thread has installed, too, stay until both threads have left."""
    leave = threading.Event()

    def install(entered):
        with estimator_spec.install(replace=True):
            entered.set()
            leave.wait(60)

    threads = []
    for _ in range(2):
        entered = threading.Event()
        threads.append(threading.Thread(target=install, args=[entered]))
        threads[-1].start()
        assert entered.wait(60)
    with estimator_spec.install(replace=True):
        leave.set()
        for thread in threads:
            thread.join()
        assert tf.contrib.tpu.TPUConfig is estimator_spec.TPUConfig
    assert not hasattr(tf, "contrib")


def test_an_error_inside_the_context_undoes_too():
    """`with install()` removes the names if its body raises."""
    with pytest.raises(KeyError), estimator_spec.install(replace=True):
        raise KeyError
    assert not hasattr(tf, "contrib")


@pytest.mark.skipif(not TENSORFLOW_HAS_ESTIMATOR, reason="this TensorFlow has no Estimator")
def test_the_default_hides_no_estimator_of_tensorflow():
    """On TensorFlow 2.15 its Estimator and columns stay, and lost spellings refer to them."""
    theirs = tf.compat.v1.estimator.tpu.TPUEstimator
    column = tf.compat.v1.tpu.experimental.embedding_column
    optimizer = tf.compat.v1.tpu.CrossShardOptimizer
    with estimator_spec.install():
        assert tf.compat.v1.estimator.tpu.TPUEstimator is theirs
        assert tf.contrib.tpu.TPUEstimator is theirs
        assert tf.estimator.tpu.TPUEstimator is theirs
        assert tf.compat.v1.tpu.experimental.embedding_column is column
        assert tf.contrib.tpu.CrossShardOptimizer is optimizer
    assert not hasattr(tf.estimator, "tpu")


@pytest.mark.skipif(not TENSORFLOW_HAS_ESTIMATOR, reason="this TensorFlow has no Estimator")
def test_replace_may_come_later():
    """`install(replace=True)` after `install()` installs ours, and its exit restores the first."""
    theirs = tf.compat.v1.estimator.Estimator
    with estimator_spec.install():
        with estimator_spec.install(replace=True):
            assert tf.compat.v1.estimator.Estimator is estimator_spec.Estimator
        assert tf.compat.v1.estimator.Estimator is theirs
        assert tf.contrib.tpu.TPUEstimator is tf.compat.v1.estimator.tpu.TPUEstimator
    assert not hasattr(tf, "contrib")


@pytest.mark.parametrize(
    ("statement", "lost", "advice"),
    [
        ("from tensorflow.estimator import RNNClassifier", "estimator.RNNClassifier", "model_fn"),
        ("from tensorflow.contrib import slim", "contrib.slim", "Install tf_slim"),
        ("import tensorflow.contrib.slim", "contrib.slim", "Install tf_slim"),
        ("from tensorflow.contrib.slim.nets import vgg", "contrib.slim", "Install tf_slim"),
        ("from tensorflow.contrib.layers import dropout", "layers.dropout", "tf_slim"),
        ("from tensorflow_estimator.python.estimator.canned import rnn", "canned", "model_fn"),
        ("from tensorflow.python.tpu.tpu_embedding import TPUEmbedding", "TPUEmbedding", "API"),
        ("import tensorflow.contrib.nonsense", "contrib.nonsense", "Nothing today has its place"),
        ("from tensorflow.estimator import Nonsense", "estimator.Nonsense", "docs/legacy_names.md"),
    ],
)
def test_an_import_that_fails_says_what_to_use(
    without_tf_slim, installed, tmp_path, statement, lost, advice
):
    """An unsupported name is imported, and its use and a handled import say what to use instead."""
    scope = {}
    exec(statement, scope)
    name = statement.split()[-1]
    # `import tensorflow.contrib.slim` sets no attribute: the read gives a stand-in.
    found = scope[name] if name in scope else eval(name, scope)
    with pytest.raises(AttributeError, match=f"{lost}.* isn't among .*{advice}.*Used in test_inst"):
        found()
    program = tmp_path / "program.py"
    program.write_text(f"try:\n    {statement}\nexcept ImportError as e:\n    error = e")
    # A module that was imported once is found without a search.
    for module in [name for name in sys.modules if isinstance(sys.modules[name], StandIn)]:
        del sys.modules[module]
    error = runpy.run_path(str(program))["error"]
    assert re.search(f"{lost}.* isn't among .*{advice}", str(error))


@pytest.mark.parametrize(
    ("module", "name", "advice"),
    [
        ("contrib.estimator", "boosted_trees_regressor_train_in_memory", "lightgbm"),
        ("estimator.experimental", "KMeans", "compat.v1.estimator.experimental"),
        ("contrib.tpu", "keras_to_tpu_model", "TPUStrategy"),
        ("contrib", "ffmpeg", "Use tensorflow_io"),
    ],
)
def test_an_attribute_that_fails_says_what_to_use(installed, module, name, advice):
    """Reading an unsupported name raises an AttributeError with its name and advice."""
    with pytest.raises(AttributeError, match=f"tensorflow.{module}.{name} .*{advice}"):
        getattr(resolve(f"tensorflow.{module}"), name)
    assert not hasattr(resolve(f"tensorflow.{module}"), name)


@pytest.mark.skipif(TENSORFLOW_HAS_ESTIMATOR, reason="this TensorFlow has the module")
def test_a_module_that_tensorflow_dropped_says_so(installed):
    """A removed module in a package that TensorFlow still has can be imported, but not used."""
    module = importlib.import_module("tensorflow.python.tpu.async_checkpoint")
    with pytest.raises(AttributeError, match="went with the Estimator"):
        module.AsyncCheckpointSaverHook("model_dir")
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("tensorflow.python.tpu.nonsense")


def test_modules_behave_as_modules(installed):
    """Inspection of all modules and star imports work with installed modules."""
    assert "TPUEstimator" in dir(tf.contrib.tpu)
    assert importlib.util.find_spec("tensorflow.contrib.tpu") is not None
    assert inspect.getmodule(tf.contrib.tpu.TPUEstimator) is not None
    scope = {}
    exec("from tensorflow.contrib.tpu import *", scope)
    assert scope["TPUConfig"] is estimator_spec.TPUConfig
    assert copy.deepcopy(tf.estimator.ModeKeys.TRAIN) == "train"


def test_a_module_that_tensorflow_has_keeps_its_own_spec(installed):
    """A second name for one of TensorFlow's private modules doesn't change that module."""
    alias = importlib.import_module("tensorflow.contrib.tpu.python.tpu.tpu_function")
    assert alias.__spec__.name == "tensorflow.python.tpu.tpu_function"
    assert alias.get_tpu_context().number_of_shards is None


def test_nothing_is_loaded_before_it_is_asked_for(installed):
    """Installing loads no object of the installed modules."""
    module = sys.modules["tensorflow.contrib.tpu"]
    assert isinstance(module, LegacyModule)
    assert "TPUDistributionStrategy" not in vars(module)
    assert "Topology" not in vars(module)


def test_for_a_host_only_when_the_host_was_chosen(monkeypatch):
    """Replacements of TPU functions are installed under `--cpu` only, and removed afterwards."""
    real = tf.distribute.cluster_resolver.TPUClusterResolver
    monkeypatch.delenv(environment.CPU, raising=False)
    with estimator_spec.install(replace=True):
        assert tf.distribute.cluster_resolver.TPUClusterResolver is real
    monkeypatch.setenv(environment.CPU, "1")
    with estimator_spec.install(replace=True):
        for module in (tf.distribute.cluster_resolver, tf.contrib.cluster_resolver):
            assert module.TPUClusterResolver is tpu_stand_ins.TPUClusterResolver
        assert tf.compat.v1.tpu.rewrite is tpu_stand_ins.rewrite
        assert tf.contrib.tpu.rewrite is tpu_stand_ins.rewrite
    assert tf.distribute.cluster_resolver.TPUClusterResolver is real
    assert tf.compat.v1.tpu.rewrite.__module__.startswith("tensorflow.")


def test_places_cover_every_import_spelling():
    """Each spelling that public programs use for these names is a module of the table."""
    modules = {module for row in names.rows() for module in row.modules()}
    spellings = (
        "tensorflow.estimator.tpu",
        "tensorflow.compat.v1.estimator.tpu",
        "tensorflow.contrib.tpu",
        "tensorflow.contrib.tpu.python.tpu.tpu_estimator",
        "tensorflow.contrib.tpu.python.tpu.tpu_config",
        "tensorflow.contrib.tpu.python.tpu.tpu_optimizer",
        "tensorflow_estimator.python.estimator.tpu.tpu_estimator",
        "tensorflow.python.tpu.tpu_config",
        "tensorflow.python.tpu.tpu_estimator",
        "tensorflow.python.tpu.tpu_embedding",
        "tensorflow.python.tpu.feature_column",
        "tensorflow.python.tpu.feature_column_v2",
    )
    assert not set(spellings) - modules
    assert all(module_spellings.is_removed(m) for m in modules if "contrib" in m)


def test_the_document_is_current(tmp_path, monkeypatch, capsys):
    """docs/legacy_names.md equals the script's output; `--check` fails on another page."""
    script = ROOT / "docs" / "make_legacy_names.py"
    spec = importlib.util.spec_from_file_location("make_legacy_names", script)
    make_legacy_names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_legacy_names)
    assert make_legacy_names.main(["--check"]) == 0
    monkeypatch.setattr(make_legacy_names, "PAGE", tmp_path / "legacy_names.md")
    assert make_legacy_names.main(["--check"]) == 1
    assert "stale" in capsys.readouterr().err
    assert make_legacy_names.main([]) == make_legacy_names.main(["--check"]) == 0


@pytest.mark.parametrize("root", module_spellings.REMOVED)
def test_names_that_begin_like_a_removed_module(root):
    """A module is removed with what is within it, not with others whose names begin like it."""
    assert module_spellings.is_removed(root)
    assert module_spellings.is_removed(f"{root}.within")
    assert not module_spellings.is_removed(f"{root}_beside")


def test_private_modules_that_moved():
    """Private modules of old programs lead to today's; a decorator of names does nothing."""
    with estimator_spec.install():
        from tensorflow.python.training import gen_training_ops, training_ops
        from tensorflow_estimator.python.estimator import estimator_export

        assert callable(training_ops.resource_apply_adam)
        assert callable(gen_training_ops.apply_momentum)

        @estimator_export.estimator_export("estimator.Mine", v1=[])
        class Mine:
            pass

    assert Mine.__name__ == "Mine"
    name = "tensorflow.python.training.training_ops.resource_apply_adam"
    assert estimator_spec.restored(name) is training_ops.resource_apply_adam
