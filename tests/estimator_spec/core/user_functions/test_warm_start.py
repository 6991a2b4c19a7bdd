# SPDX-License-Identifier: Apache-2.0
"""Warm-start settings, and values of an estimator's `warm_start_from`."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import tensorflow as tf

from estimator_spec import VocabInfo, WarmStartSettings
from estimator_spec.core.user_functions.warm_start import default_warm_start_settings


def test_defaults():
    """Defaults: all trainable variables, under their own names."""
    settings = WarmStartSettings("/c")
    assert settings == ("/c", ".*", {}, {})
    assert settings._fields == (
        "ckpt_to_initialize_from",
        "vars_to_warm_start",
        "var_name_to_vocab_info",
        "var_name_to_prev_var_name",
    )


def test_copies():
    """Copies, pickles and `_replace` keep the values."""
    vocabulary = VocabInfo("/new", 3, 0, "/old", 2)
    settings = WarmStartSettings("/c", ["a"], {"v": vocabulary}, {"v": "w"})
    assert copy.deepcopy(settings) == pickle.loads(pickle.dumps(settings)) == settings
    assert settings._replace(vars_to_warm_start=None).vars_to_warm_start is None


def test_vocab_info_is_tensorflows():
    """VocabInfo is TensorFlow's class."""
    assert VocabInfo is tf.compat.v1.train.VocabInfo


@pytest.mark.parametrize("path", ["/tmp/model", b"/tmp/model", Path("/tmp/model")])
def test_a_path(path):
    """A path of any type warm-starts all trainable variables."""
    assert default_warm_start_settings(path) == WarmStartSettings("/tmp/model")


def test_none_and_settings():
    """None means no warm start; settings are returned unchanged."""
    assert default_warm_start_settings(None) is None
    settings = WarmStartSettings("/c", "layer.*")
    assert default_warm_start_settings(settings) is settings


def test_a_saved_model(tmp_path):
    """The directory of a SavedModel becomes the prefix of its variables."""
    tf.saved_model.save(tf.train.Checkpoint(v=tf.Variable(1.0)), str(tmp_path))
    for path in (tmp_path, str(tmp_path), bytes(tmp_path)):
        settings = default_warm_start_settings(path)
        assert settings.ckpt_to_initialize_from == str(tmp_path / "variables" / "variables")
        assert tf.train.load_checkpoint(settings.ckpt_to_initialize_from)


@pytest.mark.parametrize("wrong", [3, ["/c"], {"ckpt_to_initialize_from": "/c"}, ("/c", ".*")])
def test_other_things(wrong):
    """The error of another type names it."""
    with pytest.raises(ValueError, match="warm_start_from must be a string or a WarmStartSettings"):
        default_warm_start_settings(wrong)


def test_an_empty_path():
    """An empty path is refused."""
    with pytest.raises(ValueError, match="MUST be set"):
        default_warm_start_settings("")


@pytest.mark.reference
class TestAgainstTheOldClass:
    def test_signature(self, old_estimator, compare):
        """Names, order and defaults of all arguments equal TensorFlow 2.15's."""
        old = old_estimator.WarmStartSettings
        assert compare.parameters(WarmStartSettings) == compare.parameters(old)
        assert WarmStartSettings("/c") == old("/c")

    def test_its_settings_are_accepted(self, old_estimator):
        """TensorFlow 2.15's settings are accepted."""
        settings = default_warm_start_settings(old_estimator.WarmStartSettings("/c", "a.*"))
        assert settings == WarmStartSettings("/c", "a.*")
        assert type(settings) is WarmStartSettings

    @pytest.mark.parametrize("checkpoint", ["", None])
    def test_refusals(self, old_estimator, compare, checkpoint):
        """TensorFlow 2.15 refuses the same settings with the same words."""
        message = "`ckpt_to_initialize_from` MUST be set in WarmStartSettings"
        old = old_estimator.WarmStartSettings
        compare.refuse_alike(WarmStartSettings, old, message, checkpoint)
