# SPDX-License-Identifier: Apache-2.0
"""Parts of contrib and of the examples, against what TensorFlow 1.15 gave for them."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import pydoc
import types
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import contrib_parts
from estimator_spec import __main__ as command_line
from estimator_spec.legacy import names, unsupported_names
from estimator_spec.legacy.contrib import cloud, mnist, preprocessing, tfprof

DATA = Path(__file__).resolve().parents[3] / "data"
RECORDED = json.loads((DATA / "tf1_15_contrib_parts.json").read_text("utf-8"))


def restored(module: str) -> types.SimpleNamespace:
    """Returns what the tables put into a removed module."""
    found = {row.name: row.ours for row in names.rows() if module in row.modules()}
    parts = {name: pydoc.locate(ours) for name, ours in found.items()}
    return types.SimpleNamespace(**parts)


def assert_close(ours, theirs, where):
    """Asserts that numbers and other values in lists are those that were recorded."""
    assert type(ours) is type(theirs), where
    if isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            assert_close(*pair, f"{where}, {number}")
    elif theirs is None or isinstance(theirs, str):
        assert ours == theirs, where
    else:
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-5), where


def test_losses_of_sequences():
    """Losses in each reduction, and repeated examples, are TensorFlow 1.15's."""
    found = contrib_parts.losses(restored("tensorflow.contrib.seq2seq"), tf)
    assert_close(found, RECORDED["losses"], "losses")


def test_decoding():
    """Outputs, states, lengths, gradients and names of variables are TensorFlow 1.15's."""
    seq2seq = restored("tensorflow.contrib.seq2seq")
    found = contrib_parts.decoding(seq2seq, restored("tensorflow.contrib.rnn"), tf)
    assert set(found) == set(RECORDED["decoding"])
    for name, recorded in RECORDED["decoding"].items():
        assert_close(found[name], recorded, name)


def test_eager_parts(tmp_path):
    """Gradients, iterators, savers and metrics are those of TensorFlow 1.15's eager execution."""
    tfe = restored("tensorflow.contrib.eager")
    tfe.metrics = restored("tensorflow.contrib.eager.metrics")
    assert_close(contrib_parts.eager(tfe, tf, tmp_path), RECORDED["eager"], "eager")


SEQUENCES = np.zeros([2, 3, 4], np.float32)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda of: of.sequence_loss(SEQUENCES[0], SEQUENCES[0], SEQUENCES[0]), "Logits must have"),
        (
            lambda of: of.sequence_loss(
                SEQUENCES, SEQUENCES[0], SEQUENCES[0], sum_over_timesteps=True
            ),
            "both averaged and summed",
        ),
        (lambda of: of.tile_batch(1.0, 2), "known rank of 1"),
        (lambda of: of.TrainingHelper(SEQUENCES, 3), "sequence_length to be a vector"),
        (lambda of: of.GreedyEmbeddingHelper(SEQUENCES[0], 1, 2), "start_tokens must be a vector"),
        (lambda of: of.GreedyEmbeddingHelper(SEQUENCES[0], [1], [2]), "end_token must be a scalar"),
        (lambda of: of.BasicDecoder(None, of.Helper(), ()), "cell must be an RNNCell"),
        (lambda of: of.dynamic_decode(None), "Expected decoder to be type Decoder"),
    ],
)
def test_errors_of_decoding(call, words):
    """Arguments of another shape or type are errors that say what was expected."""
    with pytest.raises((ValueError, TypeError), match=words):
        call(restored("tensorflow.contrib.seq2seq"))


def test_eager_parts_need_eager_execution():
    """In a graph the error names what graphs have instead."""
    tfe = restored("tensorflow.contrib.eager")
    with tf.Graph().as_default():
        with pytest.raises(RuntimeError, match=r"tfe.Saver needs eager.*compat.v1.train.Saver"):
            tfe.Saver([])
        with pytest.raises(RuntimeError, match=r"make_one_shot_iterator"):
            tfe.Iterator(None)


