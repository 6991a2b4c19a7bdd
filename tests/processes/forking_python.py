# SPDX-License-Identifier: Apache-2.0
"""Runs Python programs in processes that need no seconds to import TensorFlow.

    forking_python.run(["-m", "estimator_spec", "plan", "spec.py"])

does what `subprocess.run([sys.executable, "-m", "estimator_spec", "plan", "spec.py"])` does. A
server, this file as a program, has imported TensorFlow and forks for each program. There is one
server for each interpreter and set of the environment variables that are read before the fork.

Unlike in a new process, TensorFlow is in `sys.modules` from the start, what its import logs is
missing, options of `python` and a `sitecustomize` in PYTHONPATH aren't supported, and the hashes of
strings are those of the server. A process that the program starts by `sys.executable` is a new one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib.machinery
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

# Variables that Python, the dynamic linker or TensorFlow reads before the fork begin with these,
_EARLY = ("PYTHON", "LD_", "TF_", "KERAS_", "CUDA_", "XLA_", "OMP_", "MALLOC_", "LC_", "LANG")
# except for these.
_LATE = ("PYTHONPATH", "TF_CONFIG")
_NUMBER = struct.Struct("i")


class Process:
    """A program that a server has started, in a session and a process group of its own.

    Args:
        address: path of the server's socket.
        request: arguments of `_become`.
        files: descriptors of its standard input, output and error.
    """

    def __init__(self, address: str, request: dict[str, Any], files: Sequence[int]):
        self.arguments = request["arguments"]
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):  # then there is no answer, either
            self._connection.connect(address)
            socket.send_fds(self._connection, [b"f"], files)
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        self.pid = self._number()

    def poll(self) -> int | None:
        """Returns the exit status, -N if signal N ended the program; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end, at most for some seconds; returns the exit status.

        Raises:
            subprocess.TimeoutExpired: the program still runs.
        """
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
            self.returncode = self._number()
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal to the program and the processes of its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kills the program and the processes of its group."""
        self.send_signal(signal.SIGKILL)

    def _number(self) -> int:
        answer = b""
        with contextlib.suppress(OSError):
            answer = self._connection.recv(_NUMBER.size)
        if not answer:
            self._connection.close()
            raise RuntimeError(f"the server that runs python {self.arguments} has ended")
        return _NUMBER.unpack(answer)[0]


class _Server:
    """A process that has imported TensorFlow, and forks.

    Args:
        executable: the interpreter.
        early: its environment variables that begin with one of `_EARLY`.
    """

    def __init__(self, executable: str, early: Mapping[str, str]):
        self._executable, self._early = executable, early
        # Not in TMPDIR, which may be longer than the address of a socket can be.
        self._home = Path(tempfile.mkdtemp(prefix="forking-python-", dir="/tmp"))
        self._address = str(self._home / "socket")
        self._alive, theirs = socket.socketpair()
        # A program is measured from its start on, its server isn't.
        prefixes = (*_EARLY, "COVERAGE_PROCESS_")
        others = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
        with (
            theirs,
            socket.socket(socket.AF_UNIX) as listener,
            open(self._home / "log", "w") as log,
        ):
            listener.bind(self._address)
            listener.listen()
            self._process = subprocess.Popen(
                [executable, __file__, str(listener.fileno())],
                env={**others, **early},
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
        atexit.register(self._close)

    def start(self, request: dict[str, Any], files: Sequence[int]) -> Process:
        """Starts a program."""
        try:
            return Process(self._address, request, files)
        except RuntimeError as error:
            status = self._process.wait(10)
            log = (self._home / "log").read_text(errors="replace")
            raise RuntimeError(f"{error} with status {status}:\n{log}") from None

    def stand_in(self) -> str:
        """Returns the path of a program that is called as `python` is."""
        path = self._home / "python"
        if not path.exists():
            here = os.path.dirname(__file__)
            path.write_text(
                f"#!{sys.executable} -SE\nimport sys\nsys.path.insert(0, {here!r})\n"
                "import forking_python\n"
                f"forking_python.ask({self._executable!r}, {self._address!r}, {self._early!r})\n"
            )
            path.chmod(0o755)
        return str(path)

    def _close(self) -> None:
        self._alive.close()
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)


