# SPDX-License-Identifier: Apache-2.0
"""Conversion to serving: checkpoints of any layout, lookups, SavedModels."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

import forking_python
from estimator_spec import checkpoints
from estimator_spec.convert import features_for, legacy_ids, look_up, save_serving, to_serving
from estimator_spec.convert.report import LossyConversionError
from tpu_columns import Hardware, IdOutOfRangeError


@pytest.mark.parametrize("kind", ["columns", "dictionaries"])
def test_lookups_are_the_legacy_ones(families, tools, kind):
    """Every kind of feature and combiner equals the legacy lookup on a CPU."""
    family = families[kind]
    embedding = to_serving(family.spec, family.checkpoint, hardware=Hardware.CPU)
    for found, expected in tools.check(family, lambda batch: look_up(embedding, batch)):
        assert found == expected


def test_lookups_within_a_function_and_a_dataset(compact_family, tools):
    """features_for gives equal results eagerly, in a tf.function and in Dataset.map."""
    family = compact_family
    embedding = to_serving(family.spec, family.checkpoint, hardware=Hardware.CPU)
    in_function = tf.function(lambda batch: look_up(embedding, batch), reduce_retracing=True)
    list(tools.check(family, in_function))
    batch, expected = family.batches[0], family.expected[0]
    dataset = tf.data.Dataset.from_tensors(batch).map(lambda b: features_for(embedding, b))
    inputs, weights, lengths = next(iter(dataset))
    looked_up = tf.tpu.experimental.embedding.serving_embedding_lookup(
        inputs, weights, embedding.embedding_tables, embedding.conversion.feature_config
    )
    for key, value in {**looked_up, **lengths}.items():
        np.testing.assert_allclose(value, expected[key], rtol=1e-6, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("kind", ["columns", "dictionaries"])
@pytest.mark.parametrize(("strategy", "shards"), [("div", 3), ("mod", 1), ("mod", 3), ("mod", 8)])
def test_any_layout_of_rows(families, tools, tmp_path, kind, strategy, shards):
    """Tables are restored from any number of shards, div or mod."""
    family = families[kind]
    names = tools.variable_names(family.spec)
    checkpoint = tools.write_checkpoint(
        str(tmp_path / "model.ckpt-1"),
        {names[key]: value for key, value in family.tables.items()},
        strategy,
        shards,
    )
    spec = family.spec._replace(partition_strategy=strategy)
    embedding = to_serving(spec, checkpoint, num_shards=shards, hardware=Hardware.CPU)
    for config, table in embedding.embedding_tables.items():
        np.testing.assert_array_equal(table.numpy(), family.tables[config.name])


def test_a_directory_means_its_latest_checkpoint(columns_family):
    """A directory stands for its latest checkpoint."""
    folder = os.path.dirname(columns_family.checkpoint)
    embedding = to_serving(columns_family.spec, folder, hardware=Hardware.CPU)
    (table,) = (t for c, t in embedding.embedding_tables.items() if c.name == "tbl_small")
    np.testing.assert_array_equal(table.numpy(), columns_family.tables["tbl_small"])


@pytest.mark.slow
def test_a_saved_model_needs_nothing_of_ours(compact_family, tmp_path):
    """A process without this project loads the SavedModel and gets equal results."""
    family = compact_family
    embedding = to_serving(family.spec, family.checkpoint, hardware=Hardware.CPU)
    export_dir = str(tmp_path / "export")
    save_serving(embedding, export_dir, family.batches[0])
    feeds = []
    for batch in family.batches:
        feed = {}
        for key, value in batch.items():
            if isinstance(value, tf.RaggedTensor):
                feed[f"{key}_values"] = value.values.numpy()
                feed[f"{key}_row_splits"] = value.row_splits.numpy()
            elif isinstance(value, tf.SparseTensor):
                feed[f"{key}_values"] = value.values.numpy()
                feed[f"{key}_indices"] = value.indices.numpy()
                feed[f"{key}_dense_shape"] = value.dense_shape.numpy()
            else:
                feed[key] = np.asarray(value)
        feeds.append(feed)
    np.save(tmp_path / "feeds.npy", np.array(feeds, dtype=object), allow_pickle=True)
    code = """
