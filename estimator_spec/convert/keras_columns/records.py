# SPDX-License-Identifier: Apache-2.0
"""Reads TFRecord files, and the features of serialized tf.Examples, by protobuf: no TensorFlow."""

from __future__ import annotations

import functools
import gzip
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


class FixedLen(NamedTuple):
    """A feature that is an array, as `tf.io.FixedLenFeature`.

    Attributes:
        shape: of an example.
        dtype: 'float32', 'int64' or 'string'.
        default: of examples without it: a value, or one for each place; None: they are an error.
    """

    shape: Sequence[int]
    dtype: str
    default: Any = None


class VarLen(NamedTuple):
    """A feature of any number of values, as `tf.io.VarLenFeature`.

    Attributes:
        dtype: 'float32', 'int64' or 'string'.
    """

    dtype: str


def read_records(path: str) -> Iterator[bytes]:
    """Yields the records of a TFRecord file, which is compressed if its name ends with '.gz'.

    Raises:
        ValueError: the file ends within a record, or a checksum is wrong.
    """
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        try:
            data = file.read()
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path}: {error}.") from None
    place = 0
    while place < len(data):
        if len(data) < place + 12:
            raise ValueError(f"{path}: truncated record at {place}.")
        (size,) = struct.unpack_from("<Q", data, place)
        end = place + 12 + size
        if masked_crc(data[place : place + 8]) != data[place + 8 : place + 12]:
            raise ValueError(f"{path}: corrupted record at {place}.")
        if len(data) < end + 4:
            raise ValueError(f"{path}: truncated record at {place}.")
        record = data[place + 12 : end]
        if masked_crc(record) != data[end : end + 4]:
            raise ValueError(f"{path}: corrupted record at {place}.")
        yield record
        place = end + 4


def masked_crc(data: bytes) -> bytes:
    """Returns the checksum of a record or of its length, as TFRecord files have it."""
    crc = CRC32C(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def crc32c_function() -> Callable[[bytes], int]:
    """Returns the function that computes CRC-32C: google-crc32c's, which is faster, or Python's."""
    try:
        from google_crc32c import value
    except ImportError:
        value = None
    if value is not None:
        return value
    table = []
    for remainder in range(256):
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
        table.append(remainder)

    def crc32c(data: bytes) -> int:
        crc = 0xFFFFFFFF
        for byte in data:
            crc = crc >> 8 ^ table[(crc ^ byte) & 255]
        return crc ^ 0xFFFFFFFF

    return crc32c


CRC32C = crc32c_function()


def parse_examples(
    serialized: Sequence[bytes], features: Mapping[str, FixedLen | VarLen]
) -> dict[str, Any]:
    """Returns the features of serialized tf.Examples, as `tf.io.parse_example`.

    Args:
        serialized: the examples.
        features: what each feature is, by key.

    Returns:
        Arrays of `FixedLen`, and lists of lists of `VarLen`.

    Raises:
        ValueError: an example is no tf.Example, or a feature is missing, or has another type or
            number of values.
    """
    example = example_class()
    wanted = {key.encode(): key for key in features}
    rows: dict[str, list[Any]] = {key: [None] * len(serialized) for key in features}
    for number, text in enumerate(serialized):
        try:
            entries = example.FromString(text).features.feature
        except Exception as error:  # protobuf's, of a class that its implementations don't share
            raise ValueError(f"Could not parse example {number}: {error}.") from None
        for entry in entries:
            key = wanted.get(entry.key)
            kind = entry.value.WhichOneof("kind")
            if key is None or kind is None:
                continue
            dtype = features[key].dtype
            if kind != LISTS[dtype]:
                raise ValueError(
                    f"Key: {key}, example {number}. Data types don't match. Expected type: "
                    f"{dtype}, and it is a {kind}."
                )
            rows[key][number] = list(getattr(entry.value, kind).value)
    return {key: column(key, feature, rows[key]) for key, feature in features.items()}


def column(key: str, feature: FixedLen | VarLen, rows: Sequence[Any]) -> Any:
    """Returns a feature of all examples; the rows of those without it are None."""
    if isinstance(feature, VarLen):
        return [[] if row is None else row for row in rows]
    size = int(np.prod(feature.shape, dtype=np.int64))
    default = feature.default
    if default is not None and not isinstance(default, (list, tuple)):
        default = [default] * size
    values: list[Any] = []
    for number, row in enumerate(rows):
        found = default if row is None else row
        if found is None:
            raise ValueError(
                f"Feature: {key} (data type: {feature.dtype}) is required but could not be found "
                f"in example {number}."
            )
        if len(found) != size:
            raise ValueError(
                f"Key: {key}, example {number}. Number of values != expected. Values size: "
                f"{len(found)}, but output shape: {list(feature.shape)}."
            )
        values += found
    array = np.array(values, object if feature.dtype == "string" else feature.dtype)
    return array.reshape(len(rows), *feature.shape)


@functools.cache
def example_class() -> Any:
    """Returns the class of tf.Examples. Keys are bytes: in TensorFlow they needn't be UTF-8."""
    file = descriptor_pb2.FileDescriptorProto(
        name="examples.proto", package="examples", syntax="proto3"
    )
    kinds = descriptor_pb2.FieldDescriptorProto

    def add(message: Any, name: str, number: int, kind: Any, repeated: bool = False) -> Any:
        field = message.field.add(name=name, number=number)
        field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        if isinstance(kind, str):
            field.type, field.type_name = kinds.TYPE_MESSAGE, f".examples.{kind}"
        else:
            field.type = kind
        return field

    feature = descriptor_pb2.DescriptorProto(name="Feature")
    feature.oneof_decl.add(name="kind")
    types = (kinds.TYPE_BYTES, kinds.TYPE_FLOAT, kinds.TYPE_INT64)
    for number, (name, kind) in enumerate(zip(LISTS.values(), types, strict=True), 1):
        add(file.message_type.add(name=name), "value", 1, kind, repeated=True)
        add(feature, name, number, name).oneof_index = 0
    file.message_type.append(feature)
    entry = file.message_type.add(name="Entry")  # of a map, whose keys are strings
    add(entry, "key", 1, kinds.TYPE_BYTES)
    add(entry, "value", 2, "Feature")
    add(file.message_type.add(name="Features"), "feature", 1, "Entry", repeated=True)
    add(file.message_type.add(name="Example"), "features", 1, "Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("examples.Example"))


LISTS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}
