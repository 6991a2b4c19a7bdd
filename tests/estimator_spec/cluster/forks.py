# SPDX-License-Identifier: Apache-2.0
"""Starts processes as forks of one that has imported TensorFlow, which takes seconds.

The programs are modules of this directory with a function `main(model_dir, options)`. The process
that forks reads commands from its standard input, as JSON lines, and answers each by one:

    ["start", program, [model_dir, options], environment, log]    the id of a new process
    ["poll", id]                                                  its exit status, or null
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys


class Forks:
    """Processes of one interpreter, with the same imported modules.

    Args:
        python: the interpreter.
        program: name of the program that is imported before the first fork.
        environment: environment variables while it is imported.
    """

    def __init__(self, python, program, environment):
        self._server = subprocess.Popen(
            [python, __file__, program],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, program, arguments, environment, log):
        """Starts a process that appends its output to a file; returns its id."""
        return self._ask("start", program, arguments, environment, os.fspath(log))

    def poll(self, process):
        """Returns the exit status of a process; None while it runs, -N if signal N ended it."""
        return self._ask("poll", process)

    def close(self):
        """Ends the process that forks."""
        self._server.communicate()

    def _ask(self, *command):
        self._server.stdin.write(json.dumps(command) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())


def start(program, arguments, environment, log):
    """Forks; returns the id of the new process, which runs the program and ends."""
    process = os.fork()
    if process:
        return process
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(environment)
    importlib.import_module(program).main(*arguments)
    sys.exit(0)


def poll(process, ended):
    """Returns the exit status of a process, or None; `ended` holds those of earlier calls."""
    if process not in ended:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            ended[process] = os.waitstatus_to_exitcode(status)
    return ended.get(process)


def serve():
    """Runs the commands of the standard input until it is closed."""
    ended = {}
    for line in sys.stdin:
        command, *arguments = json.loads(line)
        answer = start(*arguments) if command == "start" else poll(*arguments, ended)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    importlib.import_module(sys.argv[1])
    serve()
