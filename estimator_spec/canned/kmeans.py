# SPDX-License-Identifier: Apache-2.0
"""Defines an estimator that clusters points by the k-means algorithm."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import tpu_columns
from estimator_spec.canned import kmeans_model
from estimator_spec.canned.kmeans_model import (
    COSINE_DISTANCE,
    KMEANS_PLUS_PLUS_INIT,
    RANDOM_INIT,
    SQUARED_EUCLIDEAN_DISTANCE,
)
from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver import hooks as hooks_lib
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.driver.graph_builder import BuiltGraph
from estimator_spec.core.export.export_outputs import PredictOutput
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys

tf1 = tf.compat.v1

_SECONDS_BETWEEN_LOOKS = 1
# What TensorFlow takes for the seed of a graph that has none, beside an op's seed.
_SEED_WITHOUT_GRAPHS = 87654321


class KMeansClustering(Estimator):
    """An estimator that finds clusters of points: `tf.compat.v1.estimator.experimental.KMeans`.

    >>> import tempfile
    >>> import numpy as np
    >>> points = np.float32([[0, 0], [0, 2], [10, 0], [10, 2]])
    >>> kmeans = KMeansClustering(2, tempfile.mkdtemp(), points[:3:2], use_mini_batch=False)
    >>> _ = kmeans.train(lambda: tf.constant(points), steps=2)
    >>> kmeans.cluster_centers().round(3).tolist()
    [[0.0, 1.0], [10.0, 1.0]]

    A step of a full batch (`use_mini_batch=False`) moves each center to the mean of the points that
    are nearest to it (S. Lloyd, 1982, Least squares quantization in PCM), so its batch must be all
    points. In mini-batches (D. Sculley, 2010, Web-scale k-means clustering) a center that had n
    points and gets k new ones with the sum s in a step moves from c to (n c + s) / (n + k). The
    loss is the sum of the squared distances to the nearest centers before the step, or that of the
    cosine distances.

    An exported model lacks `cluster_centers()`: it maps points to clusters and distances.

    Args:
        num_clusters: number of clusters. Ignored if `initial_clusters` is an array or a tensor.
        model_dir: as for `Estimator`.
        initial_clusters: the first centers: an array or tensor, [num_clusters, elements]; a
            function of (list of one batch, number of missing centers) that returns that number of
            centers or fewer, called with one batch after the other; RANDOM_INIT, points of the
            first batches; or KMEANS_PLUS_PLUS_INIT, points of the first batch that are far from
            each other (D. Arthur and S. Vassilvitskii, 2007, k-means++).
        distance_metric: SQUARED_EUCLIDEAN_DISTANCE or COSINE_DISTANCE, 1 - cos(point, center).
        seed: whether the first centers are the same in each run if `RunConfig.tf_random_seed` is
            None: any number, or None for others in each run. Otherwise that seed decides, as in
            TensorFlow.
        use_mini_batch: whether batches are parts of the points.
        mini_batch_steps_per_iteration: number of steps after which distances are measured to the
            moved centers.
        kmeans_plus_plus_num_retries: number of further points that k-means++ draws for each center,
            of which it takes the best. Negative: about the logarithm of the number of centers.
        relative_tolerance: training stops when the loss changes by less than this share of
            1 + the loss before. None: it doesn't.
        config: as for `Estimator`.
        feature_columns: dense columns, if the features are a dict. None: all features, [batch,
            elements] each, in the order of their keys.

    Raises:
        ValueError: there is no such distance or way to choose the first centers, or as for
            `Estimator`.
        TypeError: another argument has the wrong type.
    """

    SQUARED_EUCLIDEAN_DISTANCE = SQUARED_EUCLIDEAN_DISTANCE
    COSINE_DISTANCE = COSINE_DISTANCE
    RANDOM_INIT = RANDOM_INIT
    KMEANS_PLUS_PLUS_INIT = KMEANS_PLUS_PLUS_INIT
    SCORE = "score"
    CLUSTER_INDEX = "cluster_index"
    ALL_DISTANCES = "all_distances"
    CLUSTER_CENTERS_VAR_NAME = kmeans_model.CENTERS

    def __init__(
        self,
        num_clusters: Any,
        model_dir: Any = None,
        initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE,
        seed: int | None = None,
        use_mini_batch: bool = True,
        mini_batch_steps_per_iteration: int = 1,
        kmeans_plus_plus_num_retries: int = 2,
        relative_tolerance: float | None = None,
        config: RunConfig | None = None,
        feature_columns: Any = None,
    ) -> None:
        arguments = dict(locals())
        if not (isinstance(initial_clusters, str) or callable(initial_clusters)):
            del arguments["num_clusters"]
        argument_rules.check("KMeansClustering", arguments)
        self._distance_metric = distance_metric
        settings = kmeans_model.KMeansSettings(
            num_clusters,
            initial_clusters,
            distance_metric,
            seed,
            use_mini_batch,
            mini_batch_steps_per_iteration,
            kmeans_plus_plus_num_retries,
        )

        def model_fn(features: Any, mode: str, config: RunConfig) -> EstimatorSpec:
            points = _as_points(features, feature_columns)
            seeded = settings._replace(seed=self._seed_of_ops(seed))
            model = kmeans_model.build(points, seeded, mode == ModeKeys.TRAIN)
            return _make_spec(model, mode, config.is_chief, relative_tolerance)

        super().__init__(model_fn, model_dir, config)

    def predict_cluster_index(self, input_fn: Any) -> Iterator[Any]:
        """Yields the index of the nearest center of each point.

        Args:
            input_fn: as for `predict`.
        """
        for prediction in self.predict(input_fn, predict_keys=[self.CLUSTER_INDEX]):
            yield prediction[self.CLUSTER_INDEX]

    def score(self, input_fn: Any) -> Any:
        """Returns the loss of one batch: the sum of its points' distances to the nearest centers.

        Args:
            input_fn: as for `evaluate`.
        """
        return self.evaluate(input_fn, steps=1)[self.SCORE]

    def transform(self, input_fn: Any) -> Iterator[Any]:
        """Yields the distances of each point to all centers, [num_clusters].

        They are Euclidean distances, not squared ones, unless the metric is another.

        Args:
            input_fn: as for `predict`.
        """
        is_squared = self._distance_metric == SQUARED_EUCLIDEAN_DISTANCE
        for prediction in self.predict(input_fn, predict_keys=[self.ALL_DISTANCES]):
            distances = prediction[self.ALL_DISTANCES]
            # Rounding makes the square of a small distance negative.
            yield np.sqrt(np.maximum(distances, 0)) if is_squared else distances

    def cluster_centers(self) -> Any:
        """Returns the centers of the latest checkpoint, [num_clusters, elements].

        Raises:
            ValueError: there is no checkpoint.
        """
        return self.get_variable_value(self.CLUSTER_CENTERS_VAR_NAME)

    def _build(
        self, graph: tf.Graph, input_fn: Any, mode: str, one_device: bool = False
    ) -> BuiltGraph:
        """Builds a graph; the chief chooses the first centers before it saves a checkpoint."""
        built = super()._build(graph, input_fn, mode, one_device)
        if mode != ModeKeys.TRAIN or not built.config.is_chief:
            return built
        hooks = built.spec.training_hooks
        first = tuple(hook for hook in hooks if isinstance(hook, _ClusterInitializer))
        others = tuple(hook for hook in hooks if hook not in first)
        return built._replace(
            spec=built.spec._replace(training_hooks=others),
            # After those of the input, which it reads.
            first_hooks=(*built.first_hooks, *built.hooks, *first),
            hooks=[],
        )

    def _seed_of_ops(self, seed: int | None) -> int | None:
        """Returns the seed of the ops that draw points: the graph's, if it has one."""
        of_graph = tf1.get_default_graph().seed
        return _SEED_WITHOUT_GRAPHS if of_graph is None and seed is not None else of_graph


