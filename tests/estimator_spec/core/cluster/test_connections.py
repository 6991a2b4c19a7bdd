# SPDX-License-Identifier: Apache-2.0
"""Connections between tasks are probed; see also test_network_faults.py."""

from __future__ import annotations

import socket

import pytest

from estimator_spec.core.cluster import connections


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_only_connections_between_tasks_are_probed(family):
    """Both ends of a connection to a task's port get the option, and no other socket."""
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    try:
        listeners = [socket.create_server((host, 0), family=family) for _ in range(2)]
    except OSError as error:
        pytest.skip(f"needs an address {host}: {error}")
    clients = [socket.create_connection(each.getsockname()[:2]) for each in listeners]
    accepted = [each.accept()[0] for each in listeners]
    connections.set_options({listeners[0].getsockname()[1]})
    for each in (clients[0], accepted[0]):
        assert each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert each.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 10
    for each in (clients[1], accepted[1], *listeners):
        assert not each.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    clients[0].sendall(b"x")
    assert accepted[0].recv(1) == b"x"  # the duplicates are closed, the sockets aren't
    for each in (*clients, *accepted, *listeners):
        each.close()
