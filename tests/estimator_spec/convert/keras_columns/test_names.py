# SPDX-License-Identifier: Apache-2.0
"""Any keys of features, names of tables and heads work, also names that the program itself has."""

from __future__ import annotations

import builtins
import keyword
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given
from hypothesis import strategies as st

import column_strategies as drawn
from estimator_spec import heads
from estimator_spec.canned.hidden_layers import HiddenLayers
from estimator_spec.convert import to_keras
from estimator_spec.convert.keras_columns import assembly, canned_models, source, trained_values
from estimator_spec.convert.keras_columns.plan import ModelPlan
from estimator_spec.convert.keras_program import written
from estimator_spec.heads.canned_model import CannedModel, ModelPart
from test_columns import some

keras = pytest.importorskip("keras")
pytest.importorskip("keras_rs", reason="needs the extra keras-rs")

tf1 = tf.compat.v1
fc = tf.feature_column
WORDS = ("ant", "bee")
WRITTEN = Path(__file__).resolve().parents[1] / "keras_program" / "snapshots"
# What layers add to the names of columns.
ENDINGS = (
    *("", "_ids", "_weights", "_lengths", "_positive", "_embedding", "_table", "_sum", "_one_hot"),
    *("_flat", "_input", "_VOCABULARY", "_normalizer", "_bucketized", "_outputs", "_added", "_2"),
)


def names_of_programs() -> list[str]:
    """Returns the names in written programs, Python's, and those that Keras gives to layers."""
    texts = " ".join(path.read_text(encoding="utf-8") for path in sorted(WRITTEN.glob("*/*.py")))
    ops = [name for name in dir(keras.ops) if not name.startswith("_")]
    layers = [re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower() for name in dir(keras.layers)]
    python = [*dir(builtins), *keyword.kwlist]
    return sorted({*re.findall(r"[A-Za-z_]\w*", texts), *ops, *layers, *python, "a-b", "1", "x y"})


# A column's variables are in a scope of its name, which TensorFlow lets begin with no underscore.
NAMES = st.sampled_from([name for name in names_of_programs() if not name.startswith("_")])
KEYS = st.builds(
    lambda prefix, name, ending: f"{prefix}{name}{ending}",
    st.sampled_from(("", "", "linear_")),
    NAMES,
    st.sampled_from(ENDINGS),
)


def double(x):
    """Returns a feature that a normalizer has made."""
    return x * 2.0


def columns_of(keys: list[str], table: str) -> tuple[list, list, dict]:
    """Returns deep and wide columns of keys, and a batch; `table` is the name of a shared one."""
    numbers, pair, word, other, ids, weights = keys
    numeric = fc.numeric_column(numbers, normalizer_fn=double)
    buckets = fc.bucketized_column(fc.numeric_column(pair, 2), [0.0])
    words, others = (fc.categorical_column_with_vocabulary_list(k, WORDS) for k in (word, other))
    with tf.Graph().as_default():  # refused where execution is eager
        shared = tf1.feature_column.shared_embedding_columns(
            [words, others], 2, shared_embedding_collection_name=table
        )
    hashed = fc.categorical_column_with_hash_bucket(ids, 5)
    weighed = fc.embedding_column(fc.weighted_categorical_column(hashed, weights), 2)
    deep = drawn.unlike([numeric, buckets, *shared, weighed, fc.indicator_column(words)])
    wide = drawn.unlike([numeric, buckets, words, others, hashed])
    texts = drawn.Feature([["ant", "x"], [], ["bee"]], "sparse", tf.string)
    batch = {
        numbers: drawn.Feature([[1.0], [2.0], [3.0]], "dense", tf.float32),
        pair: drawn.Feature([[1.0, -2.0], [2.0, 1.0], [-3.0, 1.0]], "dense", tf.float32),
        word: texts,
        other: drawn.Feature([["bee"], ["ant", "bee"], []], "sparse", tf.string),
        ids: texts,
        weights: drawn.Feature([[0.5, 2.0], [], [-1.0]], "sparse", tf.float32),
    }
    return deep, wide, batch


USUAL = ["p", "q", "r", "s", "t", "u"]


