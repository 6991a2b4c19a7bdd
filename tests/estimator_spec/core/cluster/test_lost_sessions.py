# SPDX-License-Identifier: Apache-2.0
"""Sessions of a chief that replace a lost one; see also test_faults.py, test_network_faults.py."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from estimator_spec import RunConfig
from estimator_spec.core.cluster import local_cluster
from estimator_spec.core.driver import sessions

tf1 = tf.compat.v1


class LoseOnce(tf1.train.SessionRunHook):
    """Raises the error of a lost connection in the second call of the session."""

    def __init__(self):
        self._calls = 0

    def before_run(self, run_context):
        """Raises the error."""
        self._calls += 1
        if self._calls == 2:
            raise tf.errors.UnavailableError(None, None, "Connection reset by peer")


@pytest.fixture(scope="module")
def cluster():
    """The addresses of a cluster whose servers are in this process."""
    ports = local_cluster.find_free_ports(3)
    jobs = ("chief", "worker", "ps")
    addresses = {job: [f"127.0.0.1:{port}"] for job, port in zip(jobs, ports, strict=True)}
    servers = [tf.distribute.Server(addresses, job) for job in jobs]
    yield addresses
    del servers


@pytest.mark.parametrize(("has_workers", "expected"), [(True, 7.0), (False, 3.0)])
def test_variables_that_the_server_has_still(cluster, monkeypatch, tmp_path, has_workers, expected):
    """With workers, which may have trained them, they stay; a chief alone repeats its steps."""
    known = {job: cluster[job] for job in cluster if has_workers or job != "worker"}
    task = {"type": "chief", "index": 0}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": known, "task": task}))
    config = RunConfig(model_dir=str(tmp_path))
    with tf.Graph().as_default(), tf1.device("/job:ps"):
        tf1.train.create_global_step()
        variable = tf1.get_variable(f"variable_{has_workers}", initializer=3.0)
        change = variable.assign(7.0)
        scaffold = tf1.train.Scaffold().finalize()
        with sessions.create_training_session(scaffold, config, [LoseOnce()], None) as session:
            scaffold.saver.save(session._tf_sess(), str(tmp_path / "model.ckpt"), global_step=0)
            session.run(change)
            assert session.run(variable) == expected