import sys, numpy as np, tensorflow as tf
folder = sys.argv[1]
serve = tf.saved_model.load(folder + "/export").signatures["serving_default"]
feeds = np.load(folder + "/feeds.npy", allow_pickle=True)
out = []
for feed in feeds:
    found = serve(**{key: tf.constant(value) for key, value in feed.items()})
    out.append({key: value.numpy() for key, value in found.items()})
np.save(folder + "/out.npy", np.array(out, dtype=object), allow_pickle=True)
assert not [m for m in sys.modules if m.split(".")[0] in ("estimator_spec", "tpu_columns")]
"""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = forking_python.run(["-c", code, str(tmp_path)], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    served = np.load(tmp_path / "out.npy", allow_pickle=True)
    for found, expected in zip(served, family.expected, strict=True):
        assert set(found) == set(expected)
        for key, value in found.items():
            np.testing.assert_allclose(value, expected[key], rtol=1e-6, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("buckets", [0, 2])
def test_a_saved_model_brings_its_vocabulary_files(tools, tmp_path, buckets):
    """A vocabulary file is an asset: the SavedModel doesn't need the original file."""
    import estimator_spec
    import tpu_columns

    file = tmp_path / "words.txt"
    file.write_text("ant\nbee\ncow\n")
    words = tf.feature_column.categorical_column_with_vocabulary_file(
        "word", str(file), num_oov_buckets=buckets
    )
    spec = estimator_spec.EmbeddingConfigSpec(
        [tpu_columns.embedding_column(words, 2)], estimator_spec.AdagradParameters(0.1)
    )
    table = np.arange(2.0 * (3 + buckets), dtype=np.float32).reshape(-1, 2)
    name = "input_layer/word_embedding/embedding_weights"
    checkpoint = tools.write_checkpoint(str(tmp_path / "model.ckpt-1"), {name: table})
    batch = {"word": tf.constant(["cow", "ant"])}
    save_serving(to_serving(spec, checkpoint), str(tmp_path / "export"), batch)
    file.unlink()
    os.rename(tmp_path / "export", tmp_path / "moved")
    serve = tf.saved_model.load(str(tmp_path / "moved")).signatures["serving_default"]
    np.testing.assert_array_equal(serve(**batch)["word"], table[[2, 0]])


def one_table(tools, tmp_path, names, rows=10):
    """Returns a spec of one column, and a checkpoint with variables of given names."""
    import estimator_spec
    import tpu_columns

    words = tf.feature_column.categorical_column_with_identity("word", 10)
    spec = estimator_spec.EmbeddingConfigSpec(
        [tpu_columns.embedding_column(words, 2)], estimator_spec.AdagradParameters(0.1)
    )
    values = {
        name: np.full([rows, 2], float(number), np.float32) for number, name in enumerate(names)
    }
    return spec, tools.write_checkpoint(str(tmp_path / "model.ckpt-1"), values)


def test_a_table_in_two_layers_must_be_chosen(tools, tmp_path):
    """Two candidates of a table are refused by name, unless an argument selects one."""
    names = [f"{layer}/word_embedding/embedding_weights" for layer in ("one", "two")]
    spec, checkpoint = one_table(tools, tmp_path, names)
    with pytest.raises(ValueError, match="several times: .*one/word_embedding.*variable_names"):
        to_serving(spec, checkpoint)
    embedding = to_serving(spec, checkpoint, variable_names={"tbl_word": names[1]})
    ((_, table),) = embedding.embedding_tables.items()
    assert (table.numpy() == 1).all()
    for name in ("word", "word_embedding"):
        embedding = to_serving(spec, checkpoint, variable_names={name: names[1]})
        assert (next(iter(embedding.embedding_tables.values())).numpy() == 1).all()


