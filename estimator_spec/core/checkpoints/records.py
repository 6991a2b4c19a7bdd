# SPDX-License-Identifier: Apache-2.0
"""Reads and writes records: JSON files beside checkpoints that store layouts and the spec.

Mod sharding permutes a table's rows, and nothing in a checkpoint itself shows that. The record is
`<checkpoint prefix>.tables.json`.

A save can replace a checkpoint of the same step and another layout, left by an abandoned run. The
record is written first, and describes both checkpoints until the new one is complete: `replaces`
holds the old checkpoint's tables, and a hash of its index to identify it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimator_spec.core.checkpoints import bundle, files, spec_tables
from estimator_spec.core.checkpoints.errors import CheckpointError
from estimator_spec.core.embedding.spec import EmbeddingConfigSpec
from tpu_columns.partition import RowPartition

SUFFIX = ".tables.json"
_FORMAT = 1
_WRONG_CONTENTS = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


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
        engine: what looked up and updated the tables before the checkpoint; None if unknown.
    """

    tables: Mapping[str, TableRecord]
    spec: Mapping[str, Any] | None = None
    engine: str | None = None

    def features_of(self, key: str) -> tuple[str, ...]:
        """Returns the features that look up the table of a key; none without a spec."""
        tables = (self.spec or {}).get("tables", {})
        return tuple(tables.get(key, {}).get("features", ()))


def path_of(prefix: str) -> str:
    """Returns the path of a checkpoint's record.

    >>> path_of("model.ckpt-200")
    'model.ckpt-200.tables.json'
    """
    return prefix + SUFFIX


def read(prefix: str) -> CheckpointRecord | None:
    """Returns the record of a checkpoint; None if it has none.

    Raises:
        CheckpointError: the record is damaged, or was written by a later version.
        OSError: the disk can't read it.
    """
    path = path_of(prefix)
    if not tf.io.gfile.exists(path):
        return None
    try:
        data = json.loads(files.read_file(path))
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
        record = CheckpointRecord(tables, data.get("spec"), data.get("engine"))
        for table in tables.values():
            record.features_of(table.table or "")  # an error if the spec is damaged
        return record
    except (*_WRONG_CONTENTS, tf.errors.OpError) as error:
        text = error.message if isinstance(error, tf.errors.OpError) else error
        raise CheckpointError(
            path,
            f"{path!r} should say how the checkpoint's tables are laid out, but can't be read: "
            f"{type(error).__name__}: {text}. Restore it; or move it away, and give strategy and "
            "shards.",
        ) from None


def check(prefix: str, record: CheckpointRecord, shapes: Mapping[str, Sequence[int]]) -> None:
    """Checks that the tables of a record are those of its checkpoint.

    Args:
        prefix: checkpoint prefix.
        record: its record.
        shapes: shapes of the checkpoint's variables, by name.

    Raises:
        CheckpointError: a table isn't in the checkpoint, or has another shape there.
    """
    for name, table in record.tables.items():
        wanted = [table.layout.num_rows, table.width]
        if name not in shapes or list(shapes[name]) != wanted:
            found = f"has shape {list(shapes[name])}" if name in shapes else "isn't in it"
            path = path_of(prefix)
            raise CheckpointError(
                path,
                f"{path!r} is no record of {prefix!r}: its table {name!r}, of shape {wanted}, "
                f"{found}. Nothing was changed. Restore the record of this checkpoint; or move it "
                "away, and give strategy and shards.",
            )


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
    if record.engine is not None:
        data["engine"] = record.engine
    return data


def write(prefix: str, record: CheckpointRecord) -> None:
    """Writes the record atomically."""
    files.write_atomically(path_of(prefix), to_bytes(record))


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
    files.write_atomically(path_of(prefix), _encoded(data))


def finalize(prefix: str) -> None:
    """Reduces the record of `write_ahead` to the tables of the checkpoint that exists.

    Raises:
        OSError: the disk can't read the checkpoint's index; the record stays as it is.
    """
    found = read(prefix)
    if found is not None:
        # A program's own saver may leave tables out. (If TensorFlow's reader can't read the index,
        # it says that the checkpoint has no variables.)
        with bundle.Checkpoint(prefix) as checkpoint:
            saved = found.tables.keys() & checkpoint.variables.keys()
        tables = {name: table for name, table in found.tables.items() if name in saved}
        write(prefix, dataclasses.replace(found, tables=tables))
    elif tf.io.gfile.exists(path_of(prefix)):
        tf.io.gfile.remove(path_of(prefix))


def _hash_index(prefix: str) -> str | None:
    """Returns a hash of a checkpoint's index; None if there is none."""
    path = prefix + ".index"
    if not tf.io.gfile.exists(path):
        return None
    return hashlib.sha256(files.read_file(path)).hexdigest()


def remove_orphan(prefix: str) -> None:
    """Removes the record of a checkpoint that was deleted; leaves what is no record.

    A record beside data without an index stays: the checkpoint may be being written.
    """
    if tf.io.gfile.exists(prefix + ".index"):
        return
    directory, name = os.path.split(prefix)
    if any(each.startswith(name + ".data-") for each in tf.io.gfile.listdir(directory or ".")):
        return
    with contextlib.suppress(CheckpointError):  # somebody else's file
        if read(prefix) is not None:
            tf.compat.v1.logging.info("Removing %s, whose checkpoint was deleted.", path_of(prefix))
            tf.io.gfile.remove(path_of(prefix))


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
