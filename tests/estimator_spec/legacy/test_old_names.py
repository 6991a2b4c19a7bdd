# SPDX-License-Identifier: Apache-2.0
"""Names and what becomes of them, by the tables of `estimator_spec.legacy`."""

from __future__ import annotations

from estimator_spec.legacy import names, old_names
from estimator_spec.legacy.modules import resolve
from estimator_spec.legacy.name_rows import When
from estimator_spec.legacy.old_names import Fate


def every_old_name() -> list[str]:
    """Returns the full names of the tables, in every spelling."""
    rows = [row for row in names.rows() if row.when is When.ALWAYS]
    return [f"{module}.{row.name}" for row in rows for module in row.modules()]


def test_public_names_exist() -> None:
    """A name that a migration writes is there, and is what `install()` puts under the old one."""
    rows = {f"{m}.{row.name}": row.ours for row in names.rows() for m in row.modules()}
    for full in every_old_name():
        old = old_names.find(full, also_on_tpu=False)
        if old is not None and old.fate is Fate.PUBLIC:
            assert resolve(f"{old.module}.{old.name}") is resolve(rows[full]), full


def test_every_name_is_known() -> None:
    """Each old name of the tables is found in full, and none is called unsupported."""
    for full in every_old_name():
        old = old_names.find(full)
        assert old is not None, full
        assert old.length == len(full.split(".")), full
        assert old.fate is not Fate.UNSUPPORTED, full
