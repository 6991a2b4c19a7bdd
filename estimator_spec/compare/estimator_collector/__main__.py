# SPDX-License-Identifier: Apache-2.0
"""Command line of the process that runs a program: OPTIONS.json SCRIPT-OR-MODULE [ARGS...]."""

from __future__ import annotations

import json
import os
import platform
import random
import runpy
import sys
import sysconfig
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from . import loops
from .options import EstimatorApi, RecordingOptions
from .recorder import Recorder
from .wrapper import Wrapper

tf1 = tf.compat.v1
# This project's packages: not the program's, wherever they are.
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_OTHER = os.path.join(os.path.dirname(_OURS), "tpu_columns")


def main(arguments: Sequence[str]) -> None:
    """Runs a program in this process, as its main module; its errors pass through.

    Args:
        arguments: the file of the options, the program's file and its arguments.
    """
    options_file, script, *rest = arguments
    with open(options_file, encoding="utf-8") as file:
        options = RecordingOptions(**json.load(file))
    with_tensorflows = _has_tensorflows_api(options.api)
    if with_tensorflows:
        api = tf1.estimator
        roots = [api.Estimator, tf.estimator.Estimator, api.tpu.TPUEstimator]
    else:
        import estimator_spec as api

        roots = [api.Estimator, api.TPUEstimator]
    environment = {
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
        "estimator": roots[0].__module__.partition(".")[0],
        "script": script,
    }
    recorder = Recorder(options.out, options.max_elements, environment)
    Wrapper(recorder, options, api.RunConfig).wrap(*roots)
    loops.active = loops.Loops(recorder, options.steps)
    random.seed(options.seed)
    np.random.seed(options.seed)
    error: str | None = None
    try:
        if with_tensorflows:
            _run_as_it_is(options, script, rest)
        else:
            _run_on_ours(options, script, rest)
    except SystemExit as end:
        error = f"SystemExit: {end.code}" if end.code else None
        raise
    except BaseException as failure:
        error = f"{type(failure).__name__}: {failure}"
        raise
    finally:
        recorder.write(error, _own_modules())


def _has_tensorflows_api(api: str) -> bool:
    """Returns whether the program gets TensorFlow's own estimators."""
    if api == EstimatorApi.OURS:
        return False
    found = getattr(tf1, "estimator", None) is not None
    if api == EstimatorApi.TENSORFLOW and not found:
        sys.exit(f"TensorFlow {tf.__version__} has no Estimator; 2.15 is the last release with it.")
    return found


def _own_modules() -> dict[str, str]:
    """Returns the files of the program's modules, by name: not those of installed packages."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = (*map(sysconfig.get_path, names), _OURS, _OTHER)
    libraries = tuple(os.path.realpath(path) + os.sep for path in paths)
    found = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and name != "__main__":
            file = os.path.realpath(file)
            if not file.startswith(libraries):
                found[name] = file
    return found


def _run_as_it_is(options: RecordingOptions, script: str, arguments: Sequence[str]) -> None:
    sys.argv = [script, *arguments]
    if options.directory is not None:
        sys.path[0] = options.directory
        runpy.run_module(script, run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    runpy.run_path(script, run_name="__main__")


def _run_on_ours(options: RecordingOptions, script: str, arguments: Sequence[str]) -> None:
    """Runs the program with the removed names put back."""
    from estimator_spec.legacy import run

    if options.directory is None:
        command = run.parse([*options.run_options, script, *arguments])
    else:
        sys.path[0] = options.directory
        command = run.parse([*options.run_options, "-m", script, *arguments])
        command = command._replace(directory=options.directory)
    run.run(command)


if __name__ == "__main__":
    sys.path.pop(0)  # this folder's parent, which the program must not see
    main(sys.argv[1:])
