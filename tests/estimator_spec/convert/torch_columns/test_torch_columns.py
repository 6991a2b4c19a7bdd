# SPDX-License-Identifier: Apache-2.0
"""`to_torch`: the written program's text and values, without torch."""

from __future__ import annotations

import ast
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
import tpu_columns
from argument_table import MOVES
from estimator_spec import canned, checkpoints
from estimator_spec.convert import to_torch
from estimator_spec.convert.keras_columns import planned, source
from estimator_spec.convert.keras_columns.readings import NUMPY
from estimator_spec.convert.torch_columns import translation, written
from estimator_spec.convert.torch_columns.files import tensors
from estimator_spec.core.common.own_files import Job
from estimator_spec.core.embedding.optimizers import AdagradParameters, ProximalAdagradParameters
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from head_table import HEADS as HEADS_BY_GENERATION

fc = tf.feature_column
tf1 = tf.compat.v1


def input_fn():
    """Returns a batch of the features of `estimator`."""
    features = {"word": [["ant"], ["bee"]], "size": [[1.0], [2.0]], "children": [[0], [1]]}
    return {key: tf.constant(value) for key, value in features.items()}, tf.constant([[0], [1]])


@pytest.fixture(scope="module")
def estimator(tmp_path_factory):
    """Returns a trained wide and deep model; a column has the name of a method of modules."""
    word = fc.categorical_column_with_vocabulary_list("word", [f"word {n}" for n in range(30)])
    children = fc.categorical_column_with_identity("children", 4)
    deep = [
        fc.embedding_column(word, 3, max_norm=0.5),
        fc.numeric_column("size", normalizer_fn=lambda x: tf.math.log1p(x)),
        fc.indicator_column(children),
    ]
    made = estimator_spec.DNNLinearCombinedClassifier(
        str(tmp_path_factory.mktemp("models")),
        [children, word, fc.bucketized_column(fc.numeric_column("size"), [1.5])],
        dnn_feature_columns=deep,
        dnn_hidden_units=[4],
        dnn_optimizer="Adam",
        batch_norm=True,
        dnn_dropout=0.1,
    )
    made.train(input_fn, steps=2)
    return made


@pytest.fixture(scope="module")
def program(estimator, tmp_path_factory):
    """Returns the directory of the written program, and what `to_torch` returned."""
    directory = tmp_path_factory.mktemp("programs") / "torch"
    return directory, to_torch(estimator, directory)


def test_the_files(program):
    """The program has all files but the comparison's, its modules compile, and none names us."""
    directory, _ = program
    files = {path.name for path in directory.iterdir()}
    assert files == {
        *("model.py", "reading.py", "tf_examples.py", "layers.py", "optimizers.py", "heads.py"),
        *("steps.py", "train.py", "serve.py", "tensors.py", "records.py", "vocabularies"),
        *("weights.safetensors", "optimizer.safetensors"),
    }
    written_by_us = Job.KERAS_PROGRAM.value  # else a failed conversion leaves them
    for path in directory.rglob("*"):
        assert path.is_dir() or re.fullmatch(written_by_us, str(path.relative_to(directory)))
    for path in directory.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        modules = {
            name.name.partition(".")[0]
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import)
            for name in node.names
        }
        assert not modules & {"tensorflow", "estimator_spec", "tpu_columns", "keras"}, path
    assert "torch" not in sys.modules


def test_the_model(program):
    """Layers, optimizers and heads are those of the estimator; no name is one of modules'."""
    text = (program[0] / "model.py").read_text(encoding="utf-8")
    for line in (
        'self.tables_3 = layers.Tables(3, {"word_embedding": (30, "mean")}, max_norm=0.5)',
        "self.hiddenlayer_0 = nn.Linear(8, 4)",
        "self.dropout_0 = nn.Dropout(0.1)",
        "self.batchnorm_0 = layers.BatchNorm(4, 0.999, 0.001)",
        '"linear_children": (4, "sum"),',
        'layers.count_ids(inputs["children_ids"], inputs["children_weights"], 4)',
        "            learning_rate=0.001,\n            beta_1=0.9,\n            beta_2=0.999,\n",
        'HEADS: list[heads.Head] = [heads.Head("binary", 1)]',
    ):
        assert line in text


def test_the_reading_is_that_of_keras(estimator, program):
    """Both programs without TensorFlow read features by one text."""
    pytest.importorskip("keras_rs", reason="needs the extra keras-rs")
    plan = planned.plan_source(estimator, None, 1, "sum", inline_words=20)
    of_keras = source.write_model(plan, "a test", NUMPY)
    text = (program[0] / "reading.py").read_text(encoding="utf-8")
    definitions = [
        ast.get_source_segment(text, node)
        for node in ast.parse(text).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    ]
    own = {"predictions", "training_batch", "unit_weights"}
    shared = [each for each in definitions if each.split("(")[0].split()[-1] not in own]
    assert len(shared) > 15
    for definition in shared:
        assert definition in of_keras