@functools.cache
def _server(executable: str, early: tuple[tuple[str, str], ...]) -> _Server:
    return _Server(executable, dict(early))


def _early(variables: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in variables.items() if k.startswith(_EARLY) and k not in _LATE}


def _server_for(variables: Mapping[str, str], executable: str) -> _Server:
    return _server(executable, tuple(sorted(_early(variables).items())))


def start(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    stdin: IO[Any] | int | None = None,
    stdout: IO[Any] | int | None = None,
    stderr: IO[Any] | int | None = None,
    executable: str = sys.executable,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Process:
    """Starts a program.

    Args:
        arguments: the command line after `python`: of a script, -c or -m.
        stdin: a file or its descriptor; /dev/null by default.
        stdout: the same.
        stderr: the same.
        executable: the interpreter.
        cwd: its working directory; this process' one by default.
        env: all its environment variables; those of this process by default.
    """
    variables = dict(os.environ if env is None else env)
    request = {
        "arguments": [os.fspath(each) for each in arguments],
        "directory": os.path.abspath(cwd or os.getcwd()),
        "environment": variables,
    }
    with open(os.devnull, "r+b") as nothing:
        files = [nothing if file is None else file for file in (stdin, stdout, stderr)]
        descriptors = [file if isinstance(file, int) else file.fileno() for file in files]
        return _server_for(variables, executable).start(request, descriptors)


def run(
    arguments: Sequence[str | os.PathLike[str]],
    *,
    input: str = "",
    timeout: float | None = None,
    check: bool = False,
    **how: Any,
) -> subprocess.CompletedProcess[str]:
    """Runs a program; returns its exit status and its output as text.

    Args:
        arguments: the command line after `python`: of a script, -c or -m.
        input: what it reads from its standard input.
        timeout: seconds after which it and the processes of its group are killed.
        check: whether to fail, and show its errors, if its exit status isn't 0.
        **how: `executable`, `cwd` and `env` of `start`.

    Raises:
        subprocess.TimeoutExpired: it took more than `timeout` seconds.
        subprocess.CalledProcessError: its exit status isn't 0, with `check`.
    """
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
            for _ in range(3)
        ]
        files[0].write(input)
        files[0].seek(0)
        process = start(arguments, stdin=files[0], stdout=files[1], stderr=files[2], **how)
        expired = None
        try:
            process.wait(timeout)
        except BaseException as error:
            process.kill()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            process.wait()
            expired = error
        for file in files:
            file.seek(0)
        output, errors = (file.read() for file in files[1:])
    if expired:
        raise subprocess.TimeoutExpired(process.arguments, expired.timeout, output, errors)
    done = subprocess.CompletedProcess(process.arguments, process.wait(), output, errors)
    if check:
        if done.returncode:
            sys.stderr.write(errors)
        done.check_returncode()
    return done


def stand_in(env: Mapping[str, str] | None = None, executable: str = sys.executable) -> str:
    """Returns the path of a program `python` for shells, and for code that starts an interpreter.

    With options, or with other environment variables that are read early, it starts a new process.

    Args:
        env: environment variables of the shell; those of this process by default.
        executable: the interpreter.
    """
    return _server_for(os.environ if env is None else env, executable).stand_in()


def ask(executable: str, address: str, early: Mapping[str, str]) -> None:
    """Has a server run this process' command line, or replaces this process by a `python`."""
    _, *arguments = sys.argv
    option = not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-c", "-m"))
    if option or _early(os.environ) != early:
        os.execv(executable, [executable, *arguments])
    request = {
        "arguments": arguments,
        "directory": os.getcwd(),
        "environment": dict(os.environ),
        "executable": os.path.abspath(sys.argv[0]),
    }
    status = Process(address, request, [0, 1, 2]).wait()
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)


# The server


