# SPDX-License-Identifier: Apache-2.0
"""The names that TensorFlow removed, for programs that nobody has edited.

`names` is the table, `installation` puts it in place, `missing` says what to use instead of a name
that isn't there. docs/legacy_names.md is made from the table by `document`.
"""

from __future__ import annotations

from estimator_spec.legacy.errors import LegacyAttributeError, LegacyImportError
from estimator_spec.legacy.installation import install, uninstall

__all__ = ["LegacyAttributeError", "LegacyImportError", "install", "uninstall"]
