# SPDX-License-Identifier: Apache-2.0
"""`python -m estimator_spec launch`: tasks, logs, restarts, and the end of all processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from estimator_spec.core.cluster import launch, local_cluster, network_namespace

# Each process writes its id to a file; `script` adds what it does.
COMMON = """
import json, os, signal, subprocess, sys, time
config = json.loads(os.environ["TF_CONFIG"])
job, index = config["task"]["type"], config["task"]["index"]
with open(__file__ + ".log", "a") as log:
    log.write(f"{os.getpid()} {job} {index}\\n")
"""
# The launcher ends servers when training ends, even while they start: training waits for them.
WAIT_FOR_SIGTERM = """
if job in ("ps", "evaluator"):
    signal.signal(signal.SIGTERM, lambda *_: (print("ends", flush=True), sys.exit(0)))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    if job == "ps":
        open(f"{__file__}.server{index}", "w").close()
    time.sleep(600)
for number in range(len(config["cluster"].get("ps", []))):
    while not os.path.exists(f"{__file__}.server{number}"):
        time.sleep(0.01)
"""


@pytest.fixture
def script(tmp_path):
    """Returns a function that writes a script, and checks that none of its processes is left."""
    path = tmp_path / "script.py"

    def write(text):
        path.write_text(COMMON + textwrap.dedent(text))
        return path

    yield write
    for line in (tmp_path / "script.py.log").read_text().splitlines():
        with pytest.raises(ProcessLookupError):
            os.kill(int(line.split()[0]), 0)


def processes(path):
    """Returns the tasks of the processes that ran, sorted."""
    lines = path.with_name(path.name + ".log").read_text().splitlines()
    return sorted(line.split(" ", 1)[1] for line in lines)


def test_a_cluster_of_processes(script, capsys):
    """Each task runs once, with its number before each line; servers end with the training."""
    path = script(WAIT_FOR_SIGTERM + "\nprint(sys.argv[1:], flush=True)\n")
    arguments = [
        "--host-network",
        str(path),
        "--workers",
        "2",
        "--ps",
        "1",
        "--evaluator",
        "--",
        "--lr=1",
        "x",
    ]
    assert launch.main(arguments) == 0
    assert processes(path) == ["chief 0", "evaluator 0", "ps 0", "worker 0", "worker 1"]
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == [
        "chief 0: ['--lr=1', 'x']",
        "evaluator 0: ends",
        "ps 0: ends",
        "worker 0: ['--lr=1', 'x']",
        "worker 1: ['--lr=1', 'x']",
    ]


def test_all_have_one_cluster(script, capsys):
    """All processes get the same cluster, of different loopback addresses."""
    path = script(WAIT_FOR_SIGTERM + "\nprint(json.dumps(config['cluster']), flush=True)\n")
    assert launch.main(["--host-network", str(path), "--workers=2", "--ps=2"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "{" in line]
    (cluster,) = {line.split(": ", 1)[1] for line in lines}
    jobs = json.loads(cluster)
    assert {job: len(addresses) for job, addresses in jobs.items()} == {
        "chief": 1,
        "worker": 2,
        "ps": 2,
    }
    addresses = [address for job in jobs.values() for address in job]
    assert len(set(addresses)) == 5
    assert all(address.startswith("127.0.0.1:") for address in addresses)


def test_a_failure_ends_all(script, capsys):
    """If a task fails, all others are ended, with their children, and the error names the task."""
    path = script(
        """
        if job == "worker":
            sys.exit(7)
        if job == "chief":
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        time.sleep(600)
        """
    )
    assert launch.main(["--host-network", str(path)]) == 1
    assert (
        "launch: worker 0 ended with status 7, so all tasks were ended" in capsys.readouterr().err
    )


def test_restarts(script, capsys):
    """A task that fails is started again, as often as it may be."""
    path = script(
        WAIT_FOR_SIGTERM
        + textwrap.dedent(
            """
            path = f"{__file__}.{job}{index}"
            failed = os.path.exists(path)
            open(path, "w").close()
            if job == "worker" and not failed:
                os.kill(os.getpid(), signal.SIGKILL)
            """
        )
    )
    assert launch.main(["--host-network", str(path), "--restarts", "1"]) == 0
    assert processes(path) == ["chief 0", "ps 0", "worker 0", "worker 0"]
    assert "worker 0 was ended by SIGKILL, and is started again" in capsys.readouterr().err


def test_too_many_failures(script, capsys):
    """A task that fails once more than it may be started again ends all."""
    path = script(WAIT_FOR_SIGTERM + "\nsys.exit(1)\n")
    assert launch.main(["--host-network", str(path), "--workers", "0", "--restarts", "2"]) == 1
    assert processes(path) == ["chief 0"] * 3 + ["ps 0"]
    assert "chief 0 ended with status 1 after 2 restarts" in capsys.readouterr().err


def test_a_last_evaluation_that_fails(script, capsys):
    """An evaluator that fails at the end is a failure, unlike a server that can't end well."""
    path = script(
        """
        if job in ("ps", "evaluator"):
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            time.sleep(600)
        """
    )
    assert launch.main(["--host-network", str(path)]) == 0
    assert launch.main(["--host-network", str(path), "--evaluator"]) == 1
    assert "evaluator 0 ended with status 5" in capsys.readouterr().err


