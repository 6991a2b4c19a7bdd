# SPDX-License-Identifier: Apache-2.0
"""Names the class that runs a TPU's embedding core; `estimator_spec/__init__.py` registers it.

The core can't import that class: it is made of the conversions, which are made of the core.
"""

from __future__ import annotations

import importlib
from typing import Any

_of_a_tpu: list[tuple[str, str]] = []


def register(module: str, name: str) -> None:
    """Registers an implementation of `cores.tpu.Engine`, called as `name(spec, batch_size)`.

    Args:
        module: full name of its module, which is imported when a TPU is used.
        name: the class' name.
    """
    _of_a_tpu[:] = [(module, name)]


def load() -> Any:
    """Imports and returns the registered class.

    Raises:
        RuntimeError: there is none.
    """
    if not _of_a_tpu:
        raise RuntimeError(
            "No engine for a TPU's embedding core is registered. `import estimator_spec` registers "
            "that of TensorFlow's mid-level API, in `estimator_spec.convert`; install it, too."
        )
    ((module, name),) = _of_a_tpu
    return getattr(importlib.import_module(module), name)
