# SPDX-License-Identifier: Apache-2.0
"""Warm starts of an Estimator: this package's and TensorFlow 2.15's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es

tf1 = tf.compat.v1

OLD = np.arange(6, dtype=np.float32).reshape(3, 2) + 1


def model_fn_of(api, rows=3, scope="old", value=None, head="head"):
    """A model of a table and a head, under a scope, that stays what it is in training.

    Args:
        api: where the names come from.
        rows: of the table.
        scope: of all variables.
        value: what the table begins with; -1 if None.
        head: the name of the head.
    """

    def model_fn(features, mode):
        new = value is None

        def variable(name, shape, initial, **kwargs):
            constant = tf1.constant_initializer(-1.0 if new else initial)
            return tf1.get_variable(name, shape, initializer=constant, **kwargs)

        with tf1.variable_scope(scope):
            table = variable("table", [rows, 2], value)
            variable(head, [2], 7.0)
            variable("frozen", [], 9.0, trainable=False)
        loss = tf.reduce_sum(table) * features["x"]
        with tf.control_dependencies([loss]):
            step = tf1.assign_add(tf1.train.get_global_step(), 1)
        return api.EstimatorSpec(mode, tf.identity(table), loss, tf.group(step))

    return model_fn


def fives(shape, dtype=None, partition_info=None):
    """An initializer of new rows; TensorFlow's constant one can't be used for that."""
    return tf.fill(shape, 5.0)


def input_fn():
    """Returns an initializer of ones."""
    return tf.data.Dataset.from_tensors({"x": 1.0}).repeat(2)


@pytest.fixture(scope="module")
def trained(api, tmp_path_factory):
    """Returns the directory of an old model, whose values are all positive."""
    model_dir = str(tmp_path_factory.mktemp("old"))
    config = api.RunConfig(model_dir=model_dir)
    api.Estimator(model_fn_of(api, value=OLD), config=config).train(input_fn)
    return model_dir


def started(fit, warm_start_from, **kwargs):
    """Returns the variables of a warm-started model by short name, after steps that change none."""
    model_fn = model_fn_of(fit.api, **kwargs)
    estimator = fit.estimator(model_fn, warm_start_from=warm_start_from)
    estimator.train(input_fn)
    names = [name for name in estimator.get_variable_names() if name != "global_step"]
    assert estimator.get_variable_value("global_step") == 2
    return {
        name.split("/")[-1]: np.asarray(estimator.get_variable_value(name)).tolist()
        for name in names
    }


NEW = {"table": [[-1, -1]] * 3, "head": [-1, -1], "frozen": -1}
WAS = {"table": OLD.tolist(), "head": [7, 7], "frozen": 9}


@pytest.mark.parametrize(
    ("variables", "taken"),
    [
        (".*table", {"table"}),
        ("nothing", set()),
        (None, set()),
        ([".*table", ".*frozen"], {"table", "frozen"}),
        (["old/head"], {"head"}),
    ],
)
def test_which_variables(fit, trained, variables, taken):
    """An expression selects trainable variables, a list any variables."""
    settings = fit.api.WarmStartSettings(trained, variables)
    found = started(fit, settings)
    assert found == {name: WAS[name] if name in taken else NEW[name] for name in NEW}


def test_a_directory(fit, trained):
    """A directory restores all trainable variables of its latest checkpoint."""
    assert started(fit, trained) == {**WAS, "frozen": -1}


def test_a_checkpoint(fit, trained):
    """A checkpoint prefix restores all trainable variables."""
    assert started(fit, tf.train.latest_checkpoint(trained)) == {**WAS, "frozen": -1}


def test_a_saved_model(fit, trained, tmp_path):
    """A SavedModel is accepted."""
    config = fit.api.RunConfig(model_dir=trained)
    old = fit.api.Estimator(model_fn_of(fit.api, value=OLD), config=config)

    def receiver_fn():
        fed = {"x": tf1.placeholder(tf.float32, [])}
        return fit.api.ServingInputReceiver(fed, fed)

    path = old.export_saved_model(str(tmp_path / "export"), receiver_fn)
    assert started(fit, path.decode()) == {**WAS, "frozen": -1}


def test_renamed_variables(fit, trained):
    """`var_name_to_prev_var_name` restores a renamed variable."""
    settings = fit.api.WarmStartSettings(
        trained,
        ".*(table|top)",
        var_name_to_prev_var_name={"new/table": "old/table", "new/top": "old/head"},
    )
    found = started(fit, settings, scope="new", head="top")
    assert found == {"table": WAS["table"], "top": WAS["head"], "frozen": -1}


def vocabulary(path, words):
    """Writes a vocabulary file."""
    path.write_text("\n".join(words))
    return str(path)


@pytest.fixture
def words(tmp_path):
    """Returns an old vocabulary of a b c, and a new one without b and with d e."""
    old = vocabulary(tmp_path / "old.txt", "abc")
    return old, vocabulary(tmp_path / "new.txt", "ceda")


@pytest.mark.parametrize("variables", [".*", None])
def test_a_vocabulary_grows(fit, trained, words, variables):
    """Rows move to their words' new ids; new words get the backup initializer."""
    info = fit.api.VocabInfo(
        new_vocab=words[1],
        new_vocab_size=4,
        num_oov_buckets=0,
        old_vocab=words[0],
        backup_initializer=fives,
    )
    settings = fit.api.WarmStartSettings(trained, variables, {"old/table": info})
    found = started(fit, settings, rows=4)
    a, _, c = OLD.tolist()
    assert found["table"] == [c, [5, 5], [5, 5], a]
    assert found["head"] == (WAS["head"] if variables else NEW["head"])