def test_a_missing_table_is_named(tools, tmp_path):
    """A checkpoint without the table is refused with the names of its variables."""
    spec, checkpoint = one_table(tools, tmp_path, ["other/weights"])
    with pytest.raises(checkpoints.CheckpointError, match="'tbl_word' isn't in .*other/weights"):
        to_serving(spec, checkpoint)
    with pytest.raises(checkpoints.CheckpointError, match="no variable 'gone'"):
        to_serving(spec, checkpoint, variable_names={"tbl_word": "gone"})


def test_a_table_of_another_shape_is_named(tools, tmp_path):
    """Other shapes are refused with both; additional rows are left out if the caller says so."""
    name = "input_layer/word_embedding/embedding_weights"
    spec, checkpoint = one_table(tools, tmp_path, [name], rows=9)
    with pytest.raises(checkpoints.CheckpointError, match=r"10 rows of 2 .* the shape \[9, 2\]"):
        to_serving(spec, checkpoint)
    spec, checkpoint = one_table(tools, tmp_path / "padded", [name, "padded"], rows=12)
    with pytest.raises(checkpoints.CheckpointError, match=r"first 10 are meant, say variable_name"):
        to_serving(spec, checkpoint)
    for value, variable in enumerate([name, "padded"]):
        embedding = to_serving(spec, checkpoint, variable_names={"tbl_word": variable})
        (table,) = embedding.embedding_tables.values()
        np.testing.assert_array_equal(table.numpy(), np.full([10, 2], value))


@pytest.mark.parametrize("strategy", ["div", "mod"])
def test_the_padding_of_a_small_table_is_left_out(tools, tmp_path, strategy):
    """A table with fewer rows than hosts has a row on each; the spec's rows are converted."""
    import estimator_spec
    import tpu_columns

    words = tf.feature_column.categorical_column_with_identity("word", 3)
    spec = estimator_spec.EmbeddingConfigSpec(
        [tpu_columns.embedding_column(words, 2)],
        estimator_spec.AdagradParameters(0.1),
        partition_strategy=strategy,
    )
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    name = "input_layer/word_embedding/embedding_weights"
    prefix = str(tmp_path / "model.ckpt-1")
    checkpoint = tools.write_checkpoint(prefix, {name: values}, strategy, shards=4)
    (table,) = to_serving(spec, checkpoint).embedding_tables.values()
    np.testing.assert_array_equal(table.numpy(), values[:3])


@pytest.mark.parametrize("bad", [10, -2])
def test_ids_outside_of_a_table_are_refused(tools, tmp_path, bad):
    """An id out of range is an error with feature, id and size, eagerly and in a graph."""
    import estimator_spec

    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": estimator_spec.FeatureConfig("words")},
        table_to_config_dict={"words": estimator_spec.TableConfig(10, 2)},
        optimization_parameters=estimator_spec.AdagradParameters(0.1),
    )
    checkpoint = tools.write_checkpoint(
        str(tmp_path / "model.ckpt-1"), {"words": np.ones([10, 2], np.float32)}
    )
    embedding = to_serving(spec, checkpoint)
    batch = {"word": tf.sparse.from_dense([[1, bad]])}
    with pytest.raises(IdOutOfRangeError, match=f"'word'.*size is 10.*{bad}"):
        look_up(embedding, batch)
    with pytest.raises(tf.errors.InvalidArgumentError, match="word.*size is 10"):
        tf.function(lambda b: look_up(embedding, b))(batch)


