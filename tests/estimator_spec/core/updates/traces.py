# SPDX-License-Identifier: Apache-2.0
"""Counts the ops that a traced call of a session ran."""

from __future__ import annotations

import collections


def kinds(metadata):
    """Returns how often each type of op ran."""
    nodes = [node for device in metadata.step_stats.dev_stats for node in device.node_stats]
    labels = [node.timeline_label.split(" = ")[-1].split("(")[0] for node in nodes]
    # oneDNN's product is called _MklMatMul.
    return collections.Counter(label.replace("_Mkl", "") for label in labels)
