# SPDX-License-Identifier: Apache-2.0
"""Builds the graph of k-means: its variables, the first centers, distances and steps.

In the mini-batch graph of TensorFlow's `KMeans`, ops read variables that others write in the same
step, in any order: counts of points before or after the batch is added, centers before or after
they are replaced by the moved ones. Here reads have the order that its documentation describes, so
that results depend on seeds alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

tf1 = tf.compat.v1

SQUARED_EUCLIDEAN_DISTANCE = "squared_euclidean"
COSINE_DISTANCE = "cosine"
RANDOM_INIT = "random"
KMEANS_PLUS_PLUS_INIT = "kmeans_plus_plus"
CENTERS = "clusters"

# Keeps the mean of a cluster without points finite.
_EPSILON = 1e-6


class KMeansSettings(NamedTuple):
    """Arguments of `KMeansClustering` that the graph depends on; `seed` is that of single ops."""

    num_clusters: Any
    initial_clusters: Any
    distance_metric: str
    seed: int | None
    use_mini_batch: bool
    mini_batch_steps_per_iteration: int
    kmeans_plus_plus_num_retries: int

    @property
    def is_cosine(self) -> bool:
        """Whether points and centers are compared by their direction."""
        return self.distance_metric == COSINE_DISTANCE

    @property
    def moves_apart(self) -> bool:
        """Whether distances are measured to centers that stay for several steps."""
        return self.use_mini_batch and self.mini_batch_steps_per_iteration > 1

    @property
    def has_unit_centers(self) -> bool:
        """Whether the variable of centers has normalized ones."""
        return self.is_cosine and (not self.use_mini_batch or self.moves_apart)


class Variables(NamedTuple):
    """Variables of the model; names are those of TensorFlow's.

    Attributes:
        centers: the centers to which distances are measured, [chosen ones, elements].
        is_initialized: whether all first centers are chosen.
        counts: points of each center so far, in mini-batches.
        moved: the centers that each step moves.
        steps_left: steps until `centers` becomes `moved`, if they are apart.
    """

    centers: Any
    is_initialized: Any
    counts: Any
    moved: Any
    steps_left: Any


class KMeansGraph(NamedTuple):
    """Tensors and ops of the model.

    Attributes:
        distances: of each point to each center, [batch, num_clusters].
        clusters: index of the nearest center of each point, [batch].
        losses: distance of each point to it, [batch].
        is_initialized: whether all first centers are chosen.
        initialize: op that chooses missing centers from a batch.
        update: op of a step.
    """

    distances: Any
    clusters: Any
    losses: Any
    is_initialized: Any
    initialize: Any
    update: Any


def build(points: Any, settings: KMeansSettings, is_training: bool) -> KMeansGraph:
    """Builds the model in the default graph.

    Args:
        points: floats, [batch, elements].
        settings: the estimator's.
        is_training: whether `update` is run with the losses: then they are those of the centers
            that this step starts with.
    """
    initial = settings.initial_clusters
    if isinstance(initial, str) or callable(initial):
        number = tf.convert_to_tensor(settings.num_clusters)
    else:
        initial = tf.convert_to_tensor(initial)
        number = tf.shape(initial)[0]
    variables = _create_variables(number, settings)
    initialize = _choose_centers(points, number, initial, variables, settings)
    if settings.is_cosine:
        points = tf.nn.l2_normalize(points, axis=1)
    centers, is_due = _current_centers(variables, settings, is_training)
    compared = centers
    if settings.is_cosine and not settings.has_unit_centers:
        compared = tf.nn.l2_normalize(centers, axis=1)
    clusters, losses = tf.raw_ops.NearestNeighbors(
        points=points, centers=compared, k=tf.constant(1, tf.int64)
    )
    clusters = tf.squeeze(clusters, [-1])
    losses = tf.squeeze(losses, [-1])
    if settings.is_cosine:
        losses *= 0.5  # |a - b|² = 2 (1 - cos(a, b)) of unit vectors
    if settings.use_mini_batch:
        with tf.control_dependencies([centers]):
            synchronize = _synchronize(centers, is_due, variables, settings)
        with tf.control_dependencies([synchronize]):
            update = _move_centers(points, clusters, variables)
    else:
        update = _replace_centers(points, clusters, number, variables, settings)
    return KMeansGraph(
        _distances(points, compared, settings),
        clusters,
        losses,
        variables.is_initialized,
        initialize,
        update,
    )


def _create_variables(number: Any, settings: KMeansSettings) -> Variables:
    def create(value: Any, **arguments: Any) -> Any:
        return tf1.Variable(value, use_resource=True, **arguments)

    none = tf1.placeholder_with_default(tf.constant([], tf.float32), shape=None)
    centers = moved = create(none, name=CENTERS, validate_shape=False)
    is_initialized = create(False, name="initialized")
    counts = steps_left = None
    if settings.moves_apart:
        steps = int(settings.mini_batch_steps_per_iteration)
        moved = create(none, name=f"{CENTERS}_updated", validate_shape=False)
        steps_left = create(tf.constant(steps, tf.int64), name="update_in_steps")
    if settings.use_mini_batch:
        # The first centers count as a point each, but for those that are replaced.
        first = tf.zeros if settings.moves_apart else tf.ones
        counts = create(first([number], tf.int64), name="Variable")
    return Variables(centers, is_initialized, counts, moved, steps_left)


def _choose_centers(
    points: Any, number: Any, initial: Any, variables: Variables, settings: KMeansSettings
) -> Any:
    """Returns the op that chooses some or all of the missing centers."""

    def choose() -> Any:
        before = variables.centers.read_value()
        chosen = tf.shape(before)[0]
        missing = tf.cast(number, tf.int32) - chosen
        few = tf1.assert_positive(
            missing, message="initial_clusters returned more centers than num_clusters."
        )
        with tf.control_dependencies([few]):
            new = _new_centers(points, missing, initial, settings)
            if settings.is_cosine:
                new = tf.nn.l2_normalize(new, axis=1)
            # Without any, `before` has no second dimension.
            after = tf.cond(tf.equal(chosen, 0), lambda: new, lambda: tf.concat([before, new], 0))
        assigned = [variables.centers.assign(after)]
        if settings.moves_apart:
            assigned.append(variables.moved.assign(after))
        with tf.control_dependencies(assigned):
            is_last = tf.equal(tf.shape(after)[0] - chosen, missing)
            return tf.identity(variables.is_initialized.assign(is_last))

    done = variables.is_initialized.read_value()
    return tf.cond(done, lambda: tf.constant(True), choose).op


def _new_centers(points: Any, missing: Any, initial: Any, settings: KMeansSettings) -> Any:
    """Returns the centers that are chosen from a batch."""
    seed = settings.seed
    size = tf.shape(points)[0]

    def draw() -> Any:
        indices = tf1.random_uniform([missing], 0, tf.cast(size, tf.int64), tf.int64, seed)
        return tf.gather(points, indices)

    if callable(initial):
        return initial([points], missing)
    if not isinstance(initial, str):
        fits = tf1.assert_equal(missing, tf.shape(initial)[0])
        with tf.control_dependencies([fits]):
            return tf.identity(initial)
    if initial == RANDOM_INIT:
        return tf.cond(size <= missing, lambda: points, draw)
    enough = tf1.assert_greater_equal(
        size,
        missing,
        message="kmeans_plus_plus chooses all centers from the first batch, which has fewer "
        "points: make it larger, or use another initial_clusters.",
    )
    with tf.control_dependencies([enough]):
        if settings.is_cosine:
            points = tf.nn.l2_normalize(points, axis=1)
        if seed is None:
            seed = tf1.random_uniform([], 0, tf.int64.max, tf.int64)
        return tf.raw_ops.KmeansPlusPlusInitialization(
            points=points,
            num_to_sample=tf.cast(missing, tf.int64),
            seed=tf.cast(seed, tf.int64),
            num_retries_per_sample=tf.constant(settings.kmeans_plus_plus_num_retries, tf.int64),
        )


def _current_centers(
    variables: Variables, settings: KMeansSettings, is_training: bool
) -> tuple[Any, Any]:
    """Returns the centers of this step, and whether they are the moved ones of the last."""
    centers, moved = variables.centers, variables.moved
    if not (settings.moves_apart and is_training):
        return centers.read_value(), None
    is_due = variables.steps_left.read_value() <= 0

    def read_moved() -> Any:
        value = moved.read_value()
        return tf.nn.l2_normalize(value, axis=1) if settings.is_cosine else value

    return tf.cond(is_due, read_moved, centers.read_value), is_due


def _synchronize(centers: Any, is_due: Any, variables: Variables, settings: KMeansSettings) -> Any:
    """Returns the op that keeps the centers of this step, every few steps."""
    if is_due is None:
        return tf.no_op()

    def keep() -> Any:
        steps = int(settings.mini_batch_steps_per_iteration)
        ops = [
            variables.steps_left.assign(steps - 1),
            variables.centers.assign(centers),
            variables.counts.assign(tf.zeros_like(variables.counts)),
        ]
        with tf.control_dependencies(ops):
            return tf.constant(True)

    def go_on() -> Any:
        with tf.control_dependencies([variables.steps_left.assign_sub(1)]):
            return tf.constant(False)

    return tf.cond(is_due, keep, go_on)


def _move_centers(points: Any, clusters: Any, variables: Variables) -> Any:
    """Returns the op of a mini-batch: c += (sum of its points - k c) / (n + k)."""
    ids, places = tf.unique(clusters)
    size = tf.size(ids)
    before = tf.gather(variables.counts, ids)
    centers = tf.gather(variables.moved, ids)
    added = tf.math.unsorted_segment_sum(tf.ones_like(places, tf.int64), places, size)
    change = tf.math.unsorted_segment_sum(points, places, size)
    change -= tf.cast(added, points.dtype)[:, tf.newaxis] * centers
    change *= tf.math.reciprocal(tf.cast(before + added, points.dtype))[:, tf.newaxis]
    with tf.control_dependencies([before]):
        count = tf1.scatter_add(variables.counts, ids, added)
    return tf.group(count, tf1.scatter_add(variables.moved, ids, change))


def _replace_centers(
    points: Any, clusters: Any, number: Any, variables: Variables, settings: KMeansSettings
) -> Any:
    """Returns the op of a full batch: centers become the means of their points."""
    sums = tf.math.unsorted_segment_sum(points, clusters, number)
    ones = tf.ones([tf.shape(points)[0], 1], points.dtype)
    means = sums / (tf.math.unsorted_segment_sum(ones, clusters, number) + _EPSILON)
    if settings.is_cosine:
        means = tf.nn.l2_normalize(means, axis=1)
    return variables.centers.assign(means).op


def _distances(points: Any, centers: Any, settings: KMeansSettings) -> Any:
    """Returns the distances of points to all centers, [batch, num_clusters]."""
    products = tf.matmul(points, centers, transpose_b=True)
    if settings.is_cosine:
        return 1 - products
    of_points = tf.reduce_sum(tf.square(points), 1, keepdims=True)
    of_centers = tf.reduce_sum(tf.square(centers), 1, keepdims=True)
    return of_points - 2 * products + tf.transpose(of_centers)
