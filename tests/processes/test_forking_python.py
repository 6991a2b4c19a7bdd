# SPDX-License-Identifier: Apache-2.0
"""A program that `forking_python` runs does what it does under a new `python`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

import forking_python

# Its name, its arguments, what is in sys.modules, and how Python looks for modules.
WHAT_IT_IS = """
import os, sys
main = sys.modules["__main__"]
print(__name__, sorted(n for n in vars(main) if n not in ("os", "sys", "main")))
print(sys.argv, sys.orig_argv[1:], sys.executable, os.getcwd(), os.getpgrp() == os.getpid())
print([p for p in sys.path if "python3" not in p], main is not None, vars(main) is globals())
print(os.environ.get("WHAT"), os.environ.get("HOME"), repr(sys.stdin.read()))
print("an error", file=sys.stderr)
"""
ENDS = {
    "status": "import sys; sys.exit(7)",
    "message": "import sys; sys.exit('a message')",
    "nothing": "raise SystemExit",
    "exception": "def f():\n    raise ValueError('wrong')\nf()",
    "cause": "try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError from error",
    "syntax": "x = (1",
    # A background process of a shell ignores the signal.
    "interrupted": "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "os.kill(os.getpid(), signal.SIGINT)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "at_exit": "import atexit; atexit.register(print, 'at exit'); print('main')",
    "os_exit": "import os; print('lost'); os._exit(3)",
    "thread": "import threading, time; threading.Timer(0.1, print, ['thread']).start()",
    "file_descriptor": "import os; os.write(1, b'1\\n'); os.write(2, b'2\\n'); print('a\\r\\nb')",
    "no_future": "def f(x: int): pass\nprint(f.__annotations__)",
}


def both(arguments, **how):
    """Runs a program both ways; returns status, output and errors of each."""
    new = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, start_new_session=True, **how
    )
    forked = forking_python.run(arguments, **how)
    return [(each.returncode, each.stdout, each.stderr) for each in (forked, new)]


@pytest.mark.parametrize("how", ["script", "link", "-m", "-c", "missing", "no module"])
def test_what_a_program_is(how, tmp_path):
    """Arguments, main module, paths, directory, environment and standard input are a new one's."""
    (tmp_path / "program.py").write_text(WHAT_IT_IS)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "link.py").symlink_to(tmp_path / "program.py")
    program = {
        "script": ["program.py"],
        "link": [str(tmp_path / "links" / "link.py")],
        "-m": ["-m", "program"],
        "-c": ["-c", WHAT_IT_IS],
        "missing": ["no_such_program.py"],
        "no module": ["-m", "no_such_module"],
    }[how]
    path = f"{tmp_path}{os.pathsep}relative"
    env = {**os.environ, "WHAT": "é\n", "PYTHONPATH": path}
    forked, new = both([*program, "-x", "an argument"], cwd=tmp_path, env=env, input="é\nb")
    assert forked == new
    assert (new[0] == 0) == how.startswith(("script", "link", "-"))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("how", ["script", "-c"])
def test_how_a_program_ends(end, how, tmp_path):
    """Exit status, output and traceback are a new one's."""
    (tmp_path / "program.py").write_text(ENDS[end])
    program = ["program.py"] if how == "script" else ["-c", ENDS[end]]
    forked, new = both(program, cwd=tmp_path)
    assert forked == new


def test_programs_share_nothing():
    """A program sees no other one's modules, and draws other random numbers."""
    code = (
        "import random, sys, numpy, tensorflow as tf; sys.marked = hasattr(sys, 'marked');"
        "print(sys.marked, random.random(), numpy.random.rand(), tf.random.uniform([]).numpy())"
    )
    first, second = (forking_python.run(["-c", code], check=True).stdout.split() for _ in range(2))
    assert first[0] == second[0] == "False"
    assert all(a != b for a, b in zip(first[1:], second[1:], strict=True))


@pytest.mark.skipif("TF_USE_LEGACY_KERAS" not in os.environ, reason="TensorFlow has one Keras")
def test_variables_that_tensorflow_reads_when_it_is_imported():
    """They take effect, whatever an earlier program had: here, the choice of Keras."""
    code = "import sys, tensorflow as tf; print(tf.keras.__name__, 'tf_keras' in sys.modules)"
    assert forking_python.run(["-c", code]).stdout.split() == ["tf_keras.api._v2.keras", "True"]
    env = {k: v for k, v in os.environ.items() if k != "TF_USE_LEGACY_KERAS"}
    done = forking_python.run(["-c", code], env=env)
    assert done.stdout.split() == ["keras._tf_keras.keras", "False"]