def test_a_missing_feature_is_named(columns_family):
    """A missing feature is refused with the batch's keys; the batch must be a dict."""
    embedding = to_serving(columns_family.spec, columns_family.checkpoint, hardware=Hardware.CPU)
    batch = dict(columns_family.batches[0])
    del batch["small"]
    with pytest.raises(ValueError, match="Feature 'small' is missing; the batch has"):
        features_for(embedding, batch)
    with pytest.raises(TypeError, match="batch must be a dict"):
        features_for(embedding, [1])
    with pytest.raises(TypeError, match="target must be what a conversion"):
        features_for(3, batch)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"num_shards": 0}, "num_shards must be a positive int or None, got 0"),
        (
            {"variable_names": {"tbl_wrod": "x"}},
            "variable_names: 'tbl_wrod' should name one table of the spec, but is none of them. "
            r"Those that are: 'word_embedding/embedding_weights' \(tbl_word, word\)",
        ),
    ],
)
def test_arguments_that_mean_nothing_are_refused(tools, tmp_path, arguments, words):
    """An invalid number of shards and unknown tables are refused."""
    name = "input_layer/word_embedding/embedding_weights"
    spec, checkpoint = one_table(tools, tmp_path, [name])
    with pytest.raises(ValueError, match=words):
        to_serving(spec, checkpoint, **arguments)


def test_weights_without_ids_are_named():
    """Different numbers of weights and ids are an error with the feature's name."""
    import estimator_spec
    from estimator_spec.convert import to_tpu_embedding

    spec = estimator_spec.EmbeddingConfigSpec(
        feature_to_config_dict={"word": estimator_spec.FeatureConfig("words", weight_key="weight")},
        table_to_config_dict={"words": estimator_spec.TableConfig(10, 2)},
        optimization_parameters=estimator_spec.AdagradParameters(0.1),
    )
    embedding = to_tpu_embedding(spec)
    batch = {
        "word": tf.sparse.from_dense([[1, 2]]),
        "weight": tf.sparse.from_dense([[1.0, 2.0, 3.0]]),
    }
    with pytest.raises(tf.errors.InvalidArgumentError, match="word.* must have a weight for each"):
        features_for(embedding, batch)
    with pytest.raises(tf.errors.InvalidArgumentError, match="word.* must have a weight for each"):
        tf.function(lambda b: features_for(embedding, b))(batch)


def test_an_empty_batch_gives_empty_activations(compact_family):
    """An empty batch gives empty activations, eagerly and in a function."""
    family = compact_family
    embedding = to_serving(family.spec, family.checkpoint)
    batch = {}
    for key, value in family.batches[0].items():
        if isinstance(value, tf.SparseTensor):
            batch[key] = tf.sparse.slice(value, [0, 0], [0, value.shape[1]])
        else:
            batch[key] = value[:0]
    for found in (look_up(embedding, batch), tf.function(look_up)(embedding, batch)):
        assert set(found) == set(family.expected[0])
        for key, value in found.items():
            assert tuple(value.shape) == (0, *family.expected[0][key].shape[1:])


def test_a_step_of_several_ids_is_refused(tools, tmp_path):
    """Unsupported sequences are refused with the feature's name and advice."""
    import estimator_spec
    import tpu_columns

    steps = tf.feature_column.sequence_categorical_column_with_identity("step", 5)
    column = tpu_columns.embedding_column(steps, 2, max_sequence_length=3)
    spec = estimator_spec.EmbeddingConfigSpec([column], estimator_spec.AdagradParameters(0.1))
    name = "sequence_input_layer/step_embedding/embedding_weights"
    checkpoint = tools.write_checkpoint(
        str(tmp_path / "model.ckpt-1"), {name: np.ones([5, 2], np.float32)}
    )
    batch = {"step": tf.sparse.from_dense([[[1, 2], [3, 0]]])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="'step'.*several ids.*weights"):
        look_up(to_serving(spec, checkpoint), batch)