@pytest.mark.timeout(7200)
@some(400, 8)
@given(keys=st.lists(KEYS, min_size=6, max_size=6, unique=True), table=NAMES)
@example(keys=["x", "linear_x", "r", "s", "t", "u"], table="shared")
@example(keys=["hiddenlayer_0", "input_layer", "flatten", "concatenate", "re_lu", "u"], table="add")
@example(keys=["p", "q", "user", "item", "t", "u"], table="user_ids")
def test_layers_of_any_names(keys, table):
    """A written program gives the columns' values, with any names of features and tables."""
    deep, wide, batch = columns_of(keys, f"table_of_{table}" if table in keys else table)

    def build(features):
        outputs = {"input_layer": tf1.feature_column.input_layer(features, deep)}
        outputs["logits"] = tf1.feature_column.linear_model(features, wide)
        return outputs

    plan = ModelPlan(inline_words=1)
    plan.outputs["input_layer"] = assembly.add_input_layer(plan, deep)
    plan.outputs["logits"] = assembly.add_linear_model(plan, wide, 1, "sum")
    with tempfile.TemporaryDirectory() as folder:
        expected, checkpoint, _ = drawn.run_columns(build, batch, folder)
        texts = {"model.py": source.write_model(plan, "names")}
        found = trained_values.find_variables(plan, checkpoint)
        sources = written.WrittenProgram(plan, checkpoint, found, texts)
        _, module, model = written.write_program(sources, folder)
        outputs = model(module.preprocess({k: v.tensor(True) for k, v in batch.items()}))
    for name, value in expected.items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-6, atol=1e-6)


@pytest.mark.timeout(7200)
@some(200, 4)
@given(
    keys=st.lists(KEYS, min_size=6, max_size=6, unique=True),
    names=st.lists(NAMES, min_size=3, max_size=3, unique=True),
)
@example(keys=["hiddenlayer_0", "dropout", "batchnorm_0", "s", "t", "u"], names=["x", "y", "z"])
@example(
    keys=["logits_layer", "linear_bias", "summed_logits", "s", "t", "u"], names=["p", "q", "r"]
)
def test_models_of_any_names(keys, names):
    """A wide and deep model with several heads is built and compiled, with any names."""
    deep, wide, _ = columns_of(keys, "shared table")
    layers = HiddenLayers.of([3, 2], tf.nn.relu, 0.1, True)
    parts = (
        ModelPart("dnn", "Adagrad", None, deep, layers=layers),
        ModelPart("linear", "Ftrl", None, wide),
    )
    kinds = [
        heads.BinaryClassHead(weight_column=keys[0], name=names[0]),
        heads.MultiLabelHead(3, label_vocabulary=["a", "b", "c"], name=names[1]),
        heads.RegressionHead(inverse_link_fn=tf.exp, name=names[2]),
    ]
    plan = ModelPlan(inline_words=1)
    canned_models.add_canned_model(plan, CannedModel(heads.MultiHead(kinds), parts, 2))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.py").write_text(source.write_model(plan, "names"), encoding="utf-8")
        Path(folder, "vocabularies").mkdir()
        for file, words in plan.vocabularies.items():
            Path(folder, "vocabularies", file).write_text("\n".join(words) + "\n")
        module = written.load_module(folder)
        model = module.build_model()
        module.compile_model(model)
    model.optimizer.build(model.trainable_variables)
    trained = {path: kind for kind in model.optimizer.optimizers for path in paths_of(kind)}
    for variable in plan.variables:
        if variable.attribute not in ("moving_mean", "moving_variance"):
            expected = "Ftrl" if variable.part == "linear" else "Adagrad"
            weight = getattr(model.get_layer(variable.layer), variable.attribute)
            assert type(trained[weight.path]).__name__ == expected


def paths_of(optimizer) -> list[str]:
    """Returns the paths of the variables that an optimizer trains."""
    return [variable.path for variable in getattr(optimizer, "_trainable_variables", [])]


def test_lengths_of_sequences_have_names_of_their_own():
    """A numeric column that is called as the lengths of a sequence keeps its value."""
    columns = [fc.sequence_numeric_column("seconds"), fc.numeric_column("seconds_lengths")]
    steps = tf.sparse.from_dense([[1.0, 2.0], [3.0, 0.0]])
    found = to_keras(columns)({"seconds": steps, "seconds_lengths": tf.constant([7.0, 8.0])})
    np.testing.assert_array_equal(found["input_layer"], [[7.0], [8.0]])
    np.testing.assert_array_equal(found["sequence_length"], [2, 1])
