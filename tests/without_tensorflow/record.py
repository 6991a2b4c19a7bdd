# SPDX-License-Identifier: Apache-2.0
"""Writes programs without TensorFlow, with what their estimators gave: record.py DIRECTORY [N].

`nox -s without_tensorflow` runs them where there is no TensorFlow. N: random models besides.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tomllib
from hypothesis import HealthCheck, Phase, given, settings

TESTS = Path(__file__).resolve().parents[1]
SETTINGS = tomllib.loads((TESTS.parent / "pyproject.toml").read_text("utf-8"))
paths = SETTINGS["tool"]["pytest"]["ini_options"]["pythonpath"]
sys.path[:0] = [str(TESTS.parent), *(str(TESTS.parent / path) for path in paths)]

import estimator_spec  # noqa: E402  # from the path above, as the rest
import tpu_columns  # noqa: E402
from estimator_spec.convert.keras_columns.readings import NUMPY  # noqa: E402
from estimator_spec.convert.keras_program import batches, proof, written  # noqa: E402
from estimator_spec.convert.keras_program.first_use import EstimatorUse  # noqa: E402
from estimator_spec.convert.keras_program.recording import ProofRecording  # noqa: E402
from estimator_spec.convert.torch_columns import written as torch_written  # noqa: E402
from estimator_spec.convert.torch_program import target  # noqa: E402
from estimator_spec.core.user_functions.model_spec import ModeKeys  # noqa: E402
from test_random_models import models, tensors_of  # noqa: E402

fc = tf.feature_column
SIZE = 24


def record(directory: Path, name: str, estimator: Any, input_fn: Callable[[], Any]) -> None:
    """Trains an estimator, writes its programs, and records what the estimator gives."""
    of_keras, of_torch = (directory / kind / name for kind in ("keras", "torch"))
    of_keras.mkdir(parents=True)
    of_torch.mkdir(parents=True)
    estimator.train(input_fn, steps=3)
    use = EstimatorUse(estimator, estimator.canned_model, (), None, input_fn, ModeKeys.TRAIN)
    sources = written.plan_program(use, estimator.model_dir, name, "", reading=NUMPY)
    program = written.write_program(sources, str(of_keras))
    found = batches.read_batches(use, 3)
    edges = batches.edge_batch(found[0], batches.known_values(use))
    recording = ProofRecording()
    result = proof.compare(use, program, [*found, edges], [], found, recording=recording)
    (of_keras / "check.npz").write_bytes(recording.to_bytes())
    plain = target.plan_program(use, estimator.model_dir, name)
    torch_written.write_program(plain, str(of_torch))
    recording.stated.clear()  # of Keras
    (of_torch / "check.npz").write_bytes(recording.to_bytes())
    print(f"{name}: {result.headline}")


def shoppers(directory: Path) -> tuple[Any, Callable[[], Any]]:
    """Returns a wide and deep model: crosses, weights, a long vocabulary, FTRL and Adagrad."""
    path = TESTS / "estimator_spec" / "convert" / "keras_program" / "shoppers.py"
    spec = importlib.util.spec_from_file_location("shoppers", path)
    assert spec is not None and spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    wide, deep = program.columns()
    estimator = estimator_spec.DNNLinearCombinedClassifier(
        str(directory),
        wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[6],
        label_vocabulary=["no", "yes"],
    )
    return estimator, program.input_fn


def visits() -> Any:
    """Returns batches of words, ids and numbers, dense and sparse."""
    random = np.random.RandomState(3)
    rows = [[f"w{n}" for n in random.randint(0, 5, count)] for count in random.randint(0, 4, SIZE)]
    features = {
        "words": tf.ragged.constant(rows).to_sparse(),
        "first": random.choice(["w1", "w2", "other", ""], SIZE),
        "id": random.randint(-1, 9, (SIZE, 2)),
        "size": random.normal(size=(SIZE, 2)).astype(np.float32),
        "weight": random.uniform(0.5, 2.0, SIZE).astype(np.float32),
    }
    labels = random.choice(["a", "b", "c"], SIZE)
    return tf.data.Dataset.from_tensor_slices((features, labels)).repeat().batch(8)


def classes(directory: Path) -> tuple[Any, Callable[[], Any]]:
    """Returns a model of three classes: clipping, batch norm, dropout, a shared table."""
    words = ["w1", "w2"]
    first = fc.categorical_column_with_vocabulary_list("first", words, num_oov_buckets=2)
    columns = [
        fc.embedding_column(fc.categorical_column_with_hash_bucket("words", 30), 3),
        fc.embedding_column(fc.categorical_column_with_identity("id", 9), 2, "sqrtn"),
        fc.indicator_column(fc.crossed_column(["first", "words"], 11)),
        fc.indicator_column(fc.categorical_column_with_hash_bucket("id", 7, tf.int64)),
        fc.embedding_column(first, 2),
        fc.bucketized_column(fc.numeric_column("size", 2), [-1.0, 0.0, 1.0]),
        *tpu_columns.shared_embedding_columns(
            [fc.categorical_column_with_vocabulary_list(key, words) for key in ("first", "words")],
            3,
        ),
    ]
    estimator = estimator_spec.DNNClassifier(
        [5],
        columns,
        str(directory),
        3,
        "weight",
        ["a", "b", "c"],
        optimizer=tf.keras.optimizers.legacy.Adagrad(0.05, clipnorm=0.02),
        dropout=0.25,
        batch_norm=True,
    )
    return estimator, visits


def record_random_models(directory: Path, number: int, temporary: Path) -> None:
    """Records random models, with any optimizers, keys and weights."""
    names = iter(range(10**6))

    @settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=models())
    def record_one(drawn: Any) -> None:
        kind, options, features, labels = drawn
        name = f"random_{next(names)}"

        def input_fn() -> Any:
            data = tf.data.Dataset.from_tensor_slices((tensors_of(features), labels))
            return data.repeat().batch(6)

        record(directory, name, kind(model_dir=str(temporary / name), **options), input_fn)

    record_one()


def main(directory: Path, number: int = 0) -> None:
    """Records all models into a new directory."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder)
        for make in (shoppers, classes):
            record(directory, make.__name__, *make(temporary / make.__name__))
        if number:
            record_random_models(directory, number, temporary)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
