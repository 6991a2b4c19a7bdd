# SPDX-License-Identifier: Apache-2.0
"""Uses recorded programs where TensorFlow isn't installed: run.py DIRECTORY.

Each of its `check.py` must agree; the first program trains, is saved and loaded, and serves.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import plain_torch


def load(directory: Path) -> Any:
    """Imports check.py of a directory, and leaves no module of another one."""
    for path in directory.glob("*.py"):
        sys.modules.pop(path.stem, None)
    sys.path[0] = str(directory)
    importlib.invalidate_caches()
    return importlib.import_module("check")


def train_save_and_load(directory: Path) -> None:
    """Trains a program on, saves it, and loads it again with the optimizer's slots."""
    check = load(directory)
    import keras

    import model

    values = check.recorded.CheckValues(check.recorded.HERE / "check.npz")
    numbers = values.contents["training"]["batches"][:4]
    trained = keras.models.load_model(model.WEIGHTS)
    begun = int(trained.optimizer.iterations)
    batches = (model.training_batch(*values.batches[number]) for number in numbers)
    trained.fit(batches, steps_per_epoch=len(numbers), verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.keras"
        trained.save(path)
        again = keras.models.load_model(path)
    assert int(again.optimizer.iterations) == begun + len(numbers)
    inputs = model.preprocess(values.batches[0][0])
    for key, value in trained.predict_on_batch(inputs).items():
        np.testing.assert_array_equal(again.predict_on_batch(inputs)[key], value)
    for old, new in zip(trained.optimizer.variables, again.optimizer.variables, strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (old, new)))


def serve_examples(directory: Path) -> None:
    """Predicts serialized tf.Examples as the lists that they hold."""
    check = load(directory)
    import keras

    import model
    import serve

    values = check.recorded.CheckValues(check.recorded.HERE / "check.npz")
    features, _ = values.batches[0]
    columns = {key: rows_of(features[key]) for key in serve.EXAMPLES}
    examples = serialized(serve.records, columns)
    trained = keras.models.load_model(model.WEIGHTS, compile=False)
    found = serve.predict(trained, examples)
    given = {key: rows for key, (_, rows) in columns.items()}
    given |= {key: np.array(given[key], np.float32) for key in ("age", "spent")}
    for key, value in trained(model.preprocess(given)).items():
        np.testing.assert_array_equal(found[key], keras.ops.convert_to_numpy(value))


def serialized(records: Any, columns: dict[str, tuple[str, list[list[Any]]]]) -> list[bytes]:
    """Returns tf.Examples of features: kind and lists by key."""
    found = []
    for number in range(len(next(iter(columns.values()))[1])):
        example = records.example_class()()
        for key, (kind, rows) in columns.items():
            added = example.features.feature.add(key=key.encode())
            getattr(added.value, kind).value.extend(rows[number])
        found.append(example.SerializeToString())
    return found


def train_by_command(directory: Path) -> None:
    """Trains by train.py: a process that reads ahead changes nothing, and faults are named."""
    check = load(directory)
    import records
    import tf_examples

    features, labels = check.recorded.CheckValues(check.recorded.HERE / "check.npz").batches[0]
    columns = {key: rows_of(features[key]) for key in tf_examples.FEATURES}
    columns["bought"] = ("bytes_list", np.asarray(labels, object).reshape(-1, 1).tolist())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "examples")
        for example in serialized(records, columns):
            head = len(example).to_bytes(8, "little")
            parts = (head, records.masked_crc(head), example, records.masked_crc(example))
            path.write_bytes((path.read_bytes() if path.exists() else b"") + b"".join(parts))
        found = []
        for workers in ("0", "1"):
            output = Path(folder, workers)
            options = ("--output", str(output), "--workers", workers, "--shuffle", "1")
            run_program(directory / "train.py", str(path), "--label", "bought", *options)
            found.append((output / "weights.safetensors").read_bytes())
        assert found[0] == found[1] != (directory / "weights.safetensors").read_bytes()
        Path(folder, "cut").write_bytes(path.read_bytes()[:-9])
        np.savez(Path(folder, "arrays.npz"), age=np.arange(3))
        for name, text in (
            ("cut", "cut: truncated record"),
            ("arrays.npz", "no 'bought', but age"),
        ):
            given = (str(Path(folder, name)), "--label", "bought", "--output", folder)
            assert text in run_program(directory / "train.py", *given, status=1)


def run_program(path: Path, *arguments: str, status: int = 0) -> str:
    """Runs a program; returns its errors."""
    command = [sys.executable, "-B", str(path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr[-3000:]
    return done.stderr


def rows_of(feature: Any) -> tuple[str, list[list[Any]]]:
    """Returns the kind of a feature's lists in tf.Examples, and the values of each example."""
    if hasattr(feature, "dense_shape"):
        values = feature.values
        rows: list[list[Any]] = [[] for _ in range(feature.dense_shape[0])]
        for (row, *_), value in zip(feature.indices, values.tolist(), strict=True):
            rows[row].append(value)
    else:
        values = np.asarray(feature)
        rows = values.reshape(len(values), -1).tolist()
        if values.dtype.kind != "f":  # what a dense feature is without
            rows = [[value for value in row if value not in (b"", -1)] for row in rows]
    kind = {"O": "bytes_list", "f": "float_list", "i": "int64_list"}[values.dtype.kind]
    return kind, rows


def main(directory: Path) -> None:
    """Uses all programs; ends with an error if one differs."""
    programs = sorted(path.parent for path in directory.glob("*/check.npz"))
    assert programs, f"{directory} has no programs"
    differ = [program.name for program in programs if load(program).main()]
    if directory.name == "torch":
        plain_torch.use(load, directory / "shoppers")
        train_by_command(directory / "shoppers")
    else:
        train_save_and_load(directory / "shoppers")
        serve_examples(directory / "shoppers")
    assert "tensorflow" not in sys.modules
    backend = os.environ.get("KERAS_BACKEND", "plain torch")
    print(f"{len(programs)} programs on {backend}, {len(differ)} differ: {' '.join(differ)}")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