def test_a_vocabulary_of_a_renamed_table(fit, trained, words):
    """A renamed variable is remapped; `old_vocab_size` truncates the old vocabulary."""
    info = fit.api.VocabInfo(words[1], 4, 0, words[0], 2, fives)
    settings = fit.api.WarmStartSettings(
        trained, None, {"new/table": info}, {"new/table": "old/table"}
    )
    found = started(fit, settings, rows=4, scope="new")
    assert found["table"] == [[5, 5], [5, 5], [5, 5], OLD[0].tolist()]


def test_a_vocabulary_without_a_backup(fit, trained, words):
    """Without a backup initializer a new word doesn't get another word's row."""
    info = fit.api.VocabInfo(words[1], 4, 1, words[0])
    settings = fit.api.WarmStartSettings(trained, ".*table", {"old/table": info})
    found = np.array(started(fit, settings, rows=5)["table"])
    assert found[[0, 3]].tolist() == OLD[[2, 0]].tolist()
    assert not np.isin(found[[1, 2, 4]], OLD).any()


def test_evaluation_of_an_untrained_model(fit, trained):
    """An evaluation before training has the old values."""
    estimator = fit.estimator(model_fn_of(fit.api), warm_start_from=trained)
    assert estimator.evaluate(input_fn, steps=1)["loss"] == OLD.sum()


def test_ones_own_checkpoint_comes_first(fit, trained, tmp_path):
    """A trained model is not warm-started again."""
    estimator = fit.estimator(model_fn_of(fit.api, value=OLD * 10))
    estimator.train(input_fn)
    again = fit.estimator(model_fn_of(fit.api), warm_start_from=trained)
    again.train(input_fn)
    assert again.get_variable_value("old/table").tolist() == (OLD * 10).tolist()
    assert again.evaluate(input_fn, steps=1)["loss"] == (OLD * 10).sum()


def test_a_table_of_another_size(fit, trained):
    """Without vocabularies a table of another size raises an error that names it."""
    with pytest.raises(ValueError, match="table"):
        started(fit, trained, rows=4)


def test_no_such_variable(fit, trained):
    """The error for a variable that the checkpoint lacks names it."""
    with pytest.raises((ValueError, tf.errors.NotFoundError), match="new/table"):
        started(fit, fit.api.WarmStartSettings(trained, "new/table"), scope="new")


def test_a_tpu_estimator(make, line, tmp_path):
    """TPUEstimator takes the same settings; a TPU column's table grows by its vocabulary."""
    old, new = (vocabulary(tmp_path / name, text) for name, text in (("o", "abc"), ("n", "ceda")))

    def model_fn_with(file, value):
        def model_fn(features, labels, mode, params):
            column = es.embedding_column(
                tf.feature_column.categorical_column_with_vocabulary_file("w", file),
                dimension=2,
                initializer=tf1.constant_initializer(value),
            )
            words = tf1.feature_column.input_layer(features, [column])
            return line.model_fn({"x": words[:, :1] * 0}, labels, mode, params)

        return model_fn

    def words_input_fn(params):
        data = tf.data.Dataset.from_tensors(({"w": tf.constant(["a", "e"])}, [[0.0], [0.0]]))
        return data.repeat(1)

    name = "input_layer/w_embedding/embedding_weights"
    first = make(model_fn_with(old, OLD), model_dir=str(tmp_path / "first"))
    first.train(words_input_fn)
    info = es.VocabInfo(new, 4, 0, old, backup_initializer=fives)
    settings = es.WarmStartSettings(first.model_dir, ".*w_embedding.*", {name: info})
    second = make(model_fn_with(new, 0.0), warm_start_from=settings)
    second.train(words_input_fn)
    a, _, c = OLD.tolist()
    assert second.get_variable_value(name).tolist() == [c, [5, 5], [5, 5], a]
