# SPDX-License-Identifier: Apache-2.0
"""Reads and writes records: JSON files beside checkpoints that store layouts and the spec.

Mod sharding permutes a table's rows, and nothing in a checkpoint itself shows that. The record is
`<checkpoint prefix>.tables.json`.

A run that continues from a checkpoint with another layout overwrites the checkpoint of that step.
Its record is written first, and describes both until the new checkpoint is complete: `replaces`
holds the old checkpoint's tables, and a hash of its index to identify it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_spec.checkpoints import spec_tables
from estimator_spec.checkpoints.errors import CheckpointError
from estimator_spec.embedding.spec import EmbeddingConfigSpec
from tpu_columns.partition import RowPartition

SUFFIX = ".tables.json"
_FORMAT = 1


@dataclasses.dataclass(frozen=True)
class TableRecord:
    """The record of a table; its slot variables have the same layout.

    Attributes:
        layout: layout of its rows.
        width: number of elements of a row.
        table: key in the spec, such as 'tbl_word'; None if unknown.
    """

    layout: RowPartition
    width: int
    table: str | None = None


@dataclasses.dataclass(frozen=True)
class CheckpointRecord:
    """The record of a checkpoint.

    Attributes:
        tables: `TableRecord` by variable name.
        spec: the spec as plain data (see `describe_spec`), or None.
    """

    tables: Mapping[str, TableRecord]
    spec: Mapping[str, Any] | None = None


def path_of(prefix: str) -> str:
    """Returns the path of a checkpoint's record.

    >>> path_of("model.ckpt-200")
    'model.ckpt-200.tables.json'
    """
    return prefix + SUFFIX


def read(prefix: str) -> CheckpointRecord | None:
    """Returns the record of a checkpoint; None if it has none.

    Raises:
        CheckpointError: the record can't be read, or was written by a later version.
    """
    path = path_of(prefix)
    if not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path, "r") as file:
            data = json.loads(file.read())
        if data["format"] != _FORMAT:
            raise ValueError(f"format {data['format']}, this version knows {_FORMAT}")
        if data.get("checksum", _checksum(data)) != _checksum(data):
            raise ValueError(
                "its checksum doesn't match; after changing it by hand, remove that line"
            )
        replaced = data.get("replaces")
        if replaced is not None and replaced["index"] == _hash_index(prefix):
            if replaced["tables"] is None:
                return None
            data = replaced
        tables = {
            name: TableRecord(
                RowPartition(table["strategy"], table["rows"], table["shards"]),
                int(table["width"]),
                table.get("table"),
            )
            for name, table in data["tables"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(
            path,
            f"{path!r} should say how the checkpoint's tables are laid out, but can't be read: "
            f"{error!r}. Restore it; or move it away, and give strategy and shards.",
        ) from error
    return CheckpointRecord(tables, data.get("spec"))


def to_bytes(record: CheckpointRecord) -> bytes:
    """Returns the contents of the file."""
    return _encoded({"format": _FORMAT, **_plain(record)})


def _encoded(data: Mapping[str, Any]) -> bytes:
    return (json.dumps({**data, "checksum": _checksum(data)}, indent=1) + "\n").encode()


def _checksum(data: Mapping[str, Any]) -> str:
    """Returns the checksum of everything but the checksum itself."""
    kept = {key: value for key, value in data.items() if key != "checksum"}
    return f"{zlib.crc32(json.dumps(kept, sort_keys=True).encode()):08x}"


def _plain(record: CheckpointRecord) -> dict[str, Any]:
    tables = {
        name: {
            **({"table": table.table} if table.table else {}),
            "rows": table.layout.num_rows,
            "width": table.width,
            "strategy": table.layout.strategy,
            "shards": table.layout.num_shards,
        }
        for name, table in sorted(record.tables.items())
    }
    data: dict[str, Any] = {"tables": tables}
    if record.spec is not None:
        data["spec"] = record.spec
    return data


def write(prefix: str, record: CheckpointRecord) -> None:
    """Writes the record atomically."""
    _write(prefix, to_bytes(record))


def write_ahead(prefix: str, record: CheckpointRecord) -> None:
    """Writes the record of a checkpoint that is about to be written, perhaps over an older one.

    Until then `read` returns the older checkpoint's record. Call `finalize` after the checkpoint.

    Args:
        prefix: checkpoint prefix of both.
        record: record of the new checkpoint.
    """
    data: dict[str, Any] = {"format": _FORMAT, **_plain(record)}
    index = _hash_index(prefix)
    before = read(prefix)
    if index is not None and (before is None or before.tables != record.tables):
        old = {"tables": None} if before is None else _plain(before)
        data["replaces"] = {"index": index, **old}
    _write(prefix, _encoded(data))


def finalize(prefix: str) -> None:
    """Reduces the record of `write_ahead` to the checkpoint that exists."""
    found = read(prefix)
    if found is not None:
        write(prefix, found)
    elif tf.io.gfile.exists(path_of(prefix)):
        tf.io.gfile.remove(path_of(prefix))


def _write(prefix: str, data: bytes) -> None:
    path = path_of(prefix)
    temporary = f"{path}.{os.getpid()}.tmp"
    with tf.io.gfile.GFile(temporary, "wb") as file:
        file.write(data)
    tf.io.gfile.rename(temporary, path, overwrite=True)


def _hash_index(prefix: str) -> str | None:
    """Returns a hash of a checkpoint's index; None if there is none."""
    path = prefix + ".index"
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def remove_orphans(directory: str) -> None:
    """Removes the records of checkpoints that were deleted.

    A record beside data without an index stays: the checkpoint may be being written.
    """
    names = set(tf.io.gfile.listdir(directory))
    for name in names:
        prefix = name.removesuffix(SUFFIX)
        if prefix == name or prefix + ".index" in names:
            continue
        if not any(other.startswith(prefix + ".data-") for other in names):
            tf.io.gfile.remove(os.path.join(directory, name))


