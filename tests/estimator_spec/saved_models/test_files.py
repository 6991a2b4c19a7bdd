# SPDX-License-Identifier: Apache-2.0
"""Files that are read, and those that are refused, by `saved-model`."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimator_spec import saved_models
from estimator_spec.__main__ import main
from estimator_spec.saved_models import files

tf1 = tf.compat.v1


@pytest.fixture
def meta_graph():
    """A graph with a placeholder, and a signature of it."""
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [None, 2], "x")
        tf.identity(x, "y")
        meta = tf1.train.export_meta_graph()
    meta.meta_info_def.tags.append("serve")
    return meta


def write(path, *metas):
    """Writes a SavedModel of graphs."""
    content = files.private.saved_model_pb2.SavedModel(meta_graphs=metas)
    path.mkdir()
    (path / "saved_model.pb").write_bytes(content.SerializeToString())
    return path


def test_a_saved_model_is_read(tmp_path, meta_graph):
    """All graphs of a SavedModel are there, with their nodes and functions."""
    function = meta_graph.graph_def.library.function.add()
    function.signature.name = "f"
    function.node_def.add(name="a", op="NoOp")
    meta = files.load(write(tmp_path / "model", meta_graph)).meta_graph()
    found = {place.name: [node.name for node in place.nodes] for place in files.graphs_of(meta)}
    assert found == {"": ["x", "y"], "f": ["a"]}


def test_a_tag_is_found(tmp_path, meta_graph):
    """A graph is found by its tag, and an unknown tag is refused with those there are."""
    evaluation = type(meta_graph)()
    evaluation.CopyFrom(meta_graph)
    evaluation.meta_info_def.tags[:] = ["eval"]
    evaluation.graph_def.node.add(name="loss", op="NoOp")
    file = files.load(write(tmp_path / "model", meta_graph, evaluation))
    assert len(file.meta_graph().graph_def.node) == 2
    assert len(file.meta_graph("eval").graph_def.node) == 3
    with pytest.raises(
        saved_models.SavedModelError, match=r"no graph with the tag 'tpu'.*'eval', 'serve'"
    ):
        file.meta_graph("tpu")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("nothing", None, "doesn't exist"),
        ("saved_model.pb", b"", "no graph"),
        ("saved_model.pb", b"\x12\xff\xff", "cut or damaged"),
        ("saved_model.pbtxt", b"meta_graphs {", "cut or damaged"),
        ("saved_model.cpb", b"x", "in pieces"),
        ("model.ckpt-1.meta", b"\x0a\xff", "cut or damaged"),
        ("graph.pbtxt", b"node { nam", "cut or damaged"),
        ("model.keras", b"x", "a model of Keras 3"),
        ("config.json", b"{}", "a model of Keras 3"),
        ("data_spec.pb", b"", "Yggdrasil"),
        ("model.tflite", b"x", "TensorFlow Lite"),
        ("notes.txt", b"x", "no saved_model.pb"),
        ("1589/saved_model.pb", b"x", "holds SavedModels.*1589"),
    ],
)
def test_what_is_no_saved_model_is_refused(tmp_path, capsys, name, content, words):
    """Each command says in one line what a path is instead of a SavedModel, and writes nothing."""
    path = tmp_path / "model"
    if content is not None:
        (path / name).parent.mkdir(parents=True)
        (path / name).write_bytes(content)
        path = path / name if name.endswith(".meta") else path
    output = str(tmp_path / "output")
    for command in (["show"], ["estimator", "--output", output], ["check"], ["repair", output]):
        assert main(["saved-model", command[0], str(path), *command[1:]]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert not (tmp_path / "output").exists()
    with pytest.raises(saved_models.SavedModelError, match=words):
        files.load(path)
    assert str(path) in error


def test_a_cut_file_is_refused(tmp_path, meta_graph):
    """A SavedModel that is cut anywhere is refused, or has a graph."""
    path = write(tmp_path / "model", meta_graph) / "saved_model.pb"
    data = path.read_bytes()
    for length in range(0, len(data) - 1, 7):
        path.write_bytes(data[:length])
        with pytest.raises(saved_models.SavedModelError, match=r"cut or damaged|no graph"):
            files.load(path.parent)
