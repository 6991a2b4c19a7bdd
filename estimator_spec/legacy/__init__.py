# SPDX-License-Identifier: Apache-2.0
"""Restores the names that TensorFlow removed, for unedited programs.

The tables are data, which `name_rows` reads: `estimator_names`, `canned_names`, `head_names`,
`tpu_names`, `contrib_names` and `contrib_learn_names` say where each old name leads (TensorFlow's
own name, ours, or a library), `unsupported_names` has advice on the rest. `names` assembles the
tables; `installation`
puts their names into modules (`modules`), `stand_ins` replaces what they lack, and `check` compares
a program's source with them. docs/make_legacy_names.py generates docs/legacy_names.md. `run` is the
command; `tf1` and `child_processes` serve it. `doctor` is the command that checks an installation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpu_columns import lazy_names

if TYPE_CHECKING:
    # isort: off
    from estimator_spec.legacy.installation import (
        install as install,
        uninstall as uninstall,
    )
    from estimator_spec.legacy.restoration import restored as restored
    from estimator_spec.legacy.stand_ins import (
        LegacyAttributeError as LegacyAttributeError,
        LegacyImportError as LegacyImportError,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names.attach(__name__)