def keys_of(spec: EmbeddingConfigSpec, names: Iterable[str]) -> dict[str, str]:
    """Returns the keys in a spec of tables, by full variable name."""
    return {
        name: table.key
        for name, table in spec_tables.match_variables(spec_tables.list_tables(spec), names).items()
    }


def describe_spec(spec: EmbeddingConfigSpec) -> dict[str, Any]:
    """Describes a spec as plain data, for reading and comparing; functions by their names."""
    described: dict[str, Any] = {
        "partition_strategy": spec.partition_strategy,
        "optimizer": describe_optimizer(spec.optimization_parameters),
    }
    if spec.pipeline_execution_with_tensor_core:
        described["pipeline_execution_with_tensor_core"] = True
    described["tables"] = {
        table.key: _describe_table(table) for table in spec_tables.list_tables(spec)
    }
    return described


def describe_optimizer(parameters: Any) -> dict[str, Any] | None:
    """Describes an optimizer by its name and the parameters that are set."""
    if parameters is None:
        return None
    values = {k: v for k, v in dataclasses.asdict(parameters).items() if v is not None}
    return {"name": type(parameters).__name__.removesuffix("Parameters"), **values}


def _describe_table(table: spec_tables.SpecTable) -> dict[str, Any]:
    described: dict[str, Any] = {
        "rows": table.rows,
        "width": table.width,
        "combiner": table.combiner,
        "features": list(table.features),
    }
    if table.own_optimizer is not None:
        described["optimizer"] = describe_optimizer(table.own_optimizer)
    for name in ("initializer", "learning_rate_fn"):
        function = getattr(table, name)
        if function is not None:
            described[name] = _name_of(function)
    return described


def _name_of(function: Any) -> str:
    """Returns the name of a function, or of an initializer's class."""
    named = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(named)