@pytest.mark.parametrize("safe", [True, False])
def test_negative_ids_are_dropped_by_a_safe_lookup_only(tools, tmp_path, safe):
    """Negative ids with use_safe_embedding_lookup=False are an error, as in the legacy lookup."""
    import dataclasses

    name = "input_layer/word_embedding/embedding_weights"
    spec, checkpoint = one_table(tools, tmp_path, ["other", name])
    column = dataclasses.replace(spec.feature_columns[0], use_safe_embedding_lookup=safe)
    embedding = to_serving(spec._replace(feature_columns=[column]), checkpoint)
    batch = {"word": tf.ragged.constant([[1], [-2]])}
    if safe:
        np.testing.assert_array_equal(look_up(embedding, batch)["word"], [[1, 1], [0, 0]])
    else:
        with pytest.raises(IdOutOfRangeError, match="'word'.*-2"):
            look_up(embedding, batch)


def test_negative_ids_of_sequences_are_always_dropped(tools, tmp_path):
    """Sequence lookups are safe whatever the column says, as in the legacy lookup."""
    import estimator_spec
    import tpu_columns

    steps = tf.feature_column.sequence_categorical_column_with_identity("step", 5)
    column = tpu_columns.embedding_column(
        steps, 2, max_sequence_length=3, use_safe_embedding_lookup=False
    )
    spec = estimator_spec.EmbeddingConfigSpec([column], estimator_spec.AdagradParameters(0.1))
    name = "sequence_input_layer/step_embedding/embedding_weights"
    checkpoint = tools.write_checkpoint(
        str(tmp_path / "model.ckpt-1"), {name: np.ones([5, 2], np.float32)}
    )
    batch = {"step": tf.ragged.constant([[1, -2, 3]]).to_sparse()}
    found = look_up(to_serving(spec, checkpoint), batch)["step"]
    np.testing.assert_array_equal(found, [[[1, 1], [0, 0], [1, 1]]])


def test_ids_of_weight_zero_are_dropped_unless_summed(tools, tmp_path):
    """An example whose only weight is 0 has no id: its mean is zeros, and no division by 0."""
    import estimator_spec
    import tpu_columns

    words = tf.feature_column.weighted_categorical_column(
        tf.feature_column.categorical_column_with_identity("word", 10), "weight"
    )
    spec = estimator_spec.EmbeddingConfigSpec(
        [tpu_columns.embedding_column(words, 2, "mean")], estimator_spec.AdagradParameters(0.1)
    )
    name = "input_layer/word_weighted_by_weight_embedding/embedding_weights"
    checkpoint = tools.write_checkpoint(
        str(tmp_path / "model.ckpt-1"), {name: np.ones([10, 2], np.float32)}
    )
    embedding = to_serving(spec, checkpoint, hardware=Hardware.CPU)
    batch = {
        "word": tf.ragged.constant([[1], [2, 3]]).to_sparse(),
        "weight": tf.ragged.constant([[0.0], [0.0, 2.0]]).to_sparse(),
    }
    found = look_up(embedding, batch)["word"]
    np.testing.assert_array_equal(found, [[0, 0], [1, 1]])
    (kept,) = legacy_ids.read_ids(embedding.conversion.source, batch).values()
    assert (kept.ids.values.numpy().tolist(), kept.weights.values.numpy().tolist()) == ([3], [2.0])


def test_other_features_are_left_alone(tools, tmp_path):
    """Other features of the batch are ignored, whatever their type."""
    name = "input_layer/word_embedding/embedding_weights"
    spec, checkpoint = one_table(tools, tmp_path, [name])
    found = look_up(to_serving(spec, checkpoint), {"word": [[1]], "other": None})
    np.testing.assert_array_equal(found["word"], [[0.0, 0.0]])


def test_an_open_combiner_is_an_error(columns_family):
    """Columns without a combiner and hardware are refused as ambiguous."""
    with pytest.raises(LossyConversionError, match="hardware="):
        to_serving(columns_family.spec, columns_family.checkpoint)
