# SPDX-License-Identifier: Apache-2.0
"""Finds out which tasks of a cluster, on which others wait, don't answer."""

from __future__ import annotations

import socket
from concurrent import futures

from estimator_spec.cluster import roles
from estimator_spec.run_config import RunConfig, TaskType

_SECONDS = 1  # until a server counts as silent
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
