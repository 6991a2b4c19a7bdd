# SPDX-License-Identifier: Apache-2.0
"""Trains README's program, and checks that the wheel's C++ ops train it without a word.

    env -i python check_kernels.py
"""

from __future__ import annotations

import logging
import runpy
from pathlib import Path

import tensorflow as tf

from tpu_columns.kernels import libraries, loading

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Raises AssertionError if other ops train it, or a warning names them."""
    warnings: list[str] = []

    class Collected(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.append(record.getMessage())

    tf.get_logger().addHandler(Collected(logging.WARNING))
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"), run_name="__main__")
    about_kernels = [line for line in warnings if "kernels" in line]
    assert not about_kernels, about_kernels
    library, reasons = libraries.find(tf.__version__)
    assert library is not None and library.path.parent == libraries.OF_THE_WHEEL, reasons
    assert str(library.path) in Path("/proc/self/maps").read_text(encoding="utf-8"), "isn't loaded"
    assert loading.load() is not None
    print(f"TensorFlow {tf.__version__}: {library.path.name} trains")


if __name__ == "__main__":
    main()
