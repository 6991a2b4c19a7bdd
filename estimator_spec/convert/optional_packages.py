# SPDX-License-Identifier: Apache-2.0
"""Imports optional packages on first use."""

from __future__ import annotations

import importlib
from typing import Any


def load_extra(module: str, extra: str = "keras-rs") -> Any:
    """Imports an optional package.

    Args:
        module: name of the package.
        extra: the extra of this project that installs it.

    Raises:
        ImportError: the package isn't installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        raise ImportError(
            f"{module} isn't installed: pip install 'tpu-columns[{extra}]'", name=module
        ) from None
