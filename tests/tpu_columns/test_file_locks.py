# SPDX-License-Identifier: Apache-2.0
"""Systems without locks of files."""

from __future__ import annotations

import importlib
import sys

import pytest

from tpu_columns import file_locks


def test_a_system_without_fcntl(monkeypatch):
    """Where Python has no fcntl, as on Windows, the error names the systems that have it."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(ImportError, match="need Linux or macOS"):
        importlib.reload(file_locks)
