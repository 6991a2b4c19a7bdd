# SPDX-License-Identifier: Apache-2.0
"""Restores the names that TensorFlow removed, for unedited programs.

`names` holds the table, `installation` installs it, `unsupported_names` holds advice on names that
aren't restored. `names_page` generates docs/legacy_names.md from both.
"""

from __future__ import annotations

from estimator_spec.legacy.errors import LegacyAttributeError, LegacyImportError
from estimator_spec.legacy.installation import install, uninstall

__all__ = ["LegacyAttributeError", "LegacyImportError", "install", "uninstall"]