def test_an_evaluator_that_starts_slowly(script):
    """SIGTERM reaches an evaluator when it handles signals, even if training was shorter."""
    path = script(
        """
        if job == "evaluator":
            time.sleep(0.5)  # as if it imported TensorFlow
            done = []
            signal.signal(signal.SIGTERM, lambda *_: done.append(True))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
            while not done:
                time.sleep(0.01)
        """
    )
    assert launch.main(["--host-network", str(path), "--workers=0", "--ps=0", "--evaluator"]) == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_all(script, number):
    """At Ctrl-C, and at SIGTERM, all processes are ended."""
    path = script("time.sleep(600)\n")
    log = path.with_name(path.name + ".log")

    def interrupt():
        while not log.exists() or len(log.read_text().splitlines()) < 3:
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert launch.main(["--host-network", str(path)]) == 128 + number
    thread.join()


def test_a_killed_launcher(tmp_path):
    """Even if the launcher is killed, all processes and their children are ended."""
    path = tmp_path / "script.py"
    path.write_text(
        textwrap.dedent(
            """
            import fcntl, os, subprocess, sys, time
            lock = open(__file__)
            fcntl.flock(lock, fcntl.LOCK_SH)  # until this process and its child have ended
            sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
            subprocess.Popen(sleep, pass_fds=[lock.fileno()])
            print("waits", flush=True)
            time.sleep(600)
            """
        )
    )
    command = [sys.executable, "-m", "estimator_spec", "launch", "--host-network", str(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as launcher:
        for _ in range(3):
            assert launcher.stdout.readline().endswith("waits\n")
        launcher.kill()
    with open(path) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def test_nothing_outside_reaches_the_tasks(script, capsys):
    """Servers that listen on all interfaces are reached by tasks, and refuse other connections."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        with contextlib.suppress(OSError):
            any_socket.connect(("192.0.2.1", 9))  # sends nothing, but chooses an interface
        addresses = {any_socket.getsockname()[0], "127.0.0.1", "127.0.0.2"} - {"0.0.0.0"}
    path = script(
        """
        import socket
        host, port = config["cluster"]["ps"][0].split(":")
        if job == "ps":
            server = socket.create_server(("0.0.0.0", int(port)))
            open(f"{__file__}.server", "w").write(port)
            time.sleep(600)
        while not os.path.exists(f"{__file__}.server"):
            time.sleep(0.01)
        socket.create_connection((host, int(port))).close()
        while not os.path.exists(f"{__file__}.tried"):
            time.sleep(0.01)
        """
    )
    outcomes = {}

    def connect():
        server = path.with_name(path.name + ".server")
        while not server.exists() or not server.read_text():
            time.sleep(0.01)
        for address in addresses:
            with socket.socket() as client:
                outcomes[address] = client.connect_ex((address, int(server.read_text())))
        path.with_name(path.name + ".tried").touch()

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    status = launch.main([str(path), "--workers=0"])
    if "have a network of their own" in capsys.readouterr().err:
        script("").with_name("script.py.log").touch()
        pytest.skip("this system has no network namespaces for the user")
    assert status == 0
    thread.join()
    assert outcomes == dict.fromkeys(addresses, errno.ECONNREFUSED)


def test_without_a_network_of_their_own(script, capsys, monkeypatch):
    """Where the system has no network namespaces, nothing starts without --host-network."""
    refused = (sys.executable, "-c", "import sys; sys.exit('unshare: Operation not permitted')")
    monkeypatch.setattr(network_namespace, "_SCRIPT", refused)
    path = script("")
    path.with_name(path.name + ".log").touch()
    assert launch.main([str(path)]) == 2
    assert processes(path) == []
    printed = capsys.readouterr().err
    assert "unshare: Operation not permitted" in printed and "Give --host-network" in printed
    assert launch.main(["--host-network", str(path), "--workers=0", "--ps=0"]) == 0


def test_long_lines(script, capsys):
    """A line longer than the buffer of a pipe is copied whole."""
    path = script("print('é' * 300_000)\n")
    assert launch.main(["--host-network", str(path), "--workers=0", "--ps=0"]) == 0
    assert capsys.readouterr().out == f"chief 0: {'é' * 300_000}\n"


def test_lines_of_a_start_are_left_out(script, capsys, monkeypatch):
    """What TensorFlow's start says in each task isn't copied, unless a level asks for it."""
    path = script(
        "sys.stderr.write('I0000 port.cc:153] oneDNN custom operations are on. You may\\n')\n"
        "sys.stderr.write('an error\\n')\n"
    )
    arguments = ["--host-network", str(path), "--workers=0", "--ps=0"]
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    assert launch.main(arguments) == 0
    assert "chief 0: an error" in (printed := capsys.readouterr().err)
    assert "oneDNN" not in printed
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert launch.main(arguments) == 0
    assert "oneDNN" in capsys.readouterr().err


def test_modules(script, capsys):
    """`-m` runs a module."""
    path = script("print(__name__)\n")
    options = ["--host-network", "--workers=0", "--ps=0", "-m", "script"]
    done = subprocess.run(
        [sys.executable, "-m", "estimator_spec", "launch", *options],
        cwd=path.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(path.parent), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "chief 0: __main__\n"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nosuch.py"], "there is no file 'nosuch.py'"),
        (["--workers=-1", "x.py"], "-1 is less than 0"),
        ([], "name either a script or, by -m, a module"),
        (["x.py", "-m", "x"], "name either a script or, by -m, a module"),
        (["x.py", "--speed=3"], "unrecognized arguments: --speed=3"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    """Wrong arguments are refused before any process starts."""
    with pytest.raises(SystemExit) as error:
        launch.main(arguments)
    assert error.value.code == 2
    assert message in capsys.readouterr().err


def test_free_ports_differ():
    """Free ports are different ones."""
    assert len(set(local_cluster.find_free_ports(20))) == 20
