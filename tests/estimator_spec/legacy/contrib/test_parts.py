# SPDX-License-Identifier: Apache-2.0
"""Parts of contrib and of the examples, against what TensorFlow 1.15 gave for them."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import contrib_parts
from estimator_spec import __main__ as command_line
from estimator_spec.legacy import names, unsupported_names
from estimator_spec.legacy.contrib import cells, cloud, mnist, preprocessing, tfprof
from estimator_spec.legacy.contrib import rnn as contrib_rnn

DATA = Path(__file__).resolve().parents[3] / "data"
RECORDED = json.loads((DATA / "tf1_15_contrib_parts.json").read_text("utf-8"))


def test_batches_of_digits(tmp_path):
    """Batches of local files have TensorFlow 1.15's order, values and epochs."""
    assert RECORDED["digits"] == json.loads(json.dumps(contrib_parts.digits(mnist, str(tmp_path))))


def test_digits_are_not_downloaded(tmp_path):
    """A missing file is an error that names it; a damaged one, too."""
    with pytest.raises(FileNotFoundError, match=r"lacks train-images-idx3-ubyte.gz, .*downloaded"):
        mnist.read_data_sets(str(tmp_path))
    contrib_parts.write_digits(tmp_path)
    labels = tmp_path / "t10k-labels-idx1-ubyte.gz"
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(labels.read_bytes())
    with pytest.raises(ValueError, match="Invalid magic number 2049 in MNIST image file"):
        mnist.read_data_sets(str(tmp_path), validation_size=0)


def test_made_up_digits():
    """`fake_data` needs no files."""
    parts = mnist.read_data_sets("", fake_data=True, one_hot=True)
    images, labels = parts.train.next_batch(2, fake_data=True)
    assert np.shape(images) == (2, 784)
    assert np.shape(labels) == (2, 10)


def test_words():
    """Rows of words and bytes are TensorFlow 1.15's."""
    assert RECORDED["words"] == json.loads(json.dumps(contrib_parts.words(preprocessing)))


def test_saved_words(tmp_path):
    """A file that TensorFlow 1.15 saved is restored, and one of ours, too."""
    path = tmp_path / "vocabulary"
    path.write_bytes(base64.b64decode(RECORDED["saved"]))
    processor = preprocessing.VocabularyProcessor.restore(str(path))
    expected = RECORDED["words"][1][0][3:]
    assert [row.tolist() for row in processor.transform(contrib_parts.TEXTS)] == expected
    processor.save(str(path))
    again = preprocessing.VocabularyProcessor.restore(str(path))
    assert [row.tolist() for row in again.transform(contrib_parts.TEXTS)] == expected


def test_a_file_runs_no_code(tmp_path):
    """A file that names a function of another module isn't loaded."""
    path = tmp_path / "vocabulary"
    path.write_bytes(pickle.dumps(logging.getLevelName))
    with pytest.raises(ValueError, match=r"vocabulary needs logging.getLevelName"):
        preprocessing.VocabularyProcessor.restore(str(path))


def test_cells():
    """Outputs, states, gradients and names of variables are TensorFlow 1.15's."""

    class Rnn:
        LSTMBlockCell = cells.LSTMBlockCell
        LayerNormBasicLSTMCell = cells.LayerNormBasicLSTMCell
        LSTMStateTuple = contrib_rnn.LSTMStateTuple

    found = contrib_parts.cells(Rnn, tf)
    assert set(found) == set(RECORDED["cells"])
    for name, (variables, values) in RECORDED["cells"].items():
        assert found[name][0] == variables
        for ours, theirs in zip(found[name][1], values, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5, err_msg=name)


def test_nothing_to_configure_is_said_once(caplog):
    """Settings of Google Cloud Storage are accepted, and one warning says where they come from."""
    cloud._say_so.cache_clear()
    with caplog.at_level(logging.WARNING):
        cloud.configure_gcs(None, credentials="{}", block_cache=cloud.BlockCacheParams())
        cloud.ConfigureGcsHook()
    assert [record.message[:13] for record in caplog.records] == ["tf.contrib.cl"]
    assert cloud.BlockCacheParams(block_size=5).max_bytes == 10


