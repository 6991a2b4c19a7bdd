# SPDX-License-Identifier: Apache-2.0
"""Defines the compared sides."""

from __future__ import annotations

import dataclasses

from training_time.workloads import Workload


@dataclasses.dataclass(frozen=True)
class Side:
    """One way to train a workload.

    Attributes:
        name: what the command calls it.
        title: what the page calls it.
        environment: whose interpreter; see `environments.py`.
        framework: `estimator`, `keras_rs` or `fbgemm`.
        ours: our packages, or TensorFlow's own.
        core: `embedding_core` of the estimator, if any.
        reference_variables: the program says `tf.disable_v2_behavior()`, as those of TF1 do, and
            has TF1's reference variables; else resource variables.
        constant_layers: replace the feature layers; see `constant_layers.py`.
        gpu: the process may use a GPU.
        tables_on_cpu: the feature layers are in `tf.device("/cpu:0")`.
        plain: without optimizations.
    """

    name: str
    title: str
    environment: str
    framework: str = "estimator"
    ours: bool = False
    core: str | None = None
    reference_variables: bool = False
    constant_layers: bool = False
    gpu: bool = False
    tables_on_cpu: bool = False
    plain: bool = False

    def runs(self, workload: Workload) -> bool:
        """Returns whether the side can run a workload."""
        plain = workload.program == "tables"
        if self.framework == "fbgemm":
            return workload.verb == "embedding"
        if self.framework == "keras_rs":
            # No sequences, and census needs an estimator.
            sequences = any(feature.sequence for feature in workload.features)
            return plain and workload.verb in ("train", "first_step") and not sequences
        if self.constant_layers:
            return workload.program in ("tables", "census") and workload.verb == "train"
        if workload.program == "transformer":
            return self.ours and self.core is None and not self.tables_on_cpu
        if self.gpu and workload.program == "canned":
            return False
        # A core needs the specification of a TPUEstimator.
        return self.core is None or workload.program != "canned"


def _sides_on_a_gpu() -> list[Side]:
    ways = (
        ("gpu-plain", "GPU, TensorFlow's ops", {"plain": True}),
        ("gpu", "GPU", {}),
        ("gpu-cpu-plain", "GPU, tables on the CPU, TensorFlow's ops", {"plain": True}),
        ("gpu-cpu", "GPU, tables on the CPU", {}),
        ("gpu-host", "GPU, host core", {"core": "host"}),
    )
    return [
        Side(name, title, "ours", ours=True, gpu=True, tables_on_cpu="-cpu" in name, **more)
        for name, title, more in ways
    ]


SIDES = {
    side.name: side
    for side in (
        Side("reference", "TF 2.15.1", "reference", reference_variables=True),
        Side("reference-resource", "TF 2.15.1, resource variables", "reference"),
        Side(
            "default-v1", "ours, reference variables", "ours", ours=True, reference_variables=True
        ),
        Side("default", "ours, resource variables", "ours", ours=True),
        Side("host", "ours, host core", "ours", ours=True, core="host"),
        Side("no-lookups", "without lookups", "ours", ours=True, constant_layers=True),
        Side("older", "ours, TF ≤ 2.19", "older", ours=True),
        Side("older-v1", "ours, TF ≤ 2.19, ref.", "older", ours=True, reference_variables=True),
        Side("older-host", "ours, TF ≤ 2.19, host", "older", ours=True, core="host"),
        *_sides_on_a_gpu(),
        Side("keras_rs", "keras-rs 0.4", "keras", framework="keras_rs"),
        Side("fbgemm", "FBGEMM CPU", "fbgemm", framework="fbgemm"),
    )
}


def select(names: str) -> list[Side]:
    """Parses comma-separated names of sides.

    Raises:
        ValueError: no side is called so.
    """
    found = []
    for name in filter(None, (word.strip() for word in names.split(","))):
        if name not in SIDES:
            raise ValueError(f"No side {name!r}; there are {', '.join(SIDES)}.")
        found.append(SIDES[name])
    return found
