# SPDX-License-Identifier: Apache-2.0
"""Reimplements the k-means of `tensorflow.contrib.factorization`: its estimator and its graph."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimator_spec.canned import kmeans, kmeans_model
from estimator_spec.canned.kmeans_model import RANDOM_INIT, SQUARED_EUCLIDEAN_DISTANCE
from estimator_spec.core.common import argument_rules


class KMeansClustering(kmeans.KMeansClustering):
    """An estimator that finds clusters of points.

    Its arguments are those of `estimator_spec.experimental.KMeans`, but for `random_seed`: the seed
    of the first centers, a number or None.
    """

    def __init__(
        self,
        num_clusters: Any,
        model_dir: Any = None,
        initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE,
        random_seed: int | None = 0,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            num_clusters, model_dir, initial_clusters, distance_metric, random_seed, *args, **kwargs
        )

    def _seed_of_ops(self, seed: int | None) -> int | None:
        return seed


class KMeans:
    """The graph of k-means, for programs that run its ops in sessions of their own.

    Args:
        inputs: points, [batch, elements], or a list of such tensors.
        num_clusters: as for `estimator_spec.experimental.KMeans`, as the arguments below.
        initial_clusters: its 'kmc2' isn't available.
        distance_metric: 'squared_euclidean' or 'cosine'.
        use_mini_batch: whether batches are parts of the points.
        mini_batch_steps_per_iteration: steps after which distances are measured to moved centers.
        random_seed: seed of the first centers, a number or None.
        kmeans_plus_plus_num_retries: further points that k-means++ draws for each center.
        kmc2_chain_length: ignored.

    Raises:
        ValueError: there is no such distance or way to choose the first centers.
        TypeError: another argument has the wrong type.
    """

    def __init__(
        self,
        inputs: Any,
        num_clusters: Any,
        initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE,
        use_mini_batch: bool = False,
        mini_batch_steps_per_iteration: int = 1,
        random_seed: int | None = 0,
        kmeans_plus_plus_num_retries: int = 2,
        kmc2_chain_length: int = 200,
    ) -> None:
        del kmc2_chain_length
        argument_rules.check("KMeansClustering", {**locals(), "seed": random_seed})
        self._inputs = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        self._settings = kmeans_model.KMeansSettings(
            num_clusters,
            initial_clusters,
            distance_metric,
            random_seed,
            use_mini_batch,
            mini_batch_steps_per_iteration,
            kmeans_plus_plus_num_retries,
        )

    def training_graph(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Builds the graph.

        Returns:
            (distances to all centers, indices of the nearest ones, distances to these, a variable
            that says whether all first centers are chosen, the op that chooses missing ones, the op
            of a step); the first three are lists, one tensor for each of the inputs.
        """
        parts = [tf.convert_to_tensor(part) for part in self._inputs]
        model = kmeans_model.build(tf.concat(parts, 0), self._settings, is_training=True)
        sizes = [tf.shape(part)[0] for part in parts]
        split = [
            tf.split(tensor, sizes) for tensor in (model.distances, model.clusters, model.losses)
        ]
        return (*split, model.is_initialized, model.initialize, model.update)  # type: ignore[return-value]
