# SPDX-License-Identifier: Apache-2.0
"""Runs processes in a Linux network namespace, whose loopback nothing outside can reach.

TensorFlow's servers listen on all interfaces, whatever their address in TF_CONFIG is, and serve
anyone. In a namespace there is no interface but its own loopback. One process makes the namespace
and lives as long as it; others join it. Where the kernel allows a network namespace only within a
user namespace, that process makes both; users keep their ids in it.

This file runs as a script, too: `hold` makes a namespace, `join PID COMMAND...` runs a command in
that of a process.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence

# From <sched.h>, <linux/sockios.h> and <linux/if.h>.
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_SET_INTERFACE_FLAGS, _INTERFACE_UP = 0x8914, 1

# The standard library is enough, and starts in milliseconds.
_SCRIPT = (sys.executable, "-I", "-S", os.path.abspath(__file__))


class NetworkNamespace:
    """Context manager of a network namespace with a loopback interface only.

    Raises:
        OSError: on entry, if this system doesn't allow it; says why.
    """

    def __enter__(self) -> NetworkNamespace:
        self._holder = subprocess.Popen(
            [*_SCRIPT, "hold"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C doesn't end it; the end of its standard input does
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "ready\n":
            _, error = self._holder.communicate()
            raise OSError(error.strip() or "the system has no network namespaces")
        return self

    def __exit__(self, *error: object) -> None:
        self._holder.communicate()

    @property
    def process(self) -> str:
        """Id of the process that holds the namespace."""
        return str(self._holder.pid)

    def command(self, command: Sequence[str]) -> list[str]:
        """Returns the command that runs a command in the namespace.

        Args:
            command: a program and its arguments.
        """
        return [*_SCRIPT, "join", self.process, *command]


def _make() -> None:
    """Moves this process to a new network namespace, and starts its loopback interface."""
    user, group = os.getuid(), os.getgid()
    try:
        _call("unshare", _NEW_NETWORK)
    except PermissionError:
        _call("unshare", _NEW_USER | _NEW_NETWORK)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", b"lo", _INTERFACE_UP)
        fcntl.ioctl(any_socket, _SET_INTERFACE_FLAGS, request)


def join(process: str) -> None:
    """Moves this process to the namespaces of another one.

    Args:
        process: id of the other one.

    Raises:
        OSError: it isn't allowed, or the process isn't there.
    """
    with contextlib.ExitStack() as stack:
        kinds = []
        for name, kind in (("user", _NEW_USER), ("net", _NEW_NETWORK)):
            path = f"/proc/{process}/ns/{name}"
            if os.readlink(path) != os.readlink(f"/proc/self/ns/{name}"):
                kinds.append((stack.enter_context(open(path, encoding="ascii")), kind))
        for file, kind in kinds:
            _call("setns", file.fileno(), kind)


def _call(function: str, *arguments: int) -> None:
    """Calls a function of the C library; raises the OSError of a failure."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, function):
        raise OSError(f"the system has no {function}")
    if getattr(library, function)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


def main(arguments: Sequence[str]) -> None:
    """Runs the script.

    Args:
        arguments: the command line.
    """
    if arguments[0] == "hold":
        try:
            _make()
        except OSError as error:
            sys.exit(str(error))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
    else:
        join(arguments[1])
        os.execvp(arguments[2], list(arguments[2:]))


if __name__ == "__main__":
    main(sys.argv[1:])