def _serve(listener: socket.socket, client: socket.socket) -> dict[str, Any]:
    """Forks for each connection; returns the request in the new process.

    A connection brings the three standard files and the arguments of `_become`, as a line of JSON;
    it gets the id of the process, and its exit status. If it is closed, the process is killed. When
    the client ends, so does this process.
    """
    running = {}  # the descriptor that says its end, and the connection, by process
    with selectors.DefaultSelector() as selector:
        for each in (listener, client):
            selector.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is client:
                    for process in running:
                        _kill(process)
                    shutil.rmtree(os.path.dirname(listener.getsockname()), ignore_errors=True)
                    sys.exit()
                if key.fileobj is not listener:
                    process = key.data
                    if isinstance(key.fileobj, socket.socket):
                        _kill(process)
                        continue
                    end, connection = running.pop(process)
                    _, status = os.waitpid(process, 0)
                    _answer(connection, os.waitstatus_to_exitcode(status))
                    for each in (end, connection):
                        selector.unregister(each)
                    os.close(end)
                    connection.close()
                    break  # the connection may be in this list
                connection, _ = listener.accept()
                _, files, _, _ = socket.recv_fds(connection, 1, 3)
                with connection.makefile() as lines:
                    request = json.loads(lines.readline())
                process = os.fork()
                if process == 0:
                    os.setsid()
                    _answer(connection, os.getpid())
                    for number, file in enumerate(files):
                        os.dup2(file, number)
                for file in files:
                    os.close(file)
                if process == 0:
                    connection.close()
                    for end, other in running.values():
                        os.close(end)
                        other.close()
                    return request
                running[process] = os.pidfd_open(process), connection
                for each in running[process]:
                    selector.register(each, selectors.EVENT_READ, process)


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def _answer(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody waits for it
        connection.sendall(_NUMBER.pack(number))


def _become(
    arguments: list[str],
    directory: str,
    environment: dict[str, str],
    executable: str = sys.executable,
) -> None:
    """Does in a new process what `python ARGUMENTS` does, up to the end of the main module."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = executable
    sys.orig_argv[:] = [executable, *arguments]
    sys.excepthook = _show_exception
    importlib.invalidate_caches()
    import numpy as np

    np.random.seed()  # `random` does so itself
    parts = environment.get("PYTHONPATH", "").split(os.pathsep)
    parts = [os.path.abspath(part) for part in parts] if parts != [""] else []
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = dict.fromkeys([*parts, *(each for each in sys.path if each != own)])
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    first, *rest = arguments
    if first in ("-c", "-m"):
        sys.argv[:] = [first, *rest[1:]]
        place = "" if first == "-c" else os.getcwd()
    else:
        sys.argv[:] = arguments
        place = os.path.dirname(os.path.realpath(first))
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, place)
    if any(name.startswith("COVERAGE_PROCESS_") for name in environment):
        import coverage

        coverage.process_startup()
    if first == "-m":
        runpy._run_module_as_main(rest[0])
    elif first == "-c":
        main.__loader__ = importlib.machinery.BuiltinImporter
        exec(compile(rest[0], "<string>", "exec", dont_inherit=True), vars(main))
    else:
        path = os.path.abspath(first)
        main.__file__ = path
        main.__cached__ = None
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
        try:
            source = Path(path).read_bytes()
        except OSError as error:
            text = f"can't open file {path!r}: [Errno {error.errno}] {error.strerror}"
            sys.stderr.write(f"{executable}: {text}\n")
            sys.exit(2)
        exec(compile(source, path, "exec", dont_inherit=True), vars(main))


def _show_exception(kind: Any, error: BaseException, trace: Any) -> None:
    """Prints a traceback without the frames of this file, which are the first ones."""
    while trace and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    import tensorflow  # noqa: F401

    gc.collect()
    gc.freeze()  # so that garbage collections of the programs don't copy the pages of the server
    _listener, _client = int(sys.argv[1]), os.dup(0)
    with socket.socket(fileno=_listener) as _listener, socket.socket(fileno=_client) as _client:
        _request = _serve(_listener, _client)
    _become(**_request)
