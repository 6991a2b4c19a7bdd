# SPDX-License-Identifier: Apache-2.0
"""The routing rule: every combination, and its effect on columns."""

from __future__ import annotations

import itertools
import re

import pytest
import tensorflow as tf

import tpu_columns
from tpu_columns import Hardware, LookupDevice, Mode, placement, route

CPU, TENSOR, CORE = LookupDevice
TRAINING = 'embedding_lookup_device="cpu" during training is not supported'
SERVING = "Using embedding_lookup_device=tpu_embedding_core during inference is not supported"


def column(device=None):
    """Returns a column that requests a device."""
    return tpu_columns.embedding_column(
        tf.feature_column.categorical_column_with_identity("a", 10),
        4,
        embedding_lookup_device=device,
        tensor_core_shape=[None, 3],
    )


def expected(device, mode, hardware):
    """Returns the result by the cases of the documentation, independently of the package."""
    if device is CPU and mode is Mode.TRAIN:
        return TRAINING
    if hardware is Hardware.CPU:
        return CPU
    if device is CORE and mode is Mode.SERVE:
        return SERVING
    if device is None:
        return CPU if mode is Mode.SERVE else CORE
    return device


@pytest.mark.parametrize(
    "device, mode, hardware", itertools.product([None, *LookupDevice], Mode, Hardware)
)
def test_every_combination(device, mode, hardware):
    """Each combination of device, mode and hardware has its device or its message."""
    want = expected(device, mode, hardware)
    if isinstance(want, LookupDevice):
        assert route(column(device), mode, hardware) is want
    else:
        with pytest.raises(ValueError, match=f"'a_embedding'.*{re.escape(want)}"):
            route(column(device), mode, hardware)


def test_the_docstring_table_is_true():
    """The table in route's docstring equals its results."""
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in route.__doc__.splitlines()
        if line.strip().startswith("|") and "---" not in line
    ]
    header, *rows = rows
    assert header[2:] == [mode.name for mode in Mode]
    assert len(rows) == 8
    for device, hardware, *cells in rows:
        requested = None if device == "None" else LookupDevice(device)
        for mode, cell in zip(Mode, cells, strict=True):
            try:
                found = route(column(requested), mode, Hardware[hardware]).value
            except ValueError:
                found = "error"
            assert found == cell, (device, hardware, mode)


def test_a_column_of_another_kind_has_no_wish():
    """A numeric column is routed like a column that requests no device."""
    numeric = tf.feature_column.numeric_column("n")
    assert route(numeric, Mode.TRAIN, Hardware.CPU) is CPU


def test_wrong_types_are_refused():
    """Mode and hardware must be members of their enums."""
    with pytest.raises(TypeError, match="mode must be"):
        route(column(), "train", Hardware.CPU)
    with pytest.raises(TypeError, match="hardware must be"):
        route(column(), Mode.TRAIN, "cpu")
    with pytest.raises(TypeError, match="takes a Mode and a Hardware"), placement.running(1, 2):
        pass


def test_placement_is_of_its_context():
    """running() nests, and restores the previous placement, also after an error."""
    assert placement.current() is None
    with placement.running(Mode.TRAIN, Hardware.TPU):
        with placement.running(Mode.SERVE, Hardware.CPU):
            assert placement.current() == placement.RunPlacement(Mode.SERVE, Hardware.CPU)
        assert placement.current() == placement.RunPlacement(Mode.TRAIN, Hardware.TPU)
        with pytest.raises(RuntimeError), placement.running(Mode.EVAL, Hardware.CPU):
            raise RuntimeError
        assert placement.current() == placement.RunPlacement(Mode.TRAIN, Hardware.TPU)
    assert placement.current() is None


def test_a_graph_is_built_as_routed():
    """A cpu column is an error in a training graph and looks up in a prediction graph."""
    with tf.Graph().as_default():
        features = {"a": tf.constant([[1]])}
        with (
            placement.running(Mode.TRAIN, Hardware.CPU),
            pytest.raises(ValueError, match=re.escape(TRAINING)),
        ):
            tpu_columns.input_layer(features, [column("cpu")])
        with placement.running(Mode.PREDICT, Hardware.CPU):
            tensor = tpu_columns.input_layer(features, [column("cpu")])
    assert tensor.shape[1] == 4


def test_small_tables_move_only_columns_without_a_device():
    """Columns of `tensor_core_tables` use the tensor core unless they request a device."""
    table = column().get_embedding_var_name()
    with placement.running(Mode.EVAL, Hardware.TPU, [table]):
        assert placement.current_device(column()) is TENSOR
        assert placement.current_device(column(CPU)) is CPU
        assert placement.current_device(column(CORE)) is CORE
    with placement.running(Mode.EVAL, Hardware.TPU, ["another"]):
        assert placement.current_device(column()) is CORE


@pytest.mark.parametrize("mode", Mode)
def test_tables_are_updated_in_training_only(mode):
    """`updates_tables` is true in training, and outside of a driver."""
    assert placement.updates_tables()
    with placement.running(mode, Hardware.CPU):
        assert placement.updates_tables() == (mode is Mode.TRAIN)
