# SPDX-License-Identifier: Apache-2.0
"""Options of a recording, passed to its process as JSON."""

from __future__ import annotations

import dataclasses
import enum

# Format of recordings; a reader refuses others.
FORMAT = 1
# File of a recording that holds everything but its arrays, and the folder of these.
RECORD = "record.json"
VALUES = "values"


class EstimatorApi(str, enum.Enum):
    """Estimator classes that a program gets.

    OURS: this project's, with the removed names put back.
    TENSORFLOW: those of TensorFlow up to 2.15.
    AUTO: TensorFlow's where it has some, else this project's.
    """

    AUTO = "auto"
    OURS = "ours"
    TENSORFLOW = "tensorflow"


@dataclasses.dataclass(frozen=True)
class Limits:
    """Limits of a recording, and what its program starts from.

    Attributes:
        steps: number of steps after which each training stops; None doesn't limit them. Where a
            session call makes a loop of steps, it is the number of loops.
        eval_steps: number of batches after which each evaluation stops; None doesn't limit it.
        examples: number of predictions of each `predict` that are kept.
        max_elements: number of elements of an array that are kept; of a larger array, evenly
            spaced rows.
        seed: seed of Python's and NumPy's random numbers, and of configurations without one.
        checkpoint: checkpoint from which the first training starts, and with which the program
            predicts and evaluates before it. None leaves that to the program.

    Raises:
        ValueError: a number isn't positive.
    """

    steps: int | None = 20
    eval_steps: int | None = None
    examples: int = 1000
    max_elements: int = 1 << 24
    seed: int = 1
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        for name in ("steps", "eval_steps", "examples", "max_elements"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} is {value}; it must be positive.")


@dataclasses.dataclass(frozen=True)
class RecordingOptions(Limits):
    """Options of a recording.

    Attributes:
        out: directory of the recording.
        run_dir: directory of what the program writes; other `model_dir`s and export directories
            are replaced by ones inside it.
        api: the estimator classes that the program gets.
        run_options: options of `python -m estimator_spec run`, where it runs on our estimators.
        initial_values: directory of the recording whose initial values trainings start with; None
            leaves them as they are.
        directory: the program is a module, and this directory is first on its path. None: it is
            a file.
    """

    out: str = ""
    run_dir: str = ""
    api: EstimatorApi = EstimatorApi.AUTO
    run_options: tuple[str, ...] = ()
    initial_values: str | None = None
    directory: str | None = None