def test_variables_that_tensorflow_reads_later():
    """Each program reads its own TF_CONFIG."""
    code = (
        "import tensorflow as tf; r = tf.distribute.cluster_resolver.TFConfigClusterResolver();"
        "print(r.task_type, r.task_id)"
    )
    found = [
        forking_python.run(["-c", code], env={**os.environ, "TF_CONFIG": config}, check=True).stdout
        for config in (
            '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}}',
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}',
        )
    ]
    assert [each.split() for each in found] == [["ps", "0"], ["worker", "1"]]


def test_a_late_program_is_killed_with_its_children(tmp_path):
    """After the timeout no process of the program's group runs, and its output is in the error."""
    code = (
        "import subprocess, sys, time; print('started', flush=True)\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "open('pid', 'w').write(str(child.pid)); time.sleep(600)"
    )
    with pytest.raises(subprocess.TimeoutExpired) as found:
        forking_python.run(["-c", code], timeout=2, cwd=tmp_path)
    assert found.value.stdout == "started\n"
    child = int((tmp_path / "pid").read_text())
    wait_for_the_end(child)


def test_a_program_that_runs(tmp_path):
    """It can be asked, waited for, and sent signals."""
    with open(tmp_path / "log", "wb") as log:
        code = "import sys, time; print('runs', flush=True); time.sleep(600)"
        process = forking_python.start(["-c", code], stdout=log)
    while not (tmp_path / "log").read_text():
        time.sleep(0.01)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == process.poll() == -signal.SIGTERM


def test_a_failure_with_check(capsys):
    """`check` raises an error, and shows what the program said."""
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        forking_python.run(["-c", "import os; os.write(2, b'why'); os._exit(3)"], check=True)
    assert capsys.readouterr().err == "why"


def test_a_server_that_ends():
    """Its error shows the end of its output; one that is killed ends what waits for a program."""
    of_its_own = {**os.environ, "PYTHON_SERVER": "of this test"}
    with pytest.raises(RuntimeError, match="(?s)has ended with status 1:.*ModuleNotFoundError"):
        forking_python.run(["-c", ""], env={**os.environ, "PYTHONHOME": os.devnull})
    with pytest.raises(RuntimeError, match="has ended"):
        forking_python.run(["-c", "import os; os.kill(os.getppid(), 9)"], env=of_its_own)


def test_a_stand_in_for_python(tmp_path):
    """A shell's `python` gives files, directory and exit status; options start a new process."""
    (tmp_path / "program.py").write_text(
        "import sys\nprint('tensorflow' in sys.modules, input(), sys.flags.utf8_mode)\nsys.exit(7)"
    )
    script = "echo a | python program.py; echo $?; echo b | python -X utf8 program.py; echo $?\n"
    script += (
        "echo c | PYTHONUTF8=1 python program.py; python -c 'import os; os.kill(os.getpid(), 9)'"
    )
    env = dict(os.environ)
    folder = os.path.dirname(forking_python.stand_in(env))
    env["PATH"] = folder + os.pathsep + env["PATH"]
    shell = ["bash", "-c", script + "; echo $?"]
    done = subprocess.run(shell, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    assert done.stdout == "True a 0\n7\nFalse b 1\n7\nFalse c 1\n137\n"


def test_a_stand_in_that_is_killed(tmp_path):
    """The end of the stand-in ends its program."""
    code = "import os, time; open('pid', 'w').write(f'{os.getpid()} '); time.sleep(600)"
    with subprocess.Popen([forking_python.stand_in(), "-c", code], cwd=tmp_path) as process:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.01)
        process.kill()
    wait_for_the_end(int((tmp_path / "pid").read_text()))


def test_programs_end_with_the_process_that_started_them(tmp_path):
    """When pytest is killed, its servers end and kill their programs."""
    code = (
        "import forking_python, os, time\n"
        "program = 'import os, time; print(os.getpid(), os.getppid(), flush=True); time.sleep(600)'"
        "\nwith open('log', 'wb') as log:\n"
        # Kept: a program ends with its `Process`.
        "    process = forking_python.start(['-c', program], stdout=log)\n"
        "while not os.stat('log').st_size: time.sleep(0.01)\n"
        "os.kill(os.getpid(), 9)"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(forking_python.__file__)}
    done = forking_python.run(["-c", code], cwd=tmp_path, env=env, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    program, server = map(int, (tmp_path / "log").read_text().split())
    for process in (program, server):
        wait_for_the_end(process)


def wait_for_the_end(process):
    """Waits until no process has an id; a zombie, whose parent didn't wait for it, has ended."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], stdout=subprocess.PIPE)
        if not done.stdout.strip() or done.stdout.startswith(b"Z"):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {process} still runs")
