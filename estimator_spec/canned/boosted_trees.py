# SPDX-License-Identifier: Apache-2.0
"""Defines estimators of boosted trees that TensorFlow 1.15 to 2.8 has trained.

They evaluate, predict and export. Training needs TensorFlow's ops of boosted trees, which have no
kernels any more.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from estimator_spec.canned import boosted_trees_model
from estimator_spec.canned.construction import with_head
from estimator_spec.checkpoints import boosted_trees as stored
from estimator_spec.core.common import argument_rules
from estimator_spec.core.driver import checkpoint_state
from estimator_spec.core.driver.estimator import Estimator
from estimator_spec.core.run_config import RunConfig
from estimator_spec.core.user_functions.model_spec import EstimatorSpec, ModeKeys
from estimator_spec.heads import BinaryClassHead, MultiClassHead
from estimator_spec.heads.description import has_inverse_link
from estimator_spec.heads.first_generation import (
    binary_logistic_or_multi_class_head,
    regression_head,
)
from estimator_spec.heads.tree_features import BoostedTreesModel, number_features

tf1 = tf.compat.v1

_BIAS, _CONTRIBUTIONS = "bias", "dfc"
_LEAST_PROBABILITY = 1e-15  # of a class in the loss
_NO_TRAINING = (
    "Boosted trees can't be trained: TensorFlow lost their estimators with 2.9, and has no kernel "
    "of any of their ops. This estimator evaluates, predicts with and exports checkpoints of "
    "TensorFlow 1.15 to 2.8, and estimator_spec.convert.to_ydf converts them. To train new trees "
    "use Yggdrasil Decision Forests (pip install ydf), on a data frame or arrays by name: "
    "ydf.GradientBoostedTreesLearner(label='label', task=ydf.Task.{task}, num_trees={n_trees}, "
    "max_depth={levels}, shrinkage={learning_rate}).train(examples)"
)


class BoostedTreesEstimator(Estimator):
    """Trained boosted trees with any head.

    The arguments are those of TensorFlow 2.8's class, and the checkpoint in `model_dir` is one of
    TensorFlow 1.15 to 2.8. The feature columns must be those that the trees were trained with.
    `train` raises a RuntimeError.

    Args:
        feature_columns: numeric, bucketized, indicator and categorical columns.
        n_batches_per_layer: ignored: it belongs to training.
        head: a head of either generation.
        model_dir: as for `Estimator`.
        weight_column: ignored; give it to the head.
        n_trees: for the message of `train` only, as the next two.
        max_depth: the same.
        learning_rate: the same.
        l1_regularization: ignored, as the next three.
        l2_regularization: ignored.
        tree_complexity: ignored.
        min_node_weight: ignored.
        config: as for `Estimator`.
        center_bias: whether the trees were trained with it, so that the first one begins with the
            mean prediction.
        pruning_mode: ignored, as the next.
        quantile_sketch_epsilon: ignored.

    Raises:
        ValueError: a number isn't positive, a column is of another kind, or as for `Estimator`.
        TypeError: an argument has the wrong type.
    """

    def __init__(
        self,
        feature_columns: Any,
        n_batches_per_layer: int,
        head: Any,
        model_dir: Any = None,
        weight_column: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: RunConfig | None = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
    ) -> None:
        argument_rules.check("BoostedTreesEstimator", locals())
        self.boosted_trees_model = BoostedTreesModel(head, number_features(feature_columns))
        self._center_bias = center_bias
        self._settings = {
            "task": "CLASSIFICATION" if _is_classification(head) else "REGRESSION",
            "n_trees": n_trees,
            "levels": max_depth + 1,  # YDF counts the leaves' level, too
            "learning_rate": learning_rate,
        }

        def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
            trained, inputs = self._load(features, mode)
            logits = boosted_trees_model.build_logits(
                trained.forest, inputs, self.boosted_trees_model.features, head.logits_dimension
            )
            return head.create_estimator_spec(
                features=features, mode=mode, labels=labels, logits=logits
            )

        super().__init__(model_fn, model_dir, config)

    def experimental_feature_importances(self, normalize: bool = False) -> dict[str, float]:
        """Returns by how much the splits of each column have reduced the loss.

        Args:
            normalize: whether the sum is made 1.

        Returns:
            The sums of the splits' gains by column name, the largest first; those of an indicator
            column under the name of its categorical column.

        Raises:
            ValueError: there is no checkpoint, it is of another model, or it has no splits.
        """
        trained = self._read(checkpoint_state.require_latest(self.model_dir))
        forest, features = trained.forest, self.boosted_trees_model.features
        splits = forest.features >= 0
        if not forest.roots.size or (normalize and not forest.gains.sum() > 0):
            raise ValueError(
                f"The checkpoint in {self.model_dir!r} has no trees with a split: its training "
                "ended before. Importances need one."
            )
        importances = [0.0] * len(features)
        for feature, gain in zip(forest.features[splits], forest.gains[splits], strict=True):
            importances[feature] += float(gain)
        total = sum(importances) if normalize else 1.0
        return self._by_column([importance / total for importance in importances])

    def experimental_predict_with_explanations(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Iterable[str] | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yields predictions with what each column contributes to them.

        The arguments are those of `predict`.

        Yields:
            The predictions of an example with two more, which are always there: 'bias', the
            prediction without features; and 'dfc', by column name, how much the column moves it
            from there to the prediction, the largest first. Both are probabilities of class 1 of a
            classifier.

        Raises:
            ValueError: the model has no `center_bias`, several logits, or an inverse link function.
        """
        head = self.boosted_trees_model.head
        if not self._center_bias:
            raise ValueError(
                "center_bias must be enabled during estimator instantiation when using "
                "experimental_predict_with_explanations, and the trees be trained with it."
            )
        if head.logits_dimension > 1:
            raise ValueError(
                "experimental_predict_with_explanations does not yet support multi-class "
                f"classification and multi-label regression: there are {head.logits_dimension} "
                "logits."
            )
        if has_inverse_link(head):
            raise ValueError(
                "For now only identity inverse_link_fn in regression_head is supported for "
                "experimental_predict_with_explanations."
            )

        def model_fn(features: Any, mode: str) -> EstimatorSpec:
            trained, inputs = self._load(features, mode)
            numbered = self.boosted_trees_model.features
            if not trained.forest.roots.size:
                raise ValueError("The checkpoint has no trees, and so no contributions.")
            logits = boosted_trees_model.build_logits(trained.forest, inputs, numbered, 1)
            spec = head.create_estimator_spec(features=features, mode=mode, logits=logits)
            bias, contributions = boosted_trees_model.build_contributions(
                trained.forest, inputs, numbered, _is_classification(head)
            )
            added = {_BIAS: bias, _CONTRIBUTIONS: contributions}
            return spec._replace(predictions={**spec.predictions, **added})

        keys = None if predict_keys is None else {*predict_keys, _BIAS, _CONTRIBUTIONS}
        explaining = Estimator(model_fn, self.model_dir, self.config)
        for prediction in explaining.predict(input_fn, keys, hooks, checkpoint_path):
            contributions = self._by_column(prediction[_CONTRIBUTIONS])
            yield {**prediction, _CONTRIBUTIONS: contributions}

    def _by_column(self, values: Sequence[float]) -> dict[str, float]:
        """Returns the sums of features' values by column name, the largest magnitude first."""
        sums: dict[str, float] = collections.defaultdict(float)
        for feature, value in zip(self.boosted_trees_model.features, values, strict=True):
            sums[feature.name] += float(value)
        ordered = sorted(sums.items(), key=lambda item: abs(item[1]), reverse=True)
        return collections.OrderedDict(ordered)

    def _load(self, tensors: Any, mode: str) -> tuple[stored.TrainedTrees, Any]:
        """Returns the trees of the default graph's checkpoint, and the integers of the features."""
        if mode == ModeKeys.TRAIN:
            self._refuse_training()
        checkpoint = checkpoint_state.recorded_for_graph()
        if checkpoint is None:
            raise ValueError(
                f"Could not find trained model in model_dir: {self.model_dir}. Boosted trees are "
                "those of a checkpoint: copy one that TensorFlow 1.15 to 2.8 has saved there, or "
                "give checkpoint_path."
            )
        trained = self._read(checkpoint)
        features = self.boosted_trees_model.features
        return trained, boosted_trees_model.build_inputs(tensors, features, trained.quantiles)

    def _read(self, checkpoint: str) -> stored.TrainedTrees:
        """Returns the trees of a checkpoint, after a check that they are of this model."""
        head, features = self.boosted_trees_model
        return stored.read(checkpoint, features, head.logits_dimension)

    def _refuse_training(self) -> NoReturn:
        raise RuntimeError(_NO_TRAINING.format_map(self._settings))

    def _check_before_graph(self, mode: str, input_fn: Callable[..., Any]) -> None:
        """Checks what can be checked before a graph is built: that it won't train."""
        if mode == ModeKeys.TRAIN:
            self._refuse_training()
        super()._check_before_graph(mode, input_fn)


