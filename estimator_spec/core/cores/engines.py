# SPDX-License-Identifier: Apache-2.0
"""Names the class that runs a TPU's embedding core; `estimator_spec/__init__.py` sets it.

The core can't import that class: it is made of the conversions, which are made of the core.
"""

from __future__ import annotations

import importlib
from typing import Any

of_a_tpu: str | None = None
"""Full name of an implementation of `cores.tpu.Engine`, called with a spec and a batch size."""


def load() -> Any:
    """Imports and returns that class.

    Raises:
        RuntimeError: there is none.
    """
    if of_a_tpu is None:
        raise RuntimeError(
            "No engine for a TPU's embedding core is registered. `import estimator_spec` registers "
            "that of TensorFlow's mid-level API, in `estimator_spec.convert`; install it, too."
        )
    module, _, name = of_a_tpu.rpartition(".")
    return getattr(importlib.import_module(module), name)
