# SPDX-License-Identifier: Apache-2.0
"""What `saved-model show` and `read` recover of recorded SavedModels of older TensorFlows."""

from __future__ import annotations

import re
import shutil

import pytest
import tensorflow as tf

import recordings
from estimator_spec import saved_models
from estimator_spec.__main__ import main
from estimator_spec.saved_models import text

SHOWN = {
    "combined-1.15": [
        "a linear and deep model of tf.compat.v1.estimator, written by TensorFlow 1.15.5",
        'fc.crossed_column([fc.bucketized_column(fc.numeric_column("age"), [18.0, 30.5, 45.0, '
        '60.25]), fc.categorical_column_with_vocabulary_list("city", ["c0", "c1", "c2", "c3", '
        '"c4", "c5"]), "job"], 50, hash_key=77)',
        'fc.crossed_column(["src", "dst"], 30)',
        'fc.categorical_column_with_hash_bucket("code", 30, dtype=tf.int64)',
        'fc.categorical_column_with_identity("kind", 10, default_value=0)',
        'fc.categorical_column_with_vocabulary_list("level", [10, 30, 20, 400], dtype=tf.int64, '
        "default_value=2)",
        "normalizer_fn=lambda x: tf.math.maximum(tf.math.minimum(((x * 2.0) - [0.25, 0.5]), 1.0), "
        "-1.0)",
        'assets/words.txt", 20, num_oov_buckets=2), "tag_weights"), 2, combiner="mean")',
        '["c1", "c3", "c0"], num_oov_buckets=3), 2, combiner="mean", max_norm=0.7)',
        'shared_embedding_collection_name="dst_src_shared_embedding")',
        "hidden_units=[8, 4], activation_fn=tf.nn.relu, batch_norm=False",
        "head: heads.BinaryClassHead()",
        '"pair": tf.io.FixedLenFeature([2], tf.float32, [0.5, -0.5])',
        "float32 [93, 8]",
    ],
    "combined3-2.15": [
        "a linear and deep model of tf.estimator, written by TensorFlow 2.15.1",
        "activation_fn=tf.nn.sigmoid, batch_norm=True",
        "head: heads.MultiClassHead(n_classes=3)",
        'fc.crossed_column(["src", "job"], 37)',
        "normalizer_fn=lambda x: ((x - 40.0) / 17.5)",
        "normalizer_fn=lambda x: (tf.math.log1p(x) / 4.0)",
    ],
    "multihead-2.15": [
        'head: heads.BinaryClassHead(name="one")\n\nhead: heads.RegressionHead(name="two")',
        'fc.shared_embeddings([fc.categorical_column_with_vocabulary_list("dst"',
        "signature 'one/predict' (tensorflow/serving/predict)",
    ],
    "dnn_reg-2.8": ["activation_fn=tf.nn.tanh, batch_norm=True", "head: heads.RegressionHead()"],
    "linear_weighted-1.15": [
        "sparse_combiner='sqrtn'",
        'assets/words.txt", 25)',
        '"weight": tf.io.FixedLenFeature([1], tf.float32, [1.0])',
    ],
    "dnn_parts-1.15": ["float32 [40, 3]", "hidden_units=[64]"],
    "linear_rank1-1.15": ['fc.categorical_column_with_hash_bucket("code", 30, dtype=tf.int64)'],
    "baseline_reg-2.15": ["a baseline model", "head: heads.RegressionHead()"],
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The directories of all recordings, by name."""
    home = tmp_path_factory.mktemp("recordings")
    return {name: recordings.unpack(name, home) for name in recordings.NAMES}


@pytest.mark.parametrize("name", recordings.NAMES)
def test_everything_is_recovered(models, capsys, name):
    """Of each recorded SavedModel, columns, layers and head are shown, and nothing is unknown."""
    status = main(["saved-model", "show", str(models[name] / "saved")])
    output = capsys.readouterr().out
    assert "All of the model was recovered." in output
    assert status == 0
    for each in SHOWN[name]:
        assert each in output


def test_a_page_has_a_picture(models, tmp_path, capsys):
    """`--html` draws features, columns, layers and the head, and has what the text has."""
    path = tmp_path / "page.html"
    saved = models["combined3-2.15"] / "saved"
    assert main(["saved-model", "show", str(saved), "--html", str(path)]) == 0
    page = path.read_text()
    boxes = re.findall(r"<rect.*?<text[^>]*>(.*?)</text>", page)
    assert "age" in boxes
    assert "linear: city" in boxes
    assert "deep: job_X_src_embedding" in boxes
    assert boxes[-2:] == ["hidden layer of 6", "heads.MultiClassHead(n_classes=3)"]
    assert "fc.crossed_column([&quot;src&quot;, &quot;job&quot;], 37)" in page


def test_columns_have_their_variables(models):
    """Each column with weights of its own names its variable, whole where it is in parts."""
    model = saved_models.read(models["dnn_parts-1.15"] / "saved")
    scope = "dnn/input_from_feature_columns/input_layer"
    assert [(each.column.name, each.variable) for each in model.deep] == [
        ("age", None),
        ("code_embedding", f"{scope}/code_embedding/embedding_weights"),
        ("job_embedding", f"{scope}/job_embedding/embedding_weights"),
    ]
    assert model.variables[f"{scope}/job_embedding/embedding_weights"].shape == (40, 3)


def test_a_training_has_the_same_columns(models):
    """The `.meta` file of a training has the columns, layers and head of its SavedModel."""
    home = models["dnn_parts-1.15"]
    training = saved_models.read(home / "model" / "model.ckpt-1.meta")
    exported = saved_models.read(home / "saved")
    assert training.unknown == ()
    assert list(text.column_lines(training.deep)) == list(text.column_lines(exported.deep))
    assert training.layers[:3] == exported.layers[:3]
    assert [head.kind for head in training.heads] == ["BinaryClassHead"]
    assert training.parsing_spec == exported.parsing_spec


def test_a_missing_vocabulary_is_named(models, tmp_path, capsys):
    """A vocabulary file that isn't there is named in a line, and the rest is shown."""
    shutil.copytree(models["linear_weighted-1.15"] / "saved", tmp_path / "saved")
    (tmp_path / "saved" / "assets" / "words.txt").unlink()
    assert main(["saved-model", "show", str(tmp_path / "saved")]) == 1
    output = capsys.readouterr().out
    assert f"vocabulary file {tmp_path}/saved/assets/words.txt of 'tags' is missing" in output
    assert 'fc.numeric_column("income"' in output


def test_missing_variables_are_named(models, tmp_path, capsys):
    """A SavedModel without its variables is shown, and a line says so."""
    shutil.copytree(models["baseline_reg-2.15"] / "saved", tmp_path / "saved")
    (tmp_path / "saved" / "variables" / "variables.index").unlink()
    assert main(["saved-model", "show", str(tmp_path / "saved")]) == 1
    assert "variables.index is missing" in capsys.readouterr().out


def test_what_is_no_canned_model_is_named(tmp_path, capsys):
    """A SavedModel of another kind is shown with its signatures, and what it is instead."""

    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        def double(self, x):
            return {"y": 2 * x}

    module = Module()
    tf.saved_model.save(module, tmp_path / "model", {"serving_default": module.double})
    assert main(["saved-model", "show", str(tmp_path / "model")]) == 1
    output = capsys.readouterr().out
    assert "in  x: float32 [?]" in output
    assert "by a model of Keras, or of tf.saved_model.save, in functions" in output


def test_a_large_graph_is_read(models, tmp_path):
    """A graph of 100,000 more nodes, which feed each other, has the same columns."""
    file = saved_models.files.load(models["linear_rank1-1.15"] / "saved")
    graph = file.meta_graph().graph_def
    last = "age"
    for number in range(100_000):
        node = graph.node.add(name=f"more_{number}", op="Identity", input=[last])
        node.attr["T"].type = tf.float32.as_datatype_enum
        last = node.name
    (tmp_path / "saved_model.pb").write_bytes(file.content.SerializeToString())
    first = saved_models.read(models["linear_rank1-1.15"] / "saved")
    assert saved_models.read(tmp_path).linear == first.linear


def test_a_loop_in_a_graph_ends(models, tmp_path):
    """Nodes that feed each other in a circle are named, and don't keep the command busy."""
    file = saved_models.files.load(models["linear_rank1-1.15"] / "saved")
    nodes = {node.name: node for node in file.meta_graph().graph_def.node}
    loop = next(node for node in nodes.values() if node.op == "ExpandDims")
    loop.input[0] = loop.name
    (tmp_path / "saved_model.pb").write_bytes(file.content.SerializeToString())
    assert any("a loop" in each for each in saved_models.read(tmp_path).unknown)


def test_a_variable_of_no_part_is_named(models, tmp_path):
    """A model that is more than a canned one isn't taken for that one."""
    file = saved_models.files.load(models["linear_rank1-1.15"] / "saved")
    graph = file.meta_graph().graph_def
    node = graph.node.add(name="dnn/mine/kernel", op="VarHandleOp")
    node.attr["dtype"].type = tf.float32.as_datatype_enum
    (tmp_path / "saved_model.pb").write_bytes(file.content.SerializeToString())
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "variables.index").touch()
    (unknown,) = saved_models.read(tmp_path).unknown
    assert unknown.startswith("dnn/mine/kernel: variables of no column")


def test_a_file_is_loaded_once(models, capsys, monkeypatch):
    """`show` reads the file once, and names ops without a kernel once."""
    loaded, load = [], saved_models.files.load

    def counted(path):
        loaded.append(path)
        return load(path)

    monkeypatch.setattr(saved_models.files, "load", counted)
    saved = str(models["linear_rank1-1.15"] / "saved")
    assert main(["saved-model", "show", saved]) == 0
    assert loaded == [saved]
