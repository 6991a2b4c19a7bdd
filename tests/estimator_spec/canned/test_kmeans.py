# SPDX-License-Identifier: Apache-2.0
"""K-means: its results against NumPy's, arguments, and what is refused.

`tests/reference/test_kmeans.py` compares it with TensorFlow 2.15.1's.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf

import estimator_spec as es
from estimator_spec.experimental import KMeans
from estimator_spec.legacy.contrib import factorization as contrib_factorization

tf1 = tf.compat.v1

POINTS = np.random.RandomState(2).normal(size=(40, 3)).astype(np.float32)


def input_fn():
    """Returns ten points after the other, without end."""
    return tf.data.Dataset.from_tensor_slices(POINTS).repeat().batch(10)


def all_points():
    """Returns all points once."""
    return tf.data.Dataset.from_tensors(POINTS)


def moved(centers, counts, points):
    """Returns centers after a mini-batch, by the formula of the documentation."""
    nearest = ((points[:, None] - centers[None]) ** 2).sum(-1).argmin(1)
    for center in np.unique(nearest):
        own = points[nearest == center]
        total = counts[center] * centers[center] + own.sum(0)
        counts[center] += len(own)
        centers[center] = total / counts[center]
    return centers


@pytest.mark.parametrize("steps", [1, 4])
def test_mini_batches(tmp_path, steps):
    """Each batch moves its centers by the formula, in every run, whatever threads do."""
    first = POINTS[:4]
    kmeans = KMeans(4, tmp_path, first, mini_batch_steps_per_iteration=steps)
    kmeans.train(input_fn, steps=4)
    centers, counts = first.copy(), np.full(4, float(steps == 1))
    if steps == 1:
        for n in range(4):
            centers = moved(centers, counts, POINTS[10 * n : 10 * n + 10])
        np.testing.assert_allclose(kmeans.cluster_centers(), centers, rtol=1e-5)
        return
    np.testing.assert_array_equal(kmeans.cluster_centers(), first)
    nearest = ((POINTS[:, None] - first[None]) ** 2).sum(-1).argmin(1)
    means = [POINTS[nearest == n].mean(0) for n in range(4)]
    np.testing.assert_allclose(kmeans.get_variable_value("clusters_updated"), means, rtol=1e-5)
    kmeans.train(input_fn, steps=1)
    np.testing.assert_allclose(kmeans.cluster_centers(), means, rtol=1e-5)


def test_predictions(tmp_path):
    """Indices, distances and the score are those of the centers."""
    kmeans = KMeans(5, tmp_path, seed=1, use_mini_batch=False)
    kmeans.train(all_points)
    centers = kmeans.cluster_centers()
    distances = np.linalg.norm(POINTS[:, None] - centers[None], axis=-1)
    np.testing.assert_allclose(list(kmeans.transform(all_points)), distances, atol=5e-3)
    assert list(kmeans.predict_cluster_index(all_points)) == distances.argmin(1).tolist()
    assert kmeans.score(all_points) == pytest.approx((distances.min(1) ** 2).sum(), rel=1e-5)


def test_one_batch(tmp_path):
    """The first centers take a batch; where it was the only one, the next training has a step."""
    kmeans = KMeans(5, tmp_path, seed=1, use_mini_batch=False)
    kmeans.train(all_points)
    first = kmeans.cluster_centers()
    assert {tuple(center) for center in first} <= {tuple(point) for point in POINTS}
    scores = [kmeans.score(all_points)]
    for _ in range(3):
        kmeans.train(all_points)
        scores.append(kmeans.score(all_points))
    assert scores[0] > scores[1] > scores[2] > scores[3]
    assert kmeans.get_variable_value("global_step") == 3
    with pytest.raises(ValueError, match="yields no batch"):
        kmeans.train(lambda: all_points().take(0))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"num_clusters": 0}, ValueError, "num_clusters should be > 0. Got 0"),
        ({"num_clusters": "3"}, TypeError, "num_clusters must be int"),
        ({"initial_clusters": "kmc2"}, ValueError, "Unsupported initialization algorithm 'kmc2'"),
        ({"initial_clusters": None}, TypeError, "initial_clusters must be 'random'"),
        ({"distance_metric": "l1"}, ValueError, "Unsupported distance metric 'l1'"),
        ({"mini_batch_steps_per_iteration": 0}, ValueError, "should be > 0"),
        ({"relative_tolerance": "1%"}, TypeError, "relative_tolerance must be a number"),
    ],
)
def test_wrong_arguments(arguments, error, words):
    """A wrong argument is named before anything is built."""
    with pytest.raises(error, match=words):
        KMeans(**{"num_clusters": 3, **arguments})
    KMeans(0, initial_clusters=POINTS[:3])  # num_clusters is ignored, as documented


def test_points_of_another_type(tmp_path):
    """Points must be float32, and the error says how."""
    kmeans = KMeans(2, tmp_path)
    with pytest.raises(TypeError, match=r"takes points of float32.*float64: cast"):
        kmeans.train(lambda: tf.constant([[1.0, 2.0]], tf.float64), steps=1)


def test_too_few_points(tmp_path):
    """K-means++ chooses from one batch: the error says so."""
    kmeans = KMeans(11, tmp_path, "kmeans_plus_plus")
    with pytest.raises(tf.errors.InvalidArgumentError, match="from the first batch, which has"):
        kmeans.train(input_fn, steps=1)


@pytest.mark.parametrize("initial", ["random", "kmeans_plus_plus"])
def test_seeds(tmp_path, initial):
    """RunConfig's seed decides the first centers; without it, whether `seed` is given."""

    def first_centers(name, of_config, seed):
        config = es.RunConfig(model_dir=str(tmp_path / name), tf_random_seed=of_config)
        kmeans = KMeans(8, None, initial, seed=seed, config=config)
        kmeans.train(input_fn, steps=1)
        return kmeans.cluster_centers().tolist()

    found = [first_centers(name, 1, seed) for name, seed in zip("ab", (None, 5), strict=True)]
    assert found[0] == found[1]
    assert first_centers("c", 2, 5) != found[0]
    found = [
        first_centers(name, None, seed) for name, seed in zip("def", (4, 5, None), strict=True)
    ]
    assert found[0] == found[1] != found[2]


