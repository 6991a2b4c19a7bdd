# SPDX-License-Identifier: Apache-2.0
"""Names and what becomes of them, by the tables of `estimator_spec.legacy`."""

from __future__ import annotations

import pytest

from estimator_spec.legacy import names
from estimator_spec.legacy.modules import resolve
from estimator_spec.legacy.name_rows import When
from estimator_spec.legacy.tf1 import is_only_in_tf1
from estimator_spec.migrate import old_names, tf1_names
from estimator_spec.migrate.old_names import Fate


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


def test_names_of_tensorflow_1() -> None:
    """The table of TensorFlow 1's names agrees with the installed TensorFlow."""
    names = tf1_names.NAMES.items()
    known = [f"{module}.{name}".lstrip(".") for module, listed in names for name in listed]
    assert len(known) > 500
    assert not [name for name in known if not is_only_in_tf1(name)]


@pytest.mark.parametrize(
    "name",
    ["Session", "train.AdamOptimizer", "summary.FileWriter", "tpu.experimental.embedding_column"],
)
def test_some_names_of_tensorflow_1(name: str) -> None:
    """Names that programs of TensorFlow 1 use are in the table."""
    assert tf1_names.is_only_in_tf1(name)


@pytest.mark.parametrize("name", ["nn.relu", "summary.scalar", "losses", "data.Dataset", "keras"])
def test_names_of_tensorflow_2(name: str) -> None:
    """Names of TensorFlow 2 aren't in the table."""
    assert not tf1_names.is_only_in_tf1(name)
