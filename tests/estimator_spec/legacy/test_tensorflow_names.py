# SPDX-License-Identifier: Apache-2.0
"""Names of TensorFlow by version, as recorded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import tensorflow as tf

import make_tensorflow_names
from estimator_spec.legacy import tensorflow_names
from estimator_spec.legacy.tensorflow_names import NEWEST, VERSIONS, exists, is_only_in_tf1

is_recorded = tf.__version__ in VERSIONS


@pytest.mark.parametrize(
    ("name", "versions"),
    [
        ("tensorflow.nn.relu", VERSIONS),
        ("tensorflow.Session", VERSIONS[:1]),
        ("tensorflow.compat.v1.Session", VERSIONS),
        ("tensorflow.compat.v2.compat.v1.Session", VERSIONS),
        ("tensorflow.contrib.layers.xavier_initializer", VERSIONS[:1]),
        ("tensorflow.contrib.slim.python.slim.nets.inception_v3.inception_v3", VERSIONS[:1]),
        ("tensorflow.examples.tutorials.mnist.input_data", VERSIONS[:1]),
        ("tensorflow.estimator.ModeKeys.TRAIN", VERSIONS[:3]),
        ("tensorflow.losses.get_total_loss", VERSIONS[:1]),
        ("tensorflow.metrics.auc", VERSIONS[:1]),
        ("tensorflow.metrics.AUC", VERSIONS[1:]),
        ("tensorflow.data.Iterator.from_structure", VERSIONS[:1]),
        ("tensorflow.core.framework.summary_pb2", VERSIONS),
        ("tensorflow.core.framework.summary_pb2.Summary", VERSIONS),
        ("tensorflow.core.framework.summary_pb2.Gone", ()),
        ("tensorflow.python.training.distribution_strategy_context", VERSIONS[:2]),
        ("tensorflow.python.keras.utils.CustomObjectScope", VERSIONS[:1]),
        ("tensorflow.python.training.training_ops", VERSIONS[:3]),
        ("tensorflow.python.ops.rnn_cell_impl._Linear", ()),
        ("tensorflow.pack", ()),
        ("tensorflow.nn.relu.any_attribute", VERSIONS),
    ],
)
def test_versions_of_a_name(name: str, versions: tuple[str, ...]) -> None:
    """A name exists in the versions that have it: public, private, of a class, of tf.contrib."""
    assert tensorflow_names.versions_of(name) == versions


@pytest.mark.parametrize(
    "name",
    [
        "Session",
        "train.AdamOptimizer",
        "summary.FileWriter",
        "tpu.experimental.embedding_column",
        "losses.get_total_loss",
        "metrics.auc",
        "keras.backend.get_session",
        "data.Iterator.from_structure",
    ],
)
def test_names_of_tensorflow_1(name: str) -> None:
    """Names that programs of TensorFlow 1 use are in tf.compat.v1 alone."""
    assert is_only_in_tf1(name)


@pytest.mark.parametrize(
    "name",
    ["nn.relu", "summary.scalar", "losses", "data.Dataset", "keras", "contrib.layers", "core.any"],
)
def test_names_of_both_apis(name: str) -> None:
    """Names of TensorFlow 2, and those that no API has, aren't TensorFlow 1's alone."""
    assert not is_only_in_tf1(name)


@pytest.mark.skipif(not is_recorded, reason="this TensorFlow isn't recorded")
def test_names_agree_with_tensorflow() -> None:
    """The public modules of the installed TensorFlow have the recorded names, but for Keras."""
    checked = 0
    for module in tensorflow_names.modules(tf.__version__):
        found: object = tf
        for part in module.split(".")[1:]:
            found = vars(found).get(part) if isinstance(found, types.ModuleType) else None
            if "Lazy" in type(found).__name__:
                found = None
        if isinstance(found, types.ModuleType) and make_tensorflow_names._is_api(found):
            missing = [
                name
                for name in tensorflow_names.names_in(module, tf.__version__)
                if not hasattr(found, name)
                and not tensorflow_names.is_module(f"{module}.{name}", tf.__version__)
            ]
            assert not missing, (module, missing)
            checked += 1
    assert checked > 100


@pytest.mark.nightly("it imports every module of TensorFlow")
@pytest.mark.skipif(not is_recorded, reason="this TensorFlow isn't recorded")
def test_a_new_recording_is_the_same(tmp_path: Path) -> None:
    """What the script records of the installed TensorFlow is what the package has."""
    made = tmp_path / "made.json"
    subprocess.run(
        [sys.executable, make_tensorflow_names.__file__, "record", str(made)],
        check=True,
        env={**os.environ, "TF_USE_LEGACY_KERAS": "1"},
    )
    modules = json.loads(made.read_text())["modules"]
    assert set(tensorflow_names.modules(tf.__version__)) == set(modules)
    for module, names in modules.items():
        assert set(tensorflow_names.names_in(module, tf.__version__)) == set(names or ()), module


def test_the_next_recorded_version() -> None:
    """A version that isn't recorded is read as the next one, and a later one as the newest."""
    expected = {"1.13.1": "1.15.5", "2.4.0": "2.8.4", "2.15.0": "2.15.1", "2.16.2": NEWEST}
    expected |= {"2.22.0.dev20260101": NEWEST, "unknown": NEWEST}
    assert {each: tensorflow_names.recorded(each) for each in expected} == expected


def test_the_installed_version() -> None:
    """The version of the installed TensorFlow is known without importing it."""
    assert tensorflow_names.installed() == tf.__version__
    code = "import sys; from estimator_spec.legacy import tensorflow_names as names; "
    code += "names.installed(), names.exists('tensorflow.nn'); print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_names_without_a_module() -> None:
    """A module that a version lacks has no names."""
    assert tensorflow_names.names_in("tensorflow.contrib.layers") == ()
    assert "xavier_initializer" in tensorflow_names.names_in("tensorflow.contrib.layers", "1.15.5")
    assert not exists("tensorflow.contrib.layers")
