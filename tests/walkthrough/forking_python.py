# SPDX-License-Identifier: Apache-2.0
"""A `python` that has imported TensorFlow already: a server that forks for each command line.

    forking_python.py SOCKET             serves until it is terminated
    python ARGUMENTS                     a script that calls `ask(SOCKET)`

The import takes most of the time of a short command.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import sys
import traceback


def ask(path: str) -> None:
    """Has the server run this process's arguments, with its files, directory and environment."""
    request = {
        "arguments": sys.argv[1:],
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "executable": os.path.abspath(sys.argv[0]),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [b"f"], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        status = connection.makefile().readline()
    sys.exit(int(status))


def serve(path: str) -> None:
    """Imports TensorFlow, and forks for each request."""
    import tensorflow  # noqa: F401

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
        while True:
            connection, _ = listener.accept()
            _, files, _, _ = socket.recv_fds(connection, 1, 3)
            request = json.loads(connection.makefile().readline())
            # A process that waits, so that a command can start others by this `python`.
            if os.fork() == 0:
                _answer(connection, files, request)
                os._exit(0)
            connection.close()
            for file in files:
                os.close(file)


def _answer(connection: socket.socket, files: list[int], request: dict) -> None:
    """Forks for a command line, and sends its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child == 0:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os._exit(_run(request))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(f"{status}\n".encode())


def _run(request: dict) -> int:
    """Runs a command line as `python` would; returns its exit status."""
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    first, *rest = request["arguments"]
    sys.executable = request["executable"]
    try:
        if first == "-c":
            sys.path[0] = ""
            sys.argv = ["-c", *rest[1:]]
            exec(rest[0], {"__name__": "__main__"})
        elif first == "-m":
            sys.path[0] = os.getcwd()
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = os.path.dirname(os.path.abspath(first))
            sys.argv = [first, *rest]
            runpy.run_path(first, run_name="__main__")
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(error.code)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status


if __name__ == "__main__":
    serve(sys.argv[1])
