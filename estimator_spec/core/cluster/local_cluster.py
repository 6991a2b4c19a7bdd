# SPDX-License-Identifier: Apache-2.0
"""Runs a program as a cluster of processes on this machine: starts, restarts and ends them.

The training processes end by themselves. Then the evaluator gets SIGTERM, evaluates the last
checkpoint and ends; the parameter servers are ended after it. If a task fails too often, or this
process is killed, all are ended at once.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import dataclasses
import json
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Container, Sequence
from typing import Any, NamedTuple, TextIO

from estimator_spec.core.cluster.process_guard import ProcessGuard
from estimator_spec.core.common import quiet_start
from estimator_spec.core.run_config.task_type import TaskType

_HOST = "127.0.0.1"
# Below those that Linux gives outgoing connections (from 32768): one may take a port that a server,
# which is still starting, is to have.
_PORTS = range(15000, 32768)
# From SIGTERM to SIGKILL, for processes that are ended because another one failed.
_GRACE_SECONDS = 5.0


class Size(NamedTuple):
    """Number of processes in a cluster, besides its chief.

    Attributes:
        workers: number of workers.
        servers: number of parameter servers.
        evaluator: whether there is an evaluator.
    """

    workers: int
    servers: int
    evaluator: bool


class Task(NamedTuple):
    """Task of one process.

    Attributes:
        job: one of `TaskType`.
        number: index within the job.
    """

    job: str
    number: int

    def __str__(self) -> str:
        return f"{self.job} {self.number}"


class TaskError(RuntimeError):
    """Error of a task that failed too often.

    Attributes:
        task: the task.
        status: exit status of its process; -N if signal N ended it.
    """

    def __init__(self, task: Task, status: int, restarts: int) -> None:
        ended = describe_status(status)
        if restarts:
            ended += f" after {restarts} restart{'s' if restarts > 1 else ''}"
        super().__init__(
            f"{task} {ended}, so all tasks were ended. Its lines above may say why; --restarts "
            "starts a task again."
        )
        self.task = task
        self.status = status


async def run(command: Sequence[str], size: Size, restarts: int = 0) -> None:
    """Runs a program in all processes of a cluster, until training and evaluation end.

    No process is left when it returns, raises an error or is cancelled, nor if the caller's process
    is killed.

    Args:
        command: the program and its arguments.
        size: number of processes.
        restarts: how often a task is started again whose process fails.

    Raises:
        TaskError: a process failed once more.
    """
    with ProcessGuard() as guard:
        processes = [
            _TaskProcess(task, command, environment, restarts, guard)
            for task, environment in make_environments(size).items()
        ]
        await _run_all(processes)


async def _run_all(processes: Sequence[_TaskProcess]) -> None:
    """Runs processes until training and evaluation end; ends those that are left."""
    running = {asyncio.create_task(process.run()): process for process in processes}
    by_job: dict[str, list[_TaskProcess]] = {}
    for process in processes:
        by_job.setdefault(process.task.job, []).append(process)
    try:
        await _wait_for(running, (TaskType.CHIEF, TaskType.WORKER))
        for job in (TaskType.EVALUATOR, TaskType.PS):
            for process in by_job.get(job, ()):
                process.end(signal.SIGTERM)
            await _wait_for(running, (job,))
    finally:
        await _end_all(running)


async def _wait_for(running: dict[asyncio.Task[None], _TaskProcess], jobs: Container[str]) -> None:
    """Waits until the processes of some jobs have ended, or any fails."""
    while True:
        for each in running:
            if each.done():
                each.result()  # raises the error of a process that failed
        awaited = [each for each, process in running.items() if process.task.job in jobs]
        if all(each.done() for each in awaited):
            return
        pending = [each for each in running if not each.done()]
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)


async def _end_all(running: dict[asyncio.Task[None], _TaskProcess]) -> None:
    """Ends all processes that still run."""
    for process in running.values():
        is_evaluator = process.task.job == TaskType.EVALUATOR  # it would evaluate once more
        process.end(signal.SIGKILL if is_evaluator else signal.SIGTERM)
    _, late = await asyncio.wait(running, timeout=_GRACE_SECONDS)
    for each in late:
        running[each].end(signal.SIGKILL)
    # Errors of further processes are of no interest, but each must be taken.
    await asyncio.gather(*running, return_exceptions=True)


def make_environments(size: Size) -> dict[Task, dict[str, str]]:
    """Returns the environment variables of each task, with free ports in TF_CONFIG."""
    counts = {TaskType.CHIEF: 1, TaskType.WORKER: size.workers, TaskType.PS: size.servers}
    ports = iter(find_free_ports(sum(counts.values())))
    cluster = {
        job: [f"{_HOST}:{next(ports)}" for _ in range(count)]
        for job, count in counts.items()
        if count
    }
    if size.evaluator:
        counts[TaskType.EVALUATOR] = 1
    # gRPC would connect to loopback addresses through a proxy.
    no_proxy = ",".join(filter(None, [os.environ.get("no_proxy"), _HOST]))
    return {
        Task(job, index): {
            **os.environ,
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": job, "index": index}}),
            "PYTHONUNBUFFERED": "1",
            "no_proxy": no_proxy,
        }
        for job, count in counts.items()
        for index in range(count)
    }


def find_free_ports(count: int) -> list[int]:
    """Returns different ports that no process listens on.

    Raises:
        RuntimeError: there are too few.
    """
    found: list[int] = []
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            return found
        with contextlib.suppress(OSError), socket.socket() as candidate:
            candidate.bind((_HOST, port))
            found.append(port)
    raise RuntimeError(f"of the ports {_PORTS.start} to {_PORTS.stop - 1}, {count} aren't free")


@dataclasses.dataclass(eq=False)
class _TaskProcess:
    """The process of a task, started again if it fails.

    Args:
        task: the task.
        command: the program and its arguments.
        environment: its environment variables.
        restarts: how often it is started again.
        guard: guard of its process group.
    """

    task: Task
    command: Sequence[str]
    environment: dict[str, str]
    restarts: int
    guard: ProcessGuard

    def __post_init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._end_signal: signal.Signals | None = None

    async def run(self) -> None:
        """Runs the process until it succeeds, or is ended.

        Raises:
            TaskError: it failed once more than it may be started again, or as an evaluator that was
                asked to evaluate the last checkpoint.
        """
        for attempt in range(self.restarts + 1):
            if self._end_signal is not None:
                return
            status = await self._run_once()
            if status == 0 or self._may_end_with(status):
                return
            if attempt < self.restarts:
                _say(f"{self.task} {describe_status(status)}, and is started again.")
        raise TaskError(self.task, status, self.restarts)

    def end(self, number: signal.Signals) -> None:
        """Sends a signal to the process and to those that it started.

        Args:
            number: the signal, at which it should end.
        """
        self._end_signal = number
        self._send(number)

    def _may_end_with(self, status: int) -> bool:
        """Returns whether a process may fail: once it is told to end, unless it still evaluates."""
        if self._end_signal is signal.SIGTERM and self.task.job == TaskType.EVALUATOR:
            # The signal may arrive after the last evaluation, while the interpreter exits.
            return status == -signal.SIGTERM
        return self._end_signal is not None

    async def _run_once(self) -> int:
        # SIGTERM waits until the evaluator handles it, even if it is still starting.
        blocked = {signal.SIGTERM} if self.task.job == TaskType.EVALUATOR else set()
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                env=self.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # signals reach its children, and Ctrl-C only this process
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.guard.add(self._process.pid)
        if self._end_signal is not None:  # while it started
            self._send(self._end_signal)
        logs = asyncio.gather(
            self._copy(self._process.stdout, sys.stdout),
            self._copy(self._process.stderr, sys.stderr),
        )
        status = await self._process.wait()
        self._send(signal.SIGKILL)  # to its children, which may hold the pipes
        await logs
        self.guard.remove(self._process.pid)
        self._process = None
        return status

    def _send(self, number: signal.Signals) -> None:
        """Sends a signal to the process and its children, if there are any."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def _copy(self, source: Any, target: TextIO) -> None:
        """Copies output, each line after the task's name; leaves out TensorFlow's start-up."""
        level = self.environment.get("TF_CPP_MIN_LOG_LEVEL")
        async for line in _lines(source):
            if quiet_start.is_unwanted(line, level):
                continue
            target.write(f"{self.task}: {line}\n")
            target.flush()


async def _lines(source: asyncio.StreamReader) -> AsyncIterator[str]:
    """Yields the lines of a stream, of any length."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    while data := await source.read(1 << 16):
        *lines, rest = (rest + decoder.decode(data)).split("\n")
        for line in lines:
            yield line
    if rest:
        yield rest


def describe_status(status: int) -> str:
    """Returns how a process ended, as a phrase.

    >>> describe_status(1), describe_status(-9)
    ('ended with status 1', 'was ended by SIGKILL')

    Args:
        status: exit status; -N if signal N ended it.
    """
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def _say(text: str) -> None:
    sys.stderr.write(f"launch: {text}\n")
    sys.stderr.flush()
