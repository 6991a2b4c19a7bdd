# SPDX-License-Identifier: Apache-2.0
"""Implements `python -m estimator_spec launch`, which runs a program as a cluster of processes."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence

from estimator_spec.core.cluster import local_cluster
from estimator_spec.core.cluster.local_cluster import Size, TaskError
from estimator_spec.core.cluster.network_namespace import NetworkNamespace
from estimator_spec.core.common import command_line

_DESCRIPTION = """\
Runs a program as a cluster of processes on this machine: a chief, workers, parameter servers and an
evaluator, which TF_CONFIG tells their tasks. The program calls train_and_evaluate, with a model_dir
that is the same in all processes. The lines that a process writes begin with its task.

TensorFlow's servers listen on all interfaces of the machine and ask for no password: whoever
connects can run code as you. So the processes have a network of their own, with nothing but each
other in it. --host-network gives them the machine's, for programs that read remote files.

The command ends when the chief, the workers and the evaluator have ended. If one of them fails, or
at Ctrl-C, it ends the others, too."""

_NO_NAMESPACE = """\
launch: WARNING: this system doesn't let the tasks have a network of their own ({error}), and
TensorFlow's servers listen on all interfaces: whoever can connect to this machine can run code as
you. Nothing was started. Give --host-network to run the program all the same.
"""

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit status.

    Args:
        arguments: the command line after `launch`.
    """
    own, programs_own = command_line.split_arguments(arguments)
    parsed = _parser().parse_args(own)
    if (parsed.program is None) == (parsed.module is None):
        _parser().error("name either a script or, by -m, a module")
    if parsed.program is not None and not os.path.isfile(parsed.program):
        _parser().error(f"there is no file {parsed.program!r}")
    program = ["-m", parsed.module] if parsed.module else [parsed.program]
    size = Size(parsed.workers, parsed.ps, parsed.evaluator)
    command = [sys.executable, *program, *programs_own]
    with contextlib.ExitStack() as stack:
        if not parsed.host_network:
            try:
                namespace = stack.enter_context(NetworkNamespace())
            except OSError as error:
                sys.stderr.write(_NO_NAMESPACE.format(error=error))
                return 2
            command = namespace.command(command)
        return asyncio.run(_run(command, size, parsed.restarts))


def _parser() -> argparse.ArgumentParser:
    usage = "%(prog)s [options] (SCRIPT | -m MODULE) [-- ARGUMENTS]"
    parser = command_line.new_parser("launch", _DESCRIPTION, usage=usage)
    parser.add_argument("program", nargs="?", metavar="SCRIPT", help="path of the program")
    parser.add_argument("-m", dest="module", metavar="MODULE", help="a module to run instead")
    count = command_line.number_from(0)
    parser.add_argument(
        "--workers", type=count, default=1, metavar="N", help="workers beside the chief; default 1"
    )
    parser.add_argument(
        "--ps",
        type=count,
        default=1,
        metavar="M",
        help="parameter servers; default 1; 0 for a MultiWorkerMirroredStrategy",
    )
    parser.add_argument(
        "--host-network",
        action="store_true",
        help="use the machine's network, which opens the tasks' servers to it",
    )
    parser.add_argument("--evaluator", action="store_true", help="evaluate the checkpoints")
    parser.add_argument(
        "--restarts",
        type=count,
        default=0,
        metavar="K",
        help="how often to start a task again that failed; default 0",
    )
    return parser


async def _run(command: Sequence[str], size: Size, restarts: int) -> int:
    """Runs the cluster; returns the exit status, also of an interruption."""
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(local_cluster.run(command, size, restarts))
    interruptions: list[int] = []

    def interrupt(number: int) -> None:
        interruptions.append(number)
        if len(interruptions) == 1:  # the processes are being ended already
            running.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupt, number)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await running
    except TaskError as error:
        sys.stderr.write(f"launch: {error}\n")
        return 1
    return 128 + interruptions[0] if interruptions else 0
