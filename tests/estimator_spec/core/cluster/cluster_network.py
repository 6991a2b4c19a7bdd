# SPDX-License-Identifier: Apache-2.0
"""A network for the tasks of a cluster: a namespace and an address for each, and a bridge.

All of it ends with the processes that hold the namespaces, however the tests end. Links that
delay and lose frames are pairs of TAP devices, which a process of this file joins: kernels may lack
netem.
"""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import json
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[4]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from estimator_spec.core.cluster import network_namespace  # noqa: E402

PORT = 2222
# From <linux/if_tun.h>: makes a device of Ethernet frames, without a header of its own.
_SET_DEVICE, _TAP, _NO_HEADER = 0x400454CA, 0x0002, 0x1000
_FRAME = 65536


class Quality(NamedTuple):
    """What a link does to each frame that a task sends.

    Attributes:
        delay: seconds until it goes on.
        loss: part of them that is lost.
    """

    delay: float
    loss: float


class Network:
    """Context manager of a network in which each task has an address of its own.

    Args:
        tasks: the tasks, such as 'worker 0'.
        quality: what the links do, or None for links without delay and loss.

    Raises:
        OSError: on entry, if this system doesn't allow it; says why.
    """

    def __init__(self, tasks: Sequence[str], quality: Quality | None = None) -> None:
        self._numbers = {task: number for number, task in enumerate(tasks, 1)}
        self._quality = quality

    def __enter__(self) -> Network:
        if os.getuid():
            raise OSError("only root may join namespaces by links")
        with contextlib.ExitStack() as stack:
            self._bridge = stack.enter_context(network_namespace.NetworkNamespace())
            self._spaces = {
                task: stack.enter_context(network_namespace.NetworkNamespace())
                for task in self._numbers
            }
            _ip(self._bridge, "link add bridge0 type bridge")
            _ip(self._bridge, "link set bridge0 up")
            if self._quality is None:
                for task, number in self._numbers.items():
                    peer = f"peer name eth0 netns {self._spaces[task].process}"
                    _ip(self._bridge, f"link add port{number} type veth {peer}")
            else:
                stack.enter_context(self._relay(self._quality))
            for task, number in self._numbers.items():
                _ip(self._bridge, f"link set port{number} master bridge0 up")
                _ip(self._spaces[task], f"address add {self.address(task)}/24 dev eth0")
                _ip(self._spaces[task], "link set eth0 up")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def _relay(self, quality: Quality):
        """Runs the process that joins the tasks' TAP devices with the bridge's."""
        pairs = [f"{self._spaces[task].process}:port{k}" for task, k in self._numbers.items()]
        command = [sys.executable, __file__, self._bridge.process, *map(str, quality), *pairs]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                if process.stdout.readline() != b"ready\n":
                    raise OSError("the system has no TAP devices")
                yield
            finally:
                process.kill()

    def address(self, task: str) -> str:
        """Returns the address of a task."""
        return f"10.77.0.{self._numbers[task]}"

    def set_link(self, task: str, is_up: bool) -> None:
        """Cuts a task off, at the bridge's end of its link, or joins it again."""
        state = "up" if is_up else "down"
        _ip(self._bridge, f"link set port{self._numbers[task]} {state}")

    def command(self, task: str, command: Sequence[str]) -> list[str]:
        """Returns the command that runs a task's command in its namespace."""
        return self._spaces[task].command(command)

    def variables(self, task: str, variables: dict[str, str]) -> dict[str, str]:
        """Returns a task's environment variables with the addresses of this network."""
        config = json.loads(variables["TF_CONFIG"])
        config["cluster"] = {
            job: [f"{self.address(f'{job} {index}')}:{PORT}" for index in range(len(addresses))]
            for job, addresses in config["cluster"].items()
        }
        direct = ",".join(map(self.address, self._numbers))
        return variables | {"TF_CONFIG": json.dumps(config), "no_proxy": direct}


def _ip(space: network_namespace.NetworkNamespace, arguments: str) -> None:
    """Runs iproute2's command in a namespace; raises an OSError that says what failed."""
    command = space.command(["ip", *arguments.split()])
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {arguments}: {done.stderr.strip()[-300:]}")


def _open_tap(process: str, name: str) -> int:
    """Makes a TAP device in the namespace of a process; returns its open file."""
    network_namespace.join(process)
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, _SET_DEVICE, struct.pack("16sH22x", name.encode(), _TAP | _NO_HEADER))
    return file


def relay(bridge: str, delay: float, loss: float, *pairs: str) -> None:
    """Passes frames between tasks and their ports of the bridge, until it is killed.

    Args:
        bridge: process that holds the namespace of the bridge.
        delay: seconds that a frame of a task waits.
        loss: part of them that is lost.
        *pairs: `PROCESS:PORT` of each task.
    """
    peers, tasks = {}, set()
    for process, port in (pair.split(":") for pair in pairs):
        task, end = _open_tap(process, "eth0"), _open_tap(bridge, port)
        peers |= {task: end, end: task}
        tasks.add(task)
    print("ready", flush=True)
    chance = random.Random(1)
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    while True:
        timeout = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        for file in select.select([*peers, sys.stdin], [], [], timeout)[0]:
            if file is sys.stdin:
                return  # the tests have ended
            frame = os.read(file, _FRAME)
            if file not in tasks:
                _write(peers[file], frame)
            elif chance.random() >= loss:
                count += 1
                heapq.heappush(waiting, (time.monotonic() + delay, count, peers[file], frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _write(*heapq.heappop(waiting)[2:])


def _write(file: int, frame: bytes) -> None:
    """Writes a frame; a device that is down, or full, loses it as a switch does."""
    with contextlib.suppress(OSError):
        os.write(file, frame)


if __name__ == "__main__":
    relay(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
