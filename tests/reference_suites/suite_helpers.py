# SPDX-License-Identifier: Apache-2.0
"""Helpers of the reference's tests that its library holds: `head_utils`, `fake_summary_writer`."""

from __future__ import annotations

import collections
from typing import Any

import tensorflow as tf
from tensorflow.python.summary.writer import writer, writer_cache

tf1 = tf.compat.v1


def initialize_variables(test_case: Any, scaffold: Any) -> None:
    """Initializes all variables by a scaffold's ops, which must have no function of their own."""
    scaffold.finalize()
    assert (scaffold.init_feed_dict, scaffold.init_fn) == (None, None)
    scaffold.init_op.run()
    scaffold.ready_for_local_init_op.eval()
    scaffold.local_init_op.run()
    scaffold.ready_op.eval()
    assert scaffold.saver is not None


def assert_simple_summaries(
    test_case: Any, expected: dict[str, float], serialized: bytes, tol: float = 1e-6
) -> None:
    """Compares the scalars of a serialized summary."""
    found = {each.tag: each.simple_value for each in tf1.Summary.FromString(serialized).value}
    test_case.assertAllClose(expected, found, rtol=tol, atol=tol)


def assert_no_hooks(test_case: Any, spec: Any) -> None:
    """Asserts that a spec has no hooks of training."""
    assert [*spec.training_chief_hooks, *spec.training_hooks] == []


HEAD_UTILITIES = {
    "_DEFAULT_SERVING_KEY": tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY,
    "_initialize_variables": initialize_variables,
    "_assert_simple_summaries": assert_simple_summaries,
    "_assert_no_hooks": assert_no_hooks,
}


class FakeSummaryWriter:
    """A summary writer that keeps what it gets; `install` puts it in TensorFlow's place."""

    _replaced: type | None = None

    @classmethod
    def install(cls) -> None:
        """Makes `FileWriterCache` create these."""
        cls._replaced = writer.FileWriter
        writer.FileWriter = writer_cache.FileWriter = cls

    @classmethod
    def uninstall(cls) -> None:
        """Undoes `install`."""
        writer.FileWriter = writer_cache.FileWriter = cls._replaced

    def __init__(self, logdir: str, graph: Any = None) -> None:
        self._logdir, self._graph = logdir, graph
        self.summaries: dict[int, list[Any]] = collections.defaultdict(list)
        self._graphs: list[Any] = []
        self._meta_graphs: list[Any] = []
        self._session_logs: list[Any] = []
        self._added_run_metadata: dict[str, Any] = {}  # a test reads it

    def add_summary(self, summary: Any, global_step: int) -> None:
        """Keeps a summary, serialized or not."""
        if isinstance(summary, bytes):
            summary = tf1.Summary.FromString(summary)
        self.summaries[global_step].append(summary)

    def add_graph(self, graph: Any, **_: Any) -> None:
        """Keeps a graph."""
        self._graphs.append(graph)

    def add_meta_graph(self, meta_graph_def: Any, global_step: int | None = None) -> None:
        """Keeps a meta graph."""
        del global_step
        self._meta_graphs.append(meta_graph_def)

    def add_session_log(self, session_log: Any, global_step: int | None = None) -> None:
        """Keeps an entry of a session."""
        del global_step
        self._session_logs.append(session_log)

    def add_run_metadata(self, metadata: Any, tag: str, global_step: int | None = None) -> None:
        """Keeps the metadata of a run."""
        del global_step
        self._added_run_metadata[tag] = metadata

    def flush(self) -> None:
        """Does nothing."""

    reopen = close = flush

    def assert_summaries(
        self,
        test_case: Any,
        expected_logdir: str | None = None,
        expected_graph: Any = None,
        expected_summaries: dict[int, dict[str, float]] | None = None,
        expected_added_graphs: list[Any] | None = None,
        expected_added_meta_graphs: list[Any] | None = None,
        expected_session_logs: list[Any] | None = None,
    ) -> None:
        """Compares what was kept with what is expected of it; None: with nothing."""
        for expected, found in (
            (expected_logdir, self._logdir),
            (expected_graph, self._graph),
            (expected_added_graphs, self._graphs),
            (expected_session_logs, self._session_logs),
        ):
            if expected is not None:
                assert expected == found
        for step, expected in (expected_summaries or {}).items():
            values = [value for each in self.summaries[step] for value in each.value]
            # Written by a thread, so it isn't the same each time.
            found = {each.tag: each.simple_value for each in values}
            found.pop("global_step/sec", None)
            assert expected == found
        if expected_added_meta_graphs is not None:
            assert len(expected_added_meta_graphs) == len(self._meta_graphs)
            for expected, found in zip(expected_added_meta_graphs, self._meta_graphs, strict=True):
                tf1.test.assert_equal_graph_def(found.graph_def, expected.graph_def)
