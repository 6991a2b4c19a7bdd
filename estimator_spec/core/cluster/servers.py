# SPDX-License-Identifier: Apache-2.0
"""Starts this task's TensorFlow server, and serves the variables of a parameter server."""

from __future__ import annotations

import copy
import threading
import time
from typing import Any, NoReturn

import tensorflow as tf

from estimator_spec.core.cluster import connections, roles, termination
from estimator_spec.core.run_config import RunConfig
from tpu_columns import optimizations
from tpu_columns.kernels import loading
from tpu_columns.optimizations import Optimization

tf1 = tf.compat.v1

# A port may still be held by the connections of an earlier process.
_ATTEMPTS = 20
_SECONDS_BETWEEN_ATTEMPTS = 0.5

# By address. TensorFlow can't stop a server, so each lives as long as the process.
_servers: dict[str, Any] = {}
_LOCK = threading.Lock()


class ServerError(RuntimeError):
    """Error of a TensorFlow server that can't start.

    Attributes:
        address: the address of the task.
    """

    def __init__(self, address: str, message: str) -> None:
        super().__init__(message)
        self.address = address


def start(config: RunConfig) -> None:
    """Starts the server of this task, unless it runs or the task needs none.

    A process needs one if it is one of several of its cluster, unless TF_CONFIG names another
    session master.

    Raises:
        ServerError: the server can't start, for example because another process has the port.
    """
    if not roles.is_distributed(config):
        return
    address = roles.own_address(config)
    with _LOCK:
        if address in _servers or config.master != f"grpc://{address}":
            return
        tf1.logging.info("Starting the TensorFlow server of %s at %s.", _name(config), address)
        if Optimization.NATIVE_KERNELS in optimizations.choose():
            loading.load()  # the chief and workers find out whether all servers have the kernels
        _servers[address] = _start(config, address)
        connections.probe(config)


def serve(config: RunConfig) -> NoReturn:
    """Serves the variables of a parameter server until SIGTERM, which ends the process.

    Raises:
        ServerError: as `start`.
        SystemExit: at SIGTERM, with status 0.
    """
    with termination.requested_by_sigterm() as request:
        start(config)
        tf1.logging.info("%s serves variables until it gets SIGTERM.", _name(config))
        request.wait()
    tf1.logging.info("%s got SIGTERM, and ends.", _name(config))
    raise SystemExit(0)


def _start(config: RunConfig, address: str) -> Any:
    """Returns a new server; waits for a port that is in use."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(_SECONDS_BETWEEN_ATTEMPTS)
        try:
            return tf.distribute.Server(
                tf.train.ClusterSpec(roles.training_jobs(config)),
                job_name=config.task_type,
                task_index=config.task_id,
                protocol=config.protocol,
                config=_server_config(config),
            )
        except tf.errors.UnknownError as error:  # gRPC can't listen
            reason = error.message
        except tf.errors.OpError as error:
            raise ServerError(
                address,
                f"The TensorFlow server of {_name(config)} can't start with the protocol "
                f"{config.protocol or 'grpc'!r}: {error.message}. Leave RunConfig's protocol out.",
            ) from error
    raise ServerError(
        address,
        f"The TensorFlow server of {_name(config)} can't listen at {address}, its address in "
        f"TF_CONFIG ({reason}). Another process has the port, or the program started a server of "
        "its own: end that process, or choose another port. A program with its own server sets "
        f'"session_master" in TF_CONFIG to its target.',
    )


def _server_config(config: RunConfig) -> Any:
    """Returns the configuration of the server; with collectives it isn't limited to some tasks."""
    if not roles.is_collective(config):
        return config.session_config
    # Its sessions have filters; through its server the processes agree on collectives.
    found = copy.deepcopy(config.session_config)
    del found.device_filters[:]
    return found


def _name(config: RunConfig) -> str:
    return f"{config.task_type} {config.task_id}"
