# SPDX-License-Identifier: Apache-2.0
"""TPUConfig: eleven checked fields of a named tuple."""

from __future__ import annotations

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator_spec import InputPipelineConfig, TPUConfig
from estimator_spec.core.run_config.tpu_config import parse_iterations_per_loop

pytestmark = pytest.mark.usefixtures("no_tf_config")

BAD = [
    ({"iterations_per_loop": 0}, ValueError, "Invalid TPUConfig `iterations_per_loop` value"),
    ({"iterations_per_loop": -1}, ValueError, "Value must be positive"),
    ({"iterations_per_loop": "5x"}, ValueError, "Invalid TPUConfig `iterations_per_loop`"),
    ({"iterations_per_loop": 1.5}, ValueError, "Invalid TPUConfig `iterations_per_loop`"),
    ({"iterations_per_loop": None}, ValueError, "Invalid TPUConfig `iterations_per_loop`"),
    ({"num_shards": 0}, ValueError, "TPUConfig num_shards must be positive"),
    ({"num_shards": 1.0}, TypeError, "TPUConfig num_shards must be int"),
    (
        {"initial_infeed_sleep_secs": -1},
        ValueError,
        "TPUConfig initial_infeed_sleep_secs must be positive",
    ),
    ({"num_cores_per_replica": 3}, ValueError, "num_cores_per_replica must be 1, 2, 4, 8"),
    (
        {"eval_training_input_configuration": InputPipelineConfig.BROADCAST},
        ValueError,
        "eval_training_input_configuration must be PER_HOST_V1 or SLICED",
    ),
    (
        {"input_partition_dims": [[1], [1], [1]]},
        ValueError,
        "input_partition_dims must be a list/tuple with one or two",
    ),
    (
        {"input_partition_dims": [[1]]},
        ValueError,
        "input_partition_dims is only supported in PER_HOST_V2 mode",
    ),
    (
        {"input_partition_dims": [[1]], "per_host_input_for_training": 3},
        ValueError,
        "input_partition_dims requires setting num_cores_per_replica",
    ),
]