def test_a_model_is_analyzed():
    """`print_model_analysis` counts the parameters of a graph."""
    with tf.Graph().as_default() as graph:
        tf.compat.v1.get_variable("kernel", [3, 5])
        options = {**tfprof.TRAINABLE_VARS_PARAMS_STAT_OPTIONS, "output": "none"}
        found = tfprof.print_model_analysis(graph, tfprof_options=options)
    assert found.total_parameters == 15


# Names by which public programs still use contrib, and the parts of the examples.
USED = [
    "tensorflow.examples.tutorials.mnist.input_data.read_data_sets",
    "tensorflow.contrib.learn.preprocessing.VocabularyProcessor",
    "tensorflow.contrib.learn.preprocessing.ByteProcessor",
    "tensorflow.contrib.learn.python.learn.preprocessing.text.VocabularyProcessor",
    "tensorflow.contrib.learn.datasets.mnist.read_data_sets",
    "tensorflow.contrib.eager.GradientTape",
    "tensorflow.contrib.eager.TensorSpec",
    "tensorflow.contrib.eager.in_eager_mode",
    "tensorflow.contrib.cloud.configure_gcs",
    "tensorflow.contrib.cloud.BlockCacheParams",
    "tensorflow.contrib.rnn.LSTMBlockCell",
    "tensorflow.contrib.rnn.LayerNormBasicLSTMCell",
    "tensorflow.contrib.data.map_and_batch",
    "tensorflow.contrib.signal.stft",
    "tensorflow.contrib.tfprof.model_analyzer.print_model_analysis",
]


@pytest.mark.parametrize("name", USED)
def test_names_in_use_are_restored(name):
    """Each of these names has a row, and its replacement can be imported."""
    module, _, last = name.rpartition(".")
    (row,) = [row for row in names.rows() if row.name == last and module in row.modules()]
    home, _, ours = row.ours.rpartition(".")
    assert getattr(__import__(home, fromlist=[ours]), ours) is not None


def test_every_refusal_says_what_to_do():
    """No two parts of contrib are refused with only the news that contrib ended."""
    for package in ("seq2seq", "signal", "eager", "kafka", "graph_editor", "unheard_of"):
        advice = unsupported_names.advice(f"tensorflow.contrib.{package}", "anything")
        assert "ended" not in advice
        assert any(word in advice for word in ("Use ", "use ", "Decode", "copy"))


def program(lines: list[str], path: Path) -> str:
    """Writes a program that uses names; returns its path."""
    path.write_text("import tensorflow as tf\n" + "".join(f"{line}\n" for line in lines))
    return str(path)


def test_programs_of_these_names_are_checked_and_rewritten(tmp_path, capsys):
    """`run --check` puts each name back, and `migrate` rewrites it, with nothing left to do."""
    lines = []
    for number, name in enumerate(USED):
        module, _, last = name.rpartition(".")
        package, _, part = module.rpartition(".")
        lines += [f"from {package} import {part} as part_{number}", f"part_{number}.{last}"]
    path = program(lines, tmp_path / "old.py")
    assert command_line.main(["run", "--check", path]) == 0
    checked = "".join(capsys.readouterr())
    for name in USED:
        assert f"put back: {name}." in checked
    assert " 0 stood in for, 0 left to the program, 0 refused." in checked
    assert command_line.main(["migrate", "--write", path]) == 0
    assert "0 not rewritten" in "".join(capsys.readouterr())
    assert command_line.main(["migrate", path]) == 0
    assert "0 not rewritten" in "".join(capsys.readouterr())


@pytest.mark.parametrize("package", ["kafka", "seq2seq", "graph_editor", "ffmpeg"])
def test_stand_ins_are_listed_on_each_run(package, tmp_path, capsys):
    """A second run of `migrate` still says which stand-ins would fail, and what to do."""
    advice = unsupported_names.advice(f"tensorflow.contrib.{package}", "Something")
    lines = [f"from tensorflow.contrib import {package}", f"{package}.Something(1)"]
    path = program(lines, tmp_path / "old.py")
    for options in (["--write"], []):
        command_line.main(["migrate", *options, path])
        text = " ".join("".join(capsys.readouterr()).split())
        assert f"tensorflow.contrib.{package} isn't restored" in text
        assert advice in text
