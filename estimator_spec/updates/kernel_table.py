# SPDX-License-Identifier: Apache-2.0
"""Numbers of rows from which on our ops are faster than TensorFlow's, as measured.

Written by `python benchmarks/kernel_rule.py --write`, and formatted by ruff. The kernels have
changed in one version only, 2.20, so there are two entries; `--check` compares another version with
the entry that applies to it.

WIDTHS: measured widths of tables.
MEASURED: TensorFlow, date and machine of each entry, by TensorFlow's version.
MINIMUM_ROWS: by version and op type (without the prefix `Resource`), the number of rows for each
    width; 0 for tables of any size, None if TensorFlow's op is as fast.
"""

from __future__ import annotations

WIDTHS = (16, 32, 64, 128)

MEASURED = {
    (2, 15): "2.15.1 on 2026-11-23, 2 logical CPUs (AMD EPYC)",
    (2, 20): "2.20.0 on 2026-11-23, 2 logical CPUs (AMD EPYC)",
}

MINIMUM_ROWS: dict[tuple[int, int], dict[str, tuple[int | None, ...]]] = {
    (2, 15): {
        "UnsortedSegmentSum": (None, None, 0, 0),
        "ScatterAdd": (0, 0, None, None),
        "ScatterSub": (0, 0, None, None),
        "SparseApplyAdagrad": (262144, 0, None, None),
        "SparseApplyAdagradV2": (65536, 65536, None, None),
        "SparseApplyCenteredRMSProp": (None, None, None, None),
        "SparseApplyFtrl": (0, 262144, None, None),
        "SparseApplyFtrlV2": (8192, 262144, None, None),
        "SparseApplyKerasMomentum": (None, None, None, None),
        "SparseApplyMomentum": (None, None, None, None),
        "SparseApplyProximalAdagrad": (0, 0, None, None),
        "SparseApplyRMSProp": (65536, None, None, None),
    },
    (2, 20): {
        "UnsortedSegmentSum": (0, 0, 0, 0),
        "ScatterAdd": (0, 0, 8192, 0),
        "ScatterSub": (0, 0, 0, 0),
        "SparseApplyAdagrad": (0, 0, 0, 0),
        "SparseApplyAdagradV2": (0, 0, 0, 0),
        "SparseApplyCenteredRMSProp": (0, 0, 8192, 8192),
        "SparseApplyFtrl": (0, 0, 0, 262144),
        "SparseApplyFtrlV2": (0, 0, None, None),
        "SparseApplyKerasMomentum": (0, 0, 8192, 8192),
        "SparseApplyMomentum": (0, 0, 0, 8192),
        "SparseApplyProximalAdagrad": (0, 0, 0, None),
        "SparseApplyRMSProp": (0, 0, 8192, 262144),
    },
}