class TestTPUConfig:
    def test_defaults(self):
        """The eleven fields and their defaults."""
        assert TPUConfig()._asdict() == {
            "iterations_per_loop": 2,
            "num_shards": None,
            "num_cores_per_replica": None,
            "per_host_input_for_training": InputPipelineConfig.PER_HOST_V1,
            "tpu_job_name": None,
            "initial_infeed_sleep_secs": None,
            "input_partition_dims": None,
            "eval_training_input_configuration": InputPipelineConfig.PER_HOST_V1,
            "experimental_host_call_every_n_steps": 1,
            "experimental_allow_per_host_v2_parallel_get_next": False,
            "experimental_feed_hook": None,
        }

    def test_positional_as_old_programs_pass_them(self):
        """`TPUConfig(iterations, num_shards)` works."""
        assert TPUConfig(100, 8)[:2] == (100, 8)

    @pytest.mark.parametrize("values, error, message", BAD)
    def test_bad_values_are_refused(self, values, error, message):
        """The constructor and `_replace` refuse invalid values with the field's message."""
        with pytest.raises(error, match=message):
            TPUConfig(**values)
        with pytest.raises(error, match=message):
            TPUConfig()._replace(**values)

    def test_no_steps_between_host_calls(self):
        """A host call every 0 steps is refused here; the old class fails in training."""
        message = "TPUConfig experimental_host_call_every_n_steps must be positive"
        with pytest.raises(ValueError, match=message):
            TPUConfig(experimental_host_call_every_n_steps=0)

    @given(value=st.integers(1), unit=st.sampled_from(["s", "m", "h"]))
    def test_loops_of_steps_or_of_time(self, value, unit):
        """A number is a count of steps; a number with a unit is a duration in seconds."""
        assert parse_iterations_per_loop(value) == (value, "count")
        assert parse_iterations_per_loop(str(value)) == (value, "count")
        seconds = value * {"s": 1, "m": 60, "h": 3600}[unit]
        assert parse_iterations_per_loop(f"{value}{unit}") == (seconds, "seconds")
        assert TPUConfig(f"{value}{unit}").iterations_per_loop == f"{value}{unit}"

    @given(text=st.text(max_size=6))
    def test_other_texts_are_refused(self, text):
        """Only digits without a leading 0 and at most one unit are accepted."""
        digits = text[:-1] if text[-1:] in ("s", "m", "h") else text
        good = digits.isascii() and digits.isdigit() and not digits.startswith("0")
        if good:
            parse_iterations_per_loop(text)
        else:
            with pytest.raises(ValueError, match="iterations_per_loop"):
                parse_iterations_per_loop(text)

    def test_numbers_of_numpy(self):
        """NumPy integers are accepted."""
        assert TPUConfig(np.int64(5), np.int32(8)).num_shards == 8

    def test_true_and_false_are_old_names(self):
        """True and False of `per_host_input_for_training` become PER_HOST_V1 and PER_SHARD_V1."""
        per_host = "per_host_input_for_training"
        assert TPUConfig()._replace(**{per_host: True}).per_host_input_for_training == 2
        assert TPUConfig(**{per_host: False}).per_host_input_for_training == 1
        assert TPUConfig(**{per_host: 3}).per_host_input_for_training == 3

    def test_partitioned_input(self):
        """`input_partition_dims` is accepted with PER_HOST_V2 and `num_cores_per_replica`."""
        config = TPUConfig(
            num_cores_per_replica=2,
            per_host_input_for_training=InputPipelineConfig.PER_HOST_V2,
            input_partition_dims=[{"x": [1, 2]}, None],
        )
        assert config.input_partition_dims == [{"x": [1, 2]}, None]

    def test_it_is_a_named_tuple(self):
        """Indexing, unpacking, equality, copies and pickles work."""
        config = TPUConfig(5, num_shards=4)
        assert config[0] == 5
        assert len(config) == len(TPUConfig._fields) == 11
        assert config == TPUConfig(5, 4) != TPUConfig(6, 4)
        assert copy.deepcopy(config) == pickle.loads(pickle.dumps(config)) == config
        assert repr(config).startswith("TPUConfig(iterations_per_loop=5, num_shards=4, ")

    def test_job_name_of_tf_config(self, monkeypatch):
        """The job name in TF_CONFIG is the default of `tpu_job_name`."""
        service = {"service": {"tpu_worker_job_name": "tpus"}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(service))
        assert TPUConfig().tpu_job_name == "tpus"
        assert TPUConfig(tpu_job_name="mine").tpu_job_name == "mine"


@pytest.mark.reference
class TestAgainstTheOldClass:
    def test_signature(self, old_estimator, compare):
        """Names, order and defaults of all arguments equal TensorFlow 2.15's."""
        assert compare.parameters(TPUConfig) == compare.parameters(old_estimator.tpu.TPUConfig)
        assert tuple(TPUConfig()) == tuple(old_estimator.tpu.TPUConfig())

    def test_input_pipelines(self, old_estimator):
        """The values of `InputPipelineConfig` equal TensorFlow 2.15's."""
        theirs = old_estimator.tpu.InputPipelineConfig
        for name in ("PER_SHARD_V1", "PER_HOST_V1", "PER_HOST_V2", "BROADCAST", "SLICED"):
            assert getattr(theirs, name) == getattr(InputPipelineConfig, name)

    @pytest.mark.parametrize("values, error, message", BAD)
    def test_bad_tpu_values(self, old_estimator, compare, values, error, message):
        """TensorFlow 2.15 refuses the same values with the same words."""
        del error
        compare.refuse_alike(TPUConfig, old_estimator.tpu.TPUConfig, message, **values)