class BoostedTreesClassifier(BoostedTreesEstimator):
    """Trained boosted trees of classes.

    Arguments not listed here are as in `BoostedTreesEstimator`.

    Args:
        n_classes: number of classes.
        weight_column: numeric column, or feature key, of the examples' weights in evaluations.
        label_vocabulary: the classes' labels, if labels are strings.
        train_in_memory: ignored.

    Raises:
        ValueError: as for `BoostedTreesEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        feature_columns: Any,
        n_batches_per_layer: int,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: RunConfig | None = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
        train_in_memory: bool = False,
    ) -> None:
        del train_in_memory
        if n_classes > 2 and center_bias:
            raise ValueError("center_bias not yet support with n_classes > 2.")
        super().__init__(**with_head(_head_of_classes, locals()))


class BoostedTreesRegressor(BoostedTreesEstimator):
    """Trained boosted trees of numbers.

    Arguments not listed here are as in `BoostedTreesEstimator`.

    Args:
        label_dimension: number of labels of an example.
        weight_column: numeric column, or feature key, of the examples' weights in evaluations.
        train_in_memory: ignored.

    Raises:
        ValueError: as for `BoostedTreesEstimator`, or an argument of the head is wrong.
    """

    def __init__(
        self,
        feature_columns: Any,
        n_batches_per_layer: int,
        model_dir: Any = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: RunConfig | None = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
        train_in_memory: bool = False,
    ) -> None:
        del train_in_memory
        if label_dimension > 1 and center_bias:
            raise ValueError("center_bias not yet support with label_dimension > 1.")
        super().__init__(**with_head(_head_of_numbers, locals()))


def _head_of_classes(n_classes: int, weight_column: Any, label_vocabulary: Any) -> Any:
    reductions = tf1.losses.Reduction
    if n_classes == 2:
        reduction, loss_fn = reductions.SUM_OVER_BATCH_SIZE, None
    else:
        reduction, loss_fn = reductions.SUM_OVER_NONZERO_WEIGHTS, _entropies
    return binary_logistic_or_multi_class_head(
        n_classes, weight_column, label_vocabulary, reduction, loss_fn=loss_fn
    )


def _head_of_numbers(weight_column: Any, label_dimension: int) -> Any:
    return regression_head(weight_column, label_dimension, tf1.losses.Reduction.SUM_OVER_BATCH_SIZE)


def _entropies(labels: Any, logits: Any) -> Any:
    """Returns the cross entropies of class ids, [batch, 1]; those of unlikely ones are limited."""
    of_labels = tf.gather(tf.nn.softmax(logits), labels, batch_dims=1)
    return -tf.math.log(tf.maximum(of_labels, _LEAST_PROBABILITY))


def _is_classification(head: Any) -> bool:
    return isinstance(getattr(head, "wrapped", head), (BinaryClassHead, MultiClassHead))
