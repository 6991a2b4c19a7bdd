# SPDX-License-Identifier: Apache-2.0
"""Specs to plan: a recommendation model of 26 tables, and small ones."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import estimator_spec as es

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "plan_dlrm.py"


def dict_spec(tables, parameters=None, **kwargs):
    """Returns a spec by dictionaries, with one feature for each table."""
    return es.EmbeddingConfigSpec(
        feature_to_config_dict={f"of_{name}": es.FeatureConfig(name) for name in tables},
        table_to_config_dict=tables,
        optimization_parameters=parameters or es.AdagradParameters(0.1),
        **kwargs,
    )


@pytest.fixture(scope="session")
def make_spec():
    """Returns the function that makes a spec of tables by name."""
    return dict_spec


@pytest.fixture(scope="session")
def dlrm():
    """Returns the example's spec of 26 tables and 209 GB, trained by Adagrad."""
    return runpy.run_path(str(EXAMPLE))["spec"]
