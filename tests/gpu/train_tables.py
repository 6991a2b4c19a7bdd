# SPDX-License-Identifier: Apache-2.0
"""Trains a small model over tables, and reports numbers, devices and memory as JSON.

    python train_tables.py '{"steps": 50, "tables": "/cpu:0"}' MODEL_DIR

What it trains on is decided by CUDA_VISIBLE_DEVICES and by the settings in `Settings`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import signal
import sys
from typing import Any

import numpy as np
import tensorflow as tf

import estimator_spec
import tpu_columns

tf1 = tf.compat.v1


@dataclasses.dataclass
class Settings:
    """Settings of a run.

    Attributes:
        steps: step at which the training ends.
        core: `embedding_core` of the estimator.
        tables: device of the feature layer, or None.
        optimizer: name of a `tf.compat.v1.train` optimizer.
        rows: rows of each table.
        plain: without optimizations.
        mirrored: under MirroredStrategy.
        deterministic: after enable_op_determinism.
        xla: with TensorFlow's automatic clustering.
        mixed: with the graph rewrite to 16 bits.
        tf32: whether matrix products may be in TF32.
        fraction: `per_process_gpu_memory_fraction`.
        hidden: `device_count={"GPU": 0}`.
        device_fn: device of a `device_fn`.
        export: exports the model and predicts.
        save_every: steps between checkpoints.
        killed_at: step after which the process kills itself.
    """

    steps: int = 50
    core: str | None = None
    tables: str | None = None
    optimizer: str = "AdagradOptimizer"
    rows: int = 1000
    plain: bool | None = None
    mirrored: bool = False
    deterministic: bool = False
    xla: bool = False
    mixed: bool = False
    tf32: bool = False
    fraction: float | None = None
    hidden: bool = False
    device_fn: str | None = None
    export: bool = False
    save_every: int = 25
    killed_at: int | None = None


FEATURES = ("a", "b", "c")
DIMENSION, IDS, BATCH = 16, 10, 256


class Trace(tf1.train.SessionRunHook):
    """Keeps the loss of each step, and the devices on which the ops of one step ran."""

    def __init__(self, loss: Any, traced: int, killed_at: int | None) -> None:
        self._loss, self._traced, self._count = loss, traced, 0
        self._killed_at = killed_at
        self.graph = tf1.get_default_graph()
        self.losses: list[float] = []
        self.devices: dict[str, list[str]] = {}

    def before_run(self, run_context: Any) -> Any:
        """Asks for the loss, and for the placed graph of one step."""
        self._count += 1
        options = None
        if self._count == self._traced:
            options = tf1.RunOptions(output_partition_graphs=True)
        return tf1.train.SessionRunArgs(self._loss, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps them."""
        self.losses.append(float(run_values.results))
        if self._count == self._traced:
            found: dict[str, set[str]] = {}
            for graph in run_values.run_metadata.partition_graphs:
                for node in graph.node:
                    kind = tf1.DeviceSpec.from_string(node.device).device_type
                    found.setdefault(node.op, set()).add(str(kind))
                    if node.op in ("VarHandleOp", "VariableV2"):
                        found.setdefault(node.name, set()).add(str(kind))
            self.devices = {key: sorted(value) for key, value in sorted(found.items())}
        if self._count == self._killed_at:
            os.kill(os.getpid(), signal.SIGKILL)