@pytest.mark.reference
def test_the_signature_is_the_old_one(old_estimator, compare):
    """The class takes the arguments of TensorFlow 2.15's, and has its constants and methods."""
    theirs = old_estimator.experimental.KMeans
    assert compare.parameters(KMeans.__init__) == compare.parameters(theirs.__init__)
    for name, value in vars(theirs).items():
        if name.isupper():
            assert getattr(KMeans, name) == value
        elif not name.startswith("_"):
            ours = inspect.signature(getattr(KMeans, name)).parameters
            assert list(ours) == list(inspect.signature(value).parameters)


@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_the_graph_alone(metric):
    """A program that runs the graph of tf.contrib.factorization gets lists of tensors."""
    with tf.Graph().as_default(), tf1.Session() as session:
        parts = [tf1.placeholder(tf.float32, [None, 3]) for _ in range(2)]
        feed = dict(zip(parts, (POINTS[:30], POINTS[30:]), strict=True))
        graph = contrib_factorization.KMeans(parts, 4, distance_metric=metric).training_graph()
        distances, clusters, losses, is_initialized, initialize, update = graph
        session.run(tf1.global_variables_initializer())
        for _ in range(2):  # the second one changes nothing
            session.run(initialize, feed)
        assert session.run(is_initialized)
        sums = [sum(each.sum() for each in session.run([losses, update], feed)[0]) for _ in "abc"]
        assert sums[0] > sums[1] > sums[2]
        assert [each.shape for each in session.run(distances, feed)] == [(30, 4), (10, 4)]
        assert [each.shape for each in session.run(clusters, feed)] == [(30,), (10,)]


def test_centers_are_compared_by_their_angle():
    """The means of a mini-batch's unit vectors are shorter than 1: with cosine that's no matter."""
    points = np.random.RandomState(0).normal(size=(200, 8)).astype(np.float32)
    with tf.Graph().as_default(), tf1.Session() as session:
        graph = contrib_factorization.KMeans(
            tf.constant(points), 4, points[:4], distance_metric="cosine", use_mini_batch=True
        ).training_graph()
        session.run(tf1.global_variables_initializer())
        session.run(graph[4])
        session.run(graph[5])
        (centers,) = (each for each in tf1.global_variables() if each.op.name == "clusters")
        centers, clusters = session.run([centers, graph[1][0]])
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    assert clusters.tolist() == np.argmax(points @ centers.T, axis=1).tolist()
