# SPDX-License-Identifier: Apache-2.0
"""Finds out which tasks of a cluster don't answer, and whether its servers have the kernels."""

from __future__ import annotations

import socket
import time
from concurrent import futures
from typing import Any

import tensorflow as tf

from estimator_spec.core.cluster import roles
from estimator_spec.core.run_config import RunConfig, TaskType
from tpu_columns import lookup_errors
from tpu_columns.kernels import calls

tf1 = tf.compat.v1

# Until a server counts as silent. A lost frame is sent again after one second, and after three.
_SECONDS = 4
_SECONDS_BETWEEN_ATTEMPTS = 1
_CONNECTIONS = 16  # at a time
# What a client of HTTP/2, and so of gRPC, sends first: a server sends its settings then. The kernel
# connects to a stopped process, too.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"


def find_silent(config: RunConfig) -> list[str]:
    """Connects to all parameter servers; returns a text for each that doesn't answer.

    Without parameter servers, processes of a strategy wait for each other: it connects to those.

    Args:
        config: the `RunConfig` of a cluster.
    """
    own = (config.task_type, config.task_id)
    jobs = roles.training_jobs(config)
    if not roles.is_collective(config):
        jobs = {TaskType.PS: jobs.get(TaskType.PS, {})}
    servers = {
        f"{job} {index}": address
        for job, tasks in jobs.items()
        for index, address in tasks.items()
        if (job, index) != own
    }
    if not servers:
        return []
    is_grpc = (config.protocol or "grpc") == "grpc"
    with futures.ThreadPoolExecutor(min(len(servers), _CONNECTIONS)) as pool:
        found = pool.map(lambda address: _find_fault(address, is_grpc), servers.values())
        return [
            f"{task} at {address} {fault}"
            for (task, address), fault in zip(servers.items(), found, strict=True)
            if fault
        ]


def servers_have_kernels(config: RunConfig) -> bool:
    """Returns whether all parameter servers can run the native ops; waits until they answer.

    Args:
        config: the `RunConfig` of a cluster, in a process that has loaded the ops.
    """
    with tf.Graph().as_default():
        found = [
            _look_up_nothing(f"/job:{TaskType.PS}/task:{number}")
            for number in roles.training_jobs(config).get(TaskType.PS, {})
        ]
        while True:
            try:
                with tf1.Session(config.master, config=config.session_config) as session:
                    session.run(found)
                    return True
            except (tf.errors.AbortedError, tf.errors.UnavailableError):
                time.sleep(_SECONDS_BETWEEN_ATTEMPTS)  # a server has ended, and may be started again
            except tf.errors.OpError as error:
                tf1.logging.warning(
                    "TensorFlow's own ops update tables on the parameter servers, more slowly than "
                    "the kernels of tpu_columns, which a server hasn't loaded (%s). Each process "
                    "of a cluster loads them by itself: `python -m estimator_spec kernels info` "
                    "on the server's machine says why not.",
                    error.message.splitlines()[0],
                )
                return False


def _look_up_nothing(device: str) -> Any:
    """Looks up no ids by a native op on a device, which fails if the device lacks the op."""
    with tf1.device(device):
        ids, names = tf.zeros([0, 1], tf.int64), lookup_errors.LookupNames("", "")
        feature = calls.LookupFeature(0, ids, None, "sum", names, num_rows=1)
        layers, _ = calls.look_up_tables([tf.zeros([1, 1])], [feature], [1], trained=False)
        return layers[0]


def _find_fault(address: str, is_grpc: bool) -> str:
    """Returns what is wrong with a server; '' if it answers.

    Args:
        address: 'host:port'.
        is_grpc: whether it must answer a client of gRPC, not only accept a connection.
    """
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _SECONDS) as connection:
            if not is_grpc:
                return ""
            connection.sendall(_PREFACE)
            return "" if connection.recv(1) else "closes connections"
    except TimeoutError:
        return "doesn't answer"
    except OSError as error:
        return f"can't be reached ({error.strerror or error})"
