# SPDX-License-Identifier: Apache-2.0
"""SIGTERM as a request to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from estimator_spec.core.cluster import termination


def test_sigterm_ends_a_wait():
    """A signal makes the request, which ends the wait that it interrupts."""
    with termination.requested_by_sigterm() as request:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        request.wait()
        assert request.is_made
        request.wait()  # doesn't wait again


def test_a_wait_without_a_signal():
    """Without a signal the wait ends after its time."""
    with termination.requested_by_sigterm() as request:
        request.wait(0.01)
        assert not request.is_made


def test_the_program_keeps_its_handler():
    """A handler of the program is called, too, and is back after the block."""
    calls = []

    def own(number, frame):
        calls.append(number)

    before = signal.signal(signal.SIGTERM, own)
    try:
        with termination.requested_by_sigterm() as request:
            os.kill(os.getpid(), signal.SIGTERM)
            request.wait()
        assert calls == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


def run(program):
    """Runs a program with the module, in a process of its own."""
    load = (
        "import importlib.util, os, signal\n"
        f"spec = importlib.util.spec_from_file_location('termination', {termination.__file__!r})\n"
        "termination = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(termination)\n"
    )
    command = [sys.executable, "-c", load + textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_blocked_signal_arrives_in_the_block():
    """A signal that came while it was blocked makes the request; afterwards it is blocked again."""
    done = run(
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)
        with termination.requested_by_sigterm() as request:
            request.wait()
            print(request.is_made)
        print(signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, set()))
        """
    )
    assert (done.stdout, done.returncode) == ("True\nTrue\n", 0)


def test_the_second_signal_ends_the_process():
    """A process that doesn't end at the first SIGTERM ends at the second."""
    done = run(
        """
        with termination.requested_by_sigterm():
            os.kill(os.getpid(), signal.SIGTERM)
            print('goes on', flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
        """
    )
    assert (done.stdout, done.returncode) == ("goes on\n", -signal.SIGTERM)


def test_another_thread():
    """In a thread that can't handle signals the block has a request that nothing makes."""
    found = []

    def wait():
        with termination.requested_by_sigterm() as request:
            request.wait(0.01)
            found.append(request.is_made)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert found == [False]


@pytest.fixture(autouse=True)
def default_handler():
    """Sets the default handler of SIGTERM for a test."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)
