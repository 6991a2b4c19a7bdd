# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of canned models whose columns share tables, under other names and without slots."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec
from estimator_spec import canned

fc = tf.feature_column
tf1 = tf.compat.v1

FORMER = {
    "DNN": "dnn/input_from_feature_columns/input_layer/a_shared_embedding/a_b_shared_embedding",
    "Linear": "linear/linear_model/a_shared_embedding/a_b_shared_embedding",
}
NEW = {
    ("v1", "DNN"): "dnn/input_from_feature_columns/a_b_shared_embedding",
    ("v1", "Linear"): "linear/a_b_shared_embedding",
    ("v2", "DNN"): "a_b_shared_embedding",
    ("v2", "Linear"): "a_b_shared_embedding",
}


def read(steps=None):
    """Returns an input_fn of one batch, over and over."""
    features = {"a": [[1], [2]], "b": [[3], [4]], "c": [[0], [4]]}
    return lambda: tf.data.Dataset.from_tensors((features, [[0.0], [1.0]])).repeat(steps)


def make_estimator(generation, kind, model_dir, warm_start_from=None):
    """Returns a regressor, two columns of which share a table."""
    ids = [fc.categorical_column_with_identity(key, 5) for key in "abc"]
    with tf.Graph().as_default():  # such columns can't be made outside of graphs
        columns = [*fc.shared_embeddings(ids[:2], 3), fc.embedding_column(ids[2], 2)]
    options = {"hidden_units": [2], "activation_fn": tf.tanh} if kind == "DNN" else {}
    package = canned.v1 if generation == "v1" else canned
    return getattr(package, f"{kind}Regressor")(
        feature_columns=columns,
        model_dir=str(model_dir),
        optimizer="Adagrad",
        warm_start_from=warm_start_from,
        **options,
    )


def write_checkpoint(model_dir, values):
    """Writes a checkpoint of step 2 with the given variables, by TensorFlow's saver."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variables = {
            name: tf1.get_variable(f"v{number}", initializer=tf.constant(value))
            for number, (name, value) in enumerate(values.items())
        }
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver(variables).save(session, str(model_dir / "model.ckpt"), global_step=2)


def write_former_checkpoint(model_dir, generation, kind, values):
    """Writes a checkpoint with a former release's names of variables; returns the directory."""
    new, former = NEW[generation, kind], FORMER[kind]
    renamed = {f"/{n}/".replace(f"/{new}/", f"/{former}/")[1:-1]: v for n, v in values.items()}
    assert former in renamed
    model_dir.mkdir()
    write_checkpoint(model_dir, renamed)
    return model_dir


@pytest.fixture(params=sorted(NEW), ids="-".join)
def trained(request, tmp_path):
    """Returns the generation, the kind and the variables of a model after two steps."""
    estimator = make_estimator(*request.param, tmp_path / "trained")
    estimator.train(read(), steps=2)
    names = estimator.get_variable_names()
    return *request.param, estimator, {n: estimator.get_variable_value(n) for n in names}


def is_slot_of(name, table):
    """Returns whether a variable is a slot of a table."""
    return name != table and f"/{table}/" in f"/{name}/"


def continued(estimator):
    """Returns the variables of an estimator after two further steps."""
    estimator.train(read(), steps=2)
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def test_a_checkpoint_of_a_former_release_is_read(trained, tmp_path):
    """Training goes on as from the present names, slots included; evaluation and export read it."""
    generation, kind, estimator, values = trained
    new = NEW[generation, kind]
    assert any(is_slot_of(name, new) for name in values)
    directory = write_former_checkpoint(tmp_path / "former", generation, kind, values)
    old = make_estimator(generation, kind, directory)
    assert old.evaluate(read(1))["loss"] == estimator.evaluate(read(1))["loss"]
    spec = {key: tf.io.FixedLenFeature([1], tf.int64) for key in "abc"}
    receiver = estimator_spec.export.build_parsing_serving_input_receiver_fn(spec)
    path = old.export_saved_model(str(tmp_path / "export"), receiver)
    exported = tf.train.load_checkpoint(f"{tf.compat.as_str_any(path)}/variables/variables")
    np.testing.assert_array_equal(exported.get_tensor(new), values[new])
    found, expected = continued(old), continued(estimator)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6, err_msg=name)
    assert np.abs(expected[new] - values[new]).max() > 1e-4


def test_warm_start_from_a_former_release(trained, tmp_path):
    """A table gets the values, and the slots if chosen, that the checkpoint has by other names."""
    generation, kind, _, values = trained
    table = NEW[generation, kind]
    slot = next(name for name in values if is_slot_of(name, table))
    values[slot] += 5.0
    directory = write_former_checkpoint(tmp_path / "former", generation, kind, values)
    for chosen, has_slots in (".*", False), ([".*shared_embedding"], True):
        settings = estimator_spec.WarmStartSettings(str(directory), chosen)
        started = make_estimator(generation, kind, tmp_path / str(has_slots), settings)
        started.train(read(), steps=1)
        # No example looks up the first row.
        np.testing.assert_array_equal(started.get_variable_value(table)[0], values[table][0])
        assert (started.get_variable_value(slot).min() >= 5.0) == has_slots


def test_slots_that_a_checkpoint_lacks_begin_anew(trained, tmp_path):
    """A checkpoint of TensorFlow 2.15.1's second generation has no slots of shared tables."""
    generation, kind, _, values = trained
    table = NEW[generation, kind]
    if generation == "v1":
        pytest.skip("TensorFlow 2.15.1 trains these tables")
    lost = [name for name in values if is_slot_of(name, table)]
    after = {}
    for kind_of_checkpoint, left_out in (("without", lost), ("with", [])):
        directory = tmp_path / kind_of_checkpoint
        directory.mkdir()
        write_checkpoint(directory, {n: v for n, v in values.items() if n not in left_out})
        after[kind_of_checkpoint] = make_estimator(generation, kind, directory)
        after[kind_of_checkpoint].train(read(), steps=1)
    for name in lost:
        anew, kept = (after[each].get_variable_value(name) for each in ("without", "with"))
        # The same squares of a batch's gradients are added to both.
        assert (kept - values[name]).max() > 0
        np.testing.assert_allclose(anew - 0.1, kept - values[name], atol=1e-6)
    assert np.abs(after["without"].get_variable_value(table) - values[table]).max() > 1e-4


def test_another_variable_that_is_missing_is_an_error(trained, tmp_path):
    """Only slots of shared tables begin anew."""
    generation, kind, _, values = trained
    lost = next(name for name in values if "c_embedding/" in name)
    directory = tmp_path / "without"
    directory.mkdir()
    write_checkpoint(directory, {n: v for n, v in values.items() if n != lost})
    with pytest.raises(tf.errors.NotFoundError, match="c_embedding"):
        make_estimator(generation, kind, directory).train(read(), steps=1)