def make(settings: Settings, model_dir: str) -> tuple[Any, Any, list[Trace]]:
    """Returns an estimator, its input_fn, and the traces of its trainings, made by each."""
    identity = tf.feature_column.categorical_column_with_identity
    columns = [
        tpu_columns.embedding_column(identity(name, settings.rows), DIMENSION, combiner="mean")
        for name in FEATURES
    ]
    traces: list[Trace] = []

    def input_fn(params: dict[str, Any]) -> Any:
        random = np.random.RandomState(0)
        size = params["batch_size"]
        data = {
            name: random.randint(1, settings.rows, size=[20 * size, IDS], dtype=np.int64)
            for name in FEATURES
        }
        labels = (sum(value[:, :1] for value in data.values()) % 2).astype(np.float32)
        found = tf.data.Dataset.from_tensor_slices((data, labels))
        return found.batch(size, drop_remainder=True).repeat()

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        # tf.device(None) would undo what a device_fn says.
        with tf.device(settings.tables) if settings.tables else contextlib.nullcontext():
            layer = tpu_columns.input_layer(features, columns)
        with tf1.variable_scope("network"):
            weights = [
                tf1.get_variable(
                    f"w{i}", shape, initializer=tf1.initializers.glorot_uniform(seed=i)
                )
                for i, shape in enumerate(([layer.shape[1], 64], [64, 1]))
            ]
        logits = tf.matmul(tf.nn.relu(tf.matmul(layer, weights[0])), weights[1])
        if mode == estimator_spec.ModeKeys.PREDICT:
            return estimator_spec.TPUEstimatorSpec(mode, predictions={"p": tf.sigmoid(logits)})
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        arguments = {"momentum": 0.9} if settings.optimizer == "MomentumOptimizer" else {}
        optimizer = getattr(tf1.train, settings.optimizer)(0.05, **arguments)
        if settings.mixed:
            optimizer = tf1.mixed_precision.enable_mixed_precision_graph_rewrite(optimizer)
        train_op = optimizer.minimize(loss, tf1.train.get_global_step())
        traces.append(Trace(loss, 3, settings.killed_at))
        return estimator_spec.TPUEstimatorSpec(
            mode, loss=loss, train_op=train_op, training_hooks=[traces[-1]]
        )

    session_config = tf1.ConfigProto(allow_soft_placement=True)
    session_config.gpu_options.allow_growth = settings.fraction is None
    if settings.fraction:
        session_config.gpu_options.per_process_gpu_memory_fraction = settings.fraction
    if settings.hidden:
        session_config.device_count["GPU"] = 0
    placed = {"device_fn": lambda op: settings.device_fn} if settings.device_fn else {}
    strategy = tf.distribute.MirroredStrategy(["/gpu:0"]) if settings.mirrored else None
    config = estimator_spec.RunConfig(
        model_dir=model_dir,
        tf_random_seed=1,
        save_checkpoints_steps=settings.save_every,
        session_config=session_config,
        train_distribute=strategy,
        tpu_config=estimator_spec.TPUConfig(iterations_per_loop=1),
        **placed,
    )
    estimator = estimator_spec.TPUEstimator(
        model_fn,
        config=config,
        use_tpu=False,
        train_batch_size=BATCH,
        predict_batch_size=BATCH,
        export_to_tpu=False,
        plain=settings.plain,
        embedding_core=settings.core,
        embedding_config_spec=estimator_spec.EmbeddingConfigSpec(
            feature_columns=columns,
            optimization_parameters=estimator_spec.AdagradParameters(0.05),
        ),
    )
    return estimator, input_fn, traces


def main() -> None:
    """Trains as the first argument says; writes `report.json` to the model's directory."""
    settings = Settings(**json.loads(sys.argv[1]))
    model_dir = sys.argv[2]
    tf.config.experimental.enable_tensor_float_32_execution(settings.tf32)
    if settings.deterministic:
        tf.config.experimental.enable_op_determinism()
    if settings.xla:
        tf.config.optimizer.set_jit(True)
    estimator, input_fn, traces = make(settings, model_dir)
    estimator.train(input_fn, max_steps=settings.steps)
    report = {
        "losses": traces[-1].losses,
        "devices": traces[-1].devices,
        "hash": hash_of(estimator.latest_checkpoint()),
        "memory": memory(),
        "tensorflow": tf.__version__,
        "gpus": [
            tf.config.experimental.get_device_details(gpu).get("device_name")
            for gpu in tf.config.list_physical_devices("GPU")
        ],
    }
    if settings.export:
        report |= export(estimator, input_fn)
    with open(os.path.join(model_dir, "report.json"), "w", encoding="utf-8") as file:
        json.dump(report, file)


def hash_of(checkpoint: str) -> str:
    """Returns a hash of all values of a checkpoint."""
    reader = tf.train.load_checkpoint(checkpoint)
    found = hashlib.sha256()
    for name in sorted(reader.get_variable_to_shape_map()):
        found.update(name.encode() + np.ascontiguousarray(reader.get_tensor(name)).tobytes())
    return found.hexdigest()


def memory() -> dict[str, float]:
    """Returns the peaks of this process' memory and of TensorFlow's on the GPU, MiB."""
    with open("/proc/self/status", encoding="ascii") as file:
        (peak,) = [line.split()[1] for line in file if line.startswith("VmHWM")]
    found = {"host": int(peak) / 1024}
    if tf.config.list_logical_devices("GPU"):
        found["gpu"] = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
    return found


def export(estimator: Any, input_fn: Any) -> dict[str, Any]:
    """Exports the model; returns the directory, and what the estimator predicts for one batch."""

    def receiver_fn() -> Any:
        inputs = {name: tf1.placeholder(tf.int64, [None, IDS], f"in_{name}") for name in FEATURES}
        return estimator_spec.ServingInputReceiver(inputs, inputs)

    path = estimator.export_saved_model(os.path.join(estimator.model_dir, "export"), receiver_fn)
    predictions = estimator.predict(input_fn)
    found = [float(next(predictions)["p"][0]) for _ in range(BATCH)]
    predictions.close()
    return {"export": tf.compat.as_str_any(path), "predictions": found}


if __name__ == "__main__":
    main()