def test_shapes_of_counted_labels():
    """Labels that don't fit predictions are an error of the metric's name."""
    accuracy = restored("tensorflow.contrib.eager.metrics").SparseAccuracy("top")
    with pytest.raises(ValueError, match=r"top: labels .* differ in shape, \(2,\) and"):
        accuracy([1, 2], [[0.5, 0.5]])


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
    found = contrib_parts.cells(restored("tensorflow.contrib.rnn"), tf)
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
    f"tensorflow.{module}.{name}"
    for module, names_of_it in {
        "examples.tutorials.mnist.input_data": "read_data_sets",
        "contrib.learn.preprocessing": "VocabularyProcessor ByteProcessor",
        "contrib.learn.python.learn.preprocessing.text": "VocabularyProcessor",
        "contrib.learn.datasets.mnist": "read_data_sets",
        "contrib.eager": (
            "Checkpoint Checkpointable EagerVariableStore GradientTape Iterator Saver TensorSpec "
            "Variable custom_gradient defun enable_eager_execution execution_mode function "
            "get_optimizer_variables gradients_function implicit_gradients "
            "implicit_value_and_gradients in_eager_mode list_devices num_gpus py_func run "
            "value_and_gradients_function"
        ),
        "contrib.eager.metrics": "Accuracy BinaryAccuracy CategoricalAccuracy Mean SparseAccuracy",
        "contrib.eager.python.metrics": "Mean",
        "contrib.eager.python.tfe": "Variable defun implicit_gradients",
        "contrib.cloud": "configure_gcs BlockCacheParams",
        "contrib.rnn": "LSTMBlockCell LayerNormBasicLSTMCell",
        "contrib.data": "map_and_batch",
        "contrib.signal": "stft",
        "contrib.tfprof.model_analyzer": "print_model_analysis",
        "contrib.seq2seq": (
            "BasicDecoder BasicDecoderOutput Decoder GreedyEmbeddingHelper Helper TrainingHelper "
            "dynamic_decode sequence_loss tile_batch"
        ),
        "contrib.seq2seq.python.ops.helper": "TrainingHelper",
    }.items()
    for name in names_of_it.split()
]

# Names that aren't put back.
REFUSED = {
    "contrib.seq2seq": (
        "AttentionWrapper BahdanauAttention LuongAttention BeamSearchDecoder CustomHelper "
        "SampleEmbeddingHelper ScheduledEmbeddingTrainingHelper"
    ),
    "contrib.legacy_seq2seq": "embedding_attention_seq2seq",
    "contrib.eager": (
        "Network Sequential add_execution_callback restore_network_checkpoint "
        "restore_variables_on_create set_server_def"
    ),
    "contrib.eager.metrics": "Metric",
    "contrib.saved_model": "load_keras_model save_keras_model",
}


@pytest.mark.parametrize("name", USED)
def test_names_in_use_are_restored(name):
    """Each of these names has a row, and its replacement can be imported."""
    module, _, last = name.rpartition(".")
    assert getattr(restored(module), last) is not None


def test_every_refusal_says_what_to_do():
    """No two parts of contrib are refused with only the news that contrib ended."""
    for package in ("seq2seq", "signal", "eager", "kafka", "graph_editor", "unheard_of"):
        advice = unsupported_names.advice(f"tensorflow.contrib.{package}", "anything")
        assert "ended" not in advice
        assert any(word in advice for word in ("Use ", "use ", "Subclass", "copy"))


def test_refusals_differ():
    """Names of one package whose cures differ are refused with sentences that differ."""
    of_packages = {
        package: {unsupported_names.advice(f"tensorflow.{package}", name) for name in found.split()}
        for package, found in REFUSED.items()
    }
    assert {package: len(found) for package, found in of_packages.items()} == {
        "contrib.seq2seq": 3,
        "contrib.legacy_seq2seq": 1,
        "contrib.eager": 5,
        "contrib.eager.metrics": 1,
        "contrib.saved_model": 2,
    }
    every = set().union(*of_packages.values())
    assert len(every) == 12
    assert all("TensorFlow 1.15's sources" not in advice for advice in every)


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


def test_programs_of_refused_names_get_the_same_advice(tmp_path, capsys):
    """`run --check` refuses each name with its own sentence; `migrate` lists it, or its module."""
    advice, lines = {}, ["import estimator_spec"]
    for number, (module, found) in enumerate(REFUSED.items()):
        package, _, part = f"tensorflow.{module}".rpartition(".")
        lines.append(f"from {package} import {part} as part_{number}")
        for name in found.split():
            advice[f"{package}.{part}.{name}"] = unsupported_names.advice(f"{package}.{part}", name)
            lines.append(f"part_{number}.{name}(1)")
    path = program(lines, tmp_path / "old.py")
    assert command_line.main(["run", "--check", path]) == 1
    checked = " ".join("".join(capsys.readouterr()).split())
    assert [name for name in advice if f"refused: {name}. {advice[name]}" not in checked] == []
    assert command_line.main(["migrate", path]) == 1
    listed = " ".join("".join(capsys.readouterr()).split())
    of_module = unsupported_names.advice("tensorflow.contrib", "saved_model")
    assert of_module in listed
    others = [name for name in advice if "saved_model" not in name and "legacy" not in name]
    assert [name for name in others if advice[name] not in listed] == []


@pytest.mark.parametrize("package", ["kafka", "legacy_seq2seq", "graph_editor", "ffmpeg"])
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