def test_the_values(estimator, program):
    """Weights and slots are the checkpoint's: kernels transposed, tables as they are."""
    directory, conversion = program
    weights = tensors.read(directory / "weights.safetensors")
    reader = tf.train.load_checkpoint(estimator.model_dir)
    assert conversion.variables.keys() == weights.keys()
    for name, stored in conversion.variables.items():
        value = reader.get_tensor(stored)
        is_kernel = stored.endswith("kernel")
        np.testing.assert_array_equal(weights[name], value.T if is_kernel else value)
    slots = tensors.read(directory / "optimizer.safetensors")
    assert slots["step"] == 2
    stored = "training/Adam/dnn/hiddenlayer_0/kernel/m"
    expected = reader.get_tensor(stored).T
    np.testing.assert_array_equal(slots["hiddenlayer_0.weight/momentum"], expected)
    assert not [each for each in conversion.differences if "Keras" in each.text]


HEADS = [(generation, name) for generation, table in HEADS_BY_GENERATION.items() for name in table]


@pytest.mark.parametrize(("generation", "name"), HEADS)
def test_every_head_is_written(generation, name):
    """What a head with all its arguments makes of logits is written, but for a loss of its own."""
    row = HEADS_BY_GENERATION[generation][name]
    moving = {key: each.value for key, each in row.arguments.items() if each.kind == MOVES}
    moving = {key: each for key, each in moving.items() if key not in ("loss_fn", "n_classes")}
    head = row.make(**{**row.needed, **moving})
    module = canned.v1 if generation == 1 else canned
    made = module.DNNEstimator(head, [3], [fc.numeric_column("x")])
    plan = planned.plan_source(made, None, 1, "sum")
    sizes = {"hiddenlayer_0": 3, "logits_layer": head.logits_dimension}
    shapes = {
        each: (1, sizes[each.layer]) if each.attribute == "kernel" else (sizes[each.layer],)
        for each in plan.variables
    }
    model = translation.Translation(plan, shapes)
    text = written.program_texts(model, "a test")["model.py"]
    assert f"trapezoids={generation == 1}" in text or generation == 2
    assert all(f'"{key}"' in text for key in plan.outputs)


def test_tables_of_a_specification(tmp_path):
    """Each table has the optimizer of the specification, or a difference says why not."""
    words = fc.categorical_column_with_identity("words", 9)
    others = fc.categorical_column_with_identity("others", 7)
    columns = [tpu_columns.embedding_column(words, 2), tpu_columns.embedding_column(others, 2)]
    with tf.Graph().as_default(), tf1.Session() as session:
        features = {"words": tf.constant([[1]]), "others": tf.constant([[2]])}
        tpu_columns.input_layer(features, columns)
        for variable in tf1.global_variables():
            tf1.get_variable(f"{variable.op.name}/Adagrad", variable.shape, tf.float32)
        session.run(tf1.global_variables_initializer())
        saver = tf1.train.Saver()
        prefix = saver.save(session, str(tmp_path / "model.ckpt"), 3)
    spec = EmbeddingConfigSpec(columns, AdagradParameters(0.1, 0.2))
    conversion = to_torch(spec, tmp_path / "adagrad", prefix)
    text = (tmp_path / "adagrad" / "model.py").read_text(encoding="utf-8")
    assert text.count("initial_accumulator_value=0.2,") == 1  # both train by one rule
    slots = tensors.read(tmp_path / "adagrad" / "optimizer.safetensors")
    reader = tf.train.load_checkpoint(prefix)
    for name, stored in conversion.variables.items():
        expected = reader.get_tensor(f"{stored}/Adagrad")
        np.testing.assert_array_equal(slots[f"{name}/accumulator"], expected)
    spec = EmbeddingConfigSpec(columns, ProximalAdagradParameters(0.1))
    conversion = to_torch(spec, tmp_path / "proximal", prefix)
    texts = [each.text for each in conversion.differences]
    assert (
        texts.count(
            "there is none with the rule of ProximalAdagradParameters: the program has none for it"
        )
        == 2
    )


def test_refusals(estimator, tmp_path):
    """What can't move, and where nothing may be written, is said before anything is."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("keep")
    with pytest.raises(ValueError, match="isn't empty"):
        to_torch(estimator, tmp_path / "full")
    with pytest.raises(ValueError, match="needs the checkpoint"):
        to_torch([fc.numeric_column("x")], tmp_path / "new")
    with pytest.raises(checkpoints.CheckpointError):
        to_torch([fc.numeric_column("x")], tmp_path / "new", tmp_path, layer="linear_model")
    made = estimator_spec.DNNRegressor(
        [3], [fc.numeric_column("size")], str(tmp_path / "models"), activation_fn="mish"
    )
    made.train(lambda: ({"size": tf.constant([[1.0]])}, tf.constant([[1.0]])), steps=1)
    with pytest.raises(ValueError, match="activation_fn 'mish' has no PyTorch counterpart"):
        to_torch(made, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert written.OF_THE_PROOF and translation.module_name("children") == "children_layer"
