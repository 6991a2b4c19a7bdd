# SPDX-License-Identifier: Apache-2.0
"""Names of the jobs in TF_CONFIG's cluster; needs no TensorFlow."""

from __future__ import annotations


class TaskType:
    """Names of a cluster's jobs."""

    MASTER = "master"
    PS = "ps"
    WORKER = "worker"
    CHIEF = "chief"
    EVALUATOR = "evaluator"
