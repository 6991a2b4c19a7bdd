# SPDX-License-Identifier: Apache-2.0
"""Conditions under which a TPU program runs on the host."""

from __future__ import annotations

import os

import pytest
import tensorflow as tf

from estimator_spec.core.run_config import host_fallback
from tpu_columns import environment


@pytest.fixture(autouse=True)
def no_former_name(monkeypatch):
    """The variable's former name is unset."""
    monkeypatch.delenv("ESTIMATOR_SPEC_CPU", raising=False)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, False),
        ("", False),
        ("0", False),
        ("1", True),
        ("auto", True),
        ("replicas", True),
    ],
)
def test_the_environment_says_when(monkeypatch, value, expected):
    """The variable selects the host; `auto` does on a machine without a TPU."""
    monkeypatch.delenv(environment.CPU, raising=False)
    if value is not None:
        monkeypatch.setenv(environment.CPU, value)
    assert host_fallback.host_instead_of_tpu() is expected
    assert host_fallback.replicas_instead_of_tpu() is (value == "replicas")


def test_auto_takes_a_tpu_where_there_is_one(monkeypatch):
    """`auto` doesn't select the host on a machine with a TPU."""
    monkeypatch.setenv(environment.CPU, "auto")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: ["/device:TPU:0"])
    assert not host_fallback.host_instead_of_tpu()


def test_another_value_is_refused(monkeypatch):
    """An unknown value of the variable is refused."""
    monkeypatch.setenv(environment.CPU, "yes")
    with pytest.raises(ValueError, match="TPU_COLUMNS_CPU is 'yes'.*'auto'"):
        host_fallback.host_instead_of_tpu()


def test_choice_for_children(monkeypatch):
    """`choose_host` sets the environment variable, which child processes inherit."""
    monkeypatch.setenv(environment.CPU, "0")
    host_fallback.choose_host(host_fallback.Host.ALWAYS)
    assert host_fallback.host_instead_of_tpu()
    assert os.environ[environment.CPU] == "1"


@pytest.mark.parametrize(
    ("now", "former", "expected"), [(None, "1", True), ("0", "1", False), ("1", "0", True)]
)
def test_former_name_of_the_variable(monkeypatch, now, former, expected):
    """ESTIMATOR_SPEC_CPU, the variable's former name, counts where TPU_COLUMNS_CPU is unset."""
    monkeypatch.delenv(environment.CPU, raising=False)
    if now is not None:
        monkeypatch.setenv(environment.CPU, now)
    monkeypatch.setenv("ESTIMATOR_SPEC_CPU", former)
    assert host_fallback.host_instead_of_tpu() is expected
