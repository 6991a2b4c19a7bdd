# SPDX-License-Identifier: Apache-2.0
"""Optional packages: errors if missing, imports on first use."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import estimator_spec
import forking_python
from estimator_spec import FeatureConfig, TableConfig
from estimator_spec.convert import to_distributed_embedding, to_partial_tpu_embedding
from estimator_spec.convert.optional_packages import load_extra

ROOT = Path(__file__).resolve().parents[3]
SPEC = estimator_spec.EmbeddingConfigSpec(
    feature_to_config_dict={"word": FeatureConfig("words")},
    table_to_config_dict={"words": TableConfig(10, 4)},
    optimization_parameters=estimator_spec.AdagradParameters(0.1),
)


@pytest.mark.parametrize(
    ("package", "extra", "convert"),
    [
        ("keras_rs", "keras-rs", to_distributed_embedding),
        ("tensorflow_recommenders", "tfrs", to_partial_tpu_embedding),
    ],
)
def test_a_missing_extra_is_one_line(monkeypatch, package, extra, convert):
    """Without the package the error names the extra that installs it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError) as caught:
        convert(SPEC)
    assert str(caught.value) == f"{package} isn't installed: pip install 'tpu-columns[{extra}]'"


def test_an_extra_that_is_broken_says_so_itself(monkeypatch, tmp_path):
    """An import error inside of the package is raised as it is."""
    (tmp_path / "half_there.py").write_text("import what_half_there_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="what_half_there_needs"):
        load_extra("half_there", "any")


@pytest.mark.slow
def test_conversions_load_no_extra_and_no_keras():
    """Importing `convert`, and conversions without Keras, load neither Keras nor extras."""
    program = (
        "import json, sys, tensorflow as tf, estimator_spec\n"
        "from estimator_spec import convert\n"
        "from estimator_spec import FeatureConfig, TableConfig\n"
        "spec = estimator_spec.EmbeddingConfigSpec(\n"
        "    feature_to_config_dict={'word': FeatureConfig('words')},\n"
        "    table_to_config_dict={'words': TableConfig(10, 4)},\n"
        "    optimization_parameters=estimator_spec.AdagradParameters(0.1))\n"
        "convert.to_config_proto(spec, 8)\n"
        "embedding = convert.to_tpu_embedding(spec)\n"
        "convert.look_up(embedding, {'word': tf.constant([[1]])})\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = forking_python.run(["-c", program], env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "estimator_spec" in loaded
    extras = {"keras", "tf_keras", "keras_rs", "tensorflow_recommenders", "jax"}
    assert not loaded & (extras - bare_tensorflow())


def bare_tensorflow():
    """Returns the modules of a bare `import tensorflow`, with Keras in some versions."""
    program = "import json, sys, tensorflow; print(json.dumps(sorted(sys.modules)))"
    done = forking_python.run(["-c", program])
    return {name.split(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}
