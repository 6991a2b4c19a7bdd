# SPDX-License-Identifier: Apache-2.0
"""Exports of the exporters; the same tests run on TensorFlow 2.15's exporters."""

from __future__ import annotations

import functools
import os

import pytest
import tensorflow as tf

import estimator_spec as es

tf1 = tf.compat.v1


class Exported:
    """Fake Estimator whose exports are directories, one second apart.

    Args:
        model_dir: directory of the model.
    """

    def __init__(self, model_dir):
        self.model_dir = str(model_dir)
        self.now = 1_600_000_000
        self.calls = []

    def export_saved_model(self, export_dir_base, serving_input_receiver_fn, **kwargs):
        path = os.path.join(export_dir_base, str(self.now))
        os.makedirs(path)
        self.now += 1
        self.calls.append((export_dir_base, serving_input_receiver_fn, kwargs))
        return path.encode()


@pytest.fixture
def model(tmp_path):
    """Fake Estimator in a temporary directory."""
    (tmp_path / "export").mkdir()
    return Exported(tmp_path)


def export(exporter, model, result=None, final=False, checkpoint="model.ckpt-1"):
    """Calls an exporter after an evaluation."""
    return exporter.export(
        model, os.path.join(model.model_dir, "export"), checkpoint, result or {"loss": 1.0}, final
    )


def kept(model):
    """Returns the numbers of the kept exports."""
    names = sorted(os.listdir(os.path.join(model.model_dir, "export")))
    return [int(name) - 1_600_000_000 for name in names if len(name) == 10]


def test_latest_exports_every_time(api, model):
    """LatestExporter exports after every evaluation, with its arguments."""
    receiver_fn = lambda: None  # noqa: E731
    exporter = api.LatestExporter("latest", receiver_fn, {"a/b": "/c"}, as_text=True)
    assert exporter.name == "latest"
    paths = [export(exporter, model), export(exporter, model, final=True, checkpoint="c-2")]
    assert [os.path.basename(path) for path in paths] == [b"1600000000", b"1600000001"]
    base, given_fn, kwargs = model.calls[1]
    assert base == os.path.join(model.model_dir, "export")
    assert given_fn is receiver_fn
    assert kwargs == {"assets_extra": {"a/b": "/c"}, "as_text": True, "checkpoint_path": "c-2"}


@pytest.mark.parametrize("kind", ["LatestExporter", "FinalExporter"])
@pytest.mark.parametrize("place", ["/nowhere/export", "gs://bucket/export", None, "elsewhere"])
def test_a_path_of_the_estimators_own(api, model, monkeypatch, tmp_path, kind, place):
    """A wrapper's export that is elsewhere is returned, and no file is written there."""
    if place == "elsewhere":
        (tmp_path / place).mkdir()
        place = str(tmp_path / place)
    monkeypatch.setattr(model, "export_saved_model", lambda *_, **kwargs: place)
    exporter = getattr(api, kind)("name", lambda: None)
    assert export(exporter, model, final=True) == place
    assert place is None or not os.path.exists(place) or not os.listdir(place)


def test_latest_keeps_five(api, model):
    """Older exports are deleted, other files are not."""
    others = {"temp-1500000000", "1234", "notes"}
    for name in others:
        os.makedirs(os.path.join(model.model_dir, "export", name))
    exporter = api.LatestExporter("latest", None)
    for _ in range(8):
        export(exporter, model)
    assert kept(model) == [3, 4, 5, 6, 7]
    assert others <= set(os.listdir(os.path.join(model.model_dir, "export")))


@pytest.mark.parametrize(("keep", "left"), [(1, [3]), (3, [1, 2, 3]), (None, [0, 1, 2, 3])])
def test_how_many_are_kept(api, model, keep, left):
    """exports_to_keep keeps the newest exports; None keeps all."""
    exporter = api.LatestExporter("latest", None, exports_to_keep=keep)
    for _ in range(4):
        export(exporter, model)
    assert kept(model) == left


