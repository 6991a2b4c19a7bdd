# SPDX-License-Identifier: Apache-2.0
"""Lets the kernel probe the connections between tasks, so that none waits for one that is gone.

After a cut of the network one end of a connection may have closed it, and the other end not know:
gRPC ends a server's after twenty seconds without acknowledgement, a client's never. A task that
waits for an answer there would wait for ever, and others for it. gRPC has an option for probes that
TensorFlow doesn't set, so a thread sets that of TCP on the sockets of this process.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator

from estimator_spec.core.cluster import roles
from estimator_spec.core.run_config import RunConfig

_SECONDS_BETWEEN_SEARCHES = 5
# Seconds without data before a probe and between probes; an end that has closed the connection
# answers the first one that it gets. And probes without an answer until the connection is lost.
_SECONDS_OF_SILENCE, _PROBES = 10, 12
_OPTIONS = {  # by the names of Linux and of macOS; where there is neither, the system's apply
    "TCP_KEEPIDLE": _SECONDS_OF_SILENCE,
    "TCP_KEEPALIVE": _SECONDS_OF_SILENCE,
    "TCP_KEEPINTVL": _SECONDS_OF_SILENCE,
    "TCP_KEEPCNT": _PROBES,
}


def probe(config: RunConfig) -> None:
    """Starts the thread that has this process' connections to other tasks probed.

    Args:
        config: the `RunConfig` of a cluster, whose ports tell the connections.
    """
    ports = {
        int(address.rpartition(":")[2])
        for tasks in roles.training_jobs(config).values()
        for address in tasks.values()
    }

    def search() -> None:
        while True:
            time.sleep(_SECONDS_BETWEEN_SEARCHES)
            set_options(ports)

    threading.Thread(target=search, name="probe_connections", daemon=True).start()


def set_options(ports: set[int]) -> None:
    """Has the connections of this process probed whose ends have one of some ports.

    Args:
        ports: of this end or of the other one.
    """
    for connection in _connections():
        with contextlib.suppress(OSError):  # closed meanwhile
            ends = (connection.getsockname()[1], connection.getpeername()[1])
            if ports.isdisjoint(ends) or connection.getsockopt(
                socket.SOL_SOCKET, socket.SO_KEEPALIVE
            ):
                continue
            for name, value in _OPTIONS.items():
                if hasattr(socket, name):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def _connections() -> Iterator[socket.socket]:
    """Yields the TCP sockets of this process, as duplicates."""
    for name in os.listdir("/dev/fd" if os.path.isdir("/dev/fd") else "/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own file, or one closed meanwhile
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as found:
                is_tcp = found.type == socket.SOCK_STREAM
                if is_tcp and found.family in (socket.AF_INET, socket.AF_INET6):
                    yield found