def _as_points(features: Any, feature_columns: Any) -> Any:
    """Returns features as one tensor, [batch, elements]."""
    if not isinstance(features, Mapping):
        points = tf.convert_to_tensor(features)
    elif feature_columns:
        points = tpu_columns.input_layer(dict(features), feature_columns)
    else:
        points = tf.concat([features[key] for key in sorted(features)], axis=1)
    if points.dtype != tf.float32:
        raise TypeError(
            f"KMeans takes points of float32, input_fn returned {points.dtype.name}: cast them by "
            "tf.cast(points, tf.float32)."
        )
    return points


def _make_spec(
    model: kmeans_model.KMeansGraph, mode: str, is_chief: bool, relative_tolerance: float | None
) -> EstimatorSpec:
    """Returns the `EstimatorSpec` of a model."""
    loss = tf.reduce_sum(model.losses)
    tf1.summary.scalar("loss/raw", loss)
    with tf.control_dependencies([model.update]):
        step = tf1.assign_add(tf1.train.get_global_step(), 1)
    with tf.control_dependencies([step]):
        train_op = tf.identity(loss)
    hooks: list[Any] = [_ClusterInitializer(model.initialize, model.is_initialized, is_chief)]
    if relative_tolerance is not None:
        hooks.append(_StopAtSmallChange(loss, relative_tolerance))
    predictions = {
        KMeansClustering.ALL_DISTANCES: model.distances,
        KMeansClustering.CLUSTER_INDEX: model.clusters,
    }
    outputs = {**predictions, tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY: model.clusters}
    return EstimatorSpec(
        mode=mode,
        predictions=predictions,
        loss=loss,
        train_op=train_op,
        eval_metric_ops={KMeansClustering.SCORE: tf1.metrics.mean(loss)},
        training_hooks=hooks,
        export_outputs={key: PredictOutput(tensor) for key, tensor in outputs.items()},
    )


class _ClusterInitializer(hooks_lib.BatchTaker):
    """Hook by which the chief chooses all first centers; other processes wait for them.

    Args:
        initialize: op that chooses some or all of the missing centers from a batch.
        is_initialized: whether no center is missing.
        is_chief: whether this process is the chief.
    """

    def __init__(self, initialize: Any, is_initialized: Any, is_chief: bool) -> None:
        self._initialize = initialize
        self._is_initialized = is_initialized
        self._is_chief = is_chief

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Returns when all centers are chosen."""
        while not session.run(self._is_initialized):
            if self._is_chief:
                session.run(self._initialize)
                self.took_batches = True
            else:
                time.sleep(_SECONDS_BETWEEN_LOOKS)


class _StopAtSmallChange(hooks_lib.FetchingHook):
    """Hook that stops training when the loss hardly changes.

    Args:
        loss: the loss of a step.
        tolerance: the smallest change that isn't small, a share of 1 + the loss before.
    """

    def __init__(self, loss: Any, tolerance: float) -> None:
        self._fetched = loss
        self._tolerance = tolerance
        self._before: Any = None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Compares the loss with that of the step before."""
        loss, before = run_values.results, self._before
        # A loss of 0 isn't compared: programs may depend on the number of steps of TensorFlow's.
        if before and abs(loss - before) / (1 + abs(before)) < self._tolerance:
            run_context.request_stop()
        self._before = loss
