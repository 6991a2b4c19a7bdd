# SPDX-License-Identifier: Apache-2.0
"""TFRecord files and tf.Examples are read as TensorFlow reads them, by protobuf alone."""

from __future__ import annotations

import ast
import inspect
import sys
from unittest import mock

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec.convert.keras_columns import records
from test_columns import some

LISTS = {"float32": tf.train.FloatList, "int64": tf.train.Int64List, "string": tf.train.BytesList}
VALUES = {
    "float32": st.floats(width=32, allow_nan=False),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "string": st.binary(max_size=9),
}


def feature(dtype: str, values: list) -> tf.train.Feature:
    """Returns a feature of a tf.Example."""
    return tf.train.Feature(**{records.LISTS[dtype]: LISTS[dtype](value=values)})


@st.composite
def rows(draw: st.DrawFn):
    """Draws a dtype, a size or None, a default or None, and the values of each example."""
    dtype = draw(st.sampled_from(sorted(VALUES)))
    size = draw(st.sampled_from((None, 1, 2)))
    lengths = {} if size is None else {"min_size": size, "max_size": size}
    values = st.lists(VALUES[dtype], **{"max_size": 3, **lengths})
    default = None if size is None else draw(st.none() | VALUES[dtype])
    may_miss = size is None or default is not None
    return dtype, size, default, draw(st.lists(values | st.none() if may_miss else values))


@some(1000, 60)
@given(drawn=rows())
def test_examples_are_parsed_as_by_tensorflow(drawn):
    """Features of any type, size and default are those that TensorFlow parses."""
    dtype, size, default, examples = drawn
    serialized = [
        tf.train.Example(
            features=tf.train.Features(
                feature={"x": feature(dtype, row)} if row is not None else {}
            )
        ).SerializeToString()
        for row in examples
    ]
    if size is None:
        spec = {"x": tf.io.RaggedFeature(tf.as_dtype(dtype))}
        wanted = tf.io.parse_example(tf.constant(serialized, tf.string), spec)["x"].to_list()
        found = records.parse_examples(serialized, {"x": records.VarLen(dtype)})["x"]
    else:
        filled = None if default is None else [default] * size
        spec = {"x": tf.io.FixedLenFeature([size], tf.as_dtype(dtype), filled)}
        wanted = tf.io.parse_example(tf.constant(serialized, tf.string), spec)["x"].numpy().tolist()
        spec = {"x": records.FixedLen([size], dtype, default)}
        found = records.parse_examples(serialized, spec)["x"].tolist()
    assert found == wanted


@some(200, 20)
@given(texts=st.lists(st.binary(max_size=40)), compressed=st.booleans(), python=st.booleans())
def test_records_are_those_that_tensorflow_writes(texts, compressed, python, tmp_path_factory):
    """Files are read with and without compression, with each way to compute checksums."""
    path = str(tmp_path_factory.mktemp("records") / ("a.gz" if compressed else "a"))
    with tf.io.TFRecordWriter(path, "GZIP" if compressed else "") as writer:
        for text in texts:
            writer.write(text)
    with mock.patch.dict(sys.modules, {"google_crc32c": None} if python else {}):
        checksum = records.crc32c_function()
    with mock.patch.object(records, "CRC32C", checksum):
        assert list(records.read_records(path)) == texts


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-1], "truncated record at 0"),
        (lambda data: data[:5], "truncated record at 0"),
        (lambda data: data[:14] + b"!" + data[15:], "corrupted record at 0"),
        (lambda data: b"!" + data[1:], "corrupted record at 0"),
    ],
)
def test_damaged_files_are_named(change, words, tmp_path):
    """A file that is cut, or has a wrong byte, is named with the place, as TensorFlow says it."""
    path = tmp_path / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"some text")
    path.write_bytes(change(path.read_bytes()))
    if len(path.read_bytes()) > 12:  # TensorFlow takes less than a record's head for the end
        with pytest.raises(tf.errors.DataLossError, match=words.partition(" at")[0]):
            list(tf.data.TFRecordDataset(str(path)))
    with pytest.raises(ValueError, match=f"a.tfrecord: {words}"):
        list(records.read_records(str(path)))


@pytest.mark.parametrize("change", [lambda data: data[:-9], lambda data: b"!" + data])
def test_damaged_compressed_files_are_named(change, tmp_path):
    """A compressed file that is cut, or isn't compressed, is named."""
    path = tmp_path / "a.tfrecord.gz"
    with tf.io.TFRecordWriter(str(path), "GZIP") as writer:
        writer.write(b"some text")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match="a.tfrecord.gz: "):
        list(records.read_records(str(path)))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (records.FixedLen([1], "int64"), "Key: x, example 1. Data types don't match"),
        (records.VarLen("string"), "Key: x, example 1. Data types don't match"),
        (records.FixedLen([2], "float32", 0.0), "Key: x, example 1. Number of values != expected"),
        (records.FixedLen([1], "float32"), "Feature: x .* is required but could not be found .* 0"),
    ],
)
def test_wrong_features_are_named(spec, words):
    """A feature of another type or size, or none, is named with its example."""
    one = tf.train.Features(feature={"x": feature("float32", [0.5])})
    texts = [tf.train.Example().SerializeToString()]
    texts.append(tf.train.Example(features=one).SerializeToString())
    with pytest.raises(ValueError, match=words):
        records.parse_examples(texts, {"x": spec})
    with pytest.raises(ValueError, match="Could not parse example 0"):
        records.parse_examples([b"\x0a\xff"], {"x": spec})


def test_it_needs_no_tensorflow():
    """The module, of which programs have a copy, imports the standard library and two packages."""
    imports = [
        node.module.partition(".")[0] if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(ast.parse(inspect.getsource(records)))
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    others = {name for name in imports if name not in sys.stdlib_module_names}
    assert others == {"google", "google_crc32c", "numpy"}
