# SPDX-License-Identifier: Apache-2.0
"""Converts trained boosted trees to a model of Yggdrasil Decision Forests (YDF).

YDF splits by values where TensorFlow splits by numbers of intervals: x is above the quantile q if
it is at least the next larger float.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimator_spec.checkpoints import boosted_trees as stored
from estimator_spec.convert.optional_packages import load_extra
from estimator_spec.heads.description import class_labels
from estimator_spec.heads.tree_features import BoostedTreesModel, TreeFeature, TreeFeatureKind

_UNKNOWN = 0  # YDF's number of words that are in no vocabulary


def to_ydf(estimator: Any, checkpoint_path: str | None = None, label: str = "label") -> Any:
    """Returns a model of Yggdrasil Decision Forests with the trees of a boosted trees estimator.

    Its predictions are the estimator's: probabilities of classes (of class 1 alone, if there are
    two), or numbers. It takes features by their keys: numbers as float arrays, `[rows]`, or `[rows,
    elements]` where a numeric column has several; ids and words as strings, `[rows]`. NaN and ''
    are missing values. `model.save(directory)` writes it.

    The trees of a categorical column of words, without an indicator column, need
    `model.predict(examples, use_slow_engine=True)`.

    Args:
        estimator: a `BoostedTreesClassifier`, `BoostedTreesRegressor` or `BoostedTreesEstimator`.
        checkpoint_path: prefix of the checkpoint. None: the latest.
        label: name of the label in the model.

    Returns:
        A `ydf.GradientBoostedTreesModel`.

    Raises:
        TypeError: the estimator has no boosted trees.
        ValueError: there is no checkpoint, it is of another model, or YDF has no counterpart: of a
            head with several labels or of another kind, of a `normalizer_fn`, of a hashed, crossed
            or weighted column, or of one that maps unknown words to ids.
        ImportError: ydf isn't installed.
    """
    model = getattr(estimator, "boosted_trees_model", None)
    if not isinstance(model, BoostedTreesModel):
        raise TypeError(
            "to_ydf takes a BoostedTreesClassifier, BoostedTreesRegressor or "
            f"BoostedTreesEstimator, got a {type(estimator).__name__}: {estimator!r}."
        )
    classes = class_labels(model.head)
    inputs = {feature.column: _read_input(feature) for feature in model.features}
    if label in {read.key for read in inputs.values()}:
        raise ValueError(f"label={label!r} is the key of a feature. Give the label another name.")
    checkpoint = checkpoint_path or estimator.latest_checkpoint()
    if checkpoint is None:
        raise ValueError(
            f"Could not find trained model in model_dir: {estimator.model_dir}. Give "
            "checkpoint_path."
        )
    trained = stored.read(checkpoint, model.features, model.head.logits_dimension)
    ydf = load_extra("ydf", "ydf")
    by_key = {read.key: read for read in inputs.values()}
    converted = _make_without_trees(ydf, by_key, classes, label)
    writer = _TreeWriter(ydf, converted.data_spec(), model.features, trained, inputs)
    for root in trained.forest.roots:
        # YDF has a tree for each class.
        for logit in range(model.head.logits_dimension):
            converted.add_tree(ydf.tree.Tree(writer.node(int(root), logit)))
    return converted


class _Input(NamedTuple):
    """Input of a YDF model for a feature column.

    Attributes:
        key: key of the feature.
        elements: number of its numbers; 0 for words.
        words: its words, by ids.
    """

    key: str
    elements: int = 0
    words: tuple[str, ...] = ()


def _read_input(feature: TreeFeature) -> _Input:
    column = feature.column
    if feature.kind in (TreeFeatureKind.QUANTILE, TreeFeatureKind.BUCKET):
        numeric = column if feature.kind is TreeFeatureKind.QUANTILE else column.source_column
        if numeric.normalizer_fn is not None:
            raise ValueError(
                f"Column {column.name!r} has a normalizer_fn, which a YDF model can't call. "
                "Convert an estimator without it, and normalize the features before."
            )
        return _Input(numeric.key, math.prod(numeric.shape))
    categorical = column.categorical_column if feature.kind is TreeFeatureKind.COUNT else column
    return _Input(categorical.key, words=_words(categorical))


def _words(column: Any) -> tuple[str, ...]:
    """Returns the words of a categorical column, by ids."""
    kind = type(column).__name__
    given = {
        "IdentityCategoricalColumn": lambda: range(column.num_buckets),
        "VocabularyListCategoricalColumn": lambda: column.vocabulary_list,
        "VocabularyFileCategoricalColumn": lambda: _lines(column.vocabulary_file),
    }.get(kind)
    if given is None:
        raise ValueError(
            f"Column {column.name!r}, a {kind}, has no counterpart in YDF. Identity columns and "
            "those of a vocabulary have one."
        )
    if getattr(column, "num_oov_buckets", 0) or column.default_value not in (None, -1):
        raise ValueError(
            f"Column {column.name!r} has ids for words that aren't in its vocabulary; YDF has none."
        )
    return tuple(map(tf.compat.as_str_any, given()))[: column.num_buckets]


def _lines(path: str) -> list[str]:
    with tf.io.gfile.GFile(path) as file:
        return file.read().splitlines()  # type: ignore[no-any-return]


def _make_without_trees(
    ydf: Any, inputs: Mapping[str, _Input], classes: Sequence[str] | None, label: str
) -> Any:
    """Returns a YDF model that reads inputs, by their keys, and predicts 0 or equal probabilities.

    YDF makes models by training. It numbers labels by their frequency, the most frequent first.
    """
    counts = range(len(classes or ()), 0, -1)
    values: dict[str, list[Any]] = {label: [0.0, 1.0]}
    if classes is not None:
        values[label] = [name for name, n in zip(classes, counts, strict=True) for _ in range(n)]
    for key, read in inputs.items():
        number = [0.0] * read.elements if read.elements > 1 else 0.0
        values[key] = list(read.words) or [number]
    rows = max(map(len, values.values()))
    data = {key: np.asarray(some + some[:1] * (rows - len(some))) for key, some in values.items()}
    semantic = ydf.Semantic
    learner = ydf.GradientBoostedTreesLearner(
        label=label,
        task=ydf.Task.REGRESSION if classes is None else ydf.Task.CLASSIFICATION,
        features=[
            ydf.Feature(key, semantic.CATEGORICAL, min_vocab_frequency=1, max_vocab_count=-1)
            if read.words
            else ydf.Feature(key, semantic.NUMERICAL)
            for key, read in inputs.items()
        ],
        num_trees=0,
        validation_ratio=0.0,
    )
    model = learner.train(data, verbose=0)
    model.set_initial_predictions(np.zeros_like(model.initial_predictions()))
    return model


class _TreeWriter:
    """Writes trees as YDF's nodes.

    Args:
        ydf: the package.
        data_spec: numbers of columns and words in the model.
        features: the features of the trees.
        trained: the trees.
        inputs: what the model reads for each feature column.
    """

    def __init__(
        self,
        ydf: Any,
        data_spec: Any,
        features: Sequence[TreeFeature],
        trained: stored.TrainedTrees,
        inputs: dict[Any, _Input],
    ) -> None:
        self._tree = ydf.tree
        self._features = features
        self._forest = trained.forest
        self._inputs = inputs
        quantiles = iter(trained.quantiles)
        self._quantiles = [
            next(quantiles) if feature.kind is TreeFeatureKind.QUANTILE else np.empty(0)
            for feature in features
        ]
        self._columns = {column.name: number for number, column in enumerate(data_spec.columns)}
        # Several numbers of one feature have columns that follow each other.
        self._columns |= {
            part.original_name: part.begin_column_idx for part in data_spec.unstackeds
        }
        self._words = {
            column.name: {word: item.index for word, item in column.categorical.items.items()}
            for column in data_spec.columns
        }

    def node(self, number: int, logit: int) -> Any:
        """Returns a node with all below it.

        Args:
            number: the node in the forest.
            logit: which logit its leaves have.
        """
        forest = self._forest
        if forest.features[number] < 0:
            value = float(forest.values[number, logit])
            return self._tree.Leaf(self._tree.RegressionValue(num_examples=1.0, value=value))
        left = self.node(forest.left[number], logit)
        condition = self._condition(number)
        if condition is None:
            return left
        right = self.node(forest.right[number], logit)
        return self._tree.NonLeaf(condition=condition, pos_child=right, neg_child=left)

    def _condition(self, number: int) -> Any:
        """Returns the condition on which examples go to the right; None if none does."""
        forest = self._forest
        position, threshold = int(forest.features[number]), int(forest.thresholds[number])
        feature = self._features[position]
        if feature.kind is TreeFeatureKind.QUANTILE:
            quantiles = self._quantiles[position]
            if threshold >= len(quantiles) - 1:
                return None
            # NaN is in the first interval.
            least = np.nextafter(np.float32(quantiles[threshold]), np.float32(np.inf))
            return self._at_least(feature, feature.element, least, missing=False)
        if feature.kind is TreeFeatureKind.BUCKET:
            boundaries = feature.column.boundaries
            if threshold >= len(boundaries):
                return None
            # NaN is in the last bucket.
            least = np.float32(boundaries[threshold])
            return self._at_least(feature, int(forest.dimensions[number]), least, missing=True)
        words = self._inputs[feature.column].words
        if feature.kind is TreeFeatureKind.COUNT:
            return self._one_of(feature, [words[feature.element]]) if threshold == 0 else None
        if not forest.is_equality[number]:
            return (
                self._one_of(feature, words[threshold + 1 :])
                if threshold + 1 < len(words)
                else None
            )
        others = [word for id_, word in enumerate(words) if id_ != threshold]
        missing = threshold != 0  # TensorFlow takes the first id for it.
        # An unknown word isn't equal to any. There are no unknown ids: what is missing, which YDF's
        # fast engine takes for unknown, decides.
        unknown = missing or type(feature.column).__name__ != "IdentityCategoricalColumn"
        return self._one_of(feature, others, missing, unknown)

    def _at_least(self, feature: TreeFeature, element: int, least: Any, missing: bool) -> Any:
        key = self._inputs[feature.column].key
        return self._tree.NumericalHigherThanCondition(
            missing=missing,
            score=0.0,
            attribute=self._columns[key] + element,
            threshold=float(least),
        )

    def _one_of(
        self,
        feature: TreeFeature,
        words: Sequence[str],
        missing: bool = False,
        unknown: bool = False,
    ) -> Any:
        key = self._inputs[feature.column].key
        numbers = sorted(self._words[key][word] for word in words)
        return self._tree.CategoricalIsInCondition(
            missing=missing,
            score=0.0,
            attribute=self._columns[key],
            mask=[_UNKNOWN, *numbers] if unknown else numbers,
        )
