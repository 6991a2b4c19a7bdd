# SPDX-License-Identifier: Apache-2.0
"""Makes parsers, splits arguments and runs commands of `python -m estimator_spec`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence


def new_parser(
    command: str, description: str, epilog: str | None = None, usage: str | None = None
) -> argparse.ArgumentParser:
    """Returns the parser of a command, without options; it prints these texts as they are."""
    return argparse.ArgumentParser(
        f"python -m estimator_spec {command}",
        usage,
        description,
        epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def number_from(minimum: int) -> Callable[[str], int]:
    """Returns a parser of an option's value, a whole number that is `minimum` or more."""

    def number(text: str) -> int:
        if int(text) < minimum:
            raise argparse.ArgumentTypeError(f"{text} is less than {minimum}")
        return int(text)

    return number


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the arguments before the first `--`, and those after it: the program's own.

    >>> split_arguments(["--ps", "2", "train.py", "--", "--steps=9"])
    (['--ps', '2', 'train.py'], ['--steps=9'])
    """
    place = list(arguments).index("--") if "--" in arguments else len(arguments)
    return list(arguments[:place]), list(arguments[place + 1 :])


def run_command(
    command: Callable[[argparse.Namespace], tuple[object, int]],
    options: argparse.Namespace,
    interrupted: str,
) -> int:
    """Runs a command that uses TensorFlow, and returns its exit status: 2 for an error.

    Args:
        command: returns what is printed, and the exit status.
        options: its options.
        interrupted: what Ctrl-C leaves, for the message.
    """
    import tensorflow as tf  # after the parser, which doesn't wait for it

    try:
        result, status = command(options)
        sys.stdout.write(f"{result}\n")
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # such as `… | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, RuntimeError, ValueError, tf.errors.OpError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: {interrupted}.\n")
        return 130