def test_a_deletion_that_somebody_else_did(api, model, monkeypatch):
    """An export that another process deleted is no error."""
    exporter = api.LatestExporter("latest", None, exports_to_keep=1)
    export(exporter, model)

    def gone(path):
        raise tf.errors.NotFoundError(None, None, f"{path} is gone")

    monkeypatch.setattr(tf.io.gfile, "rmtree", gone)
    monkeypatch.setattr(tf1.gfile, "DeleteRecursively", gone)
    assert export(exporter, model) is not None


@pytest.mark.parametrize("kind", ["LatestExporter", "BestExporter"])
@pytest.mark.parametrize("keep", [0, -1])
def test_none_is_too_few(api, kind, keep):
    """exports_to_keep must be positive or None."""
    with pytest.raises(ValueError, match="`exports_to_keep`, if provided, must be"):
        getattr(api, kind)("name", None, exports_to_keep=keep)


def test_a_fraction_is_no_number_of_exports():
    """exports_to_keep must be an int: with 2.5, deleting old exports would fail in training."""
    with pytest.raises(ValueError, match="must be a positive number.*an int.*2.5"):
        es.LatestExporter("latest", None, exports_to_keep=2.5)


def test_final_exports_at_the_end(api, model):
    """FinalExporter exports only after the last evaluation, and deletes nothing."""
    exporter = api.FinalExporter("final", None, assets_extra={"a": "b"})
    assert exporter.name == "final"
    assert export(exporter, model) is None
    assert model.calls == []
    for _ in range(7):
        assert export(exporter, model, final=True)
    assert len(kept(model)) == 7
    assert model.calls[0][2]["assets_extra"] == {"a": "b"}


def losses(exporter, model, *values):
    """Returns the losses of a sequence that are exported."""
    return [value for value in values if export(exporter, model, {"loss": value}) is not None]


def test_best_by_the_loss(api, model):
    """BestExporter exports the first evaluation and each with a smaller loss than all before."""
    exporter = api.BestExporter(serving_input_receiver_fn=None)
    assert exporter.name == "best_exporter"
    assert losses(exporter, model, 5.0, 6.0, 4.0, 4.0, 4.5, 3.0) == [5.0, 4.0, 3.0]


def test_best_by_another_metric(api, model):
    """compare_fn may be a function, a partial or a callable object."""

    def higher(metric, best_eval_result, current_eval_result):
        return best_eval_result[metric] < current_eval_result[metric]

    exporter = api.BestExporter(
        "best", lambda: None, compare_fn=functools.partial(higher, "auc"), exports_to_keep=1
    )
    results = [{"loss": 1.0, "auc": auc} for auc in (0.5, 0.7, 0.6, 0.8)]
    found = [export(exporter, model, result) is not None for result in results]
    assert found == [True, True, False, True]
    assert kept(model) == [2]


@pytest.mark.parametrize(
    ("compare_fn", "message"),
    [
        (None, "`compare_fn` must not be None"),
        (lambda current_eval_result: True, "must include best_eval_result argument"),
        (lambda best_eval_result: True, "must include current_eval_result argument"),
        (
            lambda best_eval_result, current_eval_result, step: True,
            "has following not expected args: ..step",
        ),
    ],
)
def test_compare_fn_is_checked(api, compare_fn, message):
    """compare_fn must have the two arguments, by name."""
    with pytest.raises(ValueError, match=message):
        api.BestExporter("best", None, compare_fn=compare_fn)


def test_best_needs_a_loss(api, model):
    """Results without a loss are refused if there is no compare_fn."""
    exporter = api.BestExporter("best", None)
    export(exporter, model, {"loss": 1.0})
    with pytest.raises(ValueError, match="current_eval_result cannot be empty or no loss is found"):
        export(exporter, model, {"auc": 1.0})


def test_best_without_results(api, model):
    """Without an evaluation's result every export counts as the best so far."""
    exporter = api.BestExporter("best", None)
    path = os.path.join(model.model_dir, "export")
    for _ in range(2):
        assert exporter.export(model, path, "model.ckpt-1", None, False)
